// SPDX-License-Identifier: Apache-2.0
// Network namespaces that belong to the test process: they have no name, so that they are gone with it, however it
// ends.
#ifndef BT_TESTS_NETNS_H
#define BT_TESTS_NETNS_H

#include <stdbool.h>
#include <stddef.h>

// The thread's own namespace as a descriptor, or -1.
int netns_here(void);

// A new namespace as a descriptor, or -1; the thread stays where it is.
int netns_new(void);

// Moves the thread; false if that failed.
bool netns_enter(int ns);

// Runs a shell command inside `ns`; false, with what it said, if it failed.
bool netns_run(int ns, char *why, size_t len, const char *format, ...) __attribute__((format(printf, 4, 5)));

// The interface leaves checksums to nobody: a peer behind DPDK or XDP would see unfinished ones.
bool netns_finish_checksums(int ns, const char *interface);

#endif
