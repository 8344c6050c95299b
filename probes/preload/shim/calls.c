/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's functions that move bytes of sockets, and those that begin and end
 * connections. Each looks whether the descriptor is of interest, makes the real call,
 * and tells what moved; its time is that of the return, as with eBPF.
 *
 * The forms that callers compiled with _FORTIFY_SOURCE use (__read_chk, …) exist in
 * glibc alone; there the compiler's bound is checked by the real one.
 */
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

#define RECEIVE_FLAGS (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE) /* not, or not only, the stream */

#define DECLARE(type, name, ...)          \
	PUBLIC type name(__VA_ARGS__);    \
	static type (*real_##name)(__VA_ARGS__); \
	PUBLIC type name(__VA_ARGS__)

/* Makes a real call on one buffer, and tells of it. */
#define FLAT(fd, base, n, is_write, wanted, real_call)                                \
	do {                                                                          \
		uint64_t number_;                                                     \
		ssize_t result_;                                                      \
		if (!(wanted) || !followed(fd, &number_))                             \
			return real_call;                                             \
		result_ = real_call;                                                  \
		{                                                                     \
			struct iovec v_ = { (void *)(base), result_ > 0 ? (size_t)result_ : 0 }; \
			struct call c_ = { &v_, 1, n, is_write };                     \
			moved(fd, number_, result_, &c_);                             \
		}                                                                     \
		return result_;                                                       \
	} while (0)

/* The same on a list of buffers. */
#define VECTOR(fd, list, n, is_write, wanted, real_call)                      \
	do {                                                                  \
		uint64_t number_;                                             \
		ssize_t result_;                                              \
		if (!(wanted) || !followed(fd, &number_))                     \
			return real_call;                                     \
		result_ = real_call;                                          \
		{                                                             \
			struct call c_ = { list, (size_t)(n), 1, is_write };  \
			moved(fd, number_, result_, &c_);                     \
		}                                                             \
		return result_;                                               \
	} while (0)

DECLARE(ssize_t, read, int fd, void *b, size_t n) { FLAT(fd, b, n, 0, 1, REAL(read)(fd, b, n)); }
DECLARE(ssize_t, write, int fd, const void *b, size_t n) { FLAT(fd, b, n, 1, 1, REAL(write)(fd, b, n)); }
DECLARE(ssize_t, recv, int fd, void *b, size_t n, int f)
{
	FLAT(fd, b, n, 0, !(f & RECEIVE_FLAGS), REAL(recv)(fd, b, n, f));
}
DECLARE(ssize_t, send, int fd, const void *b, size_t n, int f)
{
	FLAT(fd, b, n, 1, !(f & MSG_OOB), REAL(send)(fd, b, n, f));
}
DECLARE(ssize_t, recvfrom, int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l)
{
	FLAT(fd, b, n, 0, !(f & RECEIVE_FLAGS), REAL(recvfrom)(fd, b, n, f, a, l));
}
DECLARE(ssize_t, sendto, int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l)
{
	FLAT(fd, b, n, 1, !(f & MSG_OOB), REAL(sendto)(fd, b, n, f, a, l));
}
DECLARE(ssize_t, readv, int fd, const struct iovec *v, int n) { VECTOR(fd, v, n, 0, 1, REAL(readv)(fd, v, n)); }
DECLARE(ssize_t, writev, int fd, const struct iovec *v, int n) { VECTOR(fd, v, n, 1, 1, REAL(writev)(fd, v, n)); }
DECLARE(ssize_t, recvmsg, int fd, struct msghdr *m, int f)
{
	VECTOR(fd, m->msg_iov, m->msg_iovlen, 0, !(f & RECEIVE_FLAGS), REAL(recvmsg)(fd, m, f));
}
DECLARE(ssize_t, sendmsg, int fd, const struct msghdr *m, int f)
{
	VECTOR(fd, m->msg_iov, m->msg_iovlen, 1, !(f & MSG_OOB), REAL(sendmsg)(fd, m, f));
}

/* One event a message, as if they had been sent or received one by one. */
static void moved_messages(int fd, uint64_t number, struct mmsghdr *m, int count, int writes)
{
	int i;

	for (i = 0; i < count; i++) {
		struct call c = { m[i].msg_hdr.msg_iov, m[i].msg_hdr.msg_iovlen, 1, writes };

		moved(fd, number, m[i].msg_len, &c);
	}
}

DECLARE(int, recvmmsg, int fd, struct mmsghdr *m, unsigned n, int f, struct timespec *t)
{
	uint64_t number;
	int got;

	if ((f & RECEIVE_FLAGS) || !followed(fd, &number))
		return REAL(recvmmsg)(fd, m, n, f, t);
	got = REAL(recvmmsg)(fd, m, n, f, t);
	moved_messages(fd, number, m, got, 0);
	return got;
}

DECLARE(int, sendmmsg, int fd, struct mmsghdr *m, unsigned n, int f)
{
	uint64_t number;
	int sent;

	if ((f & MSG_OOB) || !followed(fd, &number))
		return REAL(sendmmsg)(fd, m, n, f);
	sent = REAL(sendmmsg)(fd, m, n, f);
	moved_messages(fd, number, m, sent, 1);
	return sent;
}

DECLARE(ssize_t, __read_chk, int fd, void *b, size_t n, size_t room)
{
	FLAT(fd, b, n, 0, 1, REAL(__read_chk)(fd, b, n, room));
}
DECLARE(ssize_t, __recv_chk, int fd, void *b, size_t n, size_t room, int f)
{
	FLAT(fd, b, n, 0, !(f & RECEIVE_FLAGS), REAL(__recv_chk)(fd, b, n, room, f));
}
DECLARE(ssize_t, __recvfrom_chk, int fd, void *b, size_t n, size_t room, int f, struct sockaddr *a, socklen_t *l)
{
	FLAT(fd, b, n, 0, !(f & RECEIVE_FLAGS), REAL(__recvfrom_chk)(fd, b, n, room, f, a, l));
}

DECLARE(int, accept, int fd, struct sockaddr *a, socklen_t *l)
{
	int got = REAL(accept)(fd, a, l);

	if (got >= 0)
		accepted(got);
	return got;
}
DECLARE(int, accept4, int fd, struct sockaddr *a, socklen_t *l, int f)
{
	int got = REAL(accept4)(fd, a, l, f);

	if (got >= 0)
		accepted(got);
	return got;
}
DECLARE(int, close, int fd)
{
	closing(fd);
	return REAL(close)(fd);
}
DECLARE(int, shutdown, int fd, int how)
{
	shutting_down(fd, how);
	return REAL(shutdown)(fd, how);
}
DECLARE(int, dup2, int fd, int to)
{
	if (fd != to)
		closing(to);
	return REAL(dup2)(fd, to);
}
DECLARE(int, dup3, int fd, int to, int f)
{
	if (fd != to)
		closing(to);
	return REAL(dup3)(fd, to, f);
}

/* glibc 2.34 and later; where libc has none, nobody that was linked with it calls it. */
#define CLOSE_RANGE_CLOEXEC 4
DECLARE(int, close_range, unsigned first, unsigned last, int f)
{
	if (!(f & CLOSE_RANGE_CLOEXEC))
		closing_range(first, last);
	if (REAL(close_range))
		return REAL(close_range)(first, last, f);
	errno = ENOSYS;
	return -1;
}
DECLARE(void, closefrom, int first)
{
	closing_range(first < 0 ? 0 : first, MAX_FDS - 1);
	if (REAL(closefrom))
		REAL(closefrom)(first);
}

/*
 * libuv closes its sockets by syscall(SYS_close), and some builds accept so. The entry
 * (syscall_entry in syscall.S's place below) sends only the numbers here that are listed there.
 */
__attribute__((visibility("hidden"))) long tokenscope_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	switch (n) {
	case SYS_close:
		return close(a);
#ifdef SYS_accept
	case SYS_accept:
		return accept(a, (struct sockaddr *)b, (socklen_t *)c);
#endif
	case SYS_accept4:
		return accept4(a, (struct sockaddr *)b, (socklen_t *)c, d);
	case SYS_shutdown:
		return shutdown(a, b);
#ifdef SYS_dup2
	case SYS_dup2:
		return dup2(a, b);
#endif
	case SYS_dup3:
		return dup3(a, b, c);
	}
	n = raw(n, a, b, c, d, e, f);
	if (n < 0 && n > -4096) {
		errno = -n;
		return -1;
	}
	return n;
}
__attribute__((visibility("hidden"))) long (*tokenscope_real_syscall)(long, ...);

