/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: calls at the edges of what is allowed. Each
 * must do what it does without the library; what is to be told is printed, a line a
 * connection: the name in its request, and its events as letters
 *
 *	O open  R read  W write  P the other side closed  C the server closed
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw.h"

/* glibc 2.34 and later; without it the library's stands in. */
int close_range(unsigned first, unsigned last, int flags) __attribute__((weak));
#define CLOSE_RANGE(first, last)                          \
	(close_range ? close_range(first, last, 0)        \
		     : (int)raw3(436, first, last, 0))

static int failures;

#define CHECK(what)                                                                  \
	do {                                                                         \
		errno = 4711;                                                        \
		if (!(what)) {                                                       \
			fprintf(stderr, "line %d: %s; errno %d\n", __LINE__, #what, errno); \
			failures++;                                                  \
		}                                                                    \
	} while (0)

static int client;

/* An accepted connection of which a request was read, so that it is known. */
static int connected(const char *name, const char *events, int tcp)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	char request[128], got[128];
	int fd, length, pair[2];

	if (tcp) {
		int listener = socket(AF_INET, SOCK_STREAM, 0);

		client = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(!bind(listener, (struct sockaddr *)&a, n) && !listen(listener, 1));
		CHECK(!getsockname(listener, (struct sockaddr *)&a, &n) && !connect(client, (struct sockaddr *)&a, n));
		CHECK((fd = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	} else {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
		fd = pair[0];
		client = pair[1];
	}
	if (!name)
		return fd;
	printf("%s %s\n", name, events);
	length = snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\n\r\n", name);
	CHECK(raw3(SYS_write, client, request, length) == length);
	CHECK(read(fd, got, sizeof(got)) == length && errno == 4711);
	return fd;
}

static void client_sends(const char *text) { CHECK(raw3(SYS_write, client, text, strlen(text)) == (long)strlen(text)); }
static void client_closes(void) { CHECK(!raw3(SYS_close, client, 0, 0)); }

static void bad_addresses(void)
{
	int fd = connected("bad-addresses", "ORPC", 1);
	struct iovec v = { (void *)16, 10 };

	client_sends("more");
	CHECK(read(fd, (void *)16, 10) == -1 && errno == EFAULT);
	CHECK(write(fd, (void *)16, 10) == -1 && errno == EFAULT);
	CHECK(readv(fd, &v, 1) == -1 && errno == EFAULT);
	CHECK(readv(fd, (void *)16, 1) == -1 && errno == EFAULT);
	CHECK(readv(fd, &v, -1) == -1 && errno == EINVAL);
#ifdef __GLIBC__ /* musl looks at these itself (src/network/recvmsg.c, recvmmsg.c) */
	CHECK(recvmsg(fd, NULL, 0) == -1 && errno == EFAULT);
	CHECK(sendmsg(fd, NULL, 0) == -1 && errno == EFAULT);
	CHECK(recvmmsg(fd, (void *)16, 1, 0, NULL) == -1 && errno == EFAULT);
#endif
	CHECK(read(-1, &v, 1) == -1 && errno == EBADF);
	CHECK(read(1 << 30, &v, 1) == -1 && errno == EBADF);
	CHECK(close(-1) == -1 && errno == EBADF);
	CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
	CHECK(syscall(100000) == -1 && errno == ENOSYS);
	CHECK(!close(fd) && errno == 4711);
	client_closes();
}

static void discarded(void)
{
	int fd = connected("discarded", "ORRRC", 1);
	char b[8];

	client_sends("thrown away");
	usleep(10000);
	CHECK(recv(fd, NULL, 7, MSG_TRUNC) == 7); /* nothing is at NULL */
	CHECK(recv(fd, b, sizeof(b), MSG_PEEK) == 4);
	CHECK(recv(fd, b, sizeof(b), 0) == 4 && !memcmp(b, "away", 4));
	CHECK(!close(fd));
	client_closes();
}

static void replaced(void)
{
	int fd = connected("replaced", "ORWC", 0);

	CHECK(dup2(-1, fd) == -1 && errno == EBADF);
	CHECK(dup2(fd, fd) == fd);
	CHECK(dup3(fd, fd, 0) == -1 && errno == EINVAL);
	CHECK(write(fd, "x", 1) == 1);
	CHECK(dup2(2, fd) == fd);
	CHECK(!close(fd));
	client_closes();
}

static void closed_in_child(void)
{
	int fd = connected("closed-in-child", "ORWC", 0), status;
	pid_t pid = vfork();

	if (!pid) {
		close(fd);
		dup2(2, fd);
		shutdown(fd, SHUT_RDWR);
		CLOSE_RANGE(3, ~0U);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(write(fd, "x", 1) == 1);
	CHECK(!CLOSE_RANGE(fd, fd));
	CHECK(write(fd, "x", 1) == -1 && errno == EBADF);
	client_closes();
}

static void closed_unseen(void)
{
	int fd = connected("closed-unseen", "ORC", 0), pair[2];

	CHECK(!raw3(SYS_close, fd, 0, 0));
	client_closes();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); /* takes both numbers */
	CHECK(!close(pair[0]) && !close(pair[1]));
	fd = connected("used-again", "ORC", 1);
	CHECK(!syscall(SYS_close, fd));
	client_closes();
}

static void half_closed(void)
{
	int fd = connected("half-closed", "ORWC", 1);
	char b[8];

	CHECK(!shutdown(fd, SHUT_RD));
	CHECK(shutdown(fd, 77) == -1 && errno == EINVAL);
	CHECK(write(fd, "x", 1) == 1);
	CHECK(!shutdown(fd, SHUT_WR));
	client_sends("late");
	(void)!read(fd, b, sizeof(b)); /* the server has ended it */
	CHECK(!close(fd));
	client_closes();
}

static void broken_pipe(void)
{
	int fd = connected("broken-pipe", "ORPC", 0);
	char b[8];

	CHECK(read(fd, b, 0) == 0); /* asks for nothing: no end */
	CHECK(recv(fd, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	client_closes();
	CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	CHECK(read(fd, b, sizeof(b)) <= 0); /* told once */
	CHECK(!close(fd));
}

static void in_pieces(void)
{
	int fd = connected(NULL, NULL, 1);
	char b[64];

	printf("in-pieces ORRRC\n");
	client_sends("PO");
	CHECK(read(fd, b, sizeof(b)) == 2);
	client_sends("S");
	CHECK(read(fd, b, sizeof(b)) == 1);
	client_sends("T /in-pieces HTTP/1.1\r\n");
	CHECK(read(fd, b, sizeof(b)) == 23);
	CHECK(!close(fd));
	client_closes();
}

/* Longer than is captured, in buffers that head and tail end within. */
static void cut(void)
{
	static unsigned char bytes[40000];
	struct iovec v[3] = { { bytes, 10 }, { bytes + 10, 37000 }, { bytes + 37010, sizeof(bytes) - 37010 } };
	int fd = connected("cut", "ORWC", 0);
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = i % 251;
	CHECK(writev(fd, v, 3) == sizeof(bytes));
	CHECK(!close(fd));
	client_closes();
}

/* Counted, not told: TLS, HTTP/2, what speaks first, what is neither. */
static void other_protocols(void)
{
	static const char *const begins[] = { "\x16\x03\x01\x02", "PRI * HTTP/2.0\r\n", "SSH-2.0", NULL, "POTATO", NULL };
	unsigned i;

	for (i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		int fd = connected(NULL, NULL, 1);
		char b[64];

		if (begins[i]) {
			client_sends(begins[i]);
			CHECK(read(fd, b, sizeof(b)) > 0);
		}
		CHECK(write(fd, "220 hello", 9) == 9);
		CHECK(!close(fd));
		client_closes();
	}
}

static void no_descriptors(void)
{
	struct rlimit old, few;
	int fds[64], n = 0, fd, got;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(listener, (struct sockaddr *)&a, length) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&a, &length) && !connect(client, (struct sockaddr *)&a, length));
	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = 40;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	while (n < 64 && (fd = dup(2)) >= 0)
		fds[n++] = fd;
	CHECK(accept(listener, NULL, NULL) == -1 && errno == EMFILE);
	CHECK(accept4(listener, NULL, NULL, SOCK_CLOEXEC) == -1 && errno == EMFILE);
	while (n > 0)
		close(fds[--n]);
	CHECK(!setrlimit(RLIMIT_NOFILE, &old));
	CHECK((got = accept(listener, NULL, NULL)) >= 0);
	close(got);
	close(listener);
	client_closes();
}

static sigjmp_buf out;
static void jump(int signal) { (void)signal, siglongjmp(out, 1); }

/* Out of a blocked read, again and again, by longjmp; then all goes on. */
static void jumped_out(void)
{
	int fd = connected("jumped-out", "ORRC", 0);
	struct itimerval soon = { .it_value.tv_usec = 500 };
	volatile int i;
	char b[8];

	signal(SIGALRM, jump);
	for (i = 0; i < 50; i++)
		if (!sigsetjmp(out, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			(void)!read(fd, b, sizeof(b));
			CHECK(!"the read has ended");
		}
	client_sends("at last");
	CHECK(read(fd, b, sizeof(b)) == 7);
	CHECK(!close(fd));
	client_closes();
}

int main(void)
{
	int i, before[20];

	for (i = 3; i < 20; i++)
		before[i] = fcntl(i, F_GETFD);
	alarm(20);
	bad_addresses();
	discarded();
	replaced();
	closed_in_child();
	closed_unseen();
	half_closed();
	broken_pipe();
	in_pieces();
	cut();
	other_protocols();
	no_descriptors();
	jumped_out();
	for (i = 3; i < 20; i++)
		if (before[i] < 0 && fcntl(i, F_GETFD) >= 0)
			fprintf(stderr, "descriptor %d is left open\n", i), failures++;
	return failures != 0;
}
