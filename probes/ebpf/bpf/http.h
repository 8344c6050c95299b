/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HTTP/1 on the connections of connection.h, from the system calls. A call is
 * looked at when it returns, when it is known how many bytes really moved: a
 * partial write gives what was written, a refused one nothing, and the kernel has
 * just touched the memory, so that it can be read. Its time is that of its return.
 *
 * Not followed: sendfile, splice, sendmmsg, recvmmsg, io_uring, dup.
 */
#ifndef TOKENSCOPE_HTTP_H
#define TOKENSCOPE_HTTP_H

#include "connection.h"

static __always_inline void emit_close(const struct connection *conn, const struct process *p,
				       int peer)
{
	struct event e = {};

	describe(&e, KIND_CLOSE, p);
	e.conn = conn->number;
	e.peer = peer;
	emit(&e);
}

/*
 * Decides what a connection is by the bytes that a read gave. Returns it if its
 * bytes are to be told, having told that it is open.
 */
static __noinline struct connection *recognise(const struct fd_key *key, const struct call *c,
					       __u64 got, const struct process *p)
{
	struct connection *conn = bpf_map_lookup_elem(&connections, key);
	struct connection fresh = {};
	struct event e = {};
	__u64 bytes = 0;
	__u32 n;
	int v;

	if (!conn) {
		if (bpf_map_lookup_elem(&ignored, key))
			return NULL;
		if (!stream_socket(key->fd, &fresh.port)) {
			ignore(key);
			return NULL;
		}
	}
	n = first_bytes(c, got, &bytes);
	if (conn && conn->state == PARTIAL) {
		__u32 had = conn->prefix_len & 7;

		bytes = conn->prefix | bytes << (had * 8);
		n += had;
		if (n > 8)
			n = 8;
	}
	v = n ? classify(bytes, n) : NO;
	if (v == NO) {
		if (conn) {
			count_other(bytes, n);
			if (conn->state == PARTIAL)
				emit_close(conn, p, 0);
			bpf_map_delete_elem(&connections, key);
		}
		ignore(key);
		return NULL;
	}

	if (!conn) {
		fresh.number = new_number(key->fd);
		if (bpf_map_update_elem(&connections, key, &fresh, BPF_ANY)) {
			count(table_full);
			return NULL;
		}
		conn = bpf_map_lookup_elem(&connections, key);
		if (!conn)
			return NULL;
	}
	if (conn->state == CANDIDATE) {
		describe(&e, KIND_OPEN, p);
		e.conn = conn->number;
		e.port = conn->port;
		emit(&e);
	}
	conn->state = v == YES ? OPEN : PARTIAL;
	conn->prefix = bytes;
	conn->prefix_len = n;
	return conn;
}

/* Tells of a connection's end, as far as it is one, when a call has moved nothing. */
static __always_inline void moved_nothing(struct connection *conn, const struct process *p,
					  const struct call *c, __s64 ret)
{
	if (ret == -EAGAIN || ret == -EINTR || (ret <= -ERESTARTSYS && ret >= -ERESTART_LAST))
		return;
	if (ret == 0 && (!is_read(c->op) || c->length == 0))
		return;
	if (conn->state != PARTIAL && conn->state != OPEN)
		return;
	if (conn->peer_closed)
		return;
	conn->peer_closed = 1;
	emit_close(conn, p, 1);
}

/* Finds what a call that returns belongs to. Returns the connection if there are
 * bytes of it to tell. */
static __noinline struct connection *settle(const struct call *c, __s64 ret,
					    const struct process *p)
{
	struct fd_key key = {
		.tgid = bpf_get_current_pid_tgid() >> 32,
		.fd = c->fd,
	};
	struct connection *conn = bpf_map_lookup_elem(&connections, &key);

	if (c->number && (!conn || conn->number != c->number))
		return NULL; /* closed, or its descriptor used again, meanwhile */
	if (ret <= 0) {
		if (conn)
			moved_nothing(conn, p, c, ret);
		return NULL;
	}
	if (conn && conn->state == OPEN)
		return conn;
	if (conn && conn->state == FINISHED)
		return NULL;
	if (is_read(c->op))
		return recognise(&key, c, ret, p);
	if (conn && conn->state == CANDIDATE) {
		/* The server speaks first: not HTTP. */
		count(other);
		bpf_map_delete_elem(&connections, &key);
		ignore(&key);
		return NULL;
	}
	return conn;
}

/* Prepares the event of bytes that moved. */
static __always_inline void moved(struct event *e, struct connection *conn, const struct process *p,
				  const struct call *c, __s64 ret)
{
	/* No branch sets kind: else the verifier follows all that comes after twice. */
	describe(e, KIND_READ + (c->op & 1), p);
	if (is_read(c->op))
		e->seq = ++conn->reads;
	else
		e->seq = ++conn->writes;
	e->conn = conn->number;
	e->len = ret;
}

static __noinline int returns_flat(const struct call *c, __s64 ret, const struct process *p)
{
	struct connection *conn = settle(c, ret, p);
	struct event e = {};

	if (conn) {
		moved(&e, conn, p, c, ret);
		emit_flat(&e, (void *)c->base);
	}
	return 0;
}

static __noinline int returns_vector(const struct call *c, __s64 ret, const struct process *p)
{
	struct connection *conn = settle(c, ret, p);
	struct event e = {};

	if (conn) {
		moved(&e, conn, p, c, ret);
		emit_vector(&e, c->base, c->length);
	}
	return 0;
}

/* Takes the list of buffers from the message of recvmsg or sendmsg. */
static __always_inline int open_message(struct call *c, __u64 header)
{
	struct message_header h = {};

	if (bpf_probe_read_user(&h, sizeof(h), (void *)header))
		return 0;
	c->base = h.iov;
	c->length = h.iov_len;
	return 1;
}

static __noinline int accepted(__s64 ret, const struct process *p)
{
	struct fd_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .fd = ret };
	struct connection fresh = {}, *old;

	if (ret < 0)
		return 0;
	/* A descriptor that was closed in a way that we do not see is used again. */
	old = bpf_map_lookup_elem(&connections, &key);
	if (old && (old->state == PARTIAL || old->state == OPEN))
		emit_close(old, p, 0);
	bpf_map_delete_elem(&ignored, &key);
	if (!stream_socket(ret, &fresh.port)) {
		bpf_map_delete_elem(&connections, &key);
		return 0;
	}
	fresh.number = new_number(key.fd);
	if (bpf_map_update_elem(&connections, &key, &fresh, BPF_ANY)) {
		bpf_map_delete_elem(&connections, &key);
		count(table_full);
	}
	return 0;
}

/* At the entry: the descriptor may be another thread's before close returns. */
static __noinline int closing(__u32 fd, const struct process *p)
{
	struct fd_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .fd = fd };
	struct connection *conn = bpf_map_lookup_elem(&connections, &key);

	if (!conn) {
		bpf_map_delete_elem(&ignored, &key);
		return 0;
	}
	if (conn->state == PARTIAL || conn->state == OPEN)
		emit_close(conn, p, 0);
	bpf_map_delete_elem(&connections, &key);
	return 0;
}

static __noinline int shutting_down(__u32 fd, __u32 how, const struct process *p)
{
	struct fd_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .fd = fd };
	struct connection *conn = bpf_map_lookup_elem(&connections, &key);

	if (!conn || how == SHUT_RD)
		return 0;
	if (conn->state == PARTIAL || conn->state == OPEN) {
		emit_close(conn, p, 0);
		conn->state = FINISHED;
	}
	return 0;
}

#endif