__attribute__((visibility("hidden"))) void tokenscope_find_syscall(void)
{
	store(&tokenscope_real_syscall, (long (*)(long, ...))next_function("syscall"));
}

/*
 * syscall itself goes on to the real one with every register as it was, since nobody
 * can say what a system call makes of them (clone returns twice, on another stack).
 */
#if defined(__x86_64__)
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	endbr64\n"
	"	cmpq $3, %rdi\n" /* close */
	"	je tokenscope_syscall\n"
	"	cmpq $43, %rdi\n" /* accept */
	"	je tokenscope_syscall\n"
	"	cmpq $288, %rdi\n" /* accept4 */
	"	je tokenscope_syscall\n"
	"	cmpq $48, %rdi\n" /* shutdown */
	"	je tokenscope_syscall\n"
	"	cmpq $33, %rdi\n" /* dup2 */
	"	je tokenscope_syscall\n"
	"	cmpq $292, %rdi\n" /* dup3 */
	"	je tokenscope_syscall\n"
	"	movq tokenscope_real_syscall(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je 1f\n"
	"	jmp *%rax\n"
	"1:	pushq %rdi\n"
	"	pushq %rsi\n"
	"	pushq %rdx\n"
	"	pushq %rcx\n"
	"	pushq %r8\n"
	"	pushq %r9\n"
	"	subq $8, %rsp\n"
	"	call tokenscope_find_syscall\n"
	"	addq $8, %rsp\n"
	"	popq %r9\n"
	"	popq %r8\n"
	"	popq %rcx\n"
	"	popq %rdx\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	movq tokenscope_real_syscall(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je tokenscope_syscall\n"
	"	jmp *%rax\n"
	".size syscall, .-syscall\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	"syscall:\n"
	"	hint #34\n" /* bti c */
	"	cmp x0, #57\n" /* close */
	"	b.eq 2f\n"
	"	cmp x0, #202\n" /* accept */
	"	b.eq 2f\n"
	"	cmp x0, #242\n" /* accept4 */
	"	b.eq 2f\n"
	"	cmp x0, #210\n" /* shutdown */
	"	b.eq 2f\n"
	"	cmp x0, #24\n" /* dup3 */
	"	b.eq 2f\n"
	"	adrp x16, tokenscope_real_syscall\n"
	"	ldr x16, [x16, :lo12:tokenscope_real_syscall]\n"
	"	cbz x16, 1f\n"
	"	br x16\n"
	"1:	stp x0, x1, [sp, #-80]!\n"
	"	stp x2, x3, [sp, #16]\n"
	"	stp x4, x5, [sp, #32]\n"
	"	stp x6, x7, [sp, #48]\n"
	"	str x30, [sp, #64]\n"
	"	bl tokenscope_find_syscall\n"
	"	ldr x30, [sp, #64]\n"
	"	ldp x6, x7, [sp, #48]\n"
	"	ldp x4, x5, [sp, #32]\n"
	"	ldp x2, x3, [sp, #16]\n"
	"	ldp x0, x1, [sp], #80\n"
	"	adrp x16, tokenscope_real_syscall\n"
	"	ldr x16, [x16, :lo12:tokenscope_real_syscall]\n"
	"	cbz x16, 2f\n"
	"	br x16\n"
	"2:	b tokenscope_syscall\n"
	".size syscall, .-syscall\n");
#endif
