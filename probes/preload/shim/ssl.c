/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plaintext of TLS, by OpenSSL's interface; a connection is its SSL object, and
 * begins at the first SSL_read. Nothing is called on the object but what only looks
 * (SSL_get_fd, SSL_get_shutdown): OpenSSL's queue of errors is the program's.
 */
#include "shim.h"
#include "table.h"

#define SSL_RECEIVED_SHUTDOWN 2

static struct connection *of_tls(struct state *s, const void *ssl, int make)
{
	struct connection *c = place_of(s->tls, sizeof(s->tls[0]), TLS_BITS, ssl, make);

	if (c && make)
		store(&c->tls, 1);
	return c;
}

/* What a call has moved; result 0 is the end of what the other side sends. */
static void told(const struct ssl_functions *f, void *ssl, ssize_t result, const void *data, int writes)
{
	struct iovec v = { (void *)data, (size_t)result };
	struct call call = { &v, 1, 1, writes };
	struct ring_header *h = active();
	struct connection *c;
	int error = errno, fd;
	struct state *s;
	uint16_t port;

	if (!h)
		return;
	s = self();
	if (!s)
		return;
	c = of_tls(s, ssl, !writes && result > 0);
	if (!c && !writes && result > 0)
		add(&h->table_full, 1);
	if (c) {
		/* Without a descriptor (asyncio gives it memory) no port is known. */
		if (current(c, h) == UNKNOWN && !writes && load(&f->get_fd) && (fd = load(&f->get_fd)(ssl)) >= 0 && stream_socket(fd, &port))
			store(&c->port, port);
		settle(c, -1, 0, result, 0, &call);
	}
	errno = error;
}

/* A read that gave nothing: only a close_notify is surely an end. */
static void read_nothing(const struct ssl_functions *f, void *ssl)
{
	if (active() && load(&f->get_shutdown) && (load(&f->get_shutdown)(ssl) & SSL_RECEIVED_SHUTDOWN))
		told(f, ssl, 0, NULL, 0);
}

PUBLIC int SSL_read(void *ssl, void *data, int n)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int got;

	if (unlikely(!f))
		return -1;
	got = load(&f->read)(ssl, data, n);
	if (got > 0)
		told(f, ssl, got, data, 0);
	else if (n > 0 && ssl)
		read_nothing(f, ssl);
	return got;
}

PUBLIC int SSL_read_ex(void *ssl, void *data, size_t n, size_t *got)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int ok;

	if (unlikely(!f || !load(&f->read_ex)))
		return 0;
	ok = load(&f->read_ex)(ssl, data, n, got);
	if (ok > 0 && *got)
		told(f, ssl, (ssize_t)*got, data, 0);
	else if (ok <= 0 && n && ssl)
		read_nothing(f, ssl);
	return ok;
}

PUBLIC int SSL_write(void *ssl, const void *data, int n)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int sent;

	if (unlikely(!f))
		return -1;
	sent = load(&f->write)(ssl, data, n);
	if (sent > 0)
		told(f, ssl, sent, data, 1);
	return sent;
}

PUBLIC int SSL_write_ex(void *ssl, const void *data, size_t n, size_t *sent)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int ok;

	if (unlikely(!f || !load(&f->write_ex)))
		return 0;
	ok = load(&f->write_ex)(ssl, data, n, sent);
	if (ok > 0 && *sent)
		told(f, ssl, (ssize_t)*sent, data, 1);
	return ok;
}

static struct connection *known(const void *ssl)
{
	struct state *s = state;

	return s && is_self(s) ? of_tls(s, ssl, 0) : NULL;
}

PUBLIC int SSL_shutdown(void *ssl)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	struct connection *c = known(ssl);
	int error = errno;

	if (unlikely(!f))
		return -1;
	if (c)
		finish(c, FINISHED);
	errno = error;
	return load(&f->shutdown)(ssl);
}

PUBLIC void SSL_free(void *ssl)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	struct connection *c = known(ssl);
	int error = errno;

	if (c) {
		finish(c, UNKNOWN);
		store_release(&c->key, KEY_FREED);
	}
	errno = error;
	if (likely(f != NULL))
		load(&f->release)(ssl);
}
