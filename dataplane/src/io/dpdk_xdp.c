// SPDX-License-Identifier: Apache-2.0
// A port on af_xdp gets the XDP program we bring (bpf/xsk_redirect.bpf.c) instead of libxdp's: that one is looked up by
// its id, which takes CAP_SYS_ADMIN, and ours takes CAP_BPF and CAP_NET_ADMIN. The driver attaches it where no other
// is, so what a killed process of ours has left there goes first.
#include "io/dpdk_internal.h"
#include "io/xdp_interface.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char object[] = {
#include "xsk_redirect_object.inc"
};

// The interface of a port on af_xdp that has no program of the user's own; 0: not one.
static unsigned interface_of(const char *port)
{
    char name[IF_NAMESIZE];
    bool ours = strncmp(port, "net_af_xdp", strlen("net_af_xdp")) == 0 && strstr(port, ",xdp_prog=") == NULL;
    return ours && bt_dpdk_interface_name(port, name, sizeof name) ? if_nametoindex(name) : 0;
}

// A file the driver can open by a path, wherever the file system is read-only.
static int object_file(void)
{
    int fd = memfd_create("xsk_redirect", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, object, sizeof object) != (ssize_t)sizeof object) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int refused(const char *port, const char *what, int failed, char *err, size_t errlen)
{
    snprintf(err, errlen, "port \"%s\": %s: %s%s", port, what, strerror(-failed),
             failed == -EPERM ? BT_DPDK_XDP_NEEDS : "");
    return -1;
}

static int take_over(struct bt_dpdk_device *dev, const char *port, char *err, size_t errlen)
{
    struct bt_xdp_interface found;
    int failed = bt_xdp_look(dev->xdp_interface, &found);
    if (failed != 0) {
        return refused(port, "its interface cannot be looked at", failed, err, errlen);
    }
    if (found.program != 0 && !found.marked) {
        snprintf(err, errlen,
                 "port \"%s\": XDP program %u on its interface is somebody else's; end what uses it, or detach it "
                 "(ip link set dev IF xdp off)",
                 port, found.program);
        return -1;
    }
    failed = found.program != 0 ? bt_xdp_detach(dev->xdp_interface) : 0;
    if (failed != 0) {
        return refused(port, "the program a killed process left there cannot be detached", failed, err, errlen);
    }
    dev->xdp_marked = !found.named; // else a leftover will have to be detached by hand
    failed = dev->xdp_marked ? bt_xdp_mark(dev->xdp_interface, true) : 0;
    return failed == 0 ? 0 : refused(port, "its interface cannot be marked", failed, err, errlen);
}

int bt_dpdk_xdp_prepare(struct bt_dpdk_device *dev, const char *port, char *with, size_t len, char *err, size_t errlen)
{
    dev->xdp_claim = dev->xdp_object = -1;
    dev->xdp_interface = interface_of(port);
    snprintf(with, len, "%s", port);
    if (dev->xdp_interface == 0) {
        return 0; // of an interface that does not exist the driver tells
    }
    dev->xdp_claim = bt_xdp_claim(dev->xdp_interface);
    if (dev->xdp_claim == -EADDRINUSE) {
        snprintf(err, errlen, "port \"%s\": another process has a port on its interface; one may have several queues",
                 port);
        return -1;
    }
    if (dev->xdp_claim < 0) {
        return refused(port, "its interface cannot be claimed", dev->xdp_claim, err, errlen);
    }
    if (take_over(dev, port, err, errlen) != 0) {
        return -1;
    }
    dev->xdp_object = object_file();
    if (dev->xdp_object < 0) {
        return refused(port, "its XDP program cannot be written down", -errno, err, errlen);
    }
    if ((size_t)snprintf(with, len, "%s,xdp_prog=/proc/self/fd/%d", port, dev->xdp_object) >= len) {
        return refused(port, "too long", -ENAMETOOLONG, err, errlen);
    }
    return 0;
}

void bt_dpdk_xdp_close(struct bt_dpdk_device *dev)
{
    struct bt_xdp_interface left;
    if (dev->xdp_interface == 0) {
        return;
    }
    // The driver has detached its program. Should that have failed, the mark stays for the next process.
    if (dev->xdp_marked && bt_xdp_look(dev->xdp_interface, &left) == 0 && left.program == 0) {
        (void)bt_xdp_mark(dev->xdp_interface, false);
    }
    if (dev->xdp_object >= 0) {
        close(dev->xdp_object);
    }
    if (dev->xdp_claim >= 0) {
        close(dev->xdp_claim);
    }
}
