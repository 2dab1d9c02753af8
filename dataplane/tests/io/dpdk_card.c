// SPDX-License-Identifier: Apache-2.0
// See dpdk_card.h.
#include "dpdk_card.h"

#include <errno.h>
#include <net/if.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct card card;
char card_error[600], card_said[1000];

// Ours is called instead while the card is on, with what it returns.
#define INSTEAD(type, name, params, given, ours)                                                                       \
    type __real_##name params;                                                                                         \
    type __wrap_##name params;                                                                                         \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        if (!card.on) {                                                                                                \
            return __real_##name given;                                                                                \
        }                                                                                                              \
        ours                                                                                                           \
    }

// Who has nothing to send asks for what was sent.
static uint16_t take_back(void *queue, struct rte_mbuf **m, uint16_t n)
{
    (void)queue;
    assert_true(m == NULL && n == 0);
    card.asked_back++;
    return 0;
}

static uint16_t ring_port(void)
{
    uint16_t port = RTE_MAX_ETHPORTS;
    bool on = card.on;
    card.on = false;
    assert_int_equal(rte_eth_dev_get_port_by_name("net_ring_a", &port), 0);
    card.on = on;
    return port;
}

INSTEAD(int, rte_eth_dev_get_port_by_name, (const char *name, uint16_t *port), (name, port), {
    *port = card.unknown ? RTE_MAX_ETHPORTS : ring_port();
    return card.unknown ? -ENODEV : 0;
})

INSTEAD(int, rte_dev_probe, (const char *name), (name), {
    snprintf(card.probed, sizeof card.probed, "%s", name);
    card.unknown = card.no_port;
    return card.probe;
})

INSTEAD(int, rte_dev_remove, (struct rte_device * dev), (dev), {
    assert_non_null(dev);
    card.removes++;
    return 0;
})

INSTEAD(int, rte_eth_dev_info_get, (uint16_t port, struct rte_eth_dev_info *info), (port, info), {
    (void)__real_rte_eth_dev_info_get(port, info);
    info->driver_name = card.driver != NULL ? card.driver : "net_ring";
    info->max_mtu = card.max_mtu;
    info->max_rx_queues = card.max_rx;
    info->max_tx_queues = card.max_tx;
    return card.info;
})

INSTEAD(int, rte_eth_dev_configure, (uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf),
        (port, rx, tx, conf), {
            card.rx_queues = rx;
            card.tx_queues = tx;
            card.configured++;
            card.with_interrupts += conf->intr_conf.rxq;
            return conf->intr_conf.rxq ? card.interrupts : card.configure;
        })

INSTEAD(int, rte_eth_dev_adjust_nb_rx_tx_desc, (uint16_t port, uint16_t *rx, uint16_t *tx), (port, rx, tx), {
    assert_int_equal(*rx, *tx);
    card.ring = *rx;
    return card.adjust;
})

INSTEAD(int, rte_eth_rx_queue_setup,
        (uint16_t port, uint16_t queue, uint16_t n, unsigned socket, const struct rte_eth_rxconf *conf,
         struct rte_mempool *pool),
        (port, queue, n, socket, conf, pool), {
            assert_int_equal(queue, card.rx_setups++);
            assert_non_null(pool);
            return card.rx_setup;
        })

INSTEAD(int, rte_eth_tx_queue_setup,
        (uint16_t port, uint16_t queue, uint16_t n, unsigned socket, const struct rte_eth_txconf *conf),
        (port, queue, n, socket, conf), {
            assert_int_equal(queue, card.tx_setups++);
            return card.tx_setup;
        })

INSTEAD(int, rte_eth_dev_start, (uint16_t port), (port), {
    card.starts++;
    rte_eth_fp_ops[port].tx_pkt_burst = take_back; // DPDK's own call complains of a port that never started
    return card.start;
})

INSTEAD(int, rte_eth_dev_stop, (uint16_t port), (port), {
    card.stops++;
    assert_true(card.used == NULL || !atomic_load(&card.used->running));
    return 0;
})

INSTEAD(int, rte_eth_dev_close, (uint16_t port), (port), {
    card.closes++;
    return 0;
})

INSTEAD(int, rte_eth_dev_set_mtu, (uint16_t port, uint16_t mtu), (port, mtu), {
    card.mtus++;
    card.mtu = mtu;
    return card.set_mtu;
})

INSTEAD(int, rte_eth_allmulticast_enable, (uint16_t port), (port), {
    card.multicasts++;
    return 0;
})

INSTEAD(int, rte_eth_macaddr_get, (uint16_t port, struct rte_ether_addr *mac), (port, mac), {
    *mac = card.address;
    return card.mac;
})

