// SPDX-License-Identifier: Apache-2.0
// DPDK against the kernel: end 0 is Linux's UDP in a network namespace, end 1 a DPDK port on the other end of its
// veth, by af_packet or af_xdp. The interface under the DPDK port has no address: the kernel, which af_packet shows
// a copy of everything, has nothing to answer then.
#include "fixture_dpdk.h"

#include "io/udp.h"
#include "netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KERNEL, DPDK, KERNEL_BUFFERS = 1024 };

static int ns[PACKET_ENDS] = {-1, -1};
static const char *port_format; // of the DPDK port, with %s for the interface

struct kernel_rig {
    struct bt_dpdk_device *dev;
    struct bt_pool_fixed fixed;
    void *mem;
    uint8_t mac[6]; // of the kernel's interface
    int raw;        // sends frames from there
    int index;
};

// libxdp keeps what the driver of af_xdp made with it until the process ends, and the driver the object of its program.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:xsk_umem__create\nleak:libbpf.so\n";
}

#define KERNEL_IF "btk"
#define DPDK_IF   "btd"

static bool make_namespaces(char *why, size_t len)
{
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        ns[i] = netns_new();
        if (ns[i] < 0) {
            snprintf(why, len, "network namespaces need root (CAP_SYS_ADMIN)");
            return false;
        }
    }
    // The namespace of DPDK is this process's from here on: its ports are opened there.
    return netns_enter(ns[DPDK]);
}

// A new pair of interfaces for every case: libxdp does not let go of one before the process ends.
static bool make_link(char *why, size_t len)
{
    return netns_run(ns[KERNEL], why, len,
                     "ip link add %s type veth peer name %s netns %d && ip link set lo up && "
                     "sysctl -qw net.ipv6.conf.%s.accept_ra=0 net.ipv6.conf.%s.dad_transmits=0",
                     KERNEL_IF, DPDK_IF, (int)getpid(), KERNEL_IF, KERNEL_IF) &&
           netns_run(ns[DPDK], why, len, "sysctl -qw net.ipv6.conf.%s.disable_ipv6=1 && ip link set %s up", DPDK_IF,
                     DPDK_IF) &&
           netns_run(
               ns[KERNEL], why, len,
               "ip addr add 10.99.0.1/24 dev %s && ip -6 addr add fd99::1/64 dev %s nodad && ip link set %s up && "
               "ip route add default via 10.99.0.2",
               KERNEL_IF, KERNEL_IF, KERNEL_IF) &&
           netns_finish_checksums(ns[KERNEL], KERNEL_IF);
}

static bool begin(char *why, size_t len)
{
    if (geteuid() != 0) {
        snprintf(why, len, "network namespaces need root");
        return false;
    }
    return make_namespaces(why, len) && dpdk_begin("net_af", why, len);
}

static bool af_packet_begin(char *why, size_t len)
{
    port_format = "net_af_packet0,iface=%s";
    return begin(why, len);
}

static bool af_xdp_begin(char *why, size_t len)
{
    port_format = "net_af_xdp0,iface=%s,busy_budget=0";
    return begin(why, len);
}

static void end(void)
{
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        close(ns[i]);
    }
}

static const struct packet_end *kernel_end; // the one with sockets

static void open_kernel_end(struct packet_rig *r)
{
    struct kernel_rig *k = r->fixture;
    struct packet_end *e = &r->end[KERNEL];
    kernel_end = e;
    struct bt_addr local[PACKET_PORTS] = {dpdk_address(r->v6, 1, 8000), dpdk_address(r->v6, 1, 8001)};
    struct ifreq ifr = {0};
    char err[256];
    k->mem = malloc(bt_pool_fixed_bytes(KERNEL_BUFFERS));
    assert_non_null(k->mem);
    e->pool = bt_pool_fixed_init(&k->fixed, k->mem, KERNEL_BUFFERS);
    e->buffers = KERNEL_BUFFERS;
    struct bt_udp_config cfg = {.locals = local, .n_locals = PACKET_PORTS, .pool = e->pool, .report_unreachable = true};
    assert_true(netns_enter(ns[KERNEL])); // sockets stay where they were opened
    e->io = bt_udp_open(&cfg, err, sizeof err);
    k->raw = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", KERNEL_IF);
    assert_int_equal(ioctl(k->raw, SIOCGIFHWADDR, &ifr), 0);
    memcpy(k->mac, ifr.ifr_hwaddr.sa_data, sizeof k->mac);
    k->index = (int)if_nametoindex(KERNEL_IF);
    assert_true(netns_enter(ns[DPDK]));
    if (e->io == NULL) {
        fail_msg("%s", err);
    }
    memcpy(e->port, local, sizeof local);
    e->nobody = dpdk_address(r->v6, 2, 9); // the DPDK host is there, but nobody listens
}

static void open_ends(struct packet_rig *r)
{
    struct kernel_rig *k = calloc(1, sizeof *k);
    char port[160];
    char why[600];
    assert_non_null(k);
    r->fixture = k;
    if (!make_link(why, sizeof why)) {
        fail_msg("%s", why);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(port, sizeof port, port_format, DPDK_IF);
#pragma GCC diagnostic pop
    k->dev = dpdk_open_end(r, DPDK, port, 5000);
    open_kernel_end(r);
    r->end[DPDK].nobody = dpdk_address(r->v6, 1, 9);
}

static unsigned close_ends(struct packet_rig *r)
{
    struct kernel_rig *k = r->fixture;
    r->end[KERNEL].io->ops->close(r->end[KERNEL].io);
    r->end[DPDK].io->ops->close(r->end[DPDK].io);
    unsigned lost = KERNEL_BUFFERS - k->fixed.left + bt_dpdk_device_close(k->dev);
    char why[600];
    close(k->raw);
    if (!netns_run(ns[KERNEL], why, sizeof why, "ip link del %s", KERNEL_IF)) {
        fail_msg("%s", why);
    }
    free(k->mem);
    free(k);
    return lost;
}

static bool transparent(struct packet_end *e, char *why, size_t len)
{
    if (e != kernel_end) {
        return true; // it writes its headers itself
    }
    bool allowed = netns_enter(ns[KERNEL]) && bt_udp_allow_transparent(e->io, why, len) == 0;
    return netns_enter(ns[DPDK]) && allowed;
}

static bool inject_broken(struct packet_rig *r, unsigned from, struct bt_addr to)
{
    struct kernel_rig *k = r->fixture;
    uint8_t frame[128];
    uint8_t mac[6];
    if (from != KERNEL) {
        return false; // the kernel drops such a frame before any socket could count it
    }
    bt_dpdk_mac(k->dev, mac);
    unsigned len = dpdk_broken_frame(mac, k->mac, r->end[KERNEL].port[0], to, frame);
    struct sockaddr_ll sa = {.sll_family = AF_PACKET, .sll_ifindex = k->index, .sll_halen = 6};
    memcpy(sa.sll_addr, mac, 6);
    return sendto(k->raw, frame, len, 0, (struct sockaddr *)(void *)&sa, sizeof sa) == (ssize_t)len;
}

const struct packet_driver packet_driver_af_packet = {
    .name = "af_packet",
    .begin = af_packet_begin,
    .end = end,
    .has_v6 = true,
    .open = open_ends,
    .close = close_ends,
    .transparent = transparent,
    .inject_broken = inject_broken,
};

const struct packet_driver packet_driver_af_xdp = {
    .name = "af_xdp",
    .begin = af_xdp_begin,
    .end = end,
    .has_v6 = true,
    .open = open_ends,
    .close = close_ends,
    .transparent = transparent,
    .inject_broken = inject_broken,
};
