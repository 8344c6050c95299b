/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor or a TLS object is, told by the first bytes that are read from
 * it; the same rules as probes/ebpf/bpf/connection.h and http.h:
 *
 *	accept           -> CANDIDATE: nothing is told yet
 *	first read       -> OPEN if its bytes begin with an HTTP/1 method, or could
 *	                    still become one; KIND_OPEN, then KIND_READ
 *	                 -> else IGNORED
 *	read, write      -> KIND_READ, KIND_WRITE
 *	read of 0 bytes, broken pipe, reset -> KIND_CLOSE with peer
 *	shutdown of the sending side, close -> KIND_CLOSE, once
 *
 * A connection whose accept was not seen enters at its first read. A descriptor that
 * was closed in a way that we do not see, and is used again, is taken for what it was
 * until accept or close says otherwise.
 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

static struct connection *of_fd(int fd)
{
	struct state *s = state;

	return s && (unsigned)fd < MAX_FDS ? &s->fds[fd] : NULL;
}

static void forget(struct connection *c, uint32_t become)
{
	store(&c->number, 0);
	store(&c->reads, 0);
	store(&c->writes, 0);
	store(&c->prefix, 0);
	store(&c->prefix_len, 0);
	store(&c->peer_closed, 0);
	store(&c->port, 0);
	store_release(&c->state, become);
}

/* Makes a connection that an earlier agent knew, or none did, a new one. */
static uint32_t current(struct connection *c, const struct ring_header *h)
{
	uint32_t epoch = load(&h->epoch), was = load(&c->epoch);
	uint32_t st = load_acquire(&c->state);

	if (likely(was == epoch))
		return st;
	if (cas(&c->epoch, &was, epoch) && st >= CANDIDATE) {
		forget(c, UNKNOWN);
		return UNKNOWN;
	}
	return load_acquire(&c->state);
}

static void note_highest(struct state *s, unsigned fd)
{
	uint32_t h = load(&s->highest);

	while (fd > h && !cas(&s->highest, &h, fd))
		;
}

int followed(int fd, uint64_t *number)
{
	struct ring_header *h = active();
	struct connection *c;

	if (!h)
		return 0;
	c = of_fd(fd);
	if (!c || current(c, h) == IGNORED)
		return 0;
	*number = load(&c->number);
	return 1;
}

static void close_event(struct connection *c, int peer)
{
	struct record e = { 0 };

	e.kind = KIND_CLOSE;
	e.conn = load(&c->number);
	e.socket = -1;
	e.flags = (peer ? RECORD_PEER : 0) | (c->tls ? RECORD_TLS : 0);
	emit(&e, NULL, 0);
}

enum verdict {
	NO,
	MAYBE,
	YES
};

/* Whether a stream that begins with these n bytes, 0 < n <= 8, is HTTP/1. */
static enum verdict classify(uint64_t bytes, uint32_t n)
{
	static const struct {
		char token[9];
		uint32_t size;
	} methods[] = {
		{ "POST ", 5 }, { "GET ", 4 },	  { "OPTIONS ", 8 }, { "HEAD ", 5 },	{ "PUT ", 4 },
		{ "DELETE ", 7 }, { "PATCH ", 6 }, { "TRACE ", 6 },   { "CONNECT ", 8 },
	};
	const char *b = (const char *)&bytes;
	unsigned i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		uint32_t m = n < methods[i].size ? n : methods[i].size;

		if (!memcmp(b, methods[i].token, m))
			return n >= methods[i].size ? YES : MAYBE;
	}
	return NO;
}

/* Counts what an accepted connection speaks that is not HTTP/1. */
static void count_other(uint64_t bytes, uint32_t n)
{
	const unsigned char *b = (const unsigned char *)&bytes;

	if (n >= 2 && b[0] == 0x16 && b[1] == 3)
		add(&ring->tls, 1); /* record type handshake, version 3.x */
	else if (n == 8 && !memcmp(b, "PRI * HT", 8))
		add(&ring->http2, 1);
	else
		add(&ring->other, 1);
}

/* Whether a descriptor is a stream socket of a kind that HTTP runs on; its local port. */
static int stream_socket(int fd, uint16_t *port)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	int type = 0;
	socklen_t t = sizeof(type);

	if (raw(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&t, 0) || type != SOCK_STREAM)
		return 0;
	if (raw3(SYS_getsockname, fd, &a, &n))
		return 0;
	*port = 0;
	if (a.ss_family == AF_INET)
		*port = __builtin_bswap16(((struct sockaddr_in *)&a)->sin_port);
	else if (a.ss_family == AF_INET6)
		*port = __builtin_bswap16(((struct sockaddr_in6 *)&a)->sin6_port);
	return a.ss_family == AF_INET || a.ss_family == AF_INET6 || a.ss_family == AF_UNIX;
}

