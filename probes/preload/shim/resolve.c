/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the functions that we stand in front of.
 *
 * What a caller would have got without us is, first, what the global scope has behind
 * us: RTLD_NEXT. CPython loads extensions with a scope of their own (RTLD_LOCAL), and
 * with it the libzmq that pyzmq brings: RTLD_NEXT does not see that. dlsym on the
 * caller's own object searches the object and what it depends on, which does. The
 * object is known by the return address, and is opened once more so that it stays.
 *
 * Two libzmq may be in one process, and a socket of one must never reach the other;
 * so what is found is kept by return address. Entries are only ever added.
 */
#include <dlfcn.h>

#include "shim.h"

void *next_function(const char *name)
{
	int error = errno;
	void *f;

	start();
	f = dlsym(RTLD_NEXT, name);
	errno = error;
	return f;
}

#define CALLERS 256 /* a power of two; pyzmq and Python's ssl have some ten calls */
#define TABLES	16  /* builds of a library in one process */

struct callers {
	struct {
		uintptr_t address;
		const void *functions;
	} at[CALLERS];
};

static const void *recall(struct callers *c, void *caller)
{
	uintptr_t a = (uintptr_t)caller;
	unsigned i, n;

	for (n = 0, i = a * 2654435761U; n < 8; n++, i++) {
		uintptr_t k = load_acquire(&c->at[i & (CALLERS - 1)].address);

		if (k == a)
			return load_acquire(&c->at[i & (CALLERS - 1)].functions);
		if (!k)
			break;
	}
	return NULL;
}

static void remember(struct callers *c, void *caller, const void *functions)
{
	uintptr_t a = (uintptr_t)caller;
	unsigned i, n;

	for (n = 0, i = a * 2654435761U; n < 8; n++, i++) {
		uintptr_t none = 0;

		if (load(&c->at[i & (CALLERS - 1)].address) == a)
			return;
		if (cas(&c->at[i & (CALLERS - 1)].address, &none, a)) {
			store_release(&c->at[i & (CALLERS - 1)].functions, functions);
			return;
		}
	}
}

/* A handle on which dlsym finds what the caller would have found; name is a function
 * that is to be there. */
static void *scope_of(void *caller, const char *name)
{
	Dl_info info;
	void *handle;

	if (dlsym(RTLD_NEXT, name))
		return RTLD_NEXT;
	if (!dladdr(caller, &info) || !info.dli_fname)
		return NULL;
	handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	if (dlsym(handle, name))
		return handle; /* never closed: the object must stay as long as we call into it */
	dlclose(handle);
	return NULL;
}

/* Takes a place of a table of found libraries, or the one that has the same function. */
#define TAKE(tables, count, field, value)                                            \
	({                                                                           \
		__typeof__(&(tables)[0]) t_ = NULL;                                  \
		unsigned i_, n_ = load(&(count));                                    \
		for (i_ = 0; i_ < n_ && i_ < TABLES; i_++)                           \
			if (load_acquire(&(tables)[i_].field) == (value))            \
				t_ = &(tables)[i_];                                  \
		if (!t_ && (i_ = add(&(count), 1)) < TABLES)                         \
			t_ = &(tables)[i_];                                          \
		t_;                                                                  \
	})

static struct callers zmq_callers, ssl_callers;
static struct zmq_functions zmq_tables[TABLES];
static struct ssl_functions ssl_tables[TABLES];
static unsigned zmq_count, ssl_count;

static void count_unresolved(void)
{
	if (ring)
		add(&ring->unresolved, 1);
}

const struct zmq_functions *zmq_of(void *caller)
{
	const struct zmq_functions *known = recall(&zmq_callers, caller);
	struct zmq_functions *t;
	int error = errno;
	void *scope, *send;

	if (likely(known))
		return known;
	start();
	scope = scope_of(caller, "zmq_msg_send");
	t = NULL;
	if (scope) {
		send = dlsym(scope, "zmq_msg_send");
		t = TAKE(zmq_tables, zmq_count, send, (int (*)(void *, void *, int))send);
		if (t && !load(&t->send)) {
			t->recv = dlsym(scope, "zmq_msg_recv");
			t->close = dlsym(scope, "zmq_close");
			t->getsockopt = dlsym(scope, "zmq_getsockopt");
			t->data = dlsym(scope, "zmq_msg_data");
			t->size = dlsym(scope, "zmq_msg_size");
			t->more = dlsym(scope, "zmq_msg_more");
			store_release(&t->send, (int (*)(void *, void *, int))send);
		}
	}
	if (!t || !t->recv || !t->close || !t->getsockopt || !t->data || !t->size || !t->more) {
		count_unresolved();
		t = NULL;
	} else {
		remember(&zmq_callers, caller, t);
	}
	errno = error;
	return t;
}

const struct ssl_functions *ssl_of(void *caller)
{
	const struct ssl_functions *known = recall(&ssl_callers, caller);
	struct ssl_functions *t;
	int error = errno;
	void *scope, *read;

	if (likely(known))
		return known;
	start();
	scope = scope_of(caller, "SSL_read");
	t = NULL;
	if (scope) {
		read = dlsym(scope, "SSL_read");
		t = TAKE(ssl_tables, ssl_count, read, (int (*)(void *, void *, int))read);
		if (t && !load(&t->read)) {
			t->read_ex = dlsym(scope, "SSL_read_ex"); /* from OpenSSL 1.1.1 on */
			t->write = dlsym(scope, "SSL_write");
			t->write_ex = dlsym(scope, "SSL_write_ex");
			t->shutdown = dlsym(scope, "SSL_shutdown");
			t->release = dlsym(scope, "SSL_free");
			t->get_fd = dlsym(scope, "SSL_get_fd");
			store_release(&t->read, (int (*)(void *, void *, int))read);
		}
	}
	if (!t || !t->write || !t->shutdown || !t->release) {
		count_unresolved();
		t = NULL;
	} else {
		remember(&ssl_callers, caller, t);
	}
	errno = error;
	return t;
}
