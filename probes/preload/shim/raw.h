/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without libc: they set no errno, are no cancellation points, and do
 * not come back to our own wrappers.
 */
#ifndef TOKENSCOPE_RAW_H
#define TOKENSCOPE_RAW_H

#include <sys/syscall.h>

static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "no such architecture"
#endif
}

#define raw3(n, a, b, c) raw(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)

#endif
