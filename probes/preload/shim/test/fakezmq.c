/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: a libzmq that sends to nobody. Built twice,
 * with another LIBRARY each; a socket of one that reaches the other is an error.
 */
#include <errno.h>
#include <stdlib.h>

#include "fakezmq.h"

struct socket {
	long library;
	int type;
	int open;
};

static struct socket *of(void *socket)
{
	struct socket *s = socket;

	if (s && s->library == LIBRARY && s->open)
		return s;
	errno = ENOTSOCK;
	return NULL;
}

void *zmq_socket(void *context, int type)
{
	struct socket *s = malloc(sizeof(*s));

	(void)context;
	if (s)
		*s = (struct socket){ LIBRARY, type, 1 };
	return s;
}

int zmq_close(void *socket)
{
	struct socket *s = of(socket);

	if (!s)
		return -1;
	s->open = 0;
	free(s);
	return 0;
}

int zmq_getsockopt(void *socket, int option, void *value, size_t *n)
{
	struct socket *s = of(socket);

	if (!s || option != 16 || *n != sizeof(int))
		return -1;
	*(int *)value = s->type;
	return 0;
}

int zmq_msg_send(zmq_msg_t *m, void *socket, int flags)
{
	int n = (int)m->size;

	(void)flags;
	if (!of(socket))
		return -1;
	m->data = NULL; /* as libzmq does: the message is taken */
	m->size = 0;
	return n;
}

int zmq_msg_recv(zmq_msg_t *m, void *socket, int flags)
{
	(void)flags;
	if (!of(socket))
		return -1;
	*m = ZMQ_MESSAGE("frame", 5);
	return 5;
}

void *zmq_msg_data(zmq_msg_t *m) { return m->data; }
size_t zmq_msg_size(const zmq_msg_t *m) { return m->size; }
int zmq_msg_more(const zmq_msg_t *m) { return m->flags & 1; }
