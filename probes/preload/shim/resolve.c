/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the functions that we stand in front of.
 *
 * What a caller would have got without us is, first, what the global scope has behind
 * us: RTLD_NEXT. CPython loads extensions with a scope of their own (RTLD_LOCAL), and
 * with it the libzmq that pyzmq brings: RTLD_NEXT does not see that. dlsym on the
 * caller's own object searches the object and what it depends on, which does.
 *
 * Two libzmq may be in one process, and a socket of one must never reach the other. So
 * what is found is kept by the caller's object, which is opened once more, so that it
 * stays, and for speed by return address. Entries are only ever added.
 */
#include <dlfcn.h>

#include "shim.h"
#include "table.h"

/* glibc alone has versions; musl has no such function. */
extern void *dlvsym(void *, const char *, const char *) __attribute__((weak));

/* dlsym, which leaves no message for the program's next dlerror. */
static void *symbol(void *handle, const char *name)
{
	void *f = dlsym(handle, name);

	if (!f)
		(void)dlerror();
	return f;
}

static void *symbol_of_version(void *handle, const char *name, const char *version)
{
	void *f = dlvsym(handle, name, version);

	if (!f)
		(void)dlerror();
	return f;
}

void *next_function(const char *name)
{
	int error = errno;
	void *f;

	start();
	f = symbol(RTLD_NEXT, name);
	errno = error;
	return f;
}

#define CALLER_BITS 9  /* return addresses; pyzmq and Python's ssl have some ten calls */
#define OBJECTS	    64 /* that call such functions */
#define LIBRARIES   16 /* builds of a library in one process */

struct caller {
	uint64_t address;
	const void *functions;
};

struct object {
	uintptr_t base; /* where it is loaded */
	const void *functions;
};

/* Callers of one library: ZeroMQ, OpenSSL. */
struct callers {
	struct caller by_address[1U << CALLER_BITS];
	struct object objects[OBJECTS];
};

static const void *recall(struct callers *c, void *caller)
{
	struct caller *at = place_of(c->by_address, sizeof(*at), CALLER_BITS, caller, 0);

	return at ? load_acquire(&at->functions) : NULL;
}

static void remember(struct callers *c, void *caller, const void *functions)
{
	struct caller *at = place_of(c->by_address, sizeof(*at), CALLER_BITS, caller, 1);

	if (at)
		store_release(&at->functions, functions);
}

static struct object *object_of(struct callers *c, void *base)
{
	unsigned i;

	for (i = 0; i < OBJECTS; i++) {
		uintptr_t none = 0;

		if (cas(&c->objects[i].base, &none, (uintptr_t)base) || none == (uintptr_t)base)
			return &c->objects[i];
	}
	return NULL;
}

/* Whether a function is one of ours: the main program's scope begins with us. */
static int is_ours(void *function)
{
	Dl_info own, of;

	return dladdr((void *)start, &own) && dladdr(function, &of) && own.dli_fbase == of.dli_fbase;
}

/*
 * A handle on which symbol() finds what the caller would have found under name; NULL if
 * there is none. scope is the caller's own.
 *
 * A reference has the version of the library that its object was linked with, and the
 * global scope's function counts only if it has the same: the wrong one of libssl.so.1.1
 * and libssl.so.3 would be given the other's objects.
 */
static void *scope_of(void *scope, const char *name, const char *const *versions)
{
	void *global = symbol(RTLD_NEXT, name);
	void *local = scope ? symbol(scope, name) : NULL;

	if (local && is_ours(local))
		local = NULL;
	if (!global || !local || global == local)
		return global ? RTLD_NEXT : local ? scope : NULL;
	for (; dlvsym && versions && *versions; versions++)
		if (symbol_of_version(scope, name, *versions) == local)
			return symbol_of_version(RTLD_NEXT, name, *versions) == global ? RTLD_NEXT : scope;
	return RTLD_NEXT;
}

