/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: an extension with a scope of its own, linked
 * with one of two libzmq, as pyzmq's is with the one that it brings.
 */
#include <errno.h>

#include "fakezmq.h"

/* Sends n frames on a socket of its library; returns how many were taken. */
int plugin_send(int n, int type)
{
	void *socket = zmq_socket(0, type);
	int i, taken = 0;

	for (i = 0; i < n; i++) {
		zmq_msg_t m = ZMQ_MESSAGE("plugin's frame", 14);

		errno = 4711;
		if (zmq_msg_send(&m, socket, i % 2 ? 2 : 0) == 14 && errno == 4711)
			taken++;
	}
	if (zmq_close(socket) || zmq_close(0) != -1 || errno != ENOTSOCK)
		return -1;
	return taken;
}
