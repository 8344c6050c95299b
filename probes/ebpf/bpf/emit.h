/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Writing events into the ring. Room is reserved in one of a few sizes, which
 * must be constants for the verifier; the bytes go from the observed process
 * straight into the ring. Nothing here ever wakes the agent: it polls.
 */
#ifndef TOKENSCOPE_EMIT_H
#define TOKENSCOPE_EMIT_H

#include "state.h"

/* Fills what every event has. The rest of *e must be zero. */
static __always_inline void describe(struct event *e, __u8 kind, const struct process *p)
{
	e->time_ns = bpf_ktime_get_ns();
	e->kind = kind;
	e->socket = -1;
	e->pid = p->pid;
	if (agent_level == 0)
		e->tid = bpf_get_current_pid_tgid();
	else
		e->tid = number_of((struct task_struct *)bpf_get_current_task());
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

/* Emits an event without data. */
static __always_inline void emit(struct event *e)
{
	if (bpf_ringbuf_output(&events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(ring_full);
}

/* size must be a constant, and n at most size. */
static __always_inline void emit_sized(const struct event *e, const void *from, __u64 n,
				       const __u32 size)
{
	struct event *r = bpf_ringbuf_reserve(&events, sizeof(*r) + size, 0);

	if (!r) {
		count(ring_full);
		return;
	}
	*r = *e;
	opaque(n);
	if (n > size)
		n = size;
	r->captured = n;
	if (bpf_probe_read_user(r + 1, n, from)) {
		r->captured = 0;
		count(unreadable);
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/*
 * Emits e with the e->len bytes at from: all of them up to whole bytes, a
 * constant; of more, the head and the tail.
 */
static __always_inline int emit_up_to(struct event *e, const void *from, const __u32 whole)
{
	const __u32 head = head_bytes, tail = tail_bytes;
	struct event *r;
	__u64 n = e->len;
	long err;

	if (n > head + tail && n <= whole) {
		if (n <= whole / 4)
			emit_sized(e, from, n, whole / 4);
		else
			emit_sized(e, from, n, whole);
		return 0;
	}
	if (n <= head + tail) {
		if (n <= 512)
			emit_sized(e, from, n, 512);
		else if (n <= 2048)
			emit_sized(e, from, n, 2048);
		else if (n <= 8192)
			emit_sized(e, from, n, 8192);
		else
			emit_sized(e, from, n, head + tail);
		return 0;
	}

	r = bpf_ringbuf_reserve(&events, sizeof(*r) + head + tail, 0);
	if (!r) {
		count(ring_full);
		return 0;
	}
	*r = *e;
	r->captured = head + tail;
	r->tail = tail;
	err = bpf_probe_read_user(r + 1, head, from);
	err |= bpf_probe_read_user((void *)(r + 1) + head, tail, from + n - tail);
	if (err) {
		r->captured = 0;
		r->tail = 0;
		count(unreadable);
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Emits e with the e->len bytes at from, or their head and tail. */
static __noinline int emit_flat(struct event *e, const void *from)
{
	return emit_up_to(e, from, 0);
}

/* The same for a ZeroMQ frame: a step's outputs cannot be read behind a cut. */
static __noinline int emit_frame_bytes(struct event *e, const void *from)
{
	return emit_up_to(e, from, frame_bytes);
}

/*
 * Copies bytes [skip, skip+want) of the buffers that iov lists to to, and
 * returns how many were copied. limit must be a constant, want at most limit.
 *
 * Shaped for the verifier. It follows every path through the loop, and two paths
 * are one to it only if all they know is the same: so what changes from turn to
 * turn is kept in the record r, whose contents it takes for any number, and not
 * in registers, whose ranges it would tell apart (with them it gave up after a
 * million steps, Linux 6.18). It also does not see that offset+n stays below
 * limit, only that each does: 2*limit bytes must be there. r->captured, r->seq
 * and r->conn are changed.
 */
static __always_inline __u32 gather(struct event *r, void *to, const __u32 limit, __u64 iov,
				    __u64 iov_len, __u64 skip, __u32 want)
{
	volatile __u32 *copied = &r->captured;
	volatile __u64 *skipped = &r->seq;
	volatile __u64 *buffers = &r->conn;
	const __u32 most = iovec_limit;

	*copied = 0;
	*skipped = 0;
	*buffers = iov_len;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < most; i++) {
		__u64 offset = *copied;
		__u64 from = skip - *skipped;
		struct iovec v = {};
		__u64 n;

		if (i >= *buffers || offset >= want)
			break;
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(iov + i * sizeof(v))))
			break;
		if (v.len <= from) {
			*skipped += v.len;
			continue;
		}
		n = v.len - from;
		if (n > want - offset)
			n = want - offset;
		opaque(n);
		opaque(offset);
		if (n > limit || offset > limit)
			break;
		if (bpf_probe_read_user(to + offset, n, (void *)(v.base + from)))
			break;
		*skipped = skip;
		*copied += n;
	}
	return *copied;
}

/* As emit_sized, from a list of buffers. */
static __always_inline void emit_vector_sized(const struct event *e, __u64 iov, __u64 iov_len,
					      const __u32 size)
{
	struct event *r = bpf_ringbuf_reserve(&events, sizeof(*r) + 2 * size, 0);
	__u32 got;

	if (!r) {
		count(ring_full);
		return;
	}
	got = gather(r, r + 1, size, iov, iov_len, 0, e->len);
	*r = *e;
	r->captured = got;
	if (got < e->len && iov_len <= iovec_limit)
		count(unreadable);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/*
 * Emits e with the first e->len bytes of the buffers that iov lists, or their
 * head and tail. Where only the front could be had (too many buffers, memory
 * that is not there), captured is shorter than len and tail is 0.
 */
static __noinline int emit_vector(struct event *e, __u64 iov, __u64 iov_len)
{
	const __u32 head = head_bytes, tail = tail_bytes;
	__u32 got, got_tail = 0;
	struct event *r;

	if (e->len <= head + tail) {
		if (e->len <= 1024)
			emit_vector_sized(e, iov, iov_len, 1024);
		else if (e->len <= 4096)
			emit_vector_sized(e, iov, iov_len, 4096);
		else
			emit_vector_sized(e, iov, iov_len, head + tail);
		return 0;
	}

	r = bpf_ringbuf_reserve(&events, sizeof(*r) + 2 * (head + tail), 0);
	if (!r) {
		count(ring_full);
		return 0;
	}
	got = gather(r, r + 1, head, iov, iov_len, 0, head);
	if (got == head)
		got_tail =
			gather(r, (void *)(r + 1) + head, tail, iov, iov_len, e->len - tail, tail);
	*r = *e;
	if (got_tail == tail) {
		r->captured = head + tail;
		r->tail = tail;
	} else {
		r->captured = got;
		if (iov_len <= iovec_limit)
			count(unreadable);
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