/* What an object calls, as far as it was found out; find does that. */
static const void *functions_of(struct callers *c, void *caller, const void *(*find)(void *scope))
{
	const void *functions = recall(c, caller);
	struct object *o;
	int error = errno;
	Dl_info info;
	void *scope;

	if (likely(functions))
		return functions;
	start();
	if (!dladdr(caller, &info) || !info.dli_fname) {
		/* No object's code, so that no scope but the global one is its. */
		functions = find(NULL);
		errno = error;
		return functions;
	}
	o = object_of(c, info.dli_fbase);
	if (o)
		functions = load_acquire(&o->functions);
	if (!functions) {
		/* Never closed: the addresses must stay its. The main program may be known
		 * by a name that it cannot be opened by, but does not go either. */
		scope = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (!scope)
			(void)dlerror();
		functions = find(scope);
		if (o && functions)
			store_release(&o->functions, functions);
	}
	if (o && functions)
		remember(c, caller, functions);
	else if (!functions && ring)
		add(&ring->unresolved, 1);
	errno = error;
	return functions;
}

/* Takes a place of a table of libraries, or the one that has the same first function. */
#define TAKE(table, field, value)                                                                \
	({                                                                                       \
		__typeof__(&(table)[0]) t_ = NULL;                                               \
		unsigned i_;                                                                     \
		for (i_ = 0; i_ < LIBRARIES && !t_; i_++) {                                      \
			__typeof__((table)[0].field) none_ = NULL;                               \
			if (cas(&(table)[i_].field, &none_, value) || none_ == (value))          \
				t_ = &(table)[i_];                                               \
		}                                                                                \
		t_;                                                                              \
	})

static struct callers zmq_callers, ssl_callers;
static struct zmq_functions zmq_tables[LIBRARIES];
static struct ssl_functions ssl_tables[LIBRARIES];

/* Two threads may fill one table: with the same. */
#define FILL(t, scope, field, name) store(&(t)->field, (__typeof__((t)->field))symbol(scope, name))
#define HAS(t, field)		    (load(&(t)->field) != NULL)

static const void *find_zmq(void *own)
{
	void *scope = scope_of(own, "zmq_msg_send", NULL);
	struct zmq_functions *t;

	if (!scope)
		return NULL;
	t = TAKE(zmq_tables, send, (int (*)(void *, void *, int))symbol(scope, "zmq_msg_send"));
	if (!t)
		return NULL;
	FILL(t, scope, recv, "zmq_msg_recv");
	FILL(t, scope, close, "zmq_close");
	FILL(t, scope, getsockopt, "zmq_getsockopt");
	FILL(t, scope, data, "zmq_msg_data");
	FILL(t, scope, size, "zmq_msg_size");
	FILL(t, scope, more, "zmq_msg_more");
	return HAS(t, recv) && HAS(t, close) && HAS(t, getsockopt) && HAS(t, data) && HAS(t, size) && HAS(t, more) ? t : NULL;
}

const struct zmq_functions *zmq_of(void *caller)
{
	return functions_of(&zmq_callers, caller, find_zmq);
}

static const void *find_ssl(void *own)
{
	/* Of OpenSSL 3 and 4, 1.1, and the builds of 1.0 of Debian, Red Hat. */
	static const char *const versions[] = {
		"OPENSSL_3.0.0", "OPENSSL_4.0.0", "OPENSSL_1_1_0", "OPENSSL_1.0.0", "libssl.so.10", NULL,
	};
	void *scope = scope_of(own, "SSL_read", versions);
	struct ssl_functions *t;

	if (!scope)
		return NULL;
	t = TAKE(ssl_tables, read, (int (*)(void *, void *, int))symbol(scope, "SSL_read"));
	if (!t)
		return NULL;
	FILL(t, scope, read_ex, "SSL_read_ex"); /* from OpenSSL 1.1.1 on */
	FILL(t, scope, write, "SSL_write");
	FILL(t, scope, write_ex, "SSL_write_ex");
	FILL(t, scope, shutdown, "SSL_shutdown");
	FILL(t, scope, release, "SSL_free");
	FILL(t, scope, get_fd, "SSL_get_fd");
	FILL(t, scope, get_shutdown, "SSL_get_shutdown");
	return HAS(t, write) && HAS(t, shutdown) && HAS(t, release) ? t : NULL;
}

const struct ssl_functions *ssl_of(void *caller)
{
	return functions_of(&ssl_callers, caller, find_ssl);
}
