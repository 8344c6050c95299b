/* SPDX-License-Identifier: Apache-2.0 */
/* The plaintext of TLS, by OpenSSL's interface; a connection is its SSL object. */
#include "shim.h"

PUBLIC int SSL_read(void *ssl, void *data, int n)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int got;

	if (unlikely(!f))
		return -1;
	got = f->read(ssl, data, n);
	if (got > 0)
		tls_moved(ssl, got, data, 0, f->get_fd);
	return got;
}

PUBLIC int SSL_read_ex(void *ssl, void *data, size_t n, size_t *got)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int ok;

	if (unlikely(!f || !f->read_ex))
		return 0;
	ok = f->read_ex(ssl, data, n, got);
	if (ok > 0)
		tls_moved(ssl, (ssize_t)*got, data, 0, f->get_fd);
	return ok;
}

PUBLIC int SSL_write(void *ssl, const void *data, int n)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int sent;

	if (unlikely(!f))
		return -1;
	sent = f->write(ssl, data, n);
	if (sent > 0)
		tls_moved(ssl, sent, data, 1, f->get_fd);
	return sent;
}

PUBLIC int SSL_write_ex(void *ssl, const void *data, size_t n, size_t *sent)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));
	int ok;

	if (unlikely(!f || !f->write_ex))
		return 0;
	ok = f->write_ex(ssl, data, n, sent);
	if (ok > 0)
		tls_moved(ssl, (ssize_t)*sent, data, 1, f->get_fd);
	return ok;
}

PUBLIC int SSL_shutdown(void *ssl)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));

	if (unlikely(!f))
		return -1;
	tls_closing(ssl, 0);
	return f->shutdown(ssl);
}

PUBLIC void SSL_free(void *ssl)
{
	const struct ssl_functions *f = ssl_of(__builtin_return_address(0));

	tls_closing(ssl, 1);
	if (likely(f != NULL))
		f->release(ssl);
}
