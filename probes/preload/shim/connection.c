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
 *
 * Whoever changes the state of a connection does so by compare-and-swap, so that of two
 * threads one tells what has happened; the other's event is not told, and counted.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

static struct connection *of_fd(int fd)
{
	struct state *s = state;

	return s && (unsigned)fd < MAX_FDS ? &s->fds[fd] : NULL;
}

/* Empties what is known of a connection, but for its state, which says so. */
static void empty(struct connection *c)
{
	store(&c->number, 0);
	store(&c->reads, 0);
	store(&c->writes, 0);
	store(&c->prefix, 0);
	store(&c->prefix_len, 0);
	store(&c->peer_closed, 0);
	store(&c->port, 0);
}

static void forget(struct connection *c)
{
	empty(c);
	store_release(&c->state, UNKNOWN);
}

static void name(struct connection *c, uint64_t number)
{
	store(&c->reads, number << SEQ_BITS);
	store(&c->writes, number << SEQ_BITS);
	store(&c->number, number);
}

/* The next sequence number of a direction; 0 if the connection is another by now. */
static uint64_t next_seq(uint64_t *last, uint64_t number)
{
	uint64_t was = load(last);

	do {
		if (was >> SEQ_BITS != (number << SEQ_BITS) >> SEQ_BITS)
			return 0;
	} while (!cas(last, &was, was + 1));
	return SEQ(was + 1);
}

/* A connection's state; one that an earlier agent knew, or none did, is made a new one. */
uint32_t current(struct connection *c, const struct ring_header *h)
{
	uint32_t epoch = load(&h->epoch), was = load(&c->epoch);
	uint32_t st = load_acquire(&c->state);

	if (likely(was == epoch))
		return st;
	if (cas(&c->epoch, &was, epoch) && st >= CANDIDATE) {
		forget(c);
		return UNKNOWN;
	}
	return load_acquire(&c->state);
}

/* Whether what is known of it is what the agent of now was told. */
static int is_told(const struct connection *c, uint32_t st)
{
	struct ring_header *h = active();

	return (st == PARTIAL || st == OPEN) && h && load(&c->epoch) == load(&h->epoch);
}

