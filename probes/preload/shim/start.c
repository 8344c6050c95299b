/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the ring, and what this process is. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw.h"
#include "shim.h"
#include "text.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_DONTDUMP
#define MADV_DONTDUMP 16
#endif

struct ring_header *ring;
unsigned char *ring_data;
uint64_t ring_mask;
uint32_t ring_head_bytes, ring_tail_bytes, ring_frame_bytes;
struct state *state;
const char *env_preload_entry = "";
const char *env_ring_value = "";

/* The kernel does not empty the state in a child (Linux before 4.14, gVisor): fork does,
 * and at every event it is asked who we are. */
static int ask_pid;
/* Of the process that registered last in this memory: after a fork the parent. */
static uint32_t registered_pid;
static uint32_t started;

/* Copies, since the program may change its environment: LD_PRELOAD's first entry and
 * the ring's path. */
static char entry_copy[1024], ring_copy[256];

extern char **environ;

/* The value of a variable, as the dynamic loader left it. */
static const char *variable(const char *name_and_equals)
{
	char **e = environ;

	for (; e && *e; e++) {
		const char *value = text_after(*e, name_and_equals);

		if (value)
			return value;
	}
	return NULL;
}

/* Our entry of LD_PRELOAD: the one by which the loader has found this library. */
static void remember_entry(const char *preload)
{
	const char *from = preload, *to;
	Dl_info own;

	if (!dladdr((void *)start, &own) || !own.dli_fname)
		return;
	for (; from && *from; from = *to ? to + 1 : to) {
		for (to = from; *to && *to != ':' && *to != ' '; to++)
			;
		if (text_length(own.dli_fname) != (size_t)(to - from) || memcmp(own.dli_fname, from, to - from))
			continue;
		if ((size_t)(to - from) >= sizeof(entry_copy))
			return;
		memcpy(entry_copy, from, to - from);
		entry_copy[to - from] = 0;
		store_release(&env_preload_entry, entry_copy);
		return;
	}
}

/* What probes/backend allows. */
#define MAX_RING (1ULL << 30)

static int sensible(const struct ring_header *h, uint64_t n, uint64_t file_bytes)
{
	/* A piece or a frame that is longer than the ring finds no room, and is counted. */
	return h->header_bytes == RING_HEADER_BYTES && n >= 65536 && n <= MAX_RING && !(n & (n - 1)) &&
	       n <= file_bytes && file_bytes - n >= RING_HEADER_BYTES && h->head_bytes && h->tail_bytes &&
	       h->head_bytes <= 65536 && h->tail_bytes <= 65536;
}

