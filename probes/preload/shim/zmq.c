/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ frames, by libzmq's C interface. A frame is copied at the entry of
 * zmq_msg_send (libzmq empties the message when it takes it) and at the return of
 * zmq_msg_recv. A send that fails with EAGAIN and is tried again is therefore seen
 * twice, as it is by eBPF; servers that set no high-water mark do not meet that.
 *
 * A socket is one thread's at a time (zmq_socket(3)); the few types that are not are
 * counted by atomic operations like all else.
 */
#include "shim.h"
#include "table.h"

#define ZMQ_TYPE    16
#define ZMQ_SNDMORE 2

/* Sockets that engines use for broadcasts and wake-ups, never for requests:
 * PAIR, PUB, SUB, XPUB, XSUB. */
#define SKIPPED_TYPES (1 << 0 | 1 << 1 | 1 << 2 | 1 << 9 | 1 << 10)

static struct zmq_socket *socket_of(struct state *s, const void *socket, int make)
{
	return place_of(s->sockets, sizeof(s->sockets[0]), SOCKET_BITS, socket, make);
}

/* Makes a socket known, new or under a new agent. 0 if it is none: closed, or its context
 * ended; the call will say so, and the message is not to be looked at. */
static int introduce(const struct zmq_functions *z, struct state *s, struct zmq_socket *at, void *socket, uint32_t epoch)
{
	int type = -1;
	size_t n = sizeof(type);

	if (load(&z->getsockopt)(socket, ZMQ_TYPE, &type, &n))
		return 0;
	store(&at->type, type < 0 || type > 31 ? -1 : type);
	store(&at->sent, 0);
	store(&at->received, 0);
	store(&at->epoch, epoch);
	store_release(&at->number, new_number(s));
	return 1;
}

static void tell(const struct zmq_functions *z, void *message, void *socket, uint8_t kind, int more)
{
	struct ring_header *h = active();
	struct zmq_socket *at;
	struct ring_process *slot;
	struct record e = { 0 };
	struct bytes data;
	struct iovec v;
	struct state *s;
	int type;

	if (!h)
		return;
	s = self();
	if (!s)
		return;
	slot = load(&s->slot);
	if (kind == KIND_RECV && (!slot || !load(&slot->want_receives)))
		return;
	at = socket_of(s, socket, 1);
	if (!at) {
		add(&h->table_full, 1);
		return;
	}
	if (!load_acquire(&at->number) || load(&at->epoch) != load(&h->epoch))
		if (!introduce(z, s, at, socket, load(&h->epoch)))
			return;
	type = load(&at->type);
	if (type >= 0 && (1U << type & SKIPPED_TYPES))
		return;
	v.iov_base = load(&z->data)(message);
	v.iov_len = load(&z->size)(message);
	if (v.iov_len > UINT32_MAX)
		return; /* no engine's message, and more than a record can say */
	data.iov = &v;
	data.count = 1;
	e.kind = kind;
	e.conn = load(&at->number);
	e.seq = add(kind == KIND_SEND ? &at->sent : &at->received, 1) + 1;
	e.socket = type;
	e.len = v.iov_len;
	e.flags = (kind == KIND_SEND ? more : load(&z->more)(message)) ? RECORD_MORE : 0;
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
	return load(&z->send)(message, socket, flags);
}

PUBLIC int zmq_msg_recv(void *message, void *socket, int flags)
{
	const struct zmq_functions *z = zmq_of(__builtin_return_address(0));
	int error, n;

	if (unlikely(!z)) {
		errno = ENOTSUP;
		return -1;
	}
	n = load(&z->recv)(message, socket, flags);
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
	struct state *s = state;
	struct zmq_socket *at;

	if (unlikely(!z)) {
		errno = ENOTSUP;
		return -1;
	}
	at = s && is_self(s) ? socket_of(s, socket, 0) : NULL;
	if (at) {
		/* Before the call: the address may be the next socket's when it returns. */
		store(&at->number, 0);
		store_release(&at->key, KEY_FREED);
	}
	return load(&z->close)(socket);
}
