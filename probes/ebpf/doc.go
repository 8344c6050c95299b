// Package ebpf watches one workload from the kernel and delivers what it sees as
// capture.Events: the processes of the tree, the ZeroMQ frames that they send
// and receive, and the HTTP/1 bytes of their servers. The workload is neither
// stopped nor changed, and nothing in it wakes the agent: a ring is emptied by
// polling.
//
// The programs in bpf/ do the watching; this package loads them, attaches them
// as processes and libraries appear, and decodes the ring. It knows nothing of
// what the bytes mean.
//
// # Needs
//
// Linux 5.8 with BTF, and CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, or
// CAP_SYS_ADMIN (needed anyway where kernel.perf_event_paranoid is above 2).
// Each feature stands alone: see [Source.Features].
//
// # How much is captured
//
// A ZeroMQ frame whole, up to 256 KiB; of longer ones, and of longer pieces of HTTP,
// the first 16 KiB and the last 4 KiB, with the true length. All three can be set:
// see [Options].
//
// # Times and order
//
// Events come in the order in which they got into the ring, which two CPUs may
// enter at once; within one connection and direction, order and numbers are exact.
// The time of a read or write is that of its return.
package ebpf
