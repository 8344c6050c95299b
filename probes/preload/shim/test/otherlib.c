/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the preloaded library: a user's own preloaded library, which is also
 * in front of close, and closes by syscall; and one of its calls waits in ours.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int close(int fd) { return (int)syscall(SYS_close, fd); }

__attribute__((constructor)) static void begin(void)
{
	close(-1);
	setenv("OTHER_LIBRARY", "works", 1);
}
