/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which processes belong to the workload: every process that a child of the
 * root ever made, to any depth, in whatever PID namespace, re-parented or not.
 * Linux 5.8 (iterator over tasks); tables are keyed by the host's tgid.
 */
#ifndef TOKENSCOPE_PROCESS_H
#define TOKENSCOPE_PROCESS_H

#include "emit.h"

/* How far up a chain of parents is followed. Real trees have a dozen levels. */
#define MAX_DEPTH 64

SEC("raw_tracepoint/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	/* TP_PROTO(struct task_struct *parent, struct task_struct *child): the
	 * parent is the current thread, also with CLONE_PARENT. */
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *parent = bpf_map_lookup_elem(&processes, &tgid);
	struct process p = {};
	struct event e = {};
	__u32 child_tgid;

	if (!parent || parent->role == ROLE_EXCLUDED)
		return 0;
	child_tgid = kernel_read(child, tgid);
	if (child_tgid == tgid)
		return 0; /* a thread */

	p.pid = number_of(child);
	p.role = ROLE_MEMBER;
	if (bpf_map_update_elem(&processes, &child_tgid, &p, BPF_ANY)) {
		count(table_full);
		return 0;
	}
	describe(&e, KIND_FORK, &p);
	e.tid = p.pid;
	e.conn = parent->pid;
	emit(&e);
	return 0;
}

SEC("raw_tracepoint/sched_process_exec")
int process_exec(void *ctx)
{
	struct process *p = member(bpf_get_current_pid_tgid() >> 32);
	struct event e = {};

	if (!p)
		return 0;
	p->execs++;
	describe(&e, KIND_EXEC, p);
	emit(&e);
	return 0;
}

SEC("raw_tracepoint/sched_process_exit")
int process_exit(void *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct process *p = member(tgid);
	struct signal_struct *signal;
	struct event e = {};

	if (!p)
		return 0;
	/* do_exit() has counted this thread off before it comes here: 0 means that
	 * none is left. Two threads that end at once may both see it; the second
	 * finds no process any more. */
	signal = kernel_read(task, signal);
	if (!signal || kernel_read(signal, live.counter) != 0)
		return 0;
	describe(&e, KIND_EXIT, p);
	e.conn = tgid; /* by which the agent cleans the tables */
	bpf_map_delete_elem(&processes, &tgid);
	emit(&e);
	return 0;
}

/* Registers the root and the agent. The caller is the agent's thread that reads
 * the iterator. */
static __always_inline void register_agent(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 own = bpf_get_current_pid_tgid() >> 32;
	struct pid *pid = kernel_read(task, thread_pid);
	struct process p = {};
	__u32 tgid = own;

	agent_level = kernel_read(pid, level);
	task = kernel_read(task, group_leader);
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_DEPTH; i++) {
		if (root_pid ? number_of(task) == root_pid : i == 1) {
			p.pid = number_of(task);
			p.role = ROLE_ROOT;
			bpf_map_update_elem(&processes, &tgid, &p, BPF_ANY);
			root_found = 1;
			break;
		}
		task = kernel_read(task, real_parent);
		if (!task)
			break;
		task = kernel_read(task, group_leader);
		if (!task)
			break;
		tgid = kernel_read(task, tgid);
		if (tgid == 0)
			break; /* the idle task is its own parent */
	}
	if (tgid != own) {
		p.pid = 0;
		p.role = ROLE_EXCLUDED;
		bpf_map_update_elem(&processes, &own, &p, BPF_ANY);
	}
}

/*
 * Runs once for each task of the agent's PID namespace, in the agent's thread:
 * registers the agent, then adopts what descends from the root and was there
 * before the programs above. Run again until it finds nothing new, it also gets
 * those that were forked meanwhile by a process not yet adopted.
 */
SEC("iter/task")
int adopt(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *up;
	struct signal_struct *signal;
	struct process *found = NULL;
	struct process p = {};
	struct adopted out = {};
	__u32 tgid;

	if (!task)
		return 0;
	if (!root_found)
		register_agent();

	tgid = kernel_read(task, tgid);
	if ((__u32)kernel_read(task, pid) != tgid || bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	signal = kernel_read(task, signal);
	if (!signal || kernel_read(signal, live.counter) == 0)
		return 0; /* dead, not yet reaped: no exit will be seen */

	up = task;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_DEPTH; i++) {
		__u32 up_tgid;

		up = kernel_read(up, real_parent);
		if (!up)
			return 0;
		up_tgid = kernel_read(up, tgid);
		if (up_tgid == 0)
			return 0;
		found = bpf_map_lookup_elem(&processes, &up_tgid);
		if (found)
			break;
	}
	if (!found || found->role == ROLE_EXCLUDED)
		return 0;

	p.pid = number_of(task);
	p.role = ROLE_MEMBER;
	if (bpf_map_update_elem(&processes, &tgid, &p, BPF_NOEXIST)) {
		count(table_full);
		return 0;
	}
	up = kernel_read(task, real_parent);
	out.pid = p.pid;
	out.parent = number_of(kernel_read(up, group_leader));
	bpf_probe_read_kernel(out.comm, sizeof(out.comm), &task->comm);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

#endif
