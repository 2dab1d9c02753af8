// SPDX-License-Identifier: Apache-2.0
// One DPDK port from probe to start: what the device can do is asked, what was wanted is fitted to it, and what
// cannot be had is named.
#include "io/dpdk_internal.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_MTU    1500u
#define LINK_POLL_NS   10000000
#define LINK_POLLS_PER 100u // in a second
#define PATIENCE       20u  // looks at a connection that is being made, before it is made anew
#define LOOK_AGAIN     20u  // polls between two attempts of a memif client

void bt_dpdk_port_name(const char *port, char *name, size_t len)
{
    bool pci = bt_dpdk_is_pci(port);
    int n = (int)strcspn(port, ",");
    unsigned colons = 0;
    for (int i = 0; i < n; i++) {
        colons += port[i] == ':';
    }
    snprintf(name, len, "%s%.*s", pci && colons == 1 ? "0000:" : "", n, port);
    for (char *c = name; pci && *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c); // as DPDK writes it, and compares it
    }
}

static int find(struct bt_dpdk_device *dev, const char *port, char *err, size_t errlen)
{
    char name[RTE_ETH_NAME_MAX_LEN];
    bt_dpdk_port_name(port, name, sizeof name);
    if (rte_eth_dev_get_port_by_name(name, &dev->port) == 0) {
        return 0; // somebody made it, or EAL did at its start
    }
    char with[RTE_DEV_NAME_MAX_LEN + 512];
    if (bt_dpdk_xdp_prepare(dev, port, with, sizeof with, err, errlen) != 0) {
        return -1;
    }
    int failed = rte_dev_probe(with);
    if (failed != 0) {
        char hint[400] = "";
        if (bt_dpdk_is_pci(port)) {
            bt_dpdk_pci_hint(&bt_dpdk_kernel, name, hint, sizeof hint);
        } else if (bt_dpdk_absent(port)) {
            snprintf(hint, sizeof hint, "; there is no such interface here: it was taken away, or never made");
        } else if (failed == -EFAULT) {
            snprintf(hint, sizeof hint, ", no driver in this program goes by that name");
        }
        snprintf(err, errlen, "port \"%s\" cannot be opened: %s; DPDK's own lines above say more%s", port,
                 strerror(-failed), hint);
        return -1;
    }
    if (rte_eth_dev_get_port_by_name(name, &dev->port) != 0) {
        snprintf(err, errlen, "port \"%s\" is no network device", port);
        return -1;
    }
    dev->probed = true;
    return 0;
}

// The MTU of the kernel interface a port stands on (af_packet, af_xdp): drivers do not ask for it. 0 without one.
static uint32_t interface_mtu(const char *port)
{
    struct ifreq r = {0};
    uint32_t mtu = 0;
    bool named = bt_dpdk_interface_name(port, r.ifr_name, sizeof r.ifr_name);
    int fd = named ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return 0;
    }
    if (ioctl(fd, SIOCGIFMTU, &r) == 0 && r.ifr_mtu > 0) {
        mtu = (uint32_t)r.ifr_mtu;
    }
    close(fd);
    return mtu;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int choose_mtu(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg,
                      const struct rte_eth_dev_info *info, char *err, size_t errlen)
{
    uint32_t most = BT_PKT_BUFFER - RTE_ETHER_HDR_LEN; // a frame is one buffer
    uint32_t below = interface_mtu(cfg->port);
    most = below != 0 ? smaller(most, below) : most;
    most = info->max_mtu != 0 ? smaller(most, info->max_mtu) : most;
    if (cfg->mtu > most) {
        snprintf(err, errlen, "port \"%s\" takes an MTU of %u at most; got %u%s", cfg->port, most, cfg->mtu,
                 below == most ? ": give its interface a larger one, or ask for less" : "");
        return -1;
    }
    dev->mtu = (uint16_t)(cfg->mtu != 0 ? cfg->mtu : smaller(most, DEFAULT_MTU));
    return 0;
}

