/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the benchmark of the preloaded library: what calls cost in this process, however it
 * is watched. Waits for a line on standard input, then prints
 *
 *	nanoseconds of one write and one read of 200 bytes, both on known HTTP connections
 *	nanoseconds of one zmq_msg_send of 200 bytes to nobody
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fakezmq.h"

#define BYTES 200

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Makes a descriptor known as an HTTP connection, by what its other end writes. */
static int known(int fd, int other)
{
	static const char request[] = "GET / HTTP/1.1\r\n\r\n";
	char b[sizeof(request)];

	return write(other, request, sizeof(request)) == sizeof(request) && read(fd, b, sizeof(b)) == sizeof(b);
}

static void pairs(int a, int b, int n)
{
	char bytes[BYTES] = "HTTP/1.1 200 OK\r\n";

	while (n--)
		if (write(a, bytes, BYTES) != BYTES || read(b, bytes, BYTES) != BYTES)
			exit(3);
}

static void sends(void *socket, int n)
{
	static char bytes[BYTES];

	while (n--) {
		zmq_msg_t m = ZMQ_MESSAGE(bytes, BYTES);

		if (zmq_msg_send(&m, socket, 0) != BYTES)
			exit(4);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10000, fd[2];
	void *socket_ = zmq_socket(NULL, 5 /* DEALER */);
	char line[16];
	double from, to, end;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) || !fgets(line, sizeof(line), stdin))
		return 2;
	if (!known(fd[0], fd[1]) || !known(fd[1], fd[0]))
		return 2;
	pairs(fd[0], fd[1], n / 10);
	sends(socket_, n / 10);
	from = now();
	pairs(fd[0], fd[1], n);
	to = now();
	sends(socket_, n);
	end = now();
	printf("%.1f %.1f\n", (to - from) / n, (end - to) / n);
	return 0;
}
