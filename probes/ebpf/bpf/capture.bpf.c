// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Watches the processes of one workload: who they are (process.h), the ZeroMQ
 * frames that they send and receive (zmq.h), the HTTP bytes of their servers
 * (connection.h, http.h, syscalls.h). All of it goes as struct event (event.h) into one ring, which
 * the agent empties by polling.
 *
 * Minimum kernel: 5.8 (ring buffer, iterator over tasks) with BTF. Each program
 * stands alone: where the kernel refuses one, the agent says which feature is
 * lost and goes on.
 *
 * Rules here:
 *  - the first thing that a program does is to look its process up, and to
 *    leave if it is not the workload's;
 *  - memory of the process is read with bpf_probe_read_user, memory of the
 *    kernel with bpf_probe_read_kernel, never written;
 *  - no per-CPU scratch memory, no wake-up of the agent, nothing unbounded;
 *  - what is lost is counted by its cause.
 */
#include "process.h"
#include "zmq.h"
#include "syscalls.h"

/* bpf_probe_read_user and bpf_probe_read_kernel are for GPL-compatible programs. */
const char license_text[] SEC("license") = "Dual MIT/GPL";

/* A type gets into BTF, and so to Go, only if something global has it. */
const struct event *type_event __attribute__((unused));
const struct adopted *type_adopted __attribute__((unused));
const enum event_kind *type_event_kind __attribute__((unused));
