/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that the workload starts. Helpers, which can be no server, get an
 * environment without us; anything else gets us back where its environment was
 * cleaned. The user's own entries of LD_PRELOAD stay in either case.
 *
 * All is built on the stack, since this may be a child of vfork or a thread of many;
 * what does not fit is passed on as it is. What starts programs within libc (system,
 * popen, execl) does not come by here: those carry what their environment says, and a
 * helper that carries us does not open the ring (start.c).
 */
#include <alloca.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "raw.h"
#include "shim.h"
#include "text.h"

/* What servers start to look at the machine, to compile and to link: none of these
 * speaks ZeroMQ or HTTP, and some run a thousand times in a build. What may start a
 * server is not here: shells, env, interpreters, make, ip (netns exec), numactl. */
static const char *const helpers[] = {
	"nvidia-smi", "nvcc",	"ptxas",     "cicc",	 "fatbinary",	"cudafe++", "nvlink",	"rocm-smi", "rocminfo",
	"amd-smi",    "hipcc",	"xpu-smi",   "npu-smi",	 "ninja",	"cmake",    "ccache",	"gcc",	    "g++",
	"cc",	      "c++",	"cc1",	     "cc1plus",	 "collect2",	"clang",    "clang++",	"lld",	    "ld.lld",
	"ld",	      "ld.gold", "ld.bfd",   "as",	 "ar",		"nm",	    "objdump",	"strip",    "addr2line",
	"ldconfig",   "ldd",	"lscpu",     "lspci",	 "lsmod",	"lsblk",    "uname",	"which",    "git",
	"hostname",   "ibstat", "ibv_devinfo", "ps",	 "cat",		"ls",	    "grep",	"sed",	    "awk",
	"cut",	      "head",	"tail",	     "tr",	 "rm",		"mkdir",
};

#define MAX_ENV	    4096 /* variables: Kubernetes gives seven for each service of a namespace */
#define MAX_PRELOAD 8192 /* bytes of LD_PRELOAD */

/* Whether a program is a helper, of any version: gcc-12, clang-14.0. */
static int is_helper(const char *path)
{
	const char *base = text_base(path);
	unsigned i;

	for (i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		const char *rest = text_after(base, helpers[i]);

		if (!rest)
			continue;
		if (*rest == '-' && rest[1] >= '0' && rest[1] <= '9')
			for (rest++; (*rest >= '0' && *rest <= '9') || *rest == '.'; rest++)
				;
		if (!*rest)
			return 1;
	}
	return 0;
}

int is_helper_program(void)
{
	char path[1024];
	long n = raw(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof(path) - 1, 0, 0);

	if (n <= 0)
		return 0;
	path[n] = 0;
	return is_helper(path);
}

/* Whether LD_PRELOAD's value has our entry; where it begins and ends. */
static int find_entry(const char *value, const char **from, const char **to)
{
	const char *entry = load(&env_preload_entry), *p = value;
	size_t n = text_length(entry);

	while (*p) {
		const char *end = p;

		while (*end && *end != ':' && *end != ' ')
			end++;
		if ((size_t)(end - p) == n && !memcmp(p, entry, n)) {
			*from = p;
			*to = end;
			return 1;
		}
		p = *end ? end + 1 : end;
	}
	return 0;
}

/* What is to be done to an environment. */
struct plan {
	size_t count;	/* variables */
	size_t preload; /* bytes for all LD_PRELOAD */
	size_t ring;	/* bytes for TOKENSCOPE_PRELOAD */
	int helper;
};

/* Says what is to be done to env for a program; 0 if nothing is. */
static int plan(struct plan *p, char *const *env, const char *path)
{
	const char *entry, *value, *from, *to;
	int has_entry = 0, has_ring = 0;
	size_t i, each;

	start();
	entry = load_acquire(&env_preload_entry);
	if (!path || !*entry || !*load_acquire(&env_ring_value))
		return 0;
	p->helper = is_helper(path);
	each = sizeof("LD_PRELOAD=") + text_length(entry) + 1;
	p->preload = each;
	/* NULL, as clearenv leaves it, is an empty one to Linux. */
	for (i = 0; env && env[i]; i++) {
		if (i >= MAX_ENV)
			return 0;
		value = text_after(env[i], "LD_PRELOAD=");
		if (value) {
			p->preload += each + text_length(value);
			has_entry |= find_entry(value, &from, &to);
		} else if (text_after(env[i], "TOKENSCOPE_PRELOAD=")) {
			has_ring = 1;
		}
	}
	if (p->helper ? !has_entry && !has_ring : has_entry && has_ring)
		return 0;
	p->count = i;
	p->ring = sizeof("TOKENSCOPE_PRELOAD=") + text_length(load(&env_ring_value));
	return p->preload <= MAX_PRELOAD;
}

static char *append(char *to, const char *text, size_t n)
{
	memcpy(to, text, n);
	to[n] = 0;
	return to + n;
}

