/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of objects that are known by their address: ZeroMQ sockets, TLS objects. Each
 * place begins with its key. A place that was given back is used again, but is never
 * empty again, so that a search may end at the first place that nobody ever had.
 */
#ifndef TOKENSCOPE_TABLE_H
#define TOKENSCOPE_TABLE_H

#include "shim.h"

enum {
	KEY_EMPTY = 0,
	KEY_FREED = 1, /* no object has this address */
};

/* How far from its own an object's place may be. */
#define PROBES 32

/* The place of an object in a table of 1 << bits places of each bytes; NULL where it has none. */
static inline void *place_of(void *table, size_t each, unsigned bits, const void *object, int make)
{
	uint64_t key = (uint64_t)(uintptr_t)object;
	/* Fibonacci hashing: addresses of one kind of object differ by a multiple of its size. */
	uint64_t first = key * 0x9e3779b97f4a7c15ULL >> (64 - bits);
	int tries;

	if (key <= KEY_FREED)
		return NULL;
	for (tries = 0; tries < 4; tries++) {
		uint64_t *fit = NULL, was = KEY_EMPTY;
		unsigned n;

		for (n = 0; n < PROBES; n++) {
			uint64_t *at = (uint64_t *)((char *)table + ((first + n) & ((1U << bits) - 1)) * each);
			uint64_t k = load_acquire(at);

			if (k == key)
				return at;
			if (k <= KEY_FREED && !fit) {
				fit = at;
				was = k;
			}
			if (k == KEY_EMPTY)
				break;
		}
		if (!make)
			return NULL;
		if (!fit)
			break;
		if (cas(fit, &was, key) || was == key)
			return fit;
	}
	return NULL;
}

#endif
