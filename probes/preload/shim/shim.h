/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim: a library that the workload's processes load first (LD_PRELOAD), and
 * that copies what they send and receive into a ring (ring.h).
 *
 * The server comes first. Rules that all code here obeys:
 *
 *  - No allocation, no lock, no waiting. What is shared is changed by atomic
 *    operations, so that neither a signal nor a fork can find it half done.
 *  - No system call per event: a time from the vDSO, a compare-and-swap, a copy.
 *    System calls are for what happens once a process or once a connection.
 *  - errno is as the wrapped call has left it, and so is everything else: on any
 *    doubt the call goes through untouched. Nothing is ever printed.
 *  - Async-signal-safe where the wrapped call is.
 *  - No symbols but libc's oldest (glibc 2.17, all of which musl has too): system
 *    calls of our own are made without libc (raw.h).
 *
 * A child of vfork shares this memory, but has descriptors of its own; a thread may be
 * left in the middle of anything here by longjmp out of a signal handler, or by its
 * cancellation. Both are met by what stands where it matters.
 *
 * Files: start.c finds the ring and knows the process; emit.c writes records;
 * connection.c says what a descriptor is, http.c what bytes are; calls.c, syscall.c,
 * zmq.c, ssl.c, exec.c wrap functions; resolve.c finds the real ones.
 */
#ifndef TOKENSCOPE_SHIM_H
#define TOKENSCOPE_SHIM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "ring.h"

#define PUBLIC	__attribute__((visibility("default")))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define load(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add(p, v)	__atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define swap(p, v)	__atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define cas(p, old, v)	__atomic_compare_exchange_n(p, old, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Descriptors above are not followed; a server with more open at once is rare. */
#define MAX_FDS 65536
/* ZeroMQ sockets and TLS connections that a process may have have at once. */
#define SOCKET_BITS 12
#define TLS_BITS    14
#define MAX_SOCKETS (1U << SOCKET_BITS)
#define MAX_TLS	    (1U << TLS_BITS)

enum connection_state {
	UNKNOWN,   /* not looked at */
	IGNORED,   /* looked at: no HTTP/1 */
	CANDIDATE, /* accepted, no byte seen */
	PARTIAL,   /* told, but its first bytes are not a whole method yet */
	OPEN,
	FINISHED, /* the server has ended it; only its close is awaited */
	DECIDING, /* a thread is looking at its first bytes */
};

/*
 * The last sequence number of a direction, below the end of the connection's number. A
 * thread that was held up after its call, while others closed the connection and opened
 * the next on the same descriptor, must not count there.
 */
#define SEQ_BITS   40
#define SEQ(value) ((value) & ((1ULL << SEQ_BITS) - 1))

/* One by descriptor, or by TLS object. */
struct connection {
	uint64_t key;	 /* the SSL object; 0 for a descriptor */
	uint64_t number; /* 0: none yet */
	uint64_t reads;	 /* see SEQ_BITS */
	uint64_t writes;
	uint64_t prefix; /* first bytes, PARTIAL */
	uint32_t prefix_len;
	uint32_t epoch; /* under which it was seen */
	uint32_t state; /* enum connection_state */
	uint16_t port;
	uint8_t peer_closed;
	uint8_t tls;
	uint64_t padding;
};

struct zmq_socket {
	uint64_t key;	 /* its address */
	uint64_t number; /* 0: none yet */
	uint64_t sent;
	uint64_t received;
	uint32_t epoch;
	int32_t type;
};

/*
 * What this process knows of itself and its connections: one mapping that the
 * kernel empties in a forked child (MADV_WIPEONFORK, Linux 4.14), however it was
 * forked, so that the child begins as a process of its own.
 */
struct state {
	uint32_t pid;	      /* 0: not registered yet, or just forked */
	uint32_t registering; /* by one thread, of the process with this pid */
	uint64_t born;	      /* when it registered; no two processes in this memory did at once */
	uint64_t numbers;     /* last one given to a connection or socket */
	struct ring_process *slot;
	uint32_t highest; /* descriptor that was ever looked at */
	uint32_t padding;
	struct connection fds[MAX_FDS];
	struct connection tls[MAX_TLS];
	struct zmq_socket sockets[MAX_SOCKETS];
};

/* start.c */
extern struct ring_header *ring; /* NULL: dormant for good */
extern unsigned char *ring_data;
extern uint64_t ring_mask;
extern uint32_t ring_head_bytes, ring_tail_bytes, ring_frame_bytes;
extern struct state *state;
extern const char *env_preload_entry; /* our own entry of LD_PRELOAD, "" if there is none */
extern const char *env_ring_value;
void start(void);
struct state *self(void); /* NULL if this process cannot be known now */
int is_self(const struct state *s);
uint32_t thread_number(const struct state *s);
uint64_t new_number(struct state *s);

/* The header if events are wanted. */
static inline struct ring_header *active(void)
{
	struct ring_header *h = ring;

	return h && load(&h->epoch) ? h : NULL;
}

/* exec.c */
int is_helper_program(void);
void find_exec_functions(void);

/* emit.c */
struct bytes {
	const struct iovec *iov;
	size_t count;
};
int64_t now_ns(void);
void emit(struct record *e, const struct bytes *data, uint32_t whole);

/* http.c */
struct call {
	const struct iovec *iov;
	size_t count;  /* 0: the bytes cannot be looked at */
	size_t length; /* 0: a call that asks for nothing */
	int writes;
};
enum verdict {
	NO,
	MAYBE,
	YES,
};
enum verdict classify(uint64_t bytes, uint32_t n);
uint32_t first_bytes(const struct call *c, size_t got, uint64_t *bytes);
void count_other(uint64_t bytes, uint32_t n);
int stream_socket(int fd, uint16_t *port);

/* connection.c */
int followed(int fd, uint64_t *number);
void moved(int fd, uint64_t number, ssize_t result, const struct call *c);
void accepted(int fd);
void closing(int fd);
void closing_replaced(int fd, int by);
void closing_range(unsigned first, unsigned last);
void shutting_down(int fd, int how);
uint32_t current(struct connection *c, const struct ring_header *h);
void settle(struct connection *c, int fd, uint64_t number, ssize_t result, int error, const struct call *call);
void finish(struct connection *c, uint32_t become);

/* calls.c, syscall.c */
void find_functions(void);
void tokenscope_find_syscall(void);

/* resolve.c */
void *next_function(const char *name);
struct zmq_functions {
	int (*send)(void *, void *, int);
	int (*recv)(void *, void *, int);
	int (*close)(void *);
	int (*getsockopt)(void *, int, void *, size_t *);
	void *(*data)(void *);
	size_t (*size)(const void *);
	int (*more)(const void *);
};
struct ssl_functions {
	int (*read)(void *, void *, int);
	int (*read_ex)(void *, void *, size_t, size_t *);
	int (*write)(void *, const void *, int);
	int (*write_ex)(void *, const void *, size_t, size_t *);
	int (*shutdown)(void *);
	void (*release)(void *);
	int (*get_fd)(const void *);
	int (*get_shutdown)(const void *);
};
const struct zmq_functions *zmq_of(void *caller);
const struct ssl_functions *ssl_of(void *caller);

/* The real function of libc, found at the first call. */
#define REAL(name)                                                     \
	({                                                             \
		__typeof__(&name) f_ = load(&real_##name);             \
		if (unlikely(!f_)) {                                   \
			f_ = (__typeof__(&name))next_function(#name);  \
			store(&real_##name, f_);                       \
		}                                                      \
		f_;                                                    \
	})

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock getenv setenv

#endif