// How many queues there should be when nobody said. Whatever comes by a queue of a device that was made with several is
// lost unless somebody looks; both ends of a memif must have the same number, and most have one.
static unsigned usual_queues(const struct bt_dpdk_device *dev, const struct rte_eth_dev_info *info)
{
    static const char *const made_with[] = {"net_ring", "net_af_packet", "net_af_xdp"};
    if (dev->pci) {
        return dev->n_ios;
    }
    for (unsigned i = 0; i < sizeof made_with / sizeof made_with[0]; i++) {
        if (strcmp(info->driver_name, made_with[i]) == 0) {
            return info->max_rx_queues;
        }
    }
    return 1;
}

static int choose_queues(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg,
                         const struct rte_eth_dev_info *info, char *err, size_t errlen)
{
    unsigned n = cfg->queues;
    if (n > info->max_rx_queues || n > info->max_tx_queues) {
        snprintf(err, errlen, "port \"%s\" does not have the %u queues asked for: it has %u to receive and %u to send",
                 cfg->port, n, info->max_rx_queues, info->max_tx_queues);
        return -1;
    }
    if (n == 0) {
        n = usual_queues(dev, info);
    }
    n = n < info->max_rx_queues ? n : info->max_rx_queues;
    n = n < info->max_tx_queues ? n : info->max_tx_queues;
    dev->n_queues = (uint16_t)(n < BT_DPDK_MAX_QUEUES ? n : BT_DPDK_MAX_QUEUES);
    if (dev->n_ios > dev->n_queues) {
        bt_dpdk_say(dev->log, "DPDK: %u threads have %u queue%s: those that share one take turns to send", dev->n_ios,
                    dev->n_queues, dev->n_queues == 1 ? "" : "s");
    }
    return 0;
}

static void choose_offloads(struct bt_dpdk_device *dev, const struct rte_eth_dev_info *info, struct rte_eth_conf *conf)
{
    const uint64_t tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    const uint64_t rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    if ((info->tx_offload_capa & tx) == tx) {
        conf->txmode.offloads |= tx;
        dev->tx_ip_sum = dev->tx_udp_sum = true;
    }
    if ((info->rx_offload_capa & rx) == rx) {
        conf->rxmode.offloads |= rx;
        dev->rx_sums = true;
    }
    bt_dpdk_say(dev->log, "DPDK: checksums: %s completes those sent, %s checks those received",
                dev->tx_udp_sum ? "the device" : "software", dev->rx_sums ? "the device" : "software");
}

// With receive interrupts if the device has them: whether it does is only known by trying.
static int configure(struct bt_dpdk_device *dev, struct rte_eth_conf *conf)
{
    if (dev->idle != BT_DPDK_IDLE_SPIN) {
        conf->intr_conf.rxq = 1;
        if (rte_eth_dev_configure(dev->port, dev->n_queues, dev->n_queues, conf) == 0) {
            dev->interrupts = true;
            return 0;
        }
        conf->intr_conf.rxq = 0;
    }
    return rte_eth_dev_configure(dev->port, dev->n_queues, dev->n_queues, conf);
}

static int set_up_queues(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg)
{
    uint16_t rx = cfg->ring != 0 ? cfg->ring : 1024;
    uint16_t tx = rx;
    int socket = rte_eth_dev_socket_id(dev->port);
    int failed = rte_eth_dev_adjust_nb_rx_tx_desc(dev->port, &rx, &tx);
    for (uint16_t q = 0; failed == 0 && q < dev->n_queues; q++) {
        failed = rte_eth_rx_queue_setup(dev->port, q, rx, (unsigned)socket, NULL, dev->buffers);
        if (failed == 0) {
            failed = rte_eth_tx_queue_setup(dev->port, q, tx, (unsigned)socket, NULL);
        }
    }
    return failed;
}