/* The first bytes that a read gave, at most eight. */
static uint32_t first_bytes(const struct call *c, size_t got, uint64_t *bytes)
{
	uint32_t n = 0;
	size_t i;

	*bytes = 0;
	for (i = 0; i < c->count && n < 8 && got; i++) {
		size_t have = c->iov[i].iov_len < got ? c->iov[i].iov_len : got;

		got -= have;
		if (have > 8 - n)
			have = 8 - n;
		memcpy((char *)bytes + n, c->iov[i].iov_base, have);
		n += have;
	}
	return n;
}

static uint64_t new_number(struct state *s)
{
	return add(&s->numbers, 1) + 1;
}

/* Decides what a connection is by the bytes that a read gave; true if they are to be told. */
static int recognise(struct state *s, struct connection *c, uint32_t st, int fd, const struct call *call, size_t got)
{
	uint64_t bytes;
	uint32_t n = first_bytes(call, got, &bytes);
	enum verdict v;
	uint16_t port = load(&c->port);

	if (st == PARTIAL) {
		uint32_t had = load(&c->prefix_len) & 7;

		bytes = load(&c->prefix) | bytes << (had * 8);
		n = n + had > 8 ? 8 : n + had;
	}
	v = n ? classify(bytes, n) : NO;
	if (v != NO && st == UNKNOWN && fd >= 0 && !stream_socket(fd, &port))
		v = NO;
	if (v == NO) {
		if (st != UNKNOWN)
			count_other(bytes, n);
		if (st == PARTIAL)
			close_event(c, 0);
		forget(c, IGNORED);
		return 0;
	}
	if (st == UNKNOWN) {
		store(&c->port, port);
		store(&c->number, new_number(s));
		if (fd >= 0)
			note_highest(s, fd);
	}
	store(&c->prefix, bytes);
	store(&c->prefix_len, n);
	if (st != PARTIAL) {
		struct record e = { 0 };

		e.kind = KIND_OPEN;
		e.conn = load(&c->number);
		e.port = port;
		e.socket = -1;
		e.flags = c->tls ? RECORD_TLS : 0;
		emit(&e, NULL, 0);
	}
	store_release(&c->state, v == YES ? OPEN : PARTIAL);
	return 1;
}

static void tell(struct connection *c, const struct call *call, size_t moved)
{
	struct bytes data = { call->iov, call->count };
	struct record e = { 0 };

	e.kind = call->writes ? KIND_WRITE : KIND_READ;
	e.conn = load(&c->number);
	e.seq = add(call->writes ? &c->writes : &c->reads, 1) + 1;
	e.len = moved;
	e.socket = -1;
	e.flags = c->tls ? RECORD_TLS : 0;
	emit(&e, &data, 0);
}

static void moved_nothing(struct connection *c, uint32_t st, ssize_t result, int error, const struct call *call)
{
	if (result < 0 && (error == EAGAIN || error == EINTR))
		return;
	if (result == 0 && (call->writes || !call->length))
		return;
	if (st != PARTIAL && st != OPEN)
		return;
	if (__atomic_exchange_n(&c->peer_closed, 1, __ATOMIC_RELAXED))
		return;
	close_event(c, 1);
}

static void settle(struct connection *c, int fd, uint64_t number, ssize_t result, int error, const struct call *call)
{
	struct ring_header *h = active();
	struct state *s;
	uint32_t st;

	if (!h)
		return;
	s = self();
	if (!s)
		return;
	st = current(c, h);
	if (number && load(&c->number) != number)
		return; /* closed, or its descriptor used again, meanwhile */
	if (result <= 0) {
		moved_nothing(c, st, result, error, call);
		return;
	}
	switch (st) {
	case OPEN:
		tell(c, call, result);
		return;
	case FINISHED:
	case IGNORED:
		return;
	case PARTIAL:
		if (call->writes)
			tell(c, call, result);
		else if (recognise(s, c, st, fd, call, result))
			tell(c, call, result);
		return;
	case CANDIDATE:
		if (call->writes) {
			/* The server speaks first: not HTTP. */
			add(&h->other, 1);
			forget(c, IGNORED);
			return;
		}
		break;
	case UNKNOWN:
		if (call->writes)
			return;
		break;
	}
	if (recognise(s, c, st, fd, call, result))
		tell(c, call, result);
}

