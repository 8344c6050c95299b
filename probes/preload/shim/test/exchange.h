/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: HTTP-like exchanges whose server side goes
 * through every wrapped call, and whose client side through none, and what is known of
 * them afterwards.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What one connection was, as its server saw it; printed for the test to compare. */
struct result {
	uint32_t pid;
	uint32_t id;
	uint32_t reads, writes; /* calls that moved bytes */
	uint32_t ends;		/* 1: the server closed; 2: it had seen the client's end before */
	uint32_t port;		/* local TCP port, 0 for a socketpair */
	uint64_t read_bytes, written_bytes;
	uint64_t read_hash, written_hash; /* FNV-1a */
};

/* Shared by all processes of the test, so that forked children report as well. */
struct report {
	uint32_t failures;
	uint32_t count;
	uint32_t ids;
	uint32_t frames; /* sent by zmq_msg_send */
	uint32_t signals;
	uint32_t cancelled;
	uint32_t children;
	uint32_t padding;
	struct result results[1 << 17];
};
extern struct report *report;

struct connection {
	struct result r;
	int server, client;
	uint32_t random;
};

#define FAIL(...)                                             \
	do {                                                  \
		__atomic_fetch_add(&report->failures, 1, 0);  \
		say(__VA_ARGS__);                             \
	} while (0)
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Begins a connection: a socketpair, or TCP through accept. 0 if it could not. */
int begin(struct connection *c, int tcp, uint32_t seed);
/* One request and its response, whose bytes are compared on both sides. */
void exchange(struct connection *c, size_t request, size_t response);
/* Ends it, in one of several ways, and notes what it was. */
void end(struct connection *c);

/* System calls that no library can be in front of: the client's side. */
long direct(long n, long a, long b, long c, long d, long e, long f);

/* storms.c: what goes on meanwhile. Each is a thread until stop is set. */
extern int stop;
#define STOPPED __atomic_load_n(&stop, __ATOMIC_ACQUIRE)
void *fork_storm(void *);
void *spawn_storm(void *program);
void *cancel_storm(void *);
void *plugin_storm(void *directory);
void signals_begin(void);
void signals_end(void);
void *signal_storm(void *);

#endif
