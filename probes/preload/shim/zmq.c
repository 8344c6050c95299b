/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ frames, by libzmq's C interface. A frame is copied at the entry of
 * zmq_msg_send (libzmq empties the message when it takes it) and at the return of
 * zmq_msg_recv. A send that fails with EAGAIN and is tried again is therefore seen
 * twice, as it is by eBPF; servers that set no high-water mark do not meet that.
 */
#include "shim.h"

#define ZMQ_TYPE    16
#define ZMQ_SNDMORE 2

/* Sockets that engines use for broadcasts and wake-ups, never for requests:
 * PAIR, PUB, SUB, XPUB, XSUB. */
#define SKIPPED_TYPES (1 << 0 | 1 << 1 | 1 << 2 | 1 << 9 | 1 << 10)

static struct zmq_socket *socket_of(struct state *s, const void *socket, int make)
{
	uint64_t key = (uint64_t)(uintptr_t)socket;
	unsigned i = (unsigned)((key >> 4) * 2654435761U), n;

	for (n = 0; n < 16; n++, i++) {
		struct zmq_socket *z = &s->sockets[i & (MAX_SOCKETS - 1)];
		uint64_t k = load_acquire(&z->key);

		if (k == key || (!k && make && (cas(&z->key, &k, key) || k == key)))
			return z;
		if (!k)
			return NULL;
	}
	if (make)
		add(&ring->table_full, 1);
	return NULL;
}

static void tell(const struct zmq_functions *z, void *message, void *socket, uint8_t kind, int more)
{
	struct ring_header *h = active();
	struct zmq_socket *at;
	struct record e = { 0 };
	struct bytes data;
	struct iovec v;
	struct state *s;

	if (!h)
		return;
	s = self();
	if (!s || (kind == KIND_RECV && (!s->slot || !load(&s->slot->want_receives))))
		return;
	at = socket_of(s, socket, 1);
	if (!at)
		return;
	if (!at->number || at->epoch != load(&h->epoch)) {
		int type = -1;
		size_t n = sizeof(type);

		if (z->getsockopt(socket, ZMQ_TYPE, &type, &n) || type < 0 || type > 31)
			type = -1;
		at->type = type;
		at->epoch = load(&h->epoch);
		at->sent = at->received = 0;
		at->number = add(&s->numbers, 1) + 1;
	}
	if (at->type >= 0 && (1U << at->type & SKIPPED_TYPES))
		return;
	v.iov_base = z->data(message);
	v.iov_len = z->size(message);
	if (v.iov_len > 0xffffffff)
		return; /* no engine's message */
	data.iov = &v;
	data.count = 1;
	e.kind = kind;
	e.conn = at->number;
	e.seq = kind == KIND_SEND ? ++at->sent : ++at->received;
	e.socket = at->type;
	e.len = v.iov_len;
	e.flags = (kind == KIND_SEND ? more : z->more(message)) ? RECORD_MORE : 0;
	emit(&e, &data, ring_frame_bytes);
}

PUBLIC int zmq_msg_send(void *message, void *socket, int flags)
{
	const struct zmq_functions *z = zmq_of(__builtin_return_address(0));
	int error = errno;

	if (unlikely(!z)) {
		errno = ENOTSUP;
		return -1;
	}
	if (message && socket && active()) {
		tell(z, message, socket, KIND_SEND, flags & ZMQ_SNDMORE);
		errno = error;
	}
	return z->send(message, socket, flags);
}

PUBLIC int zmq_msg_recv(void *message, void *socket, int flags)
{
	const struct zmq_functions *z = zmq_of(__builtin_return_address(0));
	int error, n;

	if (unlikely(!z)) {
		errno = ENOTSUP;
		return -1;
	}
	n = z->recv(message, socket, flags);
	if (n >= 0 && active()) {
		error = errno;
		tell(z, message, socket, KIND_RECV, 0);
		errno = error;
	}
	return n;
}

PUBLIC int zmq_close(void *socket)
{
	const struct zmq_functions *z = zmq_of(__builtin_return_address(0));
	struct zmq_socket *at;

	if (unlikely(!z)) {
		errno = ENOTSUP;
		return -1;
	}
	if (state && ring && (at = socket_of(state, socket, 0)))
		at->number = 0;
	return z->close(socket);
}
