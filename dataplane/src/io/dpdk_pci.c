// SPDX-License-Identifier: Apache-2.0
// Why a PCI device could not be opened, by what the kernel shows of it: DPDK itself says no more than "no such device".
#include "io/dpdk_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void bt_dpdk_pci_hint(const char *devices, const char *name, char *text, size_t len)
{
    char path[300];
    char driver[300];
    snprintf(path, sizeof path, "%s/%s", devices, name);
    if (access(path, F_OK) != 0) {
        snprintf(text, len, "; the kernel has no PCI device %s: it was taken away, or never made", name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s/driver", devices, name);
    ssize_t n = readlink(path, driver, sizeof driver - 1);
    if (n < 0) {
        snprintf(text, len, "; no driver has it: bind it to vfio-pci first (dpdk-devbind.py)");
        return;
    }
    driver[n] = '\0';
    const char *slash = strrchr(driver, '/');
    const char *base = slash != NULL ? slash + 1 : driver;
    if (hands_over(base)) {
        snprintf(text, len, "; it is bound to %s, as it has to be: has the container its group in /dev/vfio?", base);
        return;
    }
    snprintf(text, len, "; it is on its kernel driver %.60s and must be bound to vfio-pci (dpdk-devbind.py)", base);
}
