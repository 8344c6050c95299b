/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: a program that uses it as hard as it can be
 * used, checks that all goes as without it, and says what the library must have seen.
 *
 *	torture DIRECTORY THREADS CONNECTIONS [calm | uncancelled]
 *
 * DIRECTORY has the plugins. calm: no forks, signals, cancellations. Prints a line a
 * connection (struct result) and one with the totals; ends with 0 if all went right.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange.h"

/* Longer than it takes on a very busy machine; then something hangs. */
#define PATIENCE_SECONDS 60

static int connections, calm, busy;

static size_t some(unsigned *random)
{
	*random = *random * 22695477 + 1;
	/* Mostly as short as tokens are, now and then as long as prompts. */
	return (*random >> 16) % 10 ? 30 + (*random >> 12) % 600 : 30 + (*random >> 12) % 19000;
}

static void *work(void *number)
{
	unsigned random = (unsigned)(uintptr_t)number * 7919, i, j;

	if (!calm)
		signals_begin();
	for (i = 0; i < (unsigned)connections; i++) {
		struct connection c;

		if (!begin(&c, random >> 20 & 1, random)) {
			FAIL("no connection: errno %d", errno);
			break;
		}
		for (j = 0; j <= i % 4; j++) {
			size_t request = some(&random);

			exchange(&c, request, some(&random));
		}
		end(&c);
	}
	if (!calm)
		signals_end();
	__atomic_fetch_sub(&busy, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void print(const struct result *r)
{
	printf("%u %u %u %u %u %u %llu %llu %016llx %016llx\n", r->pid, r->id, r->reads, r->writes, r->ends, r->port,
	       (unsigned long long)r->read_bytes, (unsigned long long)r->written_bytes, (unsigned long long)r->read_hash,
	       (unsigned long long)r->written_hash);
}

int main(int argc, char **argv)
{
	pthread_t workers[256], storms[5];
	int threads, i, n = 0;
	uint32_t j;

	if (argc == 2 && !strcmp(argv[1], "nothing"))
		return 0;
	if (argc < 4 || (threads = atoi(argv[2])) < 1 || threads > 256) {
		fprintf(stderr, "usage: torture DIRECTORY THREADS CONNECTIONS [calm | uncancelled]\n");
		return 2;
	}
	connections = atoi(argv[3]);
	calm = argc > 4 && !strcmp(argv[4], "calm");
	alarm(PATIENCE_SECONDS);
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		return 2;
	pthread_create(&storms[n++], NULL, plugin_storm, argv[1]);
	if (!calm) {
		pthread_create(&storms[n++], NULL, fork_storm, NULL);
		pthread_create(&storms[n++], NULL, spawn_storm, argv[0]);
		if (argc == 4)
			pthread_create(&storms[n++], NULL, cancel_storm, NULL);
		pthread_create(&storms[n++], NULL, signal_storm, NULL);
	}
	busy = threads;
	for (i = 0; i < threads; i++)
		if (pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)(i + 1)))
			return 2;
	/* Joined after the storms: see signal_storm. */
	while (__atomic_load_n(&busy, __ATOMIC_ACQUIRE) > 0)
		usleep(1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < n; i++)
		pthread_join(storms[i], NULL);
	for (i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	for (j = 0; j < report->count; j++)
		print(&report->results[j]);
	printf("total %u %u %u %u %u %u %u\n", report->failures, report->count, report->frames, report->signals,
	       report->cancelled, report->children, (unsigned)getpid());
	return report->failures != 0;
}
