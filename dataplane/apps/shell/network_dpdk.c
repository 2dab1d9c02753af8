// SPDX-License-Identifier: Apache-2.0
// See network_dpdk.h: options to a DPDK device.
#include "shell/network_dpdk.h"

#include "io/dpdk.h"
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <stdio.h>
#include <string.h>

const bool bt_network_has_dpdk = true;

enum { BITS_V4 = 24, BITS_V6 = 64 };

static void say(const char *line)
{
    bt_log_info("%s", line);
}

// While the device still works, what was asked is answered.
static void lost(enum bt_dpdk_loss loss, const char *why)
{
    bt_stop_without_device(loss == BT_DPDK_GONE, why);
}

static enum bt_dpdk_idle idle_of(int idle)
{
    switch (idle) {
    case BT_NETWORK_SLEEP:
        return BT_DPDK_IDLE_SLEEP;
    case BT_NETWORK_SPIN:
        return BT_DPDK_IDLE_SPIN;
    case BT_NETWORK_YIELD:
        return BT_DPDK_IDLE_YIELD;
    default:
        return BT_DPDK_IDLE_AUTO;
    }
}

static struct bt_addr gateway_of(const char *text)
{
    char with_port[80];
    struct bt_addr a = {0};
    if (text != NULL) {
        snprintf(with_port, sizeof with_port, strchr(text, ':') != NULL ? "[%.60s]:1" : "%.60s:1", text);
        if (bt_addr_parse(with_port, 0, &a) == 0) { // checked when the options were read
            a.port = 0;
        }
    }
    return a;
}

static struct bt_dpdk_device *open_device(const struct bt_network_options *o, const struct bt_addr *own,
                                          unsigned threads, const struct bt_network_more *more)
{
    char why[500];
    char cpus[6 * BT_CPUS_MAX];
    struct bt_link_prefix addrs[BT_LINK_MAX_ADDRS] = {{.addr = *own}};
    struct bt_addr gateway = gateway_of(o->gateway);
    bool v4 = bt_addr_is_v4(own);
    struct bt_dpdk_eal eal = {
        .port = o->port,
        .extra = o->eal,
        .cpus = cpus,
        .hugepages = (enum bt_dpdk_hugepages)o->hugepages,
        .memory_mib = o->memory_mib,
        .buffers = o->buffers,
        .log = say,
    };
    struct bt_dpdk_device_config cfg = {
        .port = o->port,
        .addrs = addrs,
        .n_addrs = 1 + (more != NULL ? more->n_addrs : 0),
        .takes_tcp = more != NULL || o->takes_tcp,
        .ios = threads,
        .queues = o->queues,
        .buffers = o->buffers,
        .checksums = (enum bt_dpdk_checksums)o->checksums,
        .link_wait_ms = (uint32_t)(o->link_wait_ns / 1000000u),
        .idle = idle_of(o->idle),
        .seed = bt_new_seed(),
        .log = say,
        .lost = lost,
    };
    bt_cpus_text(&o->cpus, cpus, sizeof cpus);
    addrs[0].addr.port = 0;
    addrs[0].bits = (uint8_t)(o->prefix != 0 ? o->prefix : v4 ? BITS_V4 : BITS_V6);
    for (unsigned i = 1; i < cfg.n_addrs; i++) {
        addrs[i] = more->addrs[i - 1];
    }
    if (more != NULL) {
        cfg.gateway6 = more->gateway6;
    }
    if (o->gateway != NULL) {
        *(v4 ? &cfg.gateway4 : &cfg.gateway6) = gateway;
    }
    if (bt_dpdk_start(&eal, why, sizeof why) != 0) {
        bt_log_error("--driver=dpdk: %s", why);
        return NULL;
    }
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, why, sizeof why);
    if (dev == NULL && bt_dpdk_absent(o->port)) {
        bt_stop_without_device(true, why); // which is said at the end
    } else if (dev == NULL) {
        bt_log_error("--driver=dpdk: %s", why);
    }
    return dev;
}

struct bt_dpdk_device *bt_network_dpdk_open(const struct bt_network_options *o, const struct bt_addr *own,
                                            unsigned threads)
{
    return open_device(o, own, threads, NULL);
}

struct bt_dpdk_device *bt_network_dpdk_open_tcp(const struct bt_network_options *o, const struct bt_addr *own,
                                                const struct bt_network_more *more)
{
    return open_device(o, own, 1, more);
}

// The option that set the field of the link's configuration a refusal begins with.
static const char *option_of(const char *why)
{
    static const char *const options[][2] = {
        {"addrs[", "--address and --dpdk-prefix: "}, {"gateway", "--dpdk-gateway: "}, {"mtu[", "--dpdk-port: "}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strncmp(why, options[i][0], strlen(options[i][0])) == 0) {
            return options[i][1];
        }
    }
    return "";
}

struct bt_io *bt_network_dpdk_io(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n_locals,
                                 bool report_unreachable, char *err, size_t errlen)
{
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = n_locals, .report_unreachable = report_unreachable};
    char why[300];
    struct bt_io *io = bt_dpdk_open(dev, &cfg, why, sizeof why);
    if (io == NULL) {
        snprintf(err, errlen, "%s%s", option_of(why), why);
    }
    return io;
}

struct bt_pool *bt_network_dpdk_pool(struct bt_dpdk_device *dev)
{
    return bt_dpdk_pool(dev);
}

void bt_network_dpdk_describe(const struct bt_dpdk_device *dev, struct bt_ctl_device *out)
{
    struct bt_dpdk_facts facts;
    uint8_t m[6];
    bt_dpdk_describe(dev, &facts);
    bt_dpdk_mac(dev, m);
    snprintf(out->driver, sizeof out->driver, "%s", facts.driver);
    snprintf(out->mac, sizeof out->mac, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    out->mtu = bt_dpdk_mtu(dev);
    out->device_node = facts.device_node;
    out->memory_node = facts.memory_node;
    out->hugepages_mib = facts.hugepages_mib;
}

const char *bt_network_dpdk_link(const struct bt_dpdk_device *dev)
{
    if (bt_dpdk_loss(dev) != BT_DPDK_KEPT) {
        return "Lost";
    }
    return bt_dpdk_carrier(dev) ? "Up" : "Down";
}

uint16_t bt_network_dpdk_mtu(const struct bt_dpdk_device *dev)
{
    return bt_dpdk_mtu(dev);
}

uint32_t bt_network_dpdk_in_use(const struct bt_dpdk_device *dev)
{
    return bt_dpdk_in_use(dev);
}

void bt_network_dpdk_close(struct bt_dpdk_device *dev)
{
    (void)bt_dpdk_device_close(dev);
}
