/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The few fields of kernel structures that are read, by name: the loader finds
 * their real places in the running kernel's BTF (CO-RE), so the order and the
 * gaps here mean nothing. Kernel memory is only ever read through
 * bpf_probe_read_kernel, which fails instead of faulting.
 */
#ifndef TOKENSCOPE_KERNEL_H
#define TOKENSCOPE_KERNEL_H

#include "bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct sock_common {
	unsigned short skc_family;
	unsigned short skc_num; /* local port, host byte order */
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	short type;
	struct sock *sk;
};

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct files_struct *files;
	char comm[16];
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Reads from->field into a value of the field's type; zero where it cannot be read. */
#define kernel_read(from, field)                                                  \
	({                                                                        \
		typeof((from)->field) value__ = 0;                                \
		bpf_probe_read_kernel(&value__, sizeof(value__), &(from)->field); \
		value__;                                                          \
	})

/* ABI layouts, which never move. */

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/*
 * Contexts of programs on syscalls:sys_enter_X and sys_exit_X: eight bytes that
 * every trace event has, then struct syscall_tp_t of kernel/trace/trace_syscalls.c.
 * The number was a long before Linux 6.7 (ba8ea72388a1, "bpf: Change syscall_nr type
 * to int in struct syscall_tp_t"). Since then the four bytes behind it are whatever
 * the kernel's stack held, now zero and now not. It is read as the first four, which
 * hold it in both.
 */
struct sys_enter {
	__u64 common;
	__u32 number;
	__u32 undefined;
	__u64 args[6];
};

struct sys_exit {
	__u64 common;
	__u32 number;
	__u32 undefined;
	__s64 ret;
};

struct iovec {
	__u64 base;
	__u64 len;
};

/* struct user_msghdr up to what is needed. */
struct message_header {
	__u64 name;
	__u64 name_len;
	__u64 iov;
	__u64 iov_len;
};

/*
 * struct pt_regs (x86) and struct user_pt_regs (arm64) as uprobe programs get
 * them, with the argument and result registers of functions and of system calls
 * (ARG2 and ARG3 are the same for both), and the numbers of system calls.
 */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	__u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define ARG1_FIELD		  di
#define ARG2_FIELD		  si
#define ARG3_FIELD		  dx
#define RESULT_FIELD		  ax

#define SYSCALL_FIELD		  orig_ax
#define SYSCALL_ARG1_FIELD	  di
#define SYSCALL_ARG4_FIELD	  r10 /* of a function it is cx */
/* A field of the registers that bpf_task_pt_regs gave. */
#define trusted_read(regs, field) ((regs)->field)
enum {
	SYS_READ = 0,
	SYS_WRITE = 1,
	SYS_CLOSE = 3,
	SYS_READV = 19,
	SYS_WRITEV = 20,
	SYS_ACCEPT = 43,
	SYS_SENDTO = 44,
	SYS_RECVFROM = 45,
	SYS_SENDMSG = 46,
	SYS_RECVMSG = 47,
	SYS_SHUTDOWN = 48,
	SYS_ACCEPT4 = 288,
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
	__u64 orig_x0; /* only in the kernel's struct pt_regs, not in a uprobe's context */
};
#define ARG1_FIELD		  regs[0]
#define ARG2_FIELD		  regs[1]
#define ARG3_FIELD		  regs[2]
#define RESULT_FIELD		  regs[0]

#define SYSCALL_FIELD		  regs[8]
#define SYSCALL_ARG1_FIELD	  orig_x0 /* x0 is the result when the call returns */
#define SYSCALL_ARG4_FIELD	  regs[3]
#define trusted_read(regs, field) kernel_read(regs, field)
enum {
	SYS_CLOSE = 57,
	SYS_READ = 63,
	SYS_WRITE = 64,
	SYS_READV = 65,
	SYS_WRITEV = 66,
	SYS_ACCEPT = 202,
	SYS_SENDTO = 206,
	SYS_RECVFROM = 207,
	SYS_SHUTDOWN = 210,
	SYS_SENDMSG = 211,
	SYS_RECVMSG = 212,
	SYS_ACCEPT4 = 242,
};
#else
#error "unknown architecture"
#endif

#define ARG1(ctx)   ((ctx)->ARG1_FIELD)
#define ARG2(ctx)   ((ctx)->ARG2_FIELD)
#define ARG3(ctx)   ((ctx)->ARG3_FIELD)
#define RESULT(ctx) ((ctx)->RESULT_FIELD)

#endif
