// SPDX-License-Identifier: Apache-2.0
// A device can be taken from under a running program: a card gives up its virtual functions, a device is pulled or
// bound to another driver, an interface is deleted or moved away. vfio asks for it and waits until the program has
// closed it; a driver that shares its device with the kernel tells DPDK; of an interface nobody tells, so its index is
// looked for. DPDK's interrupt thread only notes what it heard: who owns an io acts on it.
#define ALLOW_EXPERIMENTAL_API // rte_dev_event_callback_register: nothing else hears vfio
#include "io/dpdk_internal.h"

#include <errno.h>
#include <net/if.h>
#include <rte_dev.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_device_event(const char *name, enum rte_dev_event_type type, void *arg)
{
    struct bt_dpdk_device *dev = arg;
    (void)name;
    if (type == RTE_DEV_EVENT_REMOVE) {
        atomic_store(&dev->wanted, true);
    }
}

static int on_removal(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
    struct bt_dpdk_device *dev = arg;
    (void)port;
    (void)type;
    (void)ret;
    atomic_store(&dev->removed, true);
    return 0;
}

static void name_device(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg)
{
    char interface[IF_NAMESIZE];
    struct rte_eth_dev_info info;
    if (bt_dpdk_interface_name(cfg->port, interface, sizeof interface)) {
        dev->interface = if_nametoindex(interface);
        snprintf(dev->what, sizeof dev->what, "interface %s", interface);
    } else {
        snprintf(dev->what, sizeof dev->what, "device %.*s", (int)strcspn(cfg->port, ","), cfg->port);
    }
    if (rte_eth_dev_info_get(dev->port, &info) == 0) {
        snprintf(dev->name, sizeof dev->name, "%s", rte_dev_name(info.device));
    }
}

void bt_dpdk_lost_begin(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg)
{
    dev->lost = cfg->lost;
    atomic_store(&dev->carrier, bt_dpdk_link_up(dev));
    name_device(dev, cfg);
    if (rte_dev_event_callback_register(dev->name, on_device_event, dev) != 0 ||
        rte_eth_dev_callback_register(dev->port, RTE_ETH_EVENT_INTR_RMV, on_removal, dev) != 0) {
        bt_dpdk_say(dev->log, "DPDK: nobody will tell when %s is taken away", dev->what);
    }
}

void bt_dpdk_lost_end(struct bt_dpdk_device *dev)
{
    if (dev->name[0] == '\0') {
        return; // never begun
    }
    // While a callback runs it cannot be unregistered.
    while (rte_dev_event_callback_unregister(dev->name, on_device_event, dev) == -EAGAIN) {
        usleep(1000);
    }
    (void)rte_eth_dev_callback_unregister(dev->port, RTE_ETH_EVENT_INTR_RMV, on_removal, dev);
}

enum interface_state { INTERFACE_UP, INTERFACE_DOWN, INTERFACE_GONE };

// By its index: an interface may be renamed.
static enum interface_state interface_state(unsigned index)
{
    struct ifreq r = {.ifr_ifindex = (int)index};
    enum interface_state state = INTERFACE_UP; // for want of a descriptor nothing is amiss
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return state;
    }
    if (ioctl(fd, SIOCGIFNAME, &r) != 0) {
        state = errno == ENODEV ? INTERFACE_GONE : INTERFACE_UP;
    } else if (ioctl(fd, SIOCGIFFLAGS, &r) == 0 && (r.ifr_flags & IFF_RUNNING) == 0) {
        state = INTERFACE_DOWN;
    }
    close(fd);
    return state;
}

static void tell(struct bt_dpdk_device *dev, enum bt_dpdk_loss loss, const char *how)
{
    char why[160];
    snprintf(why, sizeof why, "%s was taken away: %s", dev->what, how);
    atomic_store(&dev->loss, loss);
    bt_dpdk_say(dev->log, "DPDK: %s", why);
    if (dev->lost != NULL) {
        dev->lost(loss, why);
    }
}

// Once a second, and apart from what each packet passes.
__attribute__((noinline, noclone, cold)) void bt_dpdk_lost_look(struct bt_dpdk_device *dev)
{
    enum bt_dpdk_loss known = bt_dpdk_loss(dev);
    if (known == BT_DPDK_GONE) {
        return;
    }
    enum interface_state state = dev->interface != 0 ? interface_state(dev->interface) : INTERFACE_UP;
    bool gone = state == INTERFACE_GONE;
    atomic_store(&dev->interface_down, state == INTERFACE_DOWN); // the driver of af_xdp does not ask
    if (gone || atomic_load(&dev->removed)) {
        atomic_store(&dev->running, false); // what is not there is not touched
        tell(dev, BT_DPDK_GONE, gone ? "the kernel has it no more here" : "its driver says that it is gone");
    } else if (known == BT_DPDK_KEPT && atomic_load(&dev->wanted)) {
        tell(dev, BT_DPDK_WANTED, "its driver wants it back and waits for this program");
    }
}

enum bt_dpdk_loss bt_dpdk_loss(const struct bt_dpdk_device *dev)
{
    return (enum bt_dpdk_loss)atomic_load_explicit(&dev->loss, memory_order_relaxed);
}

bool bt_dpdk_carrier(const struct bt_dpdk_device *dev)
{
    return atomic_load(&dev->carrier);
}

bool bt_dpdk_absent(const char *port)
{
    char name[RTE_ETH_NAME_MAX_LEN];
    char path[300];
    if (bt_dpdk_interface_name(port, name, IF_NAMESIZE)) {
        return if_nametoindex(name) == 0 && errno == ENODEV;
    }
    if (!bt_dpdk_is_pci(port)) {
        return false;
    }
    bt_dpdk_port_name(port, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", bt_dpdk_kernel.devices, name);
    return access(path, F_OK) != 0 && errno == ENOENT;
}
