// SPDX-License-Identifier: Apache-2.0
// On which NUMA node memory lies, and whether this process may say so. The seccomp filter that container runtimes have
// by default refuses the calls for it with EPERM to all without SYS_NICE. libnuma 2.0.16 takes no error but ENOSYS for
// "no": with it DPDK 22.11 asks where each hugepage lies, is refused, and does not start. Without NUMA it takes the
// pages that the kernel gives, which are those of the CPUs that the process may use, and believes that they lie where
// it wanted them. So the kernel is asked where they do (DeviceAsAsked): its file needs no right.
#include "io/dpdk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool bt_dpdk_may_choose_nodes(void)
{
    return syscall(SYS_get_mempolicy, NULL, NULL, 0UL, NULL, 0UL) == 0;
}

// In place of libnuma's, for DPDK's calls of it.
int numa_available(void);
__attribute__((visibility("default"))) int numa_available(void)
{
    return bt_dpdk_may_choose_nodes() ? 0 : -1;
}

// The node with the most pages in a line; -1: it tells of none. Blanks in the names of files are written as \\040.
static int node_of_line(const char *line)
{
    unsigned long most = 0;
    int node = -1;
    for (const char *field = strstr(line, " N"); field != NULL; field = strstr(field + 2, " N")) {
        unsigned long pages;
        int n;
        if (sscanf(field, " N%d=%lu", &n, &pages) == 2 && pages > most) {
            most = pages;
            node = n;
        }
    }
    return node;
}

int bt_dpdk_node_in(FILE *maps, uintptr_t at)
{
    char *line = NULL;
    size_t size = 0;
    unsigned long begins;
    int node = -1;
    while (getline(&line, &size, maps) >= 0 && sscanf(line, "%lx", &begins) == 1 && begins <= at) {
        node = node_of_line(line); // lines rise: the last that begins no later has it
    }
    free(line);
    return node;
}

int bt_dpdk_node_of(const void *memory)
{
    FILE *maps = fopen("/proc/self/numa_maps", "re");
    int node = maps != NULL ? bt_dpdk_node_in(maps, (uintptr_t)memory) : -1;
    if (maps != NULL) {
        fclose(maps);
    }
    return node;
}
