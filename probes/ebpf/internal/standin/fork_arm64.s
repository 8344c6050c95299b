// The stand-in's body on arm64: the fork, the walk down its list of steps, and the
// functions that probes are put on. What runs after the fork obeys one rule: it
// touches registers, the list and the stack, and never returns to Go.

#include "go_asm.h"
#include "textflag.h"

#define SYS_exit_group 94
#define SYS_rt_sigprocmask 135
#define SYS_clone 220
#define SIG_SETMASK 2

// func fork(steps *step, all, old *uint64) (pid int64)
TEXT ·fork(SB), NOSPLIT, $0-32
	MOVD	steps+0(FP), R19

	// No signal reaches the child: its handlers are Go's, and Go is not there. A
	// fault kills it all the same, the kernel forces its default action then.
	MOVD	$SYS_rt_sigprocmask, R8
	MOVD	$SIG_SETMASK, R0
	MOVD	all+8(FP), R1
	MOVD	old+16(FP), R2
	MOVD	$8, R3
	SVC
	MOVD	R0, R20
	TBNZ	$63, R0, done

	// clone(0, 0, 0, 0, 0) is fork, except that no SIGCHLD comes at the end: nobody
	// who waits for other children is woken, and SIGCHLD ignored reaps nothing.
	MOVD	$SYS_clone, R8
	MOVD	ZR, R0
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	SVC
	CBZ	R0, child

	MOVD	R0, R20
	MOVD	$SYS_rt_sigprocmask, R8
	MOVD	$SIG_SETMASK, R0
	MOVD	old+16(FP), R1
	MOVD	ZR, R2
	MOVD	$8, R3
	SVC
done:
	MOVD	R20, pid+24(FP)
	RET

child:
	MOVD	ZR, R20 // steps that are done
next:
	MOVD	(step_args+0)(R19), R0
	MOVD	(step_args+8)(R19), R1
	MOVD	(step_args+16)(R19), R2
	MOVD	step_function(R19), R9
	CBNZ	R9, function
	MOVD	step_number(R19), R8
	SVC
	MOVD	step_optional(R19), R9
	ADD	$1, R20
	ADD	$step__size, R19
	TBZ	$63, R0, next
	CBNZ	R9, next

	// The call failed: the exit status says which.
	MOVD	$SYS_exit_group, R8
	MOVD	R20, R0
	SVC
	UNDEF

function:
	CALL	(R9)
	ADD	$1, R20
	ADD	$step__size, R19
	B	next

// func functions(f *[functionCount]uintptr)
TEXT ·functions(SB), NOSPLIT, $0-8
	MOVD	f+0(FP), R0
	MOVD	$·messageSend(SB), R1
	MOVD	R1, (const_messageSend*8)(R0)
	MOVD	$·messageReceive(SB), R1
	MOVD	R1, (const_messageReceive*8)(R0)
	MOVD	$·socketOpen(SB), R1
	MOVD	R1, (const_socketOpen*8)(R0)
	MOVD	$·socketClose(SB), R1
	MOVD	R1, (const_socketClose*8)(R0)
	RET

// int zmq_msg_send(zmq_msg_t *message, void *socket, int flags)
TEXT ·messageSend(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	ZR, R0
	RET

// int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags)
TEXT ·messageReceive(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	ZR, R0
	RET

// void *zmq_socket(void *context, int type): the context, so that the list of steps
// can name the socket before it is made.
TEXT ·socketOpen(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	R0, R0
	RET

// int zmq_close(void *socket)
TEXT ·socketClose(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	ZR, R0
	RET
