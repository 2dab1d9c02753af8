// SPDX-License-Identifier: Apache-2.0
// See network.h.
#include "shell/network.h"

#include "io/mtu.h"
#include "io/udp.h"
#include "shell/device_told.h"
#include "shell/log.h"
#include "shell/network_dpdk.h"
#include "shell/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bt_network {
    enum bt_network_driver driver;
    enum bt_idle idle;
    unsigned threads;
    struct bt_pool_mapped pool[BT_NETWORK_THREADS]; // UDP
    struct bt_dpdk_device *dev;                     // DPDK
};

struct bt_network_options bt_network_defaults(void)
{
    return (struct bt_network_options){.link_wait_ns = UINT64_C(1000000000)};
}

size_t bt_network_rows(struct bt_network_options *o, struct bt_cli_option *rows)
{
    const struct bt_cli_option mine[] = {
        {"idle", BT_CLI_CHOICE, &o->idle, 0, 0, "auto|sleep|spin|yield|block",
         "what to do when no packet is there; block is sleep"},
        {"cpus", BT_CLI_TEXT, &o->cpu_list, 0, 0, "LIST", "thread i stays on the i-th of these CPUs: 2,3 or 4-7"},
        {"driver", BT_CLI_CHOICE, &o->driver, 0, 0, "udp|dpdk", "Linux sockets, or a DPDK port"},
        {.kind = BT_CLI_HEADING, .help = "DPDK port (--driver=dpdk)"},
        {"dpdk-port", BT_CLI_TEXT_AT, &o->port, 0, 0, "PORT",
         "virtual device with its arguments, PCI address, env:VARIABLE with one, or claim:NAME of a DRA claim"},
        {"dpdk-pci-file", BT_CLI_TEXT, &o->pci_file, 0, 0, "FILE",
         "what stands there must agree with env:VARIABLE or claim:NAME"},
        {"dpdk-prefix", BT_CLI_AUTO_U32, &o->prefix, 1, 128, "auto|BITS", "length of --address's network: 24, IPv6 64"},
        {"dpdk-gateway", BT_CLI_TEXT, &o->gateway, 0, 0, "IP", "next hop out of that network"},
        {"dpdk-queues", BT_CLI_AUTO_U32, &o->queues, 1, 16, NULL, "queues to use"},
        {"dpdk-buffers", BT_CLI_AUTO_U32, &o->buffers, 1024, 4194304, NULL, "packet buffers; auto: 16384"},
        {"dpdk-checksums", BT_CLI_CHOICE, &o->checksums, 0, 0, "auto|full|unfinished|none",
         "unfinished (auto: on af_xdp): take what a kernel left to a device, too; none: take any, send none "
         "over IPv4"},
        {"dpdk-hugepages", BT_CLI_CHOICE, &o->hugepages, 0, 0, "auto|on|off", "memory in hugepages"},
        {"dpdk-memory", BT_CLI_AUTO_U32, &o->memory_mib, 16, 1048576, "auto|MIB", "memory for DPDK"},
        {"dpdk-link-wait", BT_CLI_DURATION, &o->link_wait_ns, 0, 600e9, NULL, "wait so long for the carrier at start"},
        {"dpdk-eal", BT_CLI_TEXT, &o->eal, 0, 0, "ARGS", "more arguments for DPDK itself, separated by blanks"},
    };
    _Static_assert(sizeof mine / sizeof mine[0] == BT_NETWORK_ROWS, "the table must fit");
    memcpy(rows, mine, sizeof mine);
    return BT_NETWORK_ROWS;
}

static bool is_ip(const char *text, bool v4)
{
    char with_port[80];
    struct bt_addr a;
    snprintf(with_port, sizeof with_port, strchr(text, ':') != NULL ? "[%.60s]:1" : "%.60s:1", text);
    return bt_addr_parse(with_port, 0, &a) == 0 && !bt_addr_bad_source(&a) && bt_addr_is_v4(&a) == v4;
}

