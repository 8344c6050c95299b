/* SPDX-License-Identifier: Apache-2.0 */
/* The few things that are done with text. */
#ifndef TOKENSCOPE_TEXT_H
#define TOKENSCOPE_TEXT_H

#include <stddef.h>

static inline size_t text_length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

/* What follows prefix in s; NULL if s does not begin with it. */
static inline const char *text_after(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return NULL;
	return s;
}

/* What follows the last slash. */
static inline const char *text_base(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

#endif
