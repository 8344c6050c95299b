/* SPDX-License-Identifier: Apache-2.0 */
/* Writing records into the ring; ring.h has the protocol. */
#include <time.h>

#include "shim.h"

int64_t now_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_MONOTONIC, &t))
		return 0;
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* pid and tid are written before the record can be known by its position: the agent judges by it
 * whether a record that is never finished has lost its writer. */
static struct record *reserve(struct ring_header *h, uint32_t captured, const struct record *who)
{
	uint64_t size = (sizeof(struct record) + captured + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
	uint64_t head = load(&h->head);
	int i;

	for (i = 0; i < RESERVE_TRIES; i++) {
		uint64_t tail = load_acquire(&h->tail);
		struct record *r;

		/* A tail ahead of the head we read: the head has moved on. */
		if (head - tail > ring_mask + 1) {
			if (tail - head < ring_mask) {
				head = load(&h->head);
				continue;
			}
			break;
		}
		if (head - tail + size > ring_mask + 1)
			break;
		if (!cas(&h->head, &head, head + size))
			continue;
		r = (struct record *)(ring_data + (head & ring_mask));
		store(&r->state, RECORD_RESERVED);
		store(&r->size, (uint32_t)size);
		store(&r->pid, who->pid);
		store(&r->tid, who->tid);
		store_release(&r->position, head ^ h->nonce);
		return r;
	}
	add(&h->ring_full, 1);
	return NULL;
}

/* Copies n bytes from byte skip on of a list of buffers; returns how many there were. */
static uint32_t gather(unsigned char *to, const struct bytes *data, size_t skip, size_t n)
{
	const unsigned char *from = to;
	size_t i;

	for (i = 0; i < data->count && n; i++) {
		size_t have = data->iov[i].iov_len;

		if (have <= skip) {
			skip -= have;
			continue;
		}
		have -= skip;
		if (have > n)
			have = n;
		memcpy(to, (const unsigned char *)data->iov[i].iov_base + skip, have);
		to += have;
		n -= have;
		skip = 0;
	}
	return to - from;
}

/*
 * Writes e, of which kind, conn, seq, socket, flags, port and len are set, with its
 * e->len bytes: all of them up to whole or head + tail, else the head and the tail.
 * Where data has fewer (bytes that the kernel threw away; a list that another thread
 * has changed), captured says so, and tail is 0, as with eBPF.
 */
void emit(struct record *e, const struct bytes *data, uint32_t whole)
{
	struct ring_header *h = active();
	struct state *s = state;
	uint32_t captured, tail = 0;
	struct record *r;

	if (!h || !s)
		return;
	captured = data && data->count ? e->len : 0;
	if (captured > whole && captured > ring_head_bytes + ring_tail_bytes) {
		tail = ring_tail_bytes;
		captured = ring_head_bytes + tail;
	}
	e->time_ns = now_ns();
	e->pid = load(&s->pid);
	e->tid = thread_number(s);
	r = reserve(h, captured, e);
	if (!r)
		return;
	if (captured) {
		unsigned char *to = (unsigned char *)(r + 1);
		uint32_t front = captured - tail;

		e->captured = gather(to, data, 0, front);
		if (tail && e->captured == front && gather(to + front, data, e->len - tail, tail) == tail) {
			e->captured = captured;
			e->tail = tail;
		}
	}
	/* All but position, size and state, which the agent may be looking at. */
	memcpy((char *)r + offsetof(struct record, time_ns), (char *)e + offsetof(struct record, time_ns),
	       sizeof(*r) - offsetof(struct record, time_ns));
	store_release(&r->state, RECORD_COMMITTED);
}
