/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * ZeroMQ frames, by uprobes on libzmq's C interface. A frame is read at the
 * entry of zmq_msg_send (libzmq empties the message when it takes it) and at the
 * return of zmq_msg_recv. A send that fails with EAGAIN and is tried again is
 * therefore seen twice; servers that set no high-water mark do not meet that.
 *
 * Layout of zmq_msg_t, libzmq 4.2 to 4.3.5, src/msg.hpp, LP64, 64 bytes; the same
 * on x86-64 and arm64:
 *
 *	offset  size
 *	     8     8  lmsg, zclmsg: pointer to content_t {void *data; size_t size; …}
 *	     8    33  vsm: the data itself
 *	     8     8  cmsg: pointer to the data
 *	    16     8  cmsg: size
 *	    41     1  vsm: size
 *	    42     1  type
 *	    43     1  flags, bit 0: more parts follow
 */
#ifndef TOKENSCOPE_ZMQ_H
#define TOKENSCOPE_ZMQ_H

#include "emit.h"

enum {
	MSG_VSM = 101,
	MSG_LMSG = 102,
	MSG_CMSG = 104,
	MSG_ZCLMSG = 105,
	MSG_VSM_MAX = 33,
	MSG_FLAG_MORE = 1,
	SEND_MORE = 2, /* ZMQ_SNDMORE */
};

/* Sockets that engines use for broadcasts and wake-ups, never for requests:
 * PAIR, PUB, SUB, XPUB, XSUB. */
#define SKIPPED_TYPES (1 << 0 | 1 << 1 | 1 << 2 | 1 << 9 | 1 << 10)

struct message {
	__u64 vtable;
	__u64 data; /* also where a vsm begins */
	__u64 size;
	__u8 vsm_rest[17];
	__u8 vsm_size;
	__u8 type;
	__u8 flags;
	__u8 rest[20];
};
_Static_assert(sizeof(struct message) == 64, "zmq_msg_t");
_Static_assert(__builtin_offsetof(struct message, vsm_size) == 41, "vsm_size");

struct zmq_socket {
	__u64 number;
	__u64 sent;
	__u64 received;
	__u32 execs; /* process.execs when it was made */
	__s32 type;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct socket_key);
	__type(value, struct zmq_socket);
} sockets SEC(".maps");

/* A call of zmq_msg_recv or zmq_socket between entry and return, by thread. */
struct zmq_call {
	__u64 message;
	__u64 socket;
	__s32 type;
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct zmq_call);
} zmq_calls SEC(".maps");

/* The record of a socket; made where there is none or an earlier program's. */
static __always_inline struct zmq_socket *socket_of(__u32 tgid, __u64 address,
						    const struct process *p)
{
	struct socket_key key = { .address = address, .tgid = tgid };
	struct zmq_socket *s = bpf_map_lookup_elem(&sockets, &key);
	struct zmq_socket fresh = {};

	if (s && s->execs == p->execs)
		return s;
	fresh.number = new_number(address >> 6);
	fresh.execs = p->execs;
	fresh.type = -1;
	if (bpf_map_update_elem(&sockets, &key, &fresh, BPF_ANY)) {
		count(table_full);
		return NULL;
	}
	return bpf_map_lookup_elem(&sockets, &key);
}

/* Emits the frame in the message at address. */
static __always_inline void emit_frame(struct event *e, __u64 address)
{
	struct message m = {};
	__u64 content[2] = {};

	if (bpf_probe_read_user(&m, sizeof(m), (void *)address))
		goto unreadable;
	if (e->kind == KIND_RECV)
		e->more = m.flags & MSG_FLAG_MORE;
	switch (m.type) {
	case MSG_VSM:
		content[0] = address + __builtin_offsetof(struct message, data);
		content[1] = m.vsm_size;
		if (content[1] > MSG_VSM_MAX)
			goto unreadable;
		break;
	case MSG_LMSG:
	case MSG_ZCLMSG:
		if (bpf_probe_read_user(content, sizeof(content), (void *)m.data))
			goto unreadable;
		break;
	case MSG_CMSG:
		content[0] = m.data;
		content[1] = m.size;
		break;
	default:
		goto unreadable; /* a layout that we do not know */
	}
	e->len = content[1];
	emit_frame_bytes(e, (void *)content[0]);
	return;

unreadable:
	count(unreadable);
}