/* Maps the data twice, one behind the other. */
static unsigned char *map_data(int fd, uint64_t n)
{
	unsigned char *at = mmap(NULL, 2 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int i;

	if (at == MAP_FAILED)
		return NULL;
	for (i = 0; i < 2; i++) {
		if (mmap(at + i * n, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 RING_HEADER_BYTES) == MAP_FAILED) {
			munmap(at, 2 * n);
			return NULL;
		}
	}
	/* What users sent does not belong into a core dump, twice. */
	raw3(SYS_madvise, at, 2 * n, MADV_DONTDUMP);
	return at;
}

static struct state *map_state(void *at)
{
	struct state *s = mmap(at, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);

	return s == MAP_FAILED ? NULL : s;
}

/* Maps the ring; it is used only when all of it is there. */
static void map_ring(int fd)
{
	struct ring_header *h;
	struct state *s;
	uint64_t n;
	long end = raw3(SYS_lseek, fd, 0, 2 /* SEEK_END */);

	if (end < RING_HEADER_BYTES)
		return;
	h = mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return;
	if (load_acquire(&h->magic) != RING_MAGIC)
		goto unmap_header;
	if (h->version != RING_VERSION) {
		add(&h->refused, 1);
		goto unmap_header;
	}
	n = h->data_bytes;
	if (!sensible(h, n, end))
		goto unmap_header;
	ring_data = map_data(fd, n);
	if (!ring_data)
		goto unmap_header;
	s = map_state(NULL);
	if (!s) {
		munmap(ring_data, 2 * n);
		goto unmap_header;
	}
	if (raw3(SYS_madvise, s, sizeof(*s), MADV_WIPEONFORK))
		ask_pid = 1;
	ring_mask = n - 1;
	ring_head_bytes = h->head_bytes;
	ring_tail_bytes = h->tail_bytes;
	ring_frame_bytes = h->frame_bytes;
	state = s;
	store_release(&ring, h);
	return;

unmap_header:
	munmap(h, RING_HEADER_BYTES);
}

/* Registers this process in the header; NULL where there is no place. */
static struct ring_process *claim(uint32_t pid)
{
	struct ring_process *p = ring->processes, *end = p + RING_PROCESSES;
	struct ring_process *at;

	for (at = p; at < end; at++)
		if (load(&at->pid) == pid)
			return at; /* before an exec */
	for (at = p; at < end; at++) {
		uint32_t none = 0;

		if (!load(&at->pid) && cas(&at->pid, &none, pid))
			return at;
	}
	return NULL;
}

static struct state *enlist(struct state *s)
{
	uint32_t pid = raw3(SYS_getpid, 0, 0, 0), by = load(&s->registering);
	struct ring_process *slot;
	struct record e = { 0 };
	uint32_t forked_from;

	/* Another thread is at it, or a signal handler has interrupted it here. That of a
	 * parent, which a fork has cut off, does not count. */
	if (by == pid || !cas(&s->registering, &by, pid)) {
		add(&ring->nested, 1);
		return NULL;
	}
	forked_from = load(&registered_pid) != pid ? load(&registered_pid) : 0;
	slot = claim(pid);
	if (!slot) {
		add(&ring->table_full, 1);
	} else {
		store(&slot->parent, (uint32_t)raw3(SYS_getppid, 0, 0, 0));
		store(&slot->version, RING_VERSION);
		store(&slot->want_receives, 0);
		store_release(&slot->registered_ns, (uint64_t)now_ns());
	}
	store(&s->slot, slot);
	store(&s->born, (uint64_t)now_ns());
	/* Numbers must not come again after an exec, which leaves the pid. */
	store(&s->numbers, (uint64_t)now_ns());
	store(&registered_pid, pid);
	store_release(&s->pid, pid);
	/* The agent first says that it is there, and then looks who is; so do we: one of
	 * the two sees the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (active()) {
		e.kind = forked_from ? KIND_FORK : KIND_EXEC;
		e.conn = forked_from;
		e.socket = -1;
		emit(&e, NULL, 0);
	}
	return s;
}

/* This process's state, registered; NULL where that cannot be, or not now. */
struct state *self(void)
{
	struct state *s = state;

	if (!s)
		return NULL;
	if (unlikely(!load_acquire(&s->pid)))
		return enlist(s);
	if (unlikely(ask_pid) && !is_self(s))
		return NULL; /* a child of vfork, or one that was not made by fork */
	return s;
}

/* A child of vfork has our memory and descriptors of its own. */
int is_self(const struct state *s)
{
	return s && (uint32_t)raw3(SYS_getpid, 0, 0, 0) == load(&s->pid);
}

static pid_t (*real_fork)(void);

PUBLIC pid_t fork(void)
{
	pid_t pid = REAL(fork)();

	/* Where the kernel does not empty the state; else there is nothing to do. */
	if (!pid && unlikely(ask_pid) && state)
		state = map_state(state);
	return pid;
}

/* A number for a connection or socket: not 0, nor is its end (see SEQ_BITS). */
uint64_t new_number(struct state *s)
{
	uint64_t n;

	do
		n = add(&s->numbers, 1) + 1;
	while (!(n << SEQ_BITS));
	return n;
}

struct thread {
	uint64_t born; /* of the process that the number was asked in */
	uint32_t tid;
	uint32_t padding;
};
static __thread struct thread thread __attribute__((tls_model("initial-exec")));

uint32_t thread_number(const struct state *s)
{
	uint64_t born = load(&s->born);

	if (unlikely(load(&thread.born) != born)) {
		/* In this order also for a signal handler that comes in between. */
		store(&thread.tid, (uint32_t)raw3(SYS_gettid, 0, 0, 0));
		store_release(&thread.born, born);
	}
	return load(&thread.tid);
}

void start(void)
{
	uint32_t none = 0;
	const char *path;
	int error = errno;
	size_t n;
	long fd;

	if (!cas(&started, &none, 1))
		return;
	path = variable("TOKENSCOPE_PRELOAD=");
	n = path ? text_length(path) : 0;
	if (!n || n >= sizeof(ring_copy))
		goto out;
	memcpy(ring_copy, path, n + 1);
	store_release(&env_ring_value, ring_copy);
	remember_entry(variable("LD_PRELOAD="));
	if (is_helper_program())
		goto out;
	fd = raw(SYS_openat, AT_FDCWD, (long)ring_copy, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0);
	if (fd < 0)
		goto out;
	map_ring(fd);
	raw3(SYS_close, fd, 0, 0);
	if (ring)
		self();
out:
	errno = error;
}

__attribute__((constructor)) static void constructor(void)
{
	start();
	/* All at once, since dlsym takes the loader's lock: in a signal handler or a child of
	 * a process of many threads it might never get it. */
	find_functions();
	find_exec_functions();
	(void)REAL(fork);
}
