// Package preload watches one workload without any privilege and delivers what it sees as
// capture.Events, the same as package ebpf: a small library, preloaded into the
// workload's processes, copies what they send and receive into shared memory, and this
// package reads it there.
//
// # Who does what
//
//	supervisor   Create makes the ring, Unpack puts the library where it can be
//	             loaded, Ring.Inject gives the workload the environment by which its
//	             dynamic loader finds both
//	workload     shim/*.c, the library. Until an agent has activated the ring it
//	             costs one load a call
//	agent        Open activates the ring, Source.Run reads it
//
// shim/ring.h is the protocol between the last two, layout.go its Go form.
//
// # Needs
//
// Linux, a dynamic loader that heeds LD_PRELOAD (glibc ≥ 2.17, musl), and processes that
// may open the ring: the same user as the supervisor, and the same /proc. Not seen, and
// said where it is noticed: statically linked programs, set-user-ID programs (the
// loader ignores LD_PRELOAD for them), programs that were given another environment by
// one of those, other users, other mount or PID namespaces.
//
// # The workload is not trusted
//
// All of it may write to the ring. A wrong number there costs events, which are counted,
// and nothing else: what is read from shared memory is copied before it is checked, and
// is checked before it is used; an event's bytes may change while they are looked at,
// which their readers, being decoders of foreign bytes, must bear anyway.
package preload