// Linux sockets have no use for any of these, and an option without effect is a mistake somebody should hear of.
static bool check_udp(const struct bt_cli *p, const struct bt_network_options *o)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        {"dpdk-port", o->port != NULL},
        {"dpdk-pci-file", o->pci_file != NULL},
        {"dpdk-prefix", o->prefix != 0},
        {"dpdk-gateway", o->gateway != NULL},
        {"dpdk-queues", o->queues != 0},
        {"dpdk-buffers", o->buffers != 0},
        {"dpdk-checksums", o->checksums != 0},
        {"dpdk-hugepages", o->hugepages != 0},
        {"dpdk-memory", o->memory_mib != 0},
        {"dpdk-link-wait", o->link_wait_ns != bt_network_defaults().link_wait_ns},
        {"dpdk-eal", o->eal != NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].given) {
            bt_cli_error(p, rows[i].name, "needs --driver=dpdk");
            return false;
        }
    }
    return true;
}

// A port that others tell, a device plugin by a variable or a DRA driver by files. Reports and returns false.
static bool read_port(const struct bt_cli *p, struct bt_network_options *o)
{
    static const struct {
        const char *prefix;
        bool (*find)(const char *name, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen);
    } tellers[] = {{"env:", bt_device_from_environment}, {"claim:", bt_device_from_claim}};
    static char pci[BT_DEVICE_PCI];
    char why[800];
    for (size_t i = 0; i < sizeof tellers / sizeof tellers[0]; i++) {
        size_t len = strlen(tellers[i].prefix);
        if (strncmp(o->port, tellers[i].prefix, len) != 0) {
            continue;
        }
        if (!tellers[i].find(o->port + len, o->pci_file, pci, why, sizeof why)) {
            bt_cli_error(p, "dpdk-port", "%s", why);
            return false;
        }
        o->port = pci;
        return true;
    }
    if (o->pci_file != NULL) {
        bt_cli_error(p, "dpdk-pci-file", "needs --dpdk-port=env:VARIABLE or claim:NAME; got \"%s\"", o->port);
    }
    return o->pci_file == NULL;
}

bool bt_network_check(const struct bt_cli *p, struct bt_network_options *o, const struct bt_addr *own, unsigned threads)
{
    static const uint8_t nothing[16];
    bool v4 = bt_addr_is_v4(own);
    o->idle = o->idle == BT_NETWORK_BLOCK ? BT_NETWORK_SLEEP : o->idle;
    if (!bt_cpus_read(p, o->cpu_list, threads, &o->cpus)) {
        return false;
    }
    if (o->driver != BT_NETWORK_DPDK) {
        return check_udp(p, o);
    }
    if (!bt_network_has_dpdk) {
        bt_cli_error(p, "driver", "this program was built without DPDK (meson -Ddpdk=enabled)");
    } else if (o->port == NULL || o->port[0] == '\0') {
        bt_cli_error(p, "dpdk-port", "is required with --driver=dpdk: such as net_memif0,role=client or 0000:05:00.0");
    } else if (memcmp(v4 ? own->ip + 12 : own->ip, nothing, v4 ? 4 : 16) == 0) {
        bt_cli_error(p, "address", "must be the IP address of the DPDK port with --driver=dpdk");
    } else if (v4 && o->prefix > 32) {
        bt_cli_error(p, "dpdk-prefix", "must be auto or 1..32 for an IPv4 --address; got \"%u\"", o->prefix);
    } else if (o->gateway != NULL && !is_ip(o->gateway, v4)) {
        bt_cli_error(p, "dpdk-gateway", "must be an IP address of the same family as --address; got \"%s\"",
                     o->gateway);
    } else {
        return read_port(p, o);
    }
    return false;
}

static bool open_pools(struct bt_network *n, uint32_t buffers)
{
    for (unsigned t = 0; t < n->threads; t++) {
        if (!bt_pool_mapped_open(&n->pool[t], buffers)) {
            bt_log_error("cannot reserve address space for packet buffers; raise the limit (ulimit -v)");
            return false;
        }
    }
    return true;
}

