/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's functions that move bytes of sockets, and those that begin and end
 * connections. Each looks whether the descriptor is of interest, makes the real call,
 * and tells what moved; its time is that of the return, as with eBPF.
 *
 * What a caller gives is looked at only after the kernel has taken it for good, and no
 * further than the bytes that moved: a bad address is the kernel's to refuse.
 *
 * The forms that callers compiled with _FORTIFY_SOURCE use (__read_chk, …) exist in
 * glibc alone; there the compiler's bound is checked by the real one.
 */
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

#define RECEIVE_FLAGS (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE) /* not, or not only, the stream */
/* TCP throws away what is read with MSG_TRUNC, and gives its length (tcp(7)). */
#define UNREADABLE    MSG_TRUNC

#define WRAP(type, name, ...)                    \
	PUBLIC type name(__VA_ARGS__);           \
	static type (*real_##name)(__VA_ARGS__); \
	PUBLIC type name(__VA_ARGS__)

/* Tells what a real call on one buffer has moved. */
static ssize_t flat(int fd, uint64_t number, ssize_t result, const void *b, size_t asked, int writes, int flags)
{
	size_t n = result > 0 ? (size_t)result : 0;
	struct iovec v = { (void *)b, n < asked ? n : asked };
	struct call c = { &v, !(flags & UNREADABLE) || writes, asked, writes };

	moved(fd, number, result, &c);
	return result;
}

/* The same of a list of buffers. One without buffers asks for nothing: that it gets
 * nothing is no end. */
static ssize_t list(int fd, uint64_t number, ssize_t result, const struct iovec *v, size_t count, int writes, int flags)
{
	struct call c = { v, (flags & UNREADABLE) && !writes ? 0 : count, count, writes };

	moved(fd, number, result, &c);
	return result;
}

WRAP(ssize_t, read, int fd, void *b, size_t n)
{
	uint64_t number;

	if (!followed(fd, &number))
		return REAL(read)(fd, b, n);
	return flat(fd, number, REAL(read)(fd, b, n), b, n, 0, 0);
}

WRAP(ssize_t, write, int fd, const void *b, size_t n)
{
	uint64_t number;

	if (!followed(fd, &number))
		return REAL(write)(fd, b, n);
	return flat(fd, number, REAL(write)(fd, b, n), b, n, 1, 0);
}

WRAP(ssize_t, recv, int fd, void *b, size_t n, int f)
{
	uint64_t number;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(recv)(fd, b, n, f);
	return flat(fd, number, REAL(recv)(fd, b, n, f), b, n, 0, f);
}

WRAP(ssize_t, send, int fd, const void *b, size_t n, int f)
{
	uint64_t number;

	if ((f & MSG_OOB) || !followed(fd, &number))
		return REAL(send)(fd, b, n, f);
	return flat(fd, number, REAL(send)(fd, b, n, f), b, n, 1, f);
}

WRAP(ssize_t, recvfrom, int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l)
{
	uint64_t number;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(recvfrom)(fd, b, n, f, a, l);
	return flat(fd, number, REAL(recvfrom)(fd, b, n, f, a, l), b, n, 0, f);
}

WRAP(ssize_t, sendto, int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l)
{
	uint64_t number;

	if ((f & MSG_OOB) || !followed(fd, &number))
		return REAL(sendto)(fd, b, n, f, a, l);
	return flat(fd, number, REAL(sendto)(fd, b, n, f, a, l), b, n, 1, f);
}

WRAP(ssize_t, readv, int fd, const struct iovec *v, int n)
{
	uint64_t number;

	if (!followed(fd, &number))
		return REAL(readv)(fd, v, n);
	return list(fd, number, REAL(readv)(fd, v, n), v, n, 0, 0);
}

WRAP(ssize_t, writev, int fd, const struct iovec *v, int n)
{
	uint64_t number;

	if (!followed(fd, &number))
		return REAL(writev)(fd, v, n);
	return list(fd, number, REAL(writev)(fd, v, n), v, n, 1, 0);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *m, int f)
{
	uint64_t number;
	ssize_t got;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(recvmsg)(fd, m, f);
	got = REAL(recvmsg)(fd, m, f);
	return list(fd, number, got, got >= 0 ? m->msg_iov : NULL, got >= 0 ? m->msg_iovlen : 0, 0, f);
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *m, int f)
{
	uint64_t number;
	ssize_t sent;

	if ((f & MSG_OOB) || !followed(fd, &number))
		return REAL(sendmsg)(fd, m, f);
	sent = REAL(sendmsg)(fd, m, f);
	return list(fd, number, sent, sent > 0 ? m->msg_iov : NULL, sent > 0 ? m->msg_iovlen : 0, 1, f);
}

/* One event a message, as if they had been sent or received one by one. */
static int messages(int fd, uint64_t number, int result, const struct mmsghdr *m, int writes, int flags)
{
	int i;

	if (result <= 0)
		list(fd, number, -1, NULL, 0, writes, flags);
	for (i = 0; i < result; i++)
		list(fd, number, m[i].msg_len, m[i].msg_hdr.msg_iov, m[i].msg_hdr.msg_iovlen, writes, flags);
	return result;
}

WRAP(int, recvmmsg, int fd, struct mmsghdr *m, unsigned n, int f, struct timespec *t)
{
	uint64_t number;
	int got;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(recvmmsg)(fd, m, n, f, t);
	got = REAL(recvmmsg)(fd, m, n, f, t);
	return got ? messages(fd, number, got, m, 0, f) : 0;
}

WRAP(int, sendmmsg, int fd, struct mmsghdr *m, unsigned n, int f)
{
	uint64_t number;
	int sent;

	if ((f & MSG_OOB) || !followed(fd, &number))
		return REAL(sendmmsg)(fd, m, n, f);
	sent = REAL(sendmmsg)(fd, m, n, f);
	return sent ? messages(fd, number, sent, m, 1, f) : 0;
}

WRAP(ssize_t, __read_chk, int fd, void *b, size_t n, size_t room)
{
	uint64_t number;

	if (!followed(fd, &number))
		return REAL(__read_chk)(fd, b, n, room);
	return flat(fd, number, REAL(__read_chk)(fd, b, n, room), b, n, 0, 0);
}

WRAP(ssize_t, __recv_chk, int fd, void *b, size_t n, size_t room, int f)
{
	uint64_t number;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(__recv_chk)(fd, b, n, room, f);
	return flat(fd, number, REAL(__recv_chk)(fd, b, n, room, f), b, n, 0, f);
}

WRAP(ssize_t, __recvfrom_chk, int fd, void *b, size_t n, size_t room, int f, struct sockaddr *a, socklen_t *l)
{
	uint64_t number;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(__recvfrom_chk)(fd, b, n, room, f, a, l);
	return flat(fd, number, REAL(__recvfrom_chk)(fd, b, n, room, f, a, l), b, n, 0, f);
}

WRAP(int, accept, int fd, struct sockaddr *a, socklen_t *l)
{
	int got = REAL(accept)(fd, a, l);

	if (got >= 0)
		accepted(got);
	return got;
}

WRAP(int, accept4, int fd, struct sockaddr *a, socklen_t *l, int f)
{
	int got = REAL(accept4)(fd, a, l, f);

	if (got >= 0)
		accepted(got);
	return got;
}

WRAP(int, close, int fd)
{
	closing(fd);
	return REAL(close)(fd);
}

WRAP(int, shutdown, int fd, int how)
{
	shutting_down(fd, how);
	return REAL(shutdown)(fd, how);
}

WRAP(int, dup2, int fd, int to)
{
	closing_replaced(to, fd);
	return REAL(dup2)(fd, to);
}

WRAP(int, dup3, int fd, int to, int f)
{
	closing_replaced(to, fd);
	return REAL(dup3)(fd, to, f);
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define CLOSE_RANGE_CLOEXEC 4

/* glibc 2.34 and later. A program may ask whether it is there, and finds ours; so the
 * system call stands in where libc has none. (closefrom, which nobody calls on
 * descriptors that are in use, is not wrapped for the same reason.) */
WRAP(int, close_range, unsigned first, unsigned last, int f)
{
	int (*real)(unsigned, unsigned, int) = REAL(close_range);
	long r;

	if (!(f & CLOSE_RANGE_CLOEXEC))
		closing_range(first, last);
	if (real)
		return real(first, last, f);
	r = raw3(SYS_close_range, first, last, f);
	if (r >= 0)
		return r;
	errno = -r;
	return -1;
}

void find_functions(void)
{
	(void)REAL(read), (void)REAL(write), (void)REAL(recv), (void)REAL(send);
	(void)REAL(recvfrom), (void)REAL(sendto), (void)REAL(readv), (void)REAL(writev);
	(void)REAL(recvmsg), (void)REAL(sendmsg), (void)REAL(recvmmsg), (void)REAL(sendmmsg);
	(void)REAL(__read_chk), (void)REAL(__recv_chk), (void)REAL(__recvfrom_chk);
	(void)REAL(accept), (void)REAL(accept4), (void)REAL(close), (void)REAL(shutdown);
	(void)REAL(dup2), (void)REAL(dup3), (void)REAL(close_range);
	tokenscope_find_syscall();
}
