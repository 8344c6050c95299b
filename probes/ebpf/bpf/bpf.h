/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The little of BPF's own C interface that the programs here need: integer
 * types, section and map declarations, and the kernel's helper functions by
 * their number (include/uapi/linux/bpf.h, FN table; the numbers are ABI). Having
 * them here means that the build needs nothing but the pinned compiler.
 */
#ifndef TOKENSCOPE_BPF_H
#define TOKENSCOPE_BPF_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

_Static_assert(sizeof(__u64) == 8 && sizeof(void *) == 8, "BPF is LP64");

#define SEC(name)	    __attribute__((section(name), used))
#define __always_inline	    inline __attribute__((always_inline))
#define __noinline	    __attribute__((noinline))
#define NULL		    ((void *)0)

/* Map declarations, as loaders read them from BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_RB_NO_WAKEUP = 1,
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_get_current_comm)(void *buf, __u32 size) = (void *)16;
static __u64 (*const bpf_get_current_task)(void) = (void *)35;
/* The next two came with Linux 5.5: reading user and kernel memory apart also
 * works on machines where the two overlap, and under lockdown=integrity. */
static long (*const bpf_probe_read_user)(void *dst, __u32 size, const void *src) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *dst, __u32 size, const void *src) = (void *)113;
/* Linux 5.8. */
static long (*const bpf_seq_write)(void *seq, const void *data, __u32 size) = (void *)127;
static long (*const bpf_ringbuf_output)(void *ring, void *data, __u64 size,
					__u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;
/* Linux 5.11 and 5.15: only programs that have an older substitute use them. */
struct task_struct;
struct pt_regs;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

/*
 * Makes the compiler forget what it knows of x, so that a bound which it thinks
 * needless, but which the verifier needs to see, stays in the code.
 */
#define opaque(x) asm volatile("" : "+r"(x))

#endif
