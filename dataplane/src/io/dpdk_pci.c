// SPDX-License-Identifier: Apache-2.0
// Why a PCI device could not be opened, by what the kernel shows of it: DPDK itself says no more than "no such device".
#include "io/dpdk_internal.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct bt_dpdk_places bt_dpdk_kernel = {.devices = "/sys/bus/pci/devices", .groups = "/dev/vfio"};

// The drivers that hand a device to a program.
static bool hands_over(const char *driver)
{
    static const char *const known[] = {"vfio-pci", "uio_pci_generic", "igb_uio"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(driver, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool may_lock_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur == RLIM_INFINITY ||
           (syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & 1u << CAP_IPC_LOCK) != 0);
}

// A device on the right driver: its group may not be there, may be somebody else's, or its memory cannot be locked.
static void handed_over_hint(const struct bt_dpdk_places *at, const char *device, const char *driver, char *text,
                             size_t len)
{
    char path[300];
    char to[300];
    snprintf(path, sizeof path, "%s/%s/iommu_group", at->devices, device);
    ssize_t n = readlink(path, to, sizeof to - 1);
    to[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(to, '/');
    snprintf(path, sizeof path, "%s/%s", at->groups, slash != NULL ? slash + 1 : "vfio");
    if (access(path, F_OK) != 0) {
        snprintf(text, len, "; it is bound to %.60s, as it has to be: has the container its group in /dev/vfio?",
                 driver);
    } else if (access(path, R_OK | W_OK) != 0) {
        snprintf(text, len, "; %s may not be opened: it is root's, and so must this process be (runAsUser: 0)", path);
    } else if (!may_lock_all()) {
        snprintf(text, len,
                 "; memory for the device is locked, which this process may not do: it needs the capability IPC_LOCK, "
                 "or no limit of locked memory (ulimit -l)");
    }
}

void bt_dpdk_pci_hint(const struct bt_dpdk_places *at, const char *name, char *text, size_t len)
{
    char path[300];
    char driver[300];
    snprintf(path, sizeof path, "%s/%s", at->devices, name);
    if (access(path, F_OK) != 0) {
        snprintf(text, len, "; the kernel has no PCI device %s: it was taken away, or never made", name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s/driver", at->devices, name);
    ssize_t n = readlink(path, driver, sizeof driver - 1);
    if (n < 0) {
        snprintf(text, len, "; no driver has it: bind it to vfio-pci first (dpdk-devbind.py)");
        return;
    }
    driver[n] = '\0';
    const char *slash = strrchr(driver, '/');
    const char *base = slash != NULL ? slash + 1 : driver;
    if (hands_over(base)) {
        handed_over_hint(at, name, base, text, len);
        return;
    }
    snprintf(text, len, "; it is on its kernel driver %.60s and must be bound to vfio-pci (dpdk-devbind.py)", base);
}
