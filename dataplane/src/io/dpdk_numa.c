// SPDX-License-Identifier: Apache-2.0
// Whether this process may say on which NUMA node its memory lies. The seccomp filter that container runtimes have by
// default refuses the calls for it with EPERM to all without SYS_NICE. libnuma 2.0.16 takes no error but ENOSYS for
// "no": with it DPDK 22.11 asks where each hugepage lies, is refused, and does not start. Without NUMA it takes the
// pages that the kernel gives, which are those of the CPUs that the process may use. What came of it is reported
// (DeviceAsAsked), so that a wrong node is seen.
#include "io/dpdk_internal.h"

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
