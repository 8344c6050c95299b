/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between the shim in the workload's processes and the agent:
 * one file, made by the supervisor, that every process of the workload and the
 * agent map. probes/preload/layout.go says the same in Go; a test there compares.
 *
 * The file: a struct ring_header of RING_HEADER_BYTES, then ring_header.data_bytes
 * of records. Each process maps the header once and the data twice, one behind the
 * other, so that a record that begins near the end is contiguous.
 *
 * The records are one stream of bytes, whose positions only grow; position p lies
 * at offset p & (data_bytes - 1). Many writers, one reader:
 *
 *	writer	reads tail and head; without room counts ring_full and goes on with
 *		its own work. With room, moves head by compare-and-swap (acq_rel), then at
 *		once stores state = RECORD_RESERVED, size, pid, tid and last, with release, position:
 *		a true position vouches for the others, which an earlier lap may have left.
 *		Fills the record; stores state = RECORD_COMMITTED with release.
 *	reader	reads from tail on, as far as head. A record is one only if position is
 *		its own position ^ nonce: what an earlier lap left there is not. Takes
 *		committed ones in order, and then stores tail with release.
 *
 * A writer may be killed or stopped at any point. A record that stays reserved is
 * skipped by the reader when its process has ended, and passed over, without its
 * room being given back, when it has not. A place of which not even the header was
 * written is found by its wrong position; the reader looks for the next true header
 * in steps of RECORD_ALIGN.
 *
 * No writer waits, for the reader or for another writer: the only loop is the
 * compare-and-swap, and it ends when any writer succeeds or the ring is full; it is
 * given up, as if the ring were full, after RESERVE_TRIES.
 */
#ifndef TOKENSCOPE_RING_H
#define TOKENSCOPE_RING_H

#include <stdint.h>

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

#define RING_MAGIC	  0x31474e4952535424ULL /* "$TSRING1", little-endian */
#define RING_HEADER_BYTES 65536 /* a whole page everywhere: arm64 has pages of 64 KiB */
#define RING_PROCESSES	  960
#define RECORD_ALIGN	  64
#define RESERVE_TRIES	  64

/*
 * Version of everything in this file. The shim stays dormant where the header has
 * another than its own, and counts itself in ring_header.refused; the agent
 * refuses such a ring with a line that says so.
 *
 *	1	first
 */
#define RING_VERSION 1

/* Numbered as capture.Kind and as probes/ebpf/bpf/event.h; a test compares them. */
enum record_kind {
	KIND_EXEC = 4,	/* written once by every process that begins a program */
	KIND_SEND = 6,	/* zmq_msg_send, at entry */
	KIND_RECV = 7,	/* zmq_msg_recv, at return */
	KIND_OPEN = 8,
	KIND_READ = 9,
	KIND_WRITE = 10,
	KIND_CLOSE = 11,
	KIND_FORK = 200, /* the first thing a forked child writes; conn is its parent's pid */
};

enum record_state {
	RECORD_RESERVED = 1,
	RECORD_COMMITTED = 2,
};

enum record_flags {
	RECORD_MORE = 1, /* further parts of this ZeroMQ message follow */
	RECORD_PEER = 2, /* KIND_CLOSE: the other side closed */
	RECORD_TLS = 4,	 /* the bytes are plaintext of SSL_read or SSL_write */
};

/* Followed by captured bytes: all, or the head and then tail bytes of the end. */
struct record {
	uint64_t position; /* of this record, ^ ring_header.nonce */
	uint32_t size;	   /* of the whole record, a multiple of RECORD_ALIGN */
	uint32_t state;	   /* enum record_state */
	uint64_t time_ns;  /* CLOCK_MONOTONIC */
	uint64_t conn;	   /* connection or socket; unique in its process, never 0 */
	uint64_t seq;	   /* per connection and direction, from 1, lost ones counted too */
	uint32_t len;	   /* true length in bytes */
	uint32_t captured; /* bytes of data that follow */
	uint32_t pid;	   /* as the process knows itself */
	uint32_t tid;
	uint16_t tail; /* how many of captured are the end of the true bytes */
	uint16_t port; /* local TCP port, KIND_OPEN; 0 where unknown */
	uint8_t kind;  /* enum record_kind */
	int8_t socket; /* ZeroMQ socket type, -1 unknown */
	uint8_t flags; /* enum record_flags */
	uint8_t padding;
};
_Static_assert(sizeof(struct record) == RECORD_ALIGN, "struct record");
_Static_assert(__builtin_offsetof(struct record, len) == 40, "record.len");

/* What a process writes about itself, and the agent about it. */
struct ring_process {
	uint32_t pid;	 /* 0: free. Taken by the process by compare-and-swap, freed by the agent
			  * when the process has ended; after exec the same pid finds its own again. */
	uint32_t parent; /* pid; written by the process before registered_ns */
	uint64_t registered_ns; /* CLOCK_MONOTONIC, written last, with release; again at exec */
	uint32_t want_receives; /* written by the agent: record zmq_msg_recv as well */
	uint32_t version;	/* RING_VERSION of the process's shim */
	uint64_t padding[5];
};
_Static_assert(sizeof(struct ring_process) == 64, "struct ring_process");

struct ring_header {
	/* Written by the supervisor before anybody else maps the file. */
	uint64_t magic;	     /* RING_MAGIC */
	uint32_t version;    /* RING_VERSION */
	uint32_t header_bytes; /* RING_HEADER_BYTES */
	uint64_t data_bytes; /* a power of two, a multiple of 64 KiB */
	uint64_t nonce;	     /* random */
	uint32_t head_bytes; /* captured of a piece of HTTP that is longer than both … */
	uint32_t tail_bytes; /* … together, and of a frame longer than frame_bytes */
	uint32_t frame_bytes;
	uint32_t padding0;
	uint64_t padding1[2];

	/*
	 * Written by the agent, read by everybody at every call (relaxed). 0: dormant.
	 * Otherwise the number of the agent's life: where it differs from what a
	 * connection or socket was seen under, that connection or socket is new.
	 */
	uint32_t epoch __attribute__((aligned(64)));
	uint32_t padding2[15];

	uint64_t head __attribute__((aligned(64))); /* writers, compare-and-swap */
	uint64_t padding3[7];
	uint64_t tail __attribute__((aligned(64))); /* the reader, with release */
	uint64_t padding4[7];

	/* Counters: writers add (relaxed), nobody subtracts. */
	uint64_t ring_full __attribute__((aligned(64))); /* events without room */
	uint64_t table_full; /* connections, sockets or processes without a place */
	uint64_t nested;     /* events of a signal handler or a thread that met another in the shim's work */
	uint64_t tls;	     /* accepted connections that began with a TLS hello */
	uint64_t http2;	     /* … with an HTTP/2 preface */
	uint64_t other;	     /* … that speak something else */
	uint64_t refused;    /* processes whose shim has another RING_VERSION */
	uint64_t unresolved; /* calls of libzmq or libssl whose real function was not found */

	uint64_t padding5[16 * 8];

	struct ring_process processes[RING_PROCESSES] __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "struct ring_header");
_Static_assert(__builtin_offsetof(struct ring_header, epoch) == 64, "ring_header.epoch");

#pragma clang diagnostic pop

#endif
