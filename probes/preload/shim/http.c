/* SPDX-License-Identifier: Apache-2.0 */
/* What the first bytes of a stream say it is, as probes/ebpf/bpf/connection.h has it. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

/* Whether a stream that begins with these n bytes, 0 < n <= 8, is HTTP/1. */
enum verdict classify(uint64_t bytes, uint32_t n)
{
	static const struct {
		char token[9];
		uint32_t size;
	} methods[] = {
		{ "POST ", 5 },	  { "GET ", 4 },   { "OPTIONS ", 8 }, { "HEAD ", 5 },	 { "PUT ", 4 },
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
void count_other(uint64_t bytes, uint32_t n)
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
int stream_socket(int fd, uint16_t *port)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	int type = 0;
	socklen_t t = sizeof(type);

	if (raw(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&t, 0) || type != SOCK_STREAM)
		return 0;
	a.ss_family = AF_UNSPEC;
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
uint32_t first_bytes(const struct call *c, size_t got, uint64_t *bytes)
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