static void wait_for_link(struct bt_dpdk_device *dev, uint32_t ms)
{
    struct timespec poll = {.tv_nsec = LINK_POLL_NS};
    for (uint32_t i = 0; i < ms * LINK_POLLS_PER / 1000 && !bt_dpdk_link_up(dev); i++) {
        nanosleep(&poll, NULL);
        if (i % LOOK_AGAIN == LOOK_AGAIN - 1) {
            bt_dpdk_port_reconnect(dev);
        }
    }
    if (ms != 0 && !bt_dpdk_link_up(dev)) {
        bt_dpdk_say(dev->log, "DPDK: no carrier after %u ms; going on, packets are dropped until there is one", ms);
    }
}

static void own_mac(struct bt_dpdk_device *dev)
{
    struct rte_ether_addr mac;
    if (rte_eth_macaddr_get(dev->port, &mac) != 0 || rte_is_zero_ether_addr(&mac) || !rte_is_unicast_ether_addr(&mac)) {
        rte_eth_random_addr(mac.addr_bytes); // memory ports without an address
    }
    memcpy(dev->mac, mac.addr_bytes, sizeof dev->mac);
}

static int start(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    int failed = rte_eth_dev_start(dev->port);
    if (failed != 0 && !dev->client) {
        snprintf(err, errlen, "port \"%s\" does not start: %s", cfg->port, strerror(-failed));
        return -1;
    }
    atomic_store(&dev->running, failed == 0);
    dev->patience = PATIENCE;
    if (dev->client) { // from here on it is our affair
        (void)rte_log_set_level_pattern("pmd.net.memif*", RTE_LOG_CRIT);
    }
    if (cfg->mtu != 0 && cfg->mtu != DEFAULT_MTU) {
        failed = rte_eth_dev_set_mtu(dev->port, dev->mtu);
        if (failed != 0 && failed != -ENOTSUP) {
            snprintf(err, errlen, "port \"%s\" does not take an MTU of %u: %s", cfg->port, dev->mtu, strerror(-failed));
            return -1;
        }
    }
    (void)rte_eth_allmulticast_enable(dev->port); // neighbour discovery; memory ports filter nothing
    own_mac(dev);
    dev->held_at_start = bt_dpdk_in_use(dev);
    wait_for_link(dev, cfg->link_wait_ms);
    return 0;
}

// The af_xdp driver tells the kernel where the first piece of a pool lies and how long it is. What it sends from a
// buffer in another piece is no packet of ours, and what it frees when that was sent no buffer.
static int make_buffers(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    char name[RTE_MEMPOOL_NAMESIZE];
    uint32_t n = cfg->buffers != 0 ? cfg->buffers : BT_DPDK_DEFAULT_BUFFERS;
    snprintf(name, sizeof name, "bobtail%u", dev->port);
    dev->own_buffers = cfg->buffers_of == NULL;
    if (!dev->own_buffers) {
        dev->buffers = cfg->buffers_of;
    } else {
        dev->buffers = dev->keeps_buffers ? bt_dpdk_pool_dense(name, n) : bt_dpdk_pool_new(name, n);
    }
    if (dev->buffers == NULL) {
        snprintf(err, errlen, "no memory for %u packet buffers: %s; give DPDK more memory or ask for fewer buffers", n,
                 rte_strerror(rte_errno));
        return -1;
    }
    if (dev->keeps_buffers && dev->buffers->nb_mem_chunks != 1) {
        snprintf(
            err, errlen,
            "port \"%s\" needs its packet buffers in one piece of memory, and they are in %u; give DPDK more memory "
            "or ask for fewer buffers",
            cfg->port, dev->buffers->nb_mem_chunks);
        return -1;
    }
    return 0;
}

