/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's syscall. libuv closes its sockets by syscall(SYS_close), and some builds accept
 * so. The few numbers that are followed go to C; all else goes on to the real function
 * with every register as it was, since nobody can say what a system call makes of them
 * (clone returns twice, on another stack).
 *
 * What is followed goes on to the real syscall as well, never to libc's close: another
 * preloaded library's close may be made of syscall(SYS_close).
 */
#include <sys/socket.h>

#include "raw.h"
#include "shim.h"

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN long (*tokenscope_real_syscall)(long, ...);
HIDDEN long tokenscope_syscall(long n, long a, long b, long c, long d, long e, long f);

HIDDEN void tokenscope_find_syscall(void)
{
	store(&tokenscope_real_syscall, (long (*)(long, ...))next_function("syscall"));
}

static long really(long n, long a, long b, long c, long d, long e, long f)
{
	long (*real)(long, ...) = load(&tokenscope_real_syscall);

	if (real)
		return real(n, a, b, c, d, e, f);
	n = raw(n, a, b, c, d, e, f);
	if (n < 0 && n > -4096) {
		errno = -n;
		return -1;
	}
	return n;
}

HIDDEN long tokenscope_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long result;

	switch (n) {
	case SYS_close:
		closing(a);
		break;
	case SYS_shutdown:
		shutting_down(a, b);
		break;
#ifdef SYS_dup2
	case SYS_dup2:
#endif
	case SYS_dup3:
		closing_replaced(b, a);
		break;
	}
	result = really(n, a, b, c, d, e, f);
	if (result >= 0 && (n == SYS_accept || n == SYS_accept4))
		accepted(result);
	return result;
}

#if defined(__x86_64__)
_Static_assert(SYS_close == 3 && SYS_accept == 43 && SYS_accept4 == 288 && SYS_shutdown == 48 && SYS_dup2 == 33 &&
		       SYS_dup3 == 292,
	       "the numbers below");
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $3, %rdi\n"
	"	je tokenscope_syscall\n"
	"	cmpq $43, %rdi\n"
	"	je tokenscope_syscall\n"
	"	cmpq $288, %rdi\n"
	"	je tokenscope_syscall\n"
	"	cmpq $48, %rdi\n"
	"	je tokenscope_syscall\n"
	"	cmpq $33, %rdi\n"
	"	je tokenscope_syscall\n"
	"	cmpq $292, %rdi\n"
	"	je tokenscope_syscall\n"
	"	movq tokenscope_real_syscall(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je 1f\n"
	"	jmp *%rax\n"
	"1:	pushq %rdi\n" /* before our constructor: it is not found yet */
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rdx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rcx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r8\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r9\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call tokenscope_find_syscall\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %r9\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %r8\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rcx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movq tokenscope_real_syscall(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je tokenscope_syscall\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size syscall, .-syscall\n");
#elif defined(__aarch64__)
_Static_assert(SYS_close == 57 && SYS_accept == 202 && SYS_accept4 == 242 && SYS_shutdown == 210 && SYS_dup3 == 24,
	       "the numbers below");
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	cmp x0, #57\n"
	"	b.eq 2f\n"
	"	cmp x0, #202\n"
	"	b.eq 2f\n"
	"	cmp x0, #242\n"
	"	b.eq 2f\n"
	"	cmp x0, #210\n"
	"	b.eq 2f\n"
	"	cmp x0, #24\n"
	"	b.eq 2f\n"
	"	adrp x16, tokenscope_real_syscall\n"
	"	ldr x16, [x16, :lo12:tokenscope_real_syscall]\n"
	"	cbz x16, 1f\n"
	"	br x16\n"
	"1:	stp x0, x1, [sp, #-80]!\n" /* before our constructor: it is not found yet */
	"	.cfi_adjust_cfa_offset 80\n"
	"	stp x2, x3, [sp, #16]\n"
	"	stp x4, x5, [sp, #32]\n"
	"	stp x6, x7, [sp, #48]\n"
	"	str x30, [sp, #64]\n"
	"	.cfi_offset x30, -16\n"
	"	bl tokenscope_find_syscall\n"
	"	ldr x30, [sp, #64]\n"
	"	.cfi_restore x30\n"
	"	ldp x6, x7, [sp, #48]\n"
	"	ldp x4, x5, [sp, #32]\n"
	"	ldp x2, x3, [sp, #16]\n"
	"	ldp x0, x1, [sp], #80\n"
	"	.cfi_adjust_cfa_offset -80\n"
	"	adrp x16, tokenscope_real_syscall\n"
	"	ldr x16, [x16, :lo12:tokenscope_real_syscall]\n"
	"	cbz x16, 2f\n"
	"	br x16\n"
	"2:	b tokenscope_syscall\n"
	"	.cfi_endproc\n"
	".size syscall, .-syscall\n");
#endif
