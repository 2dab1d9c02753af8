// SPDX-License-Identifier: Apache-2.0
// Which CPU each thread that carries packets stays on: --cpus=2,3 or --cpus=4-7, the first for a program's first
// thread. The others of a program (control socket, resolver, DPDK's own) stay where the process may run.
#ifndef BT_APPS_CPUS_H
#define BT_APPS_CPUS_H

#include "shell/cli.h"

#include <pthread.h>

#define BT_CPUS_MAX 128u

struct bt_cpus {
    unsigned n; // 0: nobody is pinned
    uint16_t cpu[BT_CPUS_MAX];
};

// Reads the value of --cpus (NULL: none was given) for so many threads. Each CPU has to be one the process may run on,
// and is given once; there may be more than threads. Reports what is wrong and returns false.
bool bt_cpus_read(const struct bt_cli *p, const char *text, unsigned threads, struct bt_cpus *out);

// Pins a running thread, the program's i-th, to its CPU; does nothing without --cpus. False: it was logged why. To be
// called when those that are not to be pinned have been started: a thread inherits the CPUs of the one that starts it.
bool bt_cpus_pin(const struct bt_cpus *c, unsigned i, pthread_t thread);

// "2,3": as far as it fits.
void bt_cpus_text(const struct bt_cpus *c, char *text, size_t len);

// Those this process may run on, as "2-3,6", as far as it fits. Returns the NUMA node of all of them; -1: they lie on
// several, or the machine does not tell.
int bt_cpus_allowed(char *text, size_t len);

#endif
