#include "textflag.h"

// The signal handler of origin.go, in the C calling convention: DI the signal number,
// SI the siginfo (si_code at offset 8, si_pid at 16), DX the context. All three are left
// as they are for the Go runtime's handler. 65 is numSignals.
TEXT ·originHandler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVL	DI, AX
	CMPQ	AX, $65
	JAE	chain
	MOVL	8(SI), CX
	SHLQ	$32, CX
	MOVL	16(SI), R8
	ORQ	R8, CX
	BTSQ	$31, CX // originSeen
	LEAQ	·origins(SB), R9
	MOVQ	CX, (R9)(AX*8)
chain:
	MOVQ	·goHandler(SB), AX
	JMP	AX

// func originHandlerAddr() uintptr
TEXT ·originHandlerAddr(SB), NOSPLIT, $0-8
	MOVQ	$·originHandler(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
