/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The programs on system calls, which lead to http.h. There are three ways, best
 * first:
 *
 *  - done_flat and done_vector, on the named tracepoints of the calls' exits,
 *    read the arguments from the registers that the call was entered with
 *    (bpf_task_pt_regs, Linux 5.15). One short program a call, and none on the
 *    calls that the workload's servers do not make.
 *  - enter_short, enter_long and leave_X, on entries and exits: the entry notes the arguments.
 *    Twice the cost.
 *  - raw_enter and raw_exit, where tracefs cannot be had: every system call of
 *    the host passes them.
 */
#ifndef TOKENSCOPE_SYSCALLS_H
#define TOKENSCOPE_SYSCALLS_H

#include "http.h"

#define RECEIVE_FLAGS (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE) /* not, or not only, the stream */

static __always_inline struct process *current_member(void)
{
	return member(bpf_get_current_pid_tgid() >> 32);
}

/*
 * Makes a call of a system call's number and arguments. Returns 0 for one that
 * does not move bytes of a stream.
 */
static __always_inline int call_of(struct call *c, __u64 number, __u64 a0, __u64 a1, __u64 a2,
				   __u64 a3)
{
	c->fd = a0;
	c->base = a1;
	c->length = a2;
	switch (number) {
	case SYS_READ:
		c->op = OP_READ;
		return 1;
	case SYS_WRITE:
		c->op = OP_WRITE;
		return 1;
	case SYS_RECVFROM:
		c->op = OP_READ;
		return !(a3 & RECEIVE_FLAGS);
	case SYS_SENDTO:
		c->op = OP_WRITE;
		return !(a3 & MSG_OOB);
	case SYS_READV:
		c->op = OP_READV;
		return 1;
	case SYS_WRITEV:
		c->op = OP_WRITEV;
		return 1;
	case SYS_RECVMSG:
		c->op = OP_READV;
		return !(a2 & RECEIVE_FLAGS) && open_message(c, a1);
	case SYS_SENDMSG:
		c->op = OP_WRITEV;
		return !(a2 & MSG_OOB) && open_message(c, a1);
	}
	return 0;
}

#define CALL_OF(c, number, regs, read)                                             \
	call_of(c, number, read(regs, SYSCALL_ARG1_FIELD), read(regs, ARG2_FIELD), \
		read(regs, ARG3_FIELD), read(regs, SYSCALL_ARG4_FIELD))

/* On the exits of read, write, recvfrom and sendto. */
SEC("tracepoint/syscalls/sys_exit_read")
int done_flat(struct sys_exit *ctx)
{
	struct process *p = current_member();
	struct call c = {};

	if (p &&
	    CALL_OF(&c, ctx->number, bpf_task_pt_regs(bpf_get_current_task_btf()), trusted_read))
		returns_flat(&c, ctx->ret, p);
	return 0;
}

/* On the exits of readv, writev, recvmsg and sendmsg. */
SEC("tracepoint/syscalls/sys_exit_readv")
int done_vector(struct sys_exit *ctx)
{
	struct process *p = current_member();
	struct call c = {};

	if (p &&
	    CALL_OF(&c, ctx->number, bpf_task_pt_regs(bpf_get_current_task_btf()), trusted_read))
		returns_vector(&c, ctx->ret, p);
	return 0;
}

/* On the exits of accept and accept4. */
SEC("tracepoint/syscalls/sys_exit_accept4")
int leave_accept(struct sys_exit *ctx)
{
	struct process *p = current_member();

	return p ? accepted(ctx->ret, p) : 0;
}

SEC("tracepoint/syscalls/sys_enter_close")
int enter_close(struct sys_enter *ctx)
{
	struct process *p = current_member();

	return p ? closing(ctx->args[0], p) : 0;
}

SEC("tracepoint/syscalls/sys_enter_shutdown")
int enter_shutdown(struct sys_enter *ctx)
{
	struct process *p = current_member();

	return p ? shutting_down(ctx->args[0], ctx->args[1], p) : 0;
}

/* Notes a call at its entry, if it is one on a connection or may become one. */
static __always_inline int note(__u64 number, __u64 a0, __u64 a1, __u64 a2, __u64 a3)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct fd_key key = { .tgid = thread >> 32, .fd = a0 };
	struct connection *conn;
	struct call c = {};

	if (!member(key.tgid) || !call_of(&c, number, a0, a1, a2, a3))
		return 0;
	conn = bpf_map_lookup_elem(&connections, &key);
	if (conn)
		c.number = conn->number;
	else if (!is_read(c.op) || bpf_map_lookup_elem(&ignored, &key))
		return 0;
	if (bpf_map_update_elem(&calls, &thread, &c, BPF_ANY))
		count(table_full);
	return 0;
}

/* The kernel refuses to attach a program that looks at more arguments than the
 * call has (kernel/events/core.c, perf_event_set_bpf_prog): two programs. */

/* On the entries of read, write, readv, writev, recvmsg and sendmsg. */
SEC("tracepoint/syscalls/sys_enter_read")
int enter_short(struct sys_enter *ctx)
{
	return note(ctx->number, ctx->args[0], ctx->args[1], ctx->args[2], 0);
}

/* On the entries of recvfrom and sendto. */
SEC("tracepoint/syscalls/sys_enter_recvfrom")
int enter_long(struct sys_enter *ctx)
{
	return note(ctx->number, ctx->args[0], ctx->args[1], ctx->args[2], ctx->args[3]);
}

/* The noted call of this thread, which is taken out. */
static __always_inline int noted(struct call *out)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct call *c = bpf_map_lookup_elem(&calls, &thread);

	if (!c)
		return 0;
	*out = *c;
	bpf_map_delete_elem(&calls, &thread);
	return 1;
}

SEC("tracepoint/syscalls/sys_exit_read")
int leave_flat(struct sys_exit *ctx)
{
	struct process *p = current_member();
	struct call c = {};

	if (p && noted(&c))
		returns_flat(&c, ctx->ret, p);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_readv")
int leave_vector(struct sys_exit *ctx)
{
	struct process *p = current_member();
	struct call c = {};

	if (p && noted(&c))
		returns_vector(&c, ctx->ret, p);
	return 0;
}

SEC("raw_tracepoint/sys_enter")
int raw_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx->args[0];
	struct process *p = current_member();

	if (!p)
		return 0;
	switch (ctx->args[1]) {
	case SYS_CLOSE:
		return closing(kernel_read(regs, SYSCALL_ARG1_FIELD), p);
	case SYS_SHUTDOWN:
		return shutting_down(kernel_read(regs, SYSCALL_ARG1_FIELD),
				     kernel_read(regs, ARG2_FIELD), p);
	}
	return 0;
}

SEC("raw_tracepoint/sys_exit")
int raw_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx->args[0];
	struct process *p = current_member();
	struct call c = {};
	__u64 number;

	if (!p)
		return 0;
	number = kernel_read(regs, SYSCALL_FIELD);
	if (number == SYS_ACCEPT || number == SYS_ACCEPT4)
		return accepted(ctx->args[1], p);
	if (!CALL_OF(&c, number, regs, kernel_read))
		return 0;
	if (is_vector(c.op))
		returns_vector(&c, ctx->args[1], p);
	else
		returns_flat(&c, ctx->args[1], p);
	return 0;
}

#endif
