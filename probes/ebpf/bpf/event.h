/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What crosses from the kernel to the agent: the records in the ring, the
 * counters, and what the iterator over tasks writes. bpf2go makes the Go types
 * from this header; a test, TestLayout, compares sizes and offsets again.
 *
 * A record in the ring is a struct event followed by event.captured bytes of
 * data, all or the head and then event.tail bytes of the end. The record may be
 * longer than that: room is reserved in a few fixed sizes.
 */
#ifndef TOKENSCOPE_EVENT_H
#define TOKENSCOPE_EVENT_H

#include "bpf.h"

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Numbered as capture.Kind; a test compares them. KIND_FORK never leaves package ebpf. */
enum event_kind {
	KIND_EXEC = 4,
	KIND_EXIT = 5,
	KIND_SEND = 6,
	KIND_RECV = 7,
	KIND_OPEN = 8,
	KIND_READ = 9,
	KIND_WRITE = 10,
	KIND_CLOSE = 11,
	KIND_FORK = 200,
};

#define COMM_BYTES 16

struct event {
	__u64 time_ns;	/* CLOCK_MONOTONIC */
	__u64 conn;	/* connection or socket; of KIND_FORK the parent's pid */
	__u64 seq;	/* per connection and direction, from 1 */
	__u64 len;	/* true length in bytes */
	__u32 captured; /* bytes of data that follow */
	__u32 tail;	/* how many of them are the end of the true bytes */
	__u32 pid;	/* pid and tid in the agent's PID namespace */
	__u32 tid;
	__u8 comm[COMM_BYTES];
	__u16 port;  /* local TCP port, KIND_OPEN */
	__u8 kind;   /* enum event_kind */
	__s8 socket; /* ZeroMQ socket type, -1 unknown */
	__u8 more;   /* further parts of this ZeroMQ message follow */
	__u8 peer;   /* KIND_CLOSE: the other side closed */
	__u8 padding[2];
};
_Static_assert(sizeof(struct event) == 72, "struct event");
_Static_assert(__builtin_offsetof(struct event, comm) == 48, "event.comm");

/* One per CPU; programs add, the agent reads and sums. They never go back. */
struct counters {
	__u64 ring_full;  /* events that the ring had no room for */
	__u64 unreadable; /* events whose bytes could not be read */
	__u64 table_full; /* connections, sockets, calls or processes without a place */
	__u64 tls;	  /* connections that began with a TLS hello */
	__u64 http2;	  /* connections that began with an HTTP/2 preface */
	__u64 other;	  /* accepted stream connections that speak something else */
};
_Static_assert(sizeof(struct counters) == 48, "struct counters");

/* A process that was there before the agent, as the iterator writes it. */
struct adopted {
	__u32 pid; /* in the agent's PID namespace */
	__u32 parent;
	__u8 comm[COMM_BYTES];
};
_Static_assert(sizeof(struct adopted) == 24, "struct adopted");

/* Keys of the tables that the agent cleans when a process has ended. */
struct fd_key {
	__u32 tgid; /* host's numbering */
	__u32 fd;
};
_Static_assert(sizeof(struct fd_key) == 8, "struct fd_key");

struct socket_key {
	__u64 address; /* of the socket in its process */
	__u32 tgid;    /* host's numbering */
	__u32 padding;
};
_Static_assert(sizeof(struct socket_key) == 16, "struct socket_key");

#pragma clang diagnostic pop

#endif
