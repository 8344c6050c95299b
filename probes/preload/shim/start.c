/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the ring, and what this process is. */
#include <fcntl.h>
#include <sys/mman.h>

#include "raw.h"
#include "shim.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct ring_header *ring;
unsigned char *ring_data;
uint64_t ring_mask;
uint32_t ring_head_bytes, ring_tail_bytes, ring_frame_bytes;
struct state *state;
const char *env_preload_entry = "";
const char *env_ring_value = "";

/* The kernel does not empty the state in a child: ask who we are at every event. */
static int ask_pid;
/* Of the process that registered last in this memory: after a fork the parent. */
static uint32_t registered_pid;
static uint32_t started;

/* Copies, since the program may change its environment: LD_PRELOAD's first entry and
 * the ring's path. */
static char entry_copy[1024], ring_copy[256];

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static int begins(const char *s, const char *with)
{
	while (*with)
		if (*s++ != *with++)
			return 0;
	return 1;
}

extern char **environ;

/* The value of a variable, as the dynamic loader left it. */
static const char *variable(const char *name_and_equals)
{
	char **e = environ;

	for (; e && *e; e++)
		if (begins(*e, name_and_equals))
			return *e + length(name_and_equals);
	return NULL;
}

/* Our entry of LD_PRELOAD: the one whose file name is the library's. */
static void remember_entry(const char *preload)
{
	const char *from = preload, *to, *base, *p;

	for (; from && *from; from = *to ? to + 1 : to) {
		for (to = from, base = from; *to && *to != ':' && *to != ' '; to++)
			if (*to == '/')
				base = to + 1;
		if ((size_t)(to - from) >= sizeof(entry_copy))
			continue;
		if (!begins(base, "libtokenscope-") && !begins(from, "/proc/"))
			continue;
		for (p = from; p < to; p++)
			entry_copy[p - from] = *p;
		entry_copy[to - from] = 0;
		env_preload_entry = entry_copy;
		return;
	}
}

static int sensible(const struct ring_header *h, uint64_t file_bytes)
{
	uint64_t n = h->data_bytes;

	return h->header_bytes == RING_HEADER_BYTES && n >= 65536 && !(n & (n - 1)) &&
	       n <= file_bytes && file_bytes - n >= RING_HEADER_BYTES && h->head_bytes &&
	       h->tail_bytes && h->head_bytes < 65536 && h->tail_bytes < 65536 &&
	       h->head_bytes + h->tail_bytes < n / 2 && h->frame_bytes < n / 2;
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
	return at;
}

/* Maps the ring; it is used only when all of it is there. */
static void map_ring(int fd)
{
	struct ring_header *h;
	struct state *s;
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
	if (!sensible(h, end))
		goto unmap_header;
	ring_data = map_data(fd, h->data_bytes);
	if (!ring_data)
		goto unmap_header;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s == MAP_FAILED) {
		munmap(ring_data, 2 * h->data_bytes);
		goto unmap_header;
	}
	if (raw3(SYS_madvise, s, sizeof(*s), MADV_WIPEONFORK))
		ask_pid = 1;
	ring_mask = h->data_bytes - 1;
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
	uint32_t pid = raw3(SYS_getpid, 0, 0, 0), none = 0;
	struct ring_process *slot;
	struct record e = { 0 };
	uint32_t forked_from;

	if (!cas(&s->registering, &none, 1))
		return NULL; /* another thread is at it */
	forked_from = registered_pid != pid ? registered_pid : 0;
	slot = claim(pid);
	if (!slot) {
		add(&ring->table_full, 1);
		slot = NULL;
	} else {
		slot->parent = raw3(SYS_getppid, 0, 0, 0);
		slot->version = RING_VERSION;
		store(&slot->want_receives, 0);
		store_release(&slot->registered_ns, (uint64_t)now_ns());
	}
	s->slot = slot;
	/* Numbers must not come again after an exec, which leaves the pid. */
	s->numbers = (uint64_t)now_ns();
	store(&registered_pid, pid);
	store_release(&s->pid, pid);
	if (active()) {
		e.kind = forked_from ? KIND_FORK : KIND_EXEC;
		e.conn = forked_from;
		e.socket = -1;
		emit(&e, NULL, 0);
	}
	return s;
}

struct state *self(void)
{
	struct state *s = state;

	if (!s)
		return NULL;
	if (likely(load_acquire(&s->pid))) {
		if (likely(!ask_pid) || is_self(s))
			return s;
		/* A fork on a kernel that does not empty the state: all of it is the parent's. */
		memset(s, 0, offsetof(struct state, fds));
		memset(s->fds, 0, sizeof(s->fds));
		memset(s->tls, 0, sizeof(s->tls));
		memset(s->sockets, 0, sizeof(s->sockets));
	}
	return enlist(s);
}

/* A child of vfork has our memory and descriptors of its own. */
int is_self(const struct state *s)
{
	return (uint32_t)raw3(SYS_getpid, 0, 0, 0) == load(&s->pid);
}

struct thread {
	uint32_t pid; /* of the process that the number was asked in */
	uint32_t tid;
};
static __thread struct thread thread __attribute__((tls_model("initial-exec")));

uint32_t thread_number(const struct state *s)
{
	uint32_t pid = load(&s->pid);

	if (unlikely(thread.pid != pid)) {
		thread.tid = raw3(SYS_gettid, 0, 0, 0);
		thread.pid = pid;
	}
	return thread.tid;
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
	n = path ? length(path) : 0;
	if (!n || n >= sizeof(ring_copy))
		goto out;
	memcpy(ring_copy, path, n + 1);
	env_ring_value = ring_copy;
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
}