SEC("uprobe/zmq_msg_send")
int zmq_send(struct pt_regs *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *p = member(tgid);
	struct zmq_socket *s;
	struct event e = {};

	if (!p)
		return 0;
	s = socket_of(tgid, ARG2(ctx), p);
	if (!s)
		return 0;
	if (s->type >= 0 && (1U << (s->type & 31) & SKIPPED_TYPES))
		return 0;
	describe(&e, KIND_SEND, p);
	e.conn = s->number;
	e.seq = ++s->sent;
	e.socket = s->type;
	e.more = (ARG3(ctx) & SEND_MORE) != 0;
	emit_frame(&e, ARG1(ctx));
	return 0;
}

SEC("uprobe/zmq_msg_recv")
int zmq_recv(struct pt_regs *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct zmq_call call = {};

	if (!member(thread >> 32))
		return 0;
	call.message = ARG1(ctx);
	call.socket = ARG2(ctx);
	if (bpf_map_update_elem(&zmq_calls, &thread, &call, BPF_ANY))
		count(table_full);
	return 0;
}

SEC("uretprobe/zmq_msg_recv")
int zmq_recv_return(struct pt_regs *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct zmq_call *c = bpf_map_lookup_elem(&zmq_calls, &thread);
	struct zmq_call call;
	struct zmq_socket *s;
	struct process *p;
	struct event e = {};

	if (!c)
		return 0;
	call = *c;
	bpf_map_delete_elem(&zmq_calls, &thread);
	if ((__s32)RESULT(ctx) < 0)
		return 0;
	p = member(thread >> 32);
	if (!p)
		return 0;
	s = socket_of(thread >> 32, call.socket, p);
	if (!s)
		return 0;
	if (s->type >= 0 && (1U << (s->type & 31) & SKIPPED_TYPES))
		return 0;
	describe(&e, KIND_RECV, p);
	e.conn = s->number;
	e.seq = ++s->received;
	e.socket = s->type;
	emit_frame(&e, call.message);
	return 0;
}

SEC("uprobe/zmq_socket")
int zmq_socket_enter(struct pt_regs *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct zmq_call call = {};

	if (!member(thread >> 32))
		return 0;
	call.type = ARG2(ctx);
	if (bpf_map_update_elem(&zmq_calls, &thread, &call, BPF_ANY))
		count(table_full);
	return 0;
}

SEC("uretprobe/zmq_socket")
int zmq_socket_return(struct pt_regs *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct zmq_call *c = bpf_map_lookup_elem(&zmq_calls, &thread);
	struct socket_key key = { .address = RESULT(ctx), .tgid = thread >> 32 };
	struct zmq_socket fresh = {};
	struct process *p;
	__s32 type;

	if (!c)
		return 0;
	type = c->type;
	bpf_map_delete_elem(&zmq_calls, &thread);
	p = member(thread >> 32);
	if (!p || !key.address)
		return 0;
	fresh.number = new_number(key.address >> 6);
	fresh.execs = p->execs;
	fresh.type = type >= 0 && type < 32 ? type : -1;
	if (bpf_map_update_elem(&sockets, &key, &fresh, BPF_ANY))
		count(table_full);
	return 0;
}

SEC("uprobe/zmq_close")
int zmq_close(struct pt_regs *ctx)
{
	struct socket_key key = {
		.address = ARG1(ctx),
		.tgid = bpf_get_current_pid_tgid() >> 32,
	};

	if (member(key.tgid))
		bpf_map_delete_elem(&sockets, &key);
	return 0;
}

#endif
