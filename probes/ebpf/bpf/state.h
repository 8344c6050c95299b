/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Settings, tables and counters that the programs share. Every table is
 * bounded and allocated when it is made, so that the memory which the agent
 * costs is known from the start and no program ever waits for memory.
 *
 * Programs may run at once on several CPUs, and uprobe programs may be
 * preempted: there is no per-CPU scratch memory. Counters of one connection and
 * direction, or of one ZeroMQ socket, are plain: a stream is read by one thread
 * at a time or it means nothing, and ZeroMQ forbids sharing a socket.
 */
#ifndef TOKENSCOPE_STATE_H
#define TOKENSCOPE_STATE_H

#include "event.h"
#include "kernel.h"

/*
 * Set before loading. The verifier knows their values, because the section is
 * frozen (Linux 5.5 and later), and takes them as constant sizes.
 */
const volatile __u32 head_bytes = 16384; /* captured from the front of a longer piece */
const volatile __u32 frame_bytes = 262144; /* a ZeroMQ frame is captured whole up to here */
const volatile __u32 tail_bytes = 4096;	 /* captured from its end */
const volatile __u32 root_pid = 0;	 /* whose children are watched; 0: the agent's parent */
const volatile __u32 iovec_limit = 32;	 /* buffers of one call that are looked at */

/* Set by the iterator when it registers the agent. */
__u32 agent_level; /* depth of the agent's PID namespace */
__u32 root_found;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

enum process_role {
	ROLE_MEMBER = 1,   /* belongs to the workload */
	ROLE_ROOT = 2,	   /* its children belong to the workload, itself does not */
	ROLE_EXCLUDED = 3, /* the agent: neither it nor its children */
};

struct process {
	__u32 pid; /* in the agent's PID namespace */
	__u32 role;
	__u32 execs; /* programs that it has executed, so that what an old one left is known */
	__u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32); /* tgid, the host's numbering */
	__type(value, struct process);
} processes SEC(".maps");

#define count(field)                                                          \
	do {                                                                  \
		__u32 zero__ = 0;                                             \
		struct counters *c__ = bpf_map_lookup_elem(&counts, &zero__); \
		if (c__)                                                      \
			__sync_fetch_and_add(&c__->field, 1);                 \
	} while (0)

/* The current process if it belongs to the workload. */
static __always_inline struct process *member(__u32 tgid)
{
	struct process *p = bpf_map_lookup_elem(&processes, &tgid);

	return p && p->role == ROLE_MEMBER ? p : NULL;
}

/* The number of a task, seen from the agent's PID namespace; 0 where it has none. */
static __always_inline __u32 number_of(struct task_struct *task)
{
	struct pid *pid = kernel_read(task, thread_pid);
	__u32 level = agent_level, nr = 0;

	if (!pid || kernel_read(pid, level) < level)
		return 0;
	/* struct upid has had this size since PID namespaces exist: the index may vary. */
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (void *)&pid->numbers[0].nr + (__u64)level * sizeof(struct upid));
	return nr;
}

/* A number for a new connection or socket: two of one process that were made in
 * the same nanosecond have different low bits in their descriptor or address. */
static __always_inline __u64 new_number(__u64 low_bits)
{
	return bpf_ktime_get_ns() << 10 | (low_bits & 1023);
}

#endif
