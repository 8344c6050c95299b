/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that the workload starts. Helpers, which can be no server, get an
 * environment without us; anything else gets us back where its environment was
 * cleaned. The user's own entries of LD_PRELOAD stay in either case.
 *
 * All is built on the stack, since this may be a child of vfork or a thread of many;
 * what does not fit is passed on as it is. What starts programs within libc (system,
 * popen) does not come by here: those carry what their environment says, and a helper
 * that carries us does not open the ring (start.c).
 */
#include <alloca.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "raw.h"
#include "shim.h"

/* What servers start to look at the machine, to compile and to link: none of these
 * speaks ZeroMQ or HTTP, and some run a thousand times in a build. Shells, env and
 * interpreters are not here: they start servers. */
static const char *const helpers[] = {
	"nvidia-smi", "nvcc",	  "ptxas",    "cicc",	 "fatbinary", "cudafe++", "nvlink",  "rocm-smi", "rocminfo",
	"amd-smi",    "hipcc",	  "xpu-smi",  "npu-smi", "ninja",     "make",	  "cmake",   "ccache",	 "gcc",
	"g++",	      "cc",	  "c++",      "cc1",	 "cc1plus",   "collect2", "clang",   "clang++",	 "lld",
	"ld.lld",     "ld",	  "ld.gold",  "ld.bfd",	 "as",	      "ar",	  "nm",	     "objdump",	 "strip",
	"addr2line",  "ldconfig", "ldd",      "lscpu",	 "lspci",     "lsmod",	  "lsblk",   "numactl-show", "uname",
	"which",      "git",	  "hostname", "ibstat",	 "ibv_devinfo", "ip",	  "ps",	     "cat",	 "ls",
	"grep",	      "sed",	  "awk",      "cut",	 "head",      "tail",	  "tr",	     "rm",	 "mkdir",
};

#define MAX_ENV	    4096 /* variables; the arrays of pointers are on the stack */
#define MAX_PRELOAD 8192 /* bytes of LD_PRELOAD */

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static const char *after(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return NULL;
	return s;
}

static int is_helper(const char *path)
{
	const char *base = path;
	unsigned i;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	for (i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++)
		if (same(base, helpers[i]))
			return 1;
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
	size_t n = length(env_preload_entry);
	const char *p = value;

	while (*p) {
		const char *end = p;

		while (*end && *end != ':' && *end != ' ')
			end++;
		if ((size_t)(end - p) == n && !memcmp(p, env_preload_entry, n)) {
			*from = p;
			*to = end;
			return 1;
		}
		p = *end ? end + 1 : end;
	}
	return 0;
}

/*
 * Builds the environment for a program in out, which has room for count + 3 pointers,
 * and text. Returns what to use: env itself where nothing is to change.
 */
static char *const *edit(char *const *env, size_t count, int helper, const char **out, char *text, char *ring_text)
{
	int has_entry = 0, has_ring = 0, has_preload = 0;
	size_t i, n = 0;

	for (i = 0; i < count; i++) {
		const char *value = after(env[i], "LD_PRELOAD="), *from, *to;

		if (value) {
			has_preload = 1;
			if (length(value) + length(env_preload_entry) + 16 > MAX_PRELOAD)
				return env;
			if (find_entry(value, &from, &to))
				has_entry = 1;
		} else if (after(env[i], "TOKENSCOPE_PRELOAD=")) {
			has_ring = 1;
		}
	}
	if (helper ? !has_entry && !has_ring : has_entry && has_ring)
		return env;

	for (i = 0; i < count; i++) {
		const char *value = after(env[i], "LD_PRELOAD="), *from, *to;
		char *t = text;

		if (after(env[i], "TOKENSCOPE_PRELOAD="))
			continue; /* put back below */
		if (!value || t == NULL) {
			out[n++] = env[i];
			continue;
		}
		memcpy(t, "LD_PRELOAD=", 11);
		t += 11;
		if (helper) {
			if (find_entry(value, &from, &to)) {
				memcpy(t, value, from - value);
				t += from - value;
				value = *to ? to + 1 : to;
				if (!*value && t[-1] != '=')
					t--; /* the separator before us */
			}
			memcpy(t, value, length(value) + 1);
			if (!text[11])
				continue; /* nothing is left of it */
		} else if (find_entry(value, &from, &to)) {
			memcpy(t, value, length(value) + 1);
		} else {
			memcpy(t, env_preload_entry, length(env_preload_entry));
			t += length(env_preload_entry);
			if (*value)
				*t++ = ':';
			memcpy(t, value, length(value) + 1);
		}
		out[n++] = text;
		text = NULL; /* a second LD_PRELOAD stays as it is */
	}
	if (!helper) {
		char *t = ring_text;

		memcpy(t, "TOKENSCOPE_PRELOAD=", 19);
		memcpy(t + 19, env_ring_value, length(env_ring_value) + 1);
		out[n++] = ring_text;
		if (!has_preload) {
			memcpy(text, "LD_PRELOAD=", 11);
			memcpy(text + 11, env_preload_entry, length(env_preload_entry) + 1);
			out[n++] = text;
		}
	}
	out[n] = NULL;
	return (char *const *)out;
}

static size_t count_of(char *const *env)
{
	size_t n = 0;

	while (env && env[n] && n <= MAX_ENV)
		n++;
	return n;
}

/* A statement rather than a function: what it builds must live in the caller's frame. */
#define EDITED(env, path)                                                                         \
	({                                                                                        \
		char *const *env_ = (char *const *)(env);                                         \
		size_t n_;                                                                        \
		start();                                                                          \
		if (*env_preload_entry && *env_ring_value && env_ && (n_ = count_of(env_)) <= MAX_ENV) \
			env_ = edit(env_, n_, is_helper(path), alloca((n_ + 3) * sizeof(char *)),     \
				    alloca(MAX_PRELOAD), alloca(512));                            \
		env_;                                                                             \
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

PUBLIC int execve(const char *path, char *const argv[], char *const env[])
{
	return REAL(execve)(path, argv, EDITED(env, path));
}

PUBLIC int execv(const char *path, char *const argv[])
{
	return REAL(execve)(path, argv, EDITED(environ, path));
}

PUBLIC int execvpe(const char *file, char *const argv[], char *const env[])
{
	return REAL(execvpe)(file, argv, EDITED(env, file));
}

PUBLIC int execvp(const char *file, char *const argv[])
{
	return REAL(execvpe)(file, argv, EDITED(environ, file));
}

PUBLIC int fexecve(int fd, char *const argv[], char *const env[])
{
	return REAL(fexecve)(fd, argv, EDITED(env, ""));
}

PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
		       char *const argv[], char *const env[])
{
	return REAL(posix_spawn)(pid, path, a, b, argv, EDITED(env ? env : environ, path));
}

PUBLIC int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b,
			char *const argv[], char *const env[])
{
	return REAL(posix_spawnp)(pid, file, a, b, argv, EDITED(env ? env : environ, file));
}
