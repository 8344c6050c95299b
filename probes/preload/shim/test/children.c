/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: starts itself in every way that there is, with
 * an environment of nothing, and says what arrived. A line a way:
 *
 *	NAME mapped|unmapped LD_PRELOAD=… TOKENSCOPE_PRELOAD=…
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw.h"

extern char **environ;

static void say(const char *name)
{
	const char *preload = getenv("LD_PRELOAD"), *ring = getenv("TOKENSCOPE_PRELOAD");
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int mapped = 0;

	while (maps && fgets(line, sizeof(line), maps))
		mapped |= strstr(line, "libtokenscope-") != NULL;
	printf("%s %s LD_PRELOAD=%s TOKENSCOPE_PRELOAD=%s\n", name, mapped ? "mapped" : "unmapped", preload ? preload : "",
	       ring ? ring : "");
}

static void await(pid_t pid, const char *name)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		printf("%s ended with %x\n", name, status);
	fflush(stdout);
}

#define IN_CHILD(name, forking, exec)                                \
	do {                                                         \
		char *argv[] = { "children", name, NULL };           \
		pid_t pid = forking();                               \
		if (!pid) {                                          \
			exec;                                        \
			_exit(127);                                  \
		}                                                    \
		await(pid, name);                                    \
	} while (0)

/* Whether the kernel takes an environment, with the library out of the way. */
static int fits(char *self, char **argv, char **env)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		dup2(open("/dev/null", O_WRONLY), 1);
		raw3(SYS_execve, self, argv, env);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

/* The longest environment of one variable that the kernel takes: there is no room in it
 * for another. Arguments and environment may have a quarter of the stack's limit. */
static char **longest(char *self, char **argv)
{
	static char text[1 << 17], *env[2] = { text };
	size_t low = 2, high = sizeof(text) - 1;
	struct rlimit limit;

	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = 4 * (sizeof(text) - 4096);
	setrlimit(RLIMIT_STACK, &limit);
	memset(text, 'A', sizeof(text));
	text[1] = '=';
	while (low + 1 < high) {
		size_t middle = (low + high) / 2;

		text[middle] = 0;
		if (fits(self, argv, env))
			low = middle;
		else
			high = middle;
		text[middle] = 'A';
	}
	text[low] = 0;
	return env;
}

int main(int argc, char **argv_)
{
	char *self = "/proc/self/exe", *env[] = { NULL };
	static char *many[5000];
	pid_t pid;
	int i;

	if (argc > 1) {
		say(argv_[1]);
		return 0;
	}
	say("itself");
	fflush(stdout);
	IN_CHILD("fork-execve", fork, execve(self, argv, env));
	IN_CHILD("vfork-execve", vfork, execve(self, argv, env));
	IN_CHILD("execvpe", vfork, execvpe(self, argv, env));
	IN_CHILD("fexecve", fork, fexecve(open(self, O_RDONLY), argv, env));
	IN_CHILD("execv", fork, (clearenv(), execv(self, argv)));
	IN_CHILD("execvp", fork, (environ = env, execvp(self, argv)));
	{
		char *argv[] = { "children", "posix_spawn", NULL };

		if (!posix_spawn(&pid, self, NULL, NULL, argv, env))
			await(pid, argv[1]);
		argv[1] = "posix_spawnp";
		if (!posix_spawnp(&pid, self, NULL, NULL, argv, env))
			await(pid, argv[1]);
	}
	/* More than the library puts together on a stack: it leaves that as it is. */
	for (i = 0; i < 4999; i++)
		many[i] = "A=B";
	IN_CHILD("too-many", fork, execve(self, argv, many));
	many[4000] = NULL;
	IN_CHILD("many", fork, execve(self, argv, many));
	/* So long that there is no room for us: the program starts all the same. */
	{
		char *argv[] = { "children", "longest", NULL };

		env[0] = *longest(self, argv);
	}
	{
		char *one[] = { env[0], NULL };

		IN_CHILD("longest", fork, execve(self, argv, one));
		{
			char *argv[] = { "children", "longest", NULL };

			if (!posix_spawn(&pid, self, NULL, NULL, argv, one))
				await(pid, argv[1]);
		}
	}
	return 0;
}
