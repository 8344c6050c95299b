/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The connections of the workload's servers: the tables, what is a stream
 * socket, and what speaks HTTP/1, told by the first bytes.
 *
 * Life of a connection, by (process, descriptor):
 *	accept           -> CANDIDATE: nothing is told yet
 *	first read       -> OPEN if its bytes begin with an HTTP/1 method, or could
 *	                    still become one; KIND_OPEN, then KIND_READ
 *	                 -> else forgotten, the descriptor goes into ignored
 *	read, write      -> KIND_READ, KIND_WRITE
 *	read of 0 bytes, broken pipe, reset -> KIND_CLOSE with peer
 *	shutdown of the sending side, close -> KIND_CLOSE, once
 * A stream socket whose accept was not seen (the agent was restarted; the socket
 * was inherited or handed over) enters at its first read.
 */
#ifndef TOKENSCOPE_CONNECTION_H
#define TOKENSCOPE_CONNECTION_H

#include "emit.h"

enum {
	S_IFMT = 0170000,
	S_IFSOCK = 0140000,
	SOCK_STREAM = 1,
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SHUT_RD = 0,
	MSG_OOB = 1,
	MSG_PEEK = 2,
	MSG_ERRQUEUE = 0x2000,
	EINTR = 4,
	EAGAIN = 11,
	ERESTARTSYS = 512, /* 512 to 517 restart the call and are never seen by it */
	ERESTART_LAST = 517,
};

enum operation {
	OP_READ = 0,   /* also recvfrom */
	OP_WRITE = 1,  /* also sendto */
	OP_READV = 2,  /* also recvmsg */
	OP_WRITEV = 3, /* also sendmsg */
};
#define is_read(op)   (!((op)&1))
#define is_vector(op) ((op)&2)

/* A call on a descriptor. */
struct call {
	__u64 base;   /* buffer or list of buffers */
	__u64 length; /* of the buffer or of the list */
	__u64 number; /* of the connection when the call was noted, 0: not known then */
	__u32 fd;
	__u32 op;
};

/* Calls between entry and exit, by thread: only where the exit cannot tell what
 * the arguments were. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct call);
} calls SEC(".maps");

enum connection_state {
	CANDIDATE, /* accepted, no byte seen */
	PARTIAL,   /* told, but its first bytes are not a whole method yet */
	OPEN,
	FINISHED, /* the server has ended it; only its close is awaited */
};

struct connection {
	__u64 number;
	__u64 reads;
	__u64 writes;
	__u64 prefix; /* first bytes, PARTIAL */
	__u32 prefix_len;
	__u16 port;
	__u8 state;
	__u8 peer_closed;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct fd_key);
	__type(value, struct connection);
} connections SEC(".maps");

/*
 * Descriptors that were looked at and are no HTTP connection, so that they are
 * not looked at again. Forgetting one costs only another look.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct fd_key);
	__type(value, __u32);
} ignored SEC(".maps");

static __always_inline void ignore(const struct fd_key *key)
{
	__u32 one = 1;

	bpf_map_update_elem(&ignored, key, &one, BPF_ANY);
}

/* Whether a descriptor of the current process is a stream socket of a kind that
 * HTTP runs on; its local port. */
static __always_inline int stream_socket(__u32 fd, __u16 *port)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct files_struct *files = kernel_read(task, files);
	struct fdtable *table = kernel_read(files, fdt);
	struct file **slot = kernel_read(table, fd);
	struct file *file = NULL;
	struct socket *socket;
	struct sock *sk;
	__u16 family;

	if (!slot || fd >= kernel_read(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), slot + fd);
	if (!file || (kernel_read(kernel_read(file, f_inode), i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	socket = kernel_read(file, private_data);
	if (kernel_read(socket, type) != SOCK_STREAM)
		return 0;
	sk = kernel_read(socket, sk);
	family = kernel_read(sk, __sk_common.skc_family);
	*port = 0;
	if (family == AF_INET || family == AF_INET6)
		*port = kernel_read(sk, __sk_common.skc_num);
	return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

enum verdict {
	NO,
	MAYBE,
	YES
};

/* A token of at most eight bytes as a little-endian number, padded with zeros. */
#define TOKEN(a, b, c, d, e, f, g, h)                                                            \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | \
	 (__u64)(f) << 40 | (__u64)(g) << 48 | (__u64)(h) << 56)

/* 1 if x is not zero, without a branch: the verifier follows both sides of each
 * branch, and nine methods in a row would make it follow very many. */
static __always_inline __u64 not_zero(__u64 x)
{
	x |= 0 - x;
	opaque(x); /* or the compiler makes it a branch */
	return x >> 63;
}

/* The first n bytes of a number, 0 < n <= 8. */
static __always_inline __u64 first(__u32 n)
{
	return ~0ULL >> (64 - 8 * (n & 15));
}

/* Whether a stream that begins with these n bytes, 0 < n <= 8, is HTTP/1. */
static __noinline int classify(__u64 bytes, __u32 n)
{
	const struct {
		__u64 token;
		__u32 size;
	} methods[] = {
		{ TOKEN('P', 'O', 'S', 'T', ' ', 0, 0, 0), 5 },
		{ TOKEN('G', 'E', 'T', ' ', 0, 0, 0, 0), 4 },
		{ TOKEN('O', 'P', 'T', 'I', 'O', 'N', 'S', ' '), 8 },
		{ TOKEN('H', 'E', 'A', 'D', ' ', 0, 0, 0), 5 },
		{ TOKEN('P', 'U', 'T', ' ', 0, 0, 0, 0), 4 },
		{ TOKEN('D', 'E', 'L', 'E', 'T', 'E', ' ', 0), 7 },
		{ TOKEN('P', 'A', 'T', 'C', 'H', ' ', 0, 0), 6 },
		{ TOKEN('T', 'R', 'A', 'C', 'E', ' ', 0, 0), 6 },
		{ TOKEN('C', 'O', 'N', 'N', 'E', 'C', 'T', ' '), 8 },
	};
	__u64 seen = first(n), like = 0, whole = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < (int)(sizeof(methods) / sizeof(methods[0])); i++) {
		__u64 token = first(methods[i].size);
		__u64 same = 1 ^ not_zero((bytes ^ methods[i].token) & seen & token);

		like |= same;
		whole |= same & (1 ^ not_zero(token & ~seen));
	}
	return like + whole; /* NO, MAYBE, YES */
}

/* Counts what an accepted connection speaks that is not HTTP/1. */
static __always_inline void count_other(__u64 bytes, __u32 n)
{
	if (n >= 2 && (bytes & 0xffff) == 0x0316)
		count(tls); /* record type handshake, version 3.x */
	else if (n == 8 && bytes == TOKEN('P', 'R', 'I', ' ', '*', ' ', 'H', 'T'))
		count(http2);
	else
		count(other);
}

/* The first bytes that a read gave, at most eight, as a little-endian number. */
static __always_inline __u32 first_bytes(const struct call *c, __u64 got, __u64 *bytes)
{
	__u64 from = c->base;
	__u64 n = got;

	if (is_vector(c->op)) {
		struct iovec v = {};

		if (bpf_probe_read_user(&v, sizeof(v), (void *)c->base))
			return 0;
		from = v.base;
		if (v.len < n)
			n = v.len;
	}
	opaque(n);
	if (n > 8)
		n = 8;
	*bytes = 0;
	if (bpf_probe_read_user(bytes, n, (void *)from))
		return 0;
	return n;
}

#endif
