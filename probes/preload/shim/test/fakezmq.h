/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the preloaded library: as much of libzmq's interface as it uses. */
#ifndef FAKEZMQ_H
#define FAKEZMQ_H
#include <stddef.h>

/* As libzmq's message of constant data lies in memory, which is how eBPF reads it. */
typedef struct {
	void *metadata;
	char *data;
	size_t size;
	unsigned char rest[18];
	unsigned char type; /* 104 */
	unsigned char flags; /* bit 0: more parts follow */
	unsigned char padding[20];
} zmq_msg_t;
_Static_assert(sizeof(zmq_msg_t) == 64, "zmq_msg_t");

#define ZMQ_MESSAGE(text, n) ((zmq_msg_t){ .data = (text), .size = (n), .type = 104 })

void *zmq_socket(void *context, int type);
int zmq_close(void *socket);
int zmq_getsockopt(void *socket, int option, void *value, size_t *n);
int zmq_msg_send(zmq_msg_t *m, void *socket, int flags);
int zmq_msg_recv(zmq_msg_t *m, void *socket, int flags);
void *zmq_msg_data(zmq_msg_t *m);
size_t zmq_msg_size(const zmq_msg_t *m);
int zmq_msg_more(const zmq_msg_t *m);
#endif