struct bt_network *bt_network_open(const struct bt_network_options *o, const struct bt_addr *own, unsigned threads,
                                   uint32_t buffers)
{
    struct bt_network *n = calloc(1, sizeof *n);
    bool opened = false;
    if (n == NULL || threads > BT_NETWORK_THREADS) {
        bt_log_error("cannot open a network for %u threads", threads);
        free(n);
        return NULL;
    }
    n->driver = (enum bt_network_driver)o->driver;
    n->idle = o->idle == BT_NETWORK_SPIN ? BT_IDLE_SPIN : o->idle == BT_NETWORK_YIELD ? BT_IDLE_YIELD : BT_IDLE_BLOCK;
    n->threads = threads;
    if (n->driver != BT_NETWORK_DPDK) {
        opened = open_pools(n, buffers);
    } else {
        n->dev = bt_network_dpdk_open(o, own, threads);
        opened = n->dev != NULL;
    }
    if (!opened) {
        bt_network_close(n);
        return NULL;
    }
    return n;
}

struct bt_pool *bt_network_pool(struct bt_network *n, unsigned t)
{
    return n->driver == BT_NETWORK_DPDK ? bt_network_dpdk_pool(n->dev) : &n->pool[t].pool;
}

struct bt_io *bt_network_io(struct bt_network *n, unsigned t, const struct bt_network_ports *ports, char *err,
                            size_t errlen)
{
    if (n->driver == BT_NETWORK_DPDK) {
        return bt_network_dpdk_io(n->dev, ports->locals, ports->n, ports->report_unreachable, err, errlen);
    }
    struct bt_udp_config udp = {.locals = ports->locals,
                                .n_locals = ports->n,
                                .pool = &n->pool[t].pool,
                                .idle = n->idle,
                                .report_unreachable = ports->report_unreachable};
    return bt_udp_open(&udp, err, errlen);
}

int bt_network_allow_transparent(struct bt_network *n, struct bt_io *io, char *err, size_t errlen)
{
    return n->driver == BT_NETWORK_DPDK ? 0 : bt_udp_allow_transparent(io, err, errlen);
}

bool bt_network_mtu(const struct bt_network *n, uint32_t asked, uint16_t *mtu)
{
    uint32_t device = n->driver == BT_NETWORK_DPDK ? bt_network_dpdk_mtu(n->dev) : 0;
    if (device != 0 && asked > device) {
        bt_log_error(
            "--mtu=%u: the DPDK port sends at most %u bytes; ask for no more, or give its interface a larger MTU",
            asked, device);
        return false;
    }
    *mtu = (uint16_t)(asked != 0 ? asked : device < BT_MTU_MAX ? device : BT_MTU_MAX);
    return true;
}

void bt_network_describe(const struct bt_network *n, const struct bt_network_options *o, struct bt_ctl_device *out)
{
    *out = (struct bt_ctl_device){.device_node = -1, .memory_node = -1, .cpu_node = -1};
    if (n->driver != BT_NETWORK_DPDK) {
        return;
    }
    bt_network_dpdk_describe(n->dev, out);
    (void)bt_device_is_pci(o->port, out->pci);
    out->cpu_node = bt_cpus_allowed(out->cpus, sizeof out->cpus);
}

void bt_network_look(const struct bt_network *n, const struct bt_ctl_device *described, struct bt_ctl_device *out)
{
    *out = *described;
    if (n != NULL && n->driver == BT_NETWORK_DPDK) {
        out->link = bt_network_dpdk_link(n->dev);
    }
}

uint32_t bt_network_in_use(const struct bt_network *n)
{
    uint32_t sum = 0;
    if (n->driver == BT_NETWORK_DPDK) {
        return bt_network_dpdk_in_use(n->dev);
    }
    for (unsigned t = 0; t < n->threads; t++) {
        sum += n->pool[t].in_use;
    }
    return sum;
}

void bt_network_close(struct bt_network *n)
{
    if (n->dev != NULL) {
        bt_network_dpdk_close(n->dev);
    }
    for (unsigned t = 0; t < n->threads; t++) {
        bt_pool_mapped_close(&n->pool[t]);
    }
    free(n);
}