/* An LD_PRELOAD with our entry or without it, in text; NULL if nothing is left of it. */
static char *edit_preload(char *text, const char *value, int helper)
{
	const char *entry = load(&env_preload_entry), *from, *to;
	int there = find_entry(value, &from, &to);
	char *t = append(text, "LD_PRELOAD=", 11), *begin = t;

	if (helper) {
		if (there) {
			t = append(t, value, from - value);
			value = *to ? to + 1 : to;
			if (!*value && t > begin)
				t--; /* the separator before us */
		}
		append(t, value, text_length(value));
		return *begin ? text : NULL;
	}
	if (!there) {
		t = append(t, entry, text_length(entry));
		if (*value)
			t = append(t, ":", 1);
	}
	append(t, value, text_length(value));
	return text;
}

/*
 * Builds the environment that the plan says in out, which has room for count + 3
 * pointers. Where LD_PRELOAD is there more than once, each is edited: loaders differ in
 * which they take (../inject.go).
 */
static char *const *carry_out(const struct plan *p, char *const *env, const char **out, char *preload, char *ring_text)
{
	const char *ring_value = load(&env_ring_value);
	int has_preload = 0;
	size_t i, n = 0;
	char *edited;

	for (i = 0; i < p->count; i++) {
		const char *value = text_after(env[i], "LD_PRELOAD=");

		if (text_after(env[i], "TOKENSCOPE_PRELOAD="))
			continue; /* put back below */
		if (!value) {
			out[n++] = env[i];
			continue;
		}
		has_preload = 1;
		edited = edit_preload(preload, value, p->helper);
		if (edited) {
			out[n++] = edited;
			preload += text_length(edited) + 1;
		}
	}
	if (!p->helper) {
		append(append(ring_text, "TOKENSCOPE_PRELOAD=", 19), ring_value, text_length(ring_value));
		out[n++] = ring_text;
		if (!has_preload)
			out[n++] = edit_preload(preload, "", 0);
	}
	out[n] = NULL;
	return (char *const *)out;
}

/* A statement rather than a function: what it builds must live in the caller's frame. It
 * takes no more of the stack than is needed, and nothing where nothing is to change. */
#define EDITED(env, path)                                                                    \
	({                                                                                   \
		char *const *env_ = (char *const *)(env);                                    \
		struct plan p_;                                                              \
		if (plan(&p_, env_, path))                                                   \
			env_ = carry_out(&p_, env_, alloca((p_.count + 3) * sizeof(char *)), \
					 alloca(p_.preload), alloca(p_.ring));               \
		env_;                                                                        \
	})

extern char **environ;

PUBLIC int execve(const char *path, char *const argv[], char *const env[]);
PUBLIC int execvpe(const char *file, char *const argv[], char *const env[]);
static int (*real_execve)(const char *, char *const[], char *const[]);
static int (*real_execvpe)(const char *, char *const[], char *const[]);
static int (*real_fexecve)(int, char *const[], char *const[]);
static int (*real_posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			       char *const[], char *const[]);
static int (*real_posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
				char *const[], char *const[]);

/*
 * With two variables more an environment may be too long for the kernel: then the program
 * gets the one that it was to have. expr is a call with the environment e; failed says by
 * its result whether it was refused so.
 */
#define WITH(env, path, expr, failed)                  \
	do {                                           \
		char *const *own_ = (char *const *)(env); \
		char *const *e = EDITED(own_, path);   \
		int result_ = expr;                    \
		if (e != own_ && unlikely(failed)) {   \
			e = own_;                      \
			result_ = expr;                \
		}                                      \
		return result_;                        \
	} while (0)

PUBLIC int execve(const char *path, char *const argv[], char *const env[])
{
	WITH(env, path, REAL(execve)(path, argv, e), errno == E2BIG);
}

PUBLIC int execv(const char *path, char *const argv[])
{
	WITH(environ, path, REAL(execve)(path, argv, e), errno == E2BIG);
}

PUBLIC int execvpe(const char *file, char *const argv[], char *const env[])
{
	WITH(env, file, REAL(execvpe)(file, argv, e), errno == E2BIG);
}

PUBLIC int execvp(const char *file, char *const argv[])
{
	WITH(environ, file, REAL(execvpe)(file, argv, e), errno == E2BIG);
}

PUBLIC int fexecve(int fd, char *const argv[], char *const env[])
{
	WITH(env, "", REAL(fexecve)(fd, argv, e), errno == E2BIG);
}

PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
		       char *const argv[], char *const env[])
{
	WITH(env, path, REAL(posix_spawn)(pid, path, a, b, argv, e), result_ == E2BIG);
}

PUBLIC int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
			char *const argv[], char *const env[])
{
	WITH(env, file, REAL(posix_spawnp)(pid, file, a, b, argv, e), result_ == E2BIG);
}

void find_exec_functions(void)
{
	(void)REAL(execve), (void)REAL(execvpe), (void)REAL(fexecve);
	(void)REAL(posix_spawn), (void)REAL(posix_spawnp);
}