INSTEAD(int, rte_eth_link_get_nowait, (uint16_t port, struct rte_eth_link *link), (port, link), {
    memset(link, 0, sizeof *link);
    link->link_status = card.looks++ >= card.up_after ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
    return 0;
})

INSTEAD(int, nanosleep, (const struct timespec *t, struct timespec *rest), (t, rest), {
    card.sleeps++;
    card.sleep_ns = t->tv_sec * 1000000000 + t->tv_nsec;
    return 0;
})

INSTEAD(int, rte_eal_alarm_set, (uint64_t us, rte_eal_alarm_callback run, void *arg), (us, run, arg), {
    card.alarms++;
    if (card.alarm == 0) {
        run(arg);
    }
    return card.alarm;
})

INSTEAD(int, rte_log_set_level_pattern, (const char *pattern, uint32_t level), (pattern, level), {
    card.silenced += strcmp(pattern, "pmd.net.memif*") == 0;
    return 0;
})

INSTEAD(int, rte_dev_event_callback_register, (const char *name, rte_dev_event_cb_fn fn, void *arg), (name, fn, arg),
        { return card.events; })

INSTEAD(int, rte_dev_event_callback_unregister, (const char *name, rte_dev_event_cb_fn fn, void *arg), (name, fn, arg),
        {
            card.takes++;
            return card.busy-- > 0 ? -EAGAIN : 0;
        })

INSTEAD(int, rte_eth_dev_callback_register,
        (uint16_t port, enum rte_eth_event_type event, rte_eth_dev_cb_fn fn, void *arg), (port, event, fn, arg), {
            assert_int_equal(event, RTE_ETH_EVENT_INTR_RMV);
            card.removed = fn;
            card.removed_arg = arg;
            return card.removal;
        })

INSTEAD(int, rte_eth_dev_callback_unregister,
        (uint16_t port, enum rte_eth_event_type event, rte_eth_dev_cb_fn fn, void *arg), (port, event, fn, arg), {
            assert_true(card.removed == NULL || (fn == card.removed && arg == card.removed_arg));
            card.removed = NULL;
            return 0;
        })

INSTEAD(int, access, (const char *path, int mode), (path, mode), {
    if (!card.pci) {
        return __real_access(path, mode);
    }
    snprintf(card.probed, sizeof card.probed, "%s", path);
    errno = card.no_pci != 0 ? card.no_pci : ENOENT; // what an earlier call left there
    return card.no_pci != 0 ? -1 : 0;
})

INSTEAD(int, ioctl, (int fd, unsigned long what, void *arg), (fd, what, arg), {
    struct ifreq *r = arg;
    if (what == SIOCGIFMTU && card.if_mtu != 0) {
        r->ifr_mtu = card.if_mtu;
    } else if (what == SIOCGIFNAME && card.interface) {
        assert_int_equal(r->ifr_ifindex, 4711);
        errno = card.if_error;
        return card.if_error != 0 ? -1 : 0;
    } else if (what == SIOCGIFFLAGS && card.interface) {
        r->ifr_flags = card.if_running ? IFF_UP | IFF_RUNNING : IFF_UP;
    } else {
        return __real_ioctl(fd, what, arg);
    }
    return 0;
})

static void say(const char *line)
{
    size_t at = strlen(card_said);
    snprintf(card_said + at, sizeof card_said - at, "%s\n", line);
}

void card_new(void)
{
    card = (struct card){.on = true, .max_rx = 1, .max_tx = 1, .address = {.addr_bytes = {2, 0, 0, 0, 0, 7}}};
}

struct bt_dpdk_device *card_open(const struct bt_dpdk_device_config *given)
{
    struct bt_dpdk_device_config cfg = *given;
    struct bt_link_prefix own[2];
    dpdk_addresses(1, own);
    cfg.port = cfg.port != NULL ? cfg.port : "net_ring_a";
    cfg.addrs = own;
    cfg.n_addrs = 2;
    cfg.buffers = cfg.buffers != 0 ? cfg.buffers : 64;
    cfg.log = say;
    card_said[0] = card_error[0] = '\0';
    return bt_dpdk_device_open(&cfg, card_error, sizeof card_error);
}

struct bt_dpdk_device *card_must_open(const struct bt_dpdk_device_config *cfg)
{
    struct bt_dpdk_device *dev = card_open(cfg);
    if (dev == NULL) {
        fail_msg("%s", card_error);
    }
    return dev;
}

void card_close(struct bt_dpdk_device *dev)
{
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

void card_assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}
