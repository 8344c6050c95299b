#include "textflag.h"

// The signal handler of origin.go, in the C calling convention: R0 the signal number,
// R1 the siginfo (si_code at offset 8, si_pid at 16), R2 the context. All three, LR (the
// way back to the kernel) and R28 (the runtime's g) are left as they are for the Go
// runtime's handler. 65 is numSignals.
TEXT ·originHandler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVWU	R0, R9
	CMP	$65, R9
	BHS	chain
	MOVWU	8(R1), R10
	MOVWU	16(R1), R11
	ORR	R10<<32, R11, R11
	ORR	$0x80000000, R11, R11 // originSeen
	MOVD	$·origins(SB), R12
	MOVD	R11, (R12)(R9<<3)
chain:
	MOVD	·goHandler(SB), R9
	JMP	(R9)

// func originHandlerAddr() uintptr
TEXT ·originHandlerAddr(SB), NOSPLIT, $0-8
	MOVD	$·originHandler(SB), R0
	MOVD	R0, ret+0(FP)
	RET
