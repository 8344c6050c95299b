/* SPDX-License-Identifier: Apache-2.0 */
/* What goes on while connections are served: see exchange.h. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"

int stop;

static void await(pid_t pid, const char *what)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			FAIL("waitpid: errno %d", errno);
			return;
		}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		FAIL("%s ended with status %x", what, status);
	__atomic_fetch_add(&report->children, 1, 0);
}

/* In a child: a connection of its own, among what it has inherited. */
static void serve_in_child(unsigned seed)
{
	struct connection c;

	if (!begin(&c, seed % 2, seed))
		direct(SYS_exit_group, 3, 0, 0, 0, 0, 0);
	exchange(&c, 100 + seed % 50, 3000);
	exchange(&c, 300, 50);
	end(&c);
	direct(SYS_exit_group, report->failures != 0, 0, 0, 0, 0, 0);
}

void *fork_storm(void *unused)
{
	unsigned seed;

	(void)unused;
	for (seed = 1; !STOPPED; seed++) {
		pid_t pid = seed % 2 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (!pid)
			serve_in_child(seed);
		if (pid < 0)
			FAIL("fork: errno %d", errno);
		else
			await(pid, "a forked child");
		usleep(2000);
	}
	return NULL;
}

extern char **environ;

void *spawn_storm(void *program)
{
	char *argv[] = { program, "nothing", NULL };
	volatile int turn; /* vfork returns twice */

	for (turn = 0; !STOPPED; turn++) {
		pid_t pid;

		if (turn % 2) {
			if (posix_spawn(&pid, program, NULL, NULL, argv, environ)) {
				FAIL("posix_spawn failed");
				continue;
			}
		} else {
			pid = vfork();
			if (!pid) {
				int fd;

				/* What subprocess does here: none of these is the parent's to lose. */
				for (fd = 3; fd < 200; fd++)
					close(fd);
				dup2(2, 100);
				execve(program, argv, environ);
				_exit(127);
			}
		}
		await(pid, "a spawned program");
		usleep(5000);
	}
	return NULL;
}

static void note_cancel(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&report->cancelled, 1, 0);
}

static void *blocked(void *server)
{
	char b[16];

	pthread_cleanup_push(note_cancel, NULL);
	for (;;)
		(void)!read(*(int *)server, b, sizeof(b));
	pthread_cleanup_pop(0);
	return NULL;
}

/* A thread that is cancelled in a wrapped read runs its cleanup, and no other ends. */
void *cancel_storm(void *unused)
{
	(void)unused;
	while (!STOPPED) {
		struct connection c;
		pthread_t t;

		if (!begin(&c, 0, 7))
			continue;
		exchange(&c, 50, 50);
		if (!pthread_create(&t, NULL, blocked, &c.server)) {
			usleep(3000);
			pthread_cancel(t);
			pthread_join(t, NULL);
		}
		end(&c);
	}
	return NULL;
}

/* Two libraries of one name and interface in one process, loaded and unloaded. */
void *plugin_storm(void *directory)
{
	int turn;

	for (turn = 0; !STOPPED; turn++) {
		int (*send[2])(int, int);
		void *handle[2];
		char path[512];
		int i;

		for (i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "%s/plugin%d.so", (char *)directory, i + 1);
			handle[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			send[i] = handle[i] ? (int (*)(int, int))dlsym(handle[i], "plugin_send") : NULL;
			if (!send[i]) {
				FAIL("dlopen: %s", dlerror());
				return NULL;
			}
		}
		for (i = 0; i < 2; i++) {
			if (send[i](3, 5 /* DEALER */) != 3 || send[i](2, 1 /* PUB: not told */) != 2)
				FAIL("plugin %d: a frame was not taken", i + 1);
			__atomic_fetch_add(&report->frames, 3, 0);
		}
		for (i = 0; i < 2; i++)
			dlclose(handle[i]);
		usleep(1000);
	}
	return NULL;
}

/* Each worker's handler has a connection of its own, on which it serves wherever the
 * worker is just then: in the middle of the library, mostly. */
static __thread struct connection *interrupted;

static void handle(int signal)
{
	int error = errno;

	(void)signal;
	if (interrupted) {
		exchange(interrupted, 60, 90);
		__atomic_fetch_add(&report->signals, 1, 0);
	}
	errno = error;
}

static pthread_t workers[256];
static int worker_count;

void signals_begin(void)
{
	static __thread struct connection c;
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	int at;

	sigaction(SIGUSR1, &action, NULL);
	if (!begin(&c, 0, 99))
		return;
	exchange(&c, 60, 60);
	interrupted = &c;
	at = __atomic_fetch_add(&worker_count, 1, 0);
	if (at < 256)
		__atomic_store_n(&workers[at], pthread_self(), __ATOMIC_RELEASE);
}

void signals_end(void)
{
	struct connection *c = interrupted;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	interrupted = NULL;
	if (c)
		end(c);
}

/* Its threads are joined only when it has ended: their numbers stay true. */
void *signal_storm(void *unused)
{
	unsigned i = 0;

	(void)unused;
	while (!STOPPED) {
		int n = __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);

		if (n > 0 && workers[i % n])
			pthread_kill(workers[i % n], SIGUSR1);
		i++;
		usleep(300);
	}
	return NULL;
}