void moved(int fd, uint64_t number, ssize_t result, const struct call *call)
{
	struct connection *c = of_fd(fd);
	int error = errno;

	if (c)
		settle(c, fd, number, result, error, call);
	errno = error;
}

void accepted(int fd)
{
	struct ring_header *h = active();
	struct connection *c = of_fd(fd);
	int error = errno;
	struct state *s;
	uint16_t port;

	if (!c)
		return;
	/* A descriptor that was closed in a way that we do not see is used again. */
	if (load(&c->state) != UNKNOWN)
		closing(fd);
	if (h) {
		s = self();
		if (s && stream_socket(fd, &port)) {
			forget(c, UNKNOWN);
			store(&c->epoch, load(&h->epoch));
			store(&c->port, port);
			store(&c->number, new_number(s));
			note_highest(s, fd);
			store_release(&c->state, CANDIDATE);
		}
	}
	errno = error;
}

/* At the entry: the descriptor may be another thread's before close returns. */
void closing(int fd)
{
	struct connection *c = of_fd(fd);
	struct state *s = state;
	int error = errno;
	uint32_t st;

	if (!c)
		return;
	st = load_acquire(&c->state);
	if (st == UNKNOWN)
		return;
	if (st != IGNORED && !is_self(s))
		return; /* a child of vfork closes its own copy */
	if ((st == PARTIAL || st == OPEN) && active() && load(&c->epoch) == load(&ring->epoch))
		close_event(c, 0);
	forget(c, UNKNOWN);
	errno = error;
}

void closing_range(unsigned first, unsigned last)
{
	struct state *s = state;
	unsigned fd;

	if (!s || !is_self(s))
		return;
	if (last > MAX_FDS - 1)
		last = MAX_FDS - 1;
	for (fd = first; fd <= last && fd < MAX_FDS; fd++) {
		/* Beyond the highest that was ever followed only IGNORED ones are. */
		if (load(&s->fds[fd].state) != UNKNOWN)
			closing(fd);
		else if (fd > load(&s->highest) && fd > 4096)
			break;
	}
}

void shutting_down(int fd, int how)
{
	struct connection *c = of_fd(fd);
	int error = errno;
	uint32_t st;

	if (!c || how == SHUT_RD || !active())
		return;
	st = load_acquire(&c->state);
	if ((st == PARTIAL || st == OPEN) && is_self(state)) {
		close_event(c, 0);
		store_release(&c->state, FINISHED);
	}
	errno = error;
}

/* The connection of a TLS object; NULL where there is no place. */
static struct connection *of_tls(struct state *s, const void *ssl, int make)
{
	uint64_t key = (uint64_t)(uintptr_t)ssl;
	unsigned i = (unsigned)((key >> 4) * 2654435761U), n;

	for (n = 0; n < 16; n++, i++) {
		struct connection *c = &s->tls[i & (MAX_TLS - 1)];
		uint64_t k = load_acquire(&c->key);

		if (k == key)
			return c;
		if (!k) {
			if (!make)
				return NULL;
			if (cas(&c->key, &k, key) || k == key) {
				c->tls = 1;
				return c;
			}
		}
	}
	if (make)
		add(&ring->table_full, 1);
	return NULL;
}

void tls_moved(void *ssl, ssize_t result, const void *data, int writes, int (*get_fd)(const void *))
{
	struct iovec v = { (void *)data, result > 0 ? (size_t)result : 0 };
	struct call call = { &v, 1, 1, writes };
	struct ring_header *h = active();
	struct connection *c;
	int error = errno, fd;
	struct state *s;

	if (!h)
		return;
	s = self();
	c = s ? of_tls(s, ssl, !writes) : NULL;
	if (c) {
		if (current(c, h) == UNKNOWN && !writes && get_fd && (fd = get_fd(ssl)) >= 0) {
			uint16_t port;

			if (stream_socket(fd, &port))
				store(&c->port, port);
		}
		settle(c, -1, 0, result, error, &call);
	}
	errno = error;
}

void tls_closing(void *ssl, int gone)
{
	struct state *s = state;
	struct connection *c;
	int error = errno;
	uint32_t st;

	if (!s || !ring)
		return;
	c = of_tls(s, ssl, 0);
	if (!c)
		return;
	st = load_acquire(&c->state);
	if ((st == PARTIAL || st == OPEN) && active() && load(&c->epoch) == load(&ring->epoch))
		close_event(c, 0);
	if (gone)
		forget(c, UNKNOWN);
	else if (st == PARTIAL || st == OPEN)
		store_release(&c->state, FINISHED);
	errno = error;
}
