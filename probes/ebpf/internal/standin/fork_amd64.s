// The stand-in's body on amd64: the fork, the walk down its list of steps, and the
// functions that probes are put on. What runs after the fork obeys one rule: it
// touches registers, the list and the stack, and never returns to Go.

#include "go_asm.h"
#include "textflag.h"

#define SYS_rt_sigprocmask 14
#define SYS_clone 56
#define SYS_exit_group 231
#define SIG_SETMASK 2

// func fork(steps *step, all, old *uint64) (pid int64)
TEXT ·fork(SB), NOSPLIT, $0-32
	MOVQ	steps+0(FP), R12

	// No signal reaches the child: its handlers are Go's, and Go is not there. A
	// fault kills it all the same, the kernel forces its default action then.
	MOVQ	$SYS_rt_sigprocmask, AX
	MOVQ	$SIG_SETMASK, DI
	MOVQ	all+8(FP), SI
	MOVQ	old+16(FP), DX
	MOVQ	$8, R10
	SYSCALL
	MOVQ	AX, R13
	TESTQ	AX, AX
	JS	done

	// clone(0, 0, 0, 0, 0) is fork, except that no SIGCHLD comes at the end: nobody
	// who waits for other children is woken, and SIGCHLD ignored reaps nothing.
	MOVQ	$SYS_clone, AX
	XORL	DI, DI
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JZ	child

	MOVQ	AX, R13
	MOVQ	$SYS_rt_sigprocmask, AX
	MOVQ	$SIG_SETMASK, DI
	MOVQ	old+16(FP), SI
	XORL	DX, DX
	MOVQ	$8, R10
	SYSCALL
done:
	MOVQ	R13, pid+24(FP)
	RET

child:
	XORL	R13, R13 // steps that are done
next:
	MOVQ	(step_args+0)(R12), DI
	MOVQ	(step_args+8)(R12), SI
	MOVQ	(step_args+16)(R12), DX
	MOVQ	step_function(R12), AX
	TESTQ	AX, AX
	JNZ	function
	MOVQ	step_number(R12), AX
	SYSCALL
	MOVQ	step_optional(R12), BX
	INCQ	R13
	ADDQ	$step__size, R12
	TESTQ	AX, AX
	JNS	next
	TESTQ	BX, BX
	JNZ	next

	// The call failed: the exit status says which.
	MOVQ	$SYS_exit_group, AX
	MOVQ	R13, DI
	SYSCALL
	UNDEF

function:
	CALL	AX
	INCQ	R13
	ADDQ	$step__size, R12
	JMP	next

// func functions(f *[functionCount]uintptr)
TEXT ·functions(SB), NOSPLIT, $0-8
	MOVQ	f+0(FP), AX
	LEAQ	·messageSend(SB), BX
	MOVQ	BX, (const_messageSend*8)(AX)
	LEAQ	·messageReceive(SB), BX
	MOVQ	BX, (const_messageReceive*8)(AX)
	LEAQ	·socketOpen(SB), BX
	MOVQ	BX, (const_socketOpen*8)(AX)
	LEAQ	·socketClose(SB), BX
	MOVQ	BX, (const_socketClose*8)(AX)
	RET

// Each begins with the instruction that functions of libraries begin with.

// int zmq_msg_send(zmq_msg_t *message, void *socket, int flags)
TEXT ·messageSend(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ	BP
	XORL	AX, AX
	POPQ	BP
	RET

// int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags)
TEXT ·messageReceive(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ	BP
	XORL	AX, AX
	POPQ	BP
	RET

// void *zmq_socket(void *context, int type): the context, so that the list of steps
// can name the socket before it is made.
TEXT ·socketOpen(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ	BP
	MOVQ	DI, AX
	POPQ	BP
	RET

// int zmq_close(void *socket)
TEXT ·socketClose(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ	BP
	XORL	AX, AX
	POPQ	BP
	RET