static void note_highest(struct state *s, int fd)
{
	uint32_t h = load(&s->highest);

	while (fd >= 0 && (uint32_t)fd > h && !cas(&s->highest, &h, (uint32_t)fd))
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

static void tell_end(const struct connection *c, uint64_t number, int peer)
{
	struct record e = { 0 };

	if (!number)
		return;
	e.kind = KIND_CLOSE;
	e.conn = number;
	e.socket = -1;
	e.flags = (peer ? RECORD_PEER : 0) | (load(&c->tls) ? RECORD_TLS : 0);
	emit(&e, NULL, 0);
}

static void tell(struct connection *c, uint64_t number, const struct call *call, size_t moved)
{
	struct bytes data = { call->iov, call->count };
	struct record e = { 0 };

	if (!number)
		return;
	e.kind = call->writes ? KIND_WRITE : KIND_READ;
	e.conn = number;
	e.seq = next_seq(call->writes ? &c->writes : &c->reads, number);
	if (!e.seq)
		return;
	/* One SSL_write_ex may move more than a record can say; a system call cannot. */
	e.len = moved < UINT32_MAX ? moved : UINT32_MAX;
	e.socket = -1;
	e.flags = load(&c->tls) ? RECORD_TLS : 0;
	emit(&e, &data, 0);
}

/* What a connection is, by the bytes that a read gave; tells of it and of them. */
static void recognise(struct connection *c, uint32_t st, int fd, const struct call *call, size_t got)
{
	uint64_t bytes, number;
	uint32_t n = first_bytes(call, got, &bytes);
	uint16_t port = load(&c->port);
	uint32_t deciding = DECIDING;
	enum verdict v;
	struct state *s;

	if (st == PARTIAL) {
		uint32_t had = load(&c->prefix_len) & 7;

		bytes = load(&c->prefix) | bytes << (had * 8);
		n = n + had > 8 ? 8 : n + had;
	}
	v = n ? classify(bytes, n) : NO;
	if (v != NO && st == UNKNOWN && fd >= 0 && !stream_socket(fd, &port))
		v = NO;
	note_highest(state, fd);
	if (v == NO && st == UNKNOWN) {
		/* Without being a process that is worth a place in the ring's table. */
		cas(&c->state, &st, IGNORED);
		return;
	}
	s = self();
	if (!s)
		return;
	number = load(&c->number);
	if (!cas(&c->state, &st, DECIDING)) {
		add(&ring->nested, 1);
		return;
	}
	if (v == NO) {
		count_other(bytes, n);
		if (st == PARTIAL)
			tell_end(c, number, 0);
		empty(c);
		cas(&c->state, &deciding, IGNORED);
		return;
	}
	if (st == UNKNOWN) {
		number = new_number(s);
		store(&c->port, port);
		name(c, number);
	}
	store(&c->prefix, bytes);
	store(&c->prefix_len, n);
	if (st != PARTIAL) {
		struct record e = { 0 };

		e.kind = KIND_OPEN;
		e.conn = number;
		e.port = port;
		e.socket = -1;
		e.flags = load(&c->tls) ? RECORD_TLS : 0;
		emit(&e, NULL, 0);
	}
	if (!cas(&c->state, &deciding, v == YES ? OPEN : PARTIAL)) {
		tell_end(c, number, 0); /* closed meanwhile, by one who did not know what it is */
		return;
	}
	tell(c, number, call, got);
}

static void moved_nothing(struct connection *c, uint64_t number, ssize_t result, int error, const struct call *call)
{
	if (result < 0 && (error == EAGAIN || error == EINTR))
		return;
	if (result == 0 && (call->writes || !call->length))
		return;
	if (__atomic_exchange_n(&c->peer_closed, 1, __ATOMIC_RELAXED))
		return;
	tell_end(c, number, 1);
}

/* What a call means that returns; number is what the connection was at its entry, or 0. */
void settle(struct connection *c, int fd, uint64_t number, ssize_t result, int error, const struct call *call)
{
	struct ring_header *h = active();
	uint32_t st;
	uint64_t now;

	if (!h)
		return;
	st = current(c, h);
	now = load(&c->number);
	if (number && now != number)
		return; /* closed, or its descriptor used again, meanwhile */
	if (st == UNKNOWN) {
		if (!call->writes && result > 0)
			recognise(c, st, fd, call, result);
		return;
	}
	if (!self())
		return;
	if (result <= 0) {
		if (st == PARTIAL || st == OPEN)
			moved_nothing(c, now, result, error, call);
		return;
	}
	switch (st) {
	case OPEN:
		tell(c, now, call, result);
		break;
	case PARTIAL:
		if (call->writes)
			tell(c, now, call, result);
		else
			recognise(c, st, fd, call, result);
		break;
	case CANDIDATE:
		if (!call->writes) {
			recognise(c, st, fd, call, result);
		} else if (cas(&c->state, &st, IGNORED)) {
			add(&h->other, 1); /* the server speaks first: not HTTP */
			empty(c);
		}
		break;
	case DECIDING:
		add(&h->nested, 1);
		break;
	}
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

	if (!c) {
		if (h)
			add(&h->table_full, 1);
		return;
	}
	/* A descriptor that was closed in a way that we do not see is used again. */
	closing(fd);
	if (h && (s = self()) && is_self(s) && stream_socket(fd, &port)) {
		empty(c);
		store(&c->epoch, load(&h->epoch));
		store(&c->port, port);
		name(c, new_number(s));
		note_highest(s, fd);
		store_release(&c->state, CANDIDATE);
	}
	errno = error;
}

/* Tells that the server ends a connection, if that is to be told; it becomes UNKNOWN, or
 * FINISHED if it is not to be recognised again. */
void finish(struct connection *c, uint32_t become)
{
	uint64_t number = load(&c->number);
	uint32_t st = load_acquire(&c->state);

	do {
		if (st == UNKNOWN || (become == FINISHED && st != PARTIAL && st != OPEN))
			return;
	} while (!cas(&c->state, &st, become));
	if (is_told(c, st))
		tell_end(c, number, 0);
	if (become == UNKNOWN)
		empty(c);
}

/* At the entry: the descriptor may be another thread's before close returns. */
void closing(int fd)
{
	struct connection *c = of_fd(fd);
	int error = errno;
	uint32_t st;

	if (!c)
		return;
	st = load_acquire(&c->state);
	if (st == UNKNOWN)
		return;
	if (st == IGNORED || is_self(state)) /* a child of vfork closes its own copy */
		finish(c, UNKNOWN);
	errno = error;
}

/* dup2 and dup3 close what fd was, unless there is nothing to put in its place. */
void closing_replaced(int fd, int by)
{
	struct connection *c = of_fd(fd);

	if (fd != by && c && load(&c->state) != UNKNOWN && raw3(SYS_fcntl, by, F_GETFD, 0) >= 0)
		closing(fd);
}

void closing_range(unsigned first, unsigned last)
{
	struct state *s = state;
	unsigned fd;

	/* Whoever closes all descriptors is nearly always a child that begins another program. */
	if (!s || !is_self(s))
		return;
	if (last > load(&s->highest))
		last = load(&s->highest);
	for (fd = first; fd <= last && fd < MAX_FDS; fd++)
		closing(fd);
}

void shutting_down(int fd, int how)
{
	struct connection *c = of_fd(fd);
	int error = errno;
	uint32_t st;

	if (!c || (how != SHUT_WR && how != SHUT_RDWR))
		return;
	st = load_acquire(&c->state);
	if ((st == PARTIAL || st == OPEN) && is_self(state))
		finish(c, FINISHED);
	errno = error;
}