static int prepare(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf = {0};
    int failed = rte_eth_dev_info_get(dev->port, &info);
    if (failed != 0) {
        snprintf(err, errlen, "port \"%s\" does not describe itself: %s", cfg->port, strerror(-failed));
        return -1;
    }
    dev->keeps_buffers = strcmp(info.driver_name, "net_af_xdp") == 0;
    if (choose_mtu(dev, cfg, &info, err, errlen) != 0 || choose_queues(dev, cfg, &info, err, errlen) != 0 ||
        make_buffers(dev, cfg, err, errlen) != 0) {
        return -1;
    }
    dev->client = strcmp(info.driver_name, "net_memif") == 0 && strstr(cfg->port, "role=server") == NULL &&
                  strstr(cfg->port, "role=master") == NULL;
    choose_offloads(dev, &info, &conf);
    failed = configure(dev, &conf);
    if (failed == 0) {
        failed = set_up_queues(dev, cfg);
    }
    if (failed != 0) {
        snprintf(err, errlen, "port \"%s\" cannot be set up with %u queues: %s%s", cfg->port, dev->n_queues,
                 strerror(-failed), dev->keeps_buffers ? BT_DPDK_XDP_NEEDS : "");
    }
    return failed == 0 ? 0 : -1;
}

struct stopping {
    struct bt_dpdk_device *dev;
    atomic_bool done;
};

static void stop_port(void *arg)
{
    struct stopping *s = arg;
    if (atomic_exchange(&s->dev->running, false) || bt_dpdk_loss(s->dev) == BT_DPDK_GONE) {
        (void)rte_eth_dev_stop(s->dev->port);
    }
    if (s->dev->probed) {
        (void)rte_eth_dev_close(s->dev->port);
    }
    atomic_store(&s->done, true);
}

// The memif driver takes a connection down in DPDK's interrupt thread when the peer goes, and has no lock against us
// doing the same: so we do it there too. Peers that end together are no rare case.
static void stop_in_interrupt_thread(struct stopping *s)
{
    struct timespec moment = {.tv_nsec = 200000};
    if (rte_eal_alarm_set(1, stop_port, s) != 0) {
        stop_port(s);
    }
    while (!atomic_load(&s->done)) {
        nanosleep(&moment, NULL);
    }
}

void bt_dpdk_port_close(struct bt_dpdk_device *dev)
{
    struct rte_eth_dev_info info;
    struct stopping s = {.dev = dev};
    if (dev->port == RTE_MAX_ETHPORTS) {
        return;
    }
    bool known = rte_eth_dev_info_get(dev->port, &info) == 0;
    if (known && strcmp(info.driver_name, "net_memif") == 0) {
        stop_in_interrupt_thread(&s);
    } else {
        stop_port(&s);
    }
    if (dev->probed && known) {
        (void)rte_dev_remove(info.device);
    }
}

int bt_dpdk_port_open(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    struct bt_dpdk_descriptors before;
    bt_dpdk_sockets_before(&before);
    if (find(dev, cfg->port, err, errlen) != 0 || prepare(dev, cfg, err, errlen) != 0 ||
        start(dev, cfg, err, errlen) != 0) {
        return -1;
    }
    bt_dpdk_sockets_after(dev, &before);
    return 0;
}

// Only a start connects a memif client; one that lost its server has to stop for it. A connection that is being made
// is given time, since both sides make it in threads of their own.
void bt_dpdk_port_reconnect(struct bt_dpdk_device *dev)
{
    if (!dev->client || bt_dpdk_link_up(dev)) {
        dev->patience = 0;
        return;
    }
    bool started = atomic_load(&dev->running);
    if (started && dev->patience > 0) {
        dev->patience--;
        return;
    }
    if (started) {
        atomic_store(&dev->running, false);
        (void)rte_eth_dev_stop(dev->port);
    }
    started = rte_eth_dev_start(dev->port) == 0;
    dev->patience = started ? PATIENCE : 0;
    atomic_store(&dev->running, started);
}

bool bt_dpdk_link_up(const struct bt_dpdk_device *dev)
{
    struct rte_eth_link link;
    if (bt_dpdk_loss(dev) == BT_DPDK_GONE || atomic_load_explicit(&dev->interface_down, memory_order_relaxed)) {
        return false;
    }
    return rte_eth_link_get_nowait(dev->port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}
