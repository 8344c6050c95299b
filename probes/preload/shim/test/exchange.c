/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges on one connection; see exchange.h. Safe in a signal handler and after fork. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../raw.h"
#include "exchange.h"

struct report *report;

long direct(long n, long a, long b, long c, long d, long e, long f) { return raw(n, a, b, c, d, e, f); }

void say(const char *format, ...)
{
	char line[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	direct(SYS_write, 2, (long)line, n, 0, 0, 0);
}

static uint32_t next(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	return *random >> 8;
}

#define HASH_BASIS 0xcbf29ce484222325ULL
static uint64_t hash(uint64_t h, const unsigned char *b, size_t n)
{
	while (n--)
		h = (h ^ *b++) * 0x100000001b3ULL;
	return h;
}

int begin(struct connection *c, int tcp, uint32_t seed)
{
	int pair[2] = { -1, -1 };

	memset(c, 0, sizeof(*c));
	c->random = seed * 2654435761U + 1;
	c->r.pid = direct(SYS_getpid, 0, 0, 0, 0, 0, 0);
	c->r.id = __atomic_fetch_add(&report->ids, 1, 0) + 1;
	c->r.read_hash = c->r.written_hash = HASH_BASIS;
	if (!tcp) {
		if (direct(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, (long)pair, 0, 0))
			return 0;
		c->server = pair[0];
		c->client = pair[1];
		return 1;
	} else {
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t n = sizeof(a);
		int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ok;

		c->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ok = listener >= 0 && c->client >= 0 && !bind(listener, (struct sockaddr *)&a, n) && !listen(listener, 1) &&
		     !getsockname(listener, (struct sockaddr *)&a, &n) && !connect(c->client, (struct sockaddr *)&a, n);
		c->r.port = ntohs(a.sin_port);
		if (ok)
			do {
				switch (next(&c->random) % 3) {
				case 0:
					c->server = accept(listener, NULL, NULL);
					break;
				case 1:
					c->server = syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
					break;
				default:
					c->server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
				}
			} while (c->server < 0 && errno == EINTR);
		close(listener);
		return ok && c->server >= 0;
	}
}

#ifdef __GLIBC__
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
#else
#define __read_chk(fd, b, n, room)		  read(fd, b, n)
#define __recv_chk(fd, b, n, room, f)		  recv(fd, b, n, f)
#define __recvfrom_chk(fd, b, n, room, f, a, len) recvfrom(fd, b, n, f, a, len)
#endif

enum { CALLS = 9 };

/* Reads by one of the wrapped calls; a list of buffers has the first bytes in three. */
static ssize_t any_read(int fd, unsigned char *b, size_t n, unsigned which)
{
	size_t first = n > 3 ? 3 : n;
	struct iovec v[3] = { { b, first }, { b + first, 0 }, { b + first, n - first } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	struct mmsghdr mm = { .msg_hdr = m };

	switch (which % CALLS) {
	case 0:
		return read(fd, b, n);
	case 1:
		return readv(fd, v, 3);
	case 2:
		if (recv(fd, b, n, MSG_PEEK) < 0) /* must not be told */
			return -1;
		return recv(fd, b, n, 0);
	case 3:
		return recvfrom(fd, b, n, 0, NULL, NULL);
	case 4:
		return recvmsg(fd, &m, 0);
	case 5:
		return recvmmsg(fd, &mm, 1, 0, NULL) == 1 ? (ssize_t)mm.msg_len : -1;
	case 6:
		return __read_chk(fd, b, n, n);
	case 7:
		return __recv_chk(fd, b, n, n, 0);
	default:
		return __recvfrom_chk(fd, b, n, n, 0, NULL, NULL);
	}
}

static ssize_t any_write(int fd, unsigned char *b, size_t n, unsigned which)
{
	size_t first = n > 5 ? 5 : n;
	struct iovec v[3] = { { b, first }, { NULL, 0 }, { b + first, n - first } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	struct mmsghdr mm = { .msg_hdr = m };

	switch (which % 6) {
	case 0:
		return write(fd, b, n);
	case 1:
		return writev(fd, v, 3);
	case 2:
		return send(fd, b, n, MSG_NOSIGNAL);
	case 3:
		return sendto(fd, b, n, MSG_NOSIGNAL, NULL, 0);
	case 4:
		return sendmsg(fd, &m, MSG_NOSIGNAL);
	default:
		return sendmmsg(fd, &mm, 1, MSG_NOSIGNAL) == 1 ? (ssize_t)mm.msg_len : -1;
	}
}

#define MOST 20000 /* all of a piece is captured up to here */

static void client_moves(struct connection *c, long call, unsigned char *b, size_t n)
{
	while (n) {
		long moved = direct(call, c->client, (long)b, n, 0, 0, 0);

		if (moved <= 0 && moved != -EINTR) {
			FAIL("client: %ld of %zu", moved, n);
			return;
		}
		if (moved > 0) {
			b += moved;
			n -= moved;
		}
	}
}

static size_t fill(struct connection *c, unsigned char *b, size_t n, const char *line)
{
	size_t i = strlen(line);

	memcpy(b, line, i);
	for (; i < n; i++)
		b[i] = next(&c->random);
	return i;
}

void exchange(struct connection *c, size_t request, size_t response)
{
	unsigned char sent[MOST], got[MOST];
	size_t n, done;
	char line[64];

	snprintf(line, sizeof(line), "POST /%u/%u HTTP/1.1\r\n", c->r.id, c->r.writes);
	n = fill(c, sent, request > MOST ? MOST : request, line);
	client_moves(c, SYS_write, sent, n);
	for (done = 0; done < n;) {
		/* Now and then so few that the method comes in pieces. */
		size_t most = next(&c->random) % 8 ? n - done : 1 + next(&c->random) % 3;
		ssize_t moved = any_read(c->server, got + done, most < n - done ? most : n - done, next(&c->random));

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved <= 0) {
			FAIL("read of connection %u: %zd, errno %d", c->r.id, moved, errno);
			return;
		}
		c->r.read_hash = hash(c->r.read_hash, got + done, moved);
		c->r.read_bytes += moved;
		c->r.reads++;
		done += moved;
	}
	if (memcmp(sent, got, n))
		FAIL("connection %u: the server read something else than the client sent", c->r.id);

	n = fill(c, sent, response > MOST ? MOST : response, "HTTP/1.1 200 OK\r\n");
	for (done = 0; done < n;) {
		ssize_t moved = any_write(c->server, sent + done, n - done, next(&c->random));

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved <= 0) {
			FAIL("write of connection %u: %zd, errno %d", c->r.id, moved, errno);
			return;
		}
		c->r.written_hash = hash(c->r.written_hash, sent + done, moved);
		c->r.written_bytes += moved;
		c->r.writes++;
		done += moved;
	}
	client_moves(c, SYS_read, got, n);
	if (memcmp(sent, got, n))
		FAIL("connection %u: the client read something else than the server sent", c->r.id);
}

void end(struct connection *c)
{
	uint32_t how = next(&c->random), at;
	char b[8];

	c->r.ends = 1;
	if (how % 2) {
		direct(SYS_close, c->client, 0, 0, 0, 0, 0);
		while (read(c->server, b, sizeof(b)) < 0 && errno == EINTR)
			;
		c->r.ends = 2;
	}
	switch (how / 2 % 5) {
	case 0:
		syscall(SYS_close, c->server);
		break;
	case 1:
		shutdown(c->server, SHUT_RDWR);
		close(c->server);
		break;
	case 2:
		if (dup2(-1, c->server) >= 0 || errno != EBADF) /* closes nothing */
			FAIL("dup2 of nothing: errno %d", errno);
		dup2(2, c->server);
		close(c->server);
		break;
	case 3:
		dup3(2, c->server, O_CLOEXEC);
		close(c->server);
		break;
	default:
		close(c->server);
	}
	if (c->r.ends == 1)
		direct(SYS_close, c->client, 0, 0, 0, 0, 0);
	at = __atomic_fetch_add(&report->count, 1, 0);
	if (at < sizeof(report->results) / sizeof(report->results[0]))
		report->results[at] = c->r;
	else
		FAIL("too many connections");
}
