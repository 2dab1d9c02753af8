// SPDX-License-Identifier: Apache-2.0
// See dpdk_world.h.
#include "dpdk_world.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

struct hosts hosts;
struct idle_world world;

uint64_t __real_bt_dpdk_now(struct bt_io *io);
int __real_sched_yield(void);
int __real_rte_thread_register(void);
uint64_t __wrap_bt_dpdk_now(struct bt_io *io);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask);
int __wrap_sched_yield(void);
int __wrap_rte_thread_register(void);
int __wrap_prctl(int option, unsigned long value);

uint64_t __wrap_bt_dpdk_now(struct bt_io *io)
{
    if (!world.on) {
        return __real_bt_dpdk_now(io);
    }
    world.looks++;
    world.now += world.step;
    return world.now;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    (void)mask;
    uint64_t ns = (uint64_t)t->tv_sec * 1000 * MS + (uint64_t)t->tv_nsec;
    if (world.sleeps++ == 0) {
        world.slept_at = world.now;
        world.sleeps_ns = ns;
        world.watched = (unsigned)n;
        for (nfds_t i = 0; i < n && i < 3; i++) {
            world.watch[i] = fds[i].fd;
        }
    }
    world.now += ns;
    if (world.asleep != NULL) {
        world.asleep(fds);
    }
    return poll(fds, n, 0);
}

int __wrap_sched_yield(void)
{
    world.yields++;
    world.yielded_at = world.now;
    return world.on ? 0 : __real_sched_yield();
}

int __real_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue);
int __real_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue);
int __real_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue);

int __wrap_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue)
{
    if (!world.interrupts) {
        return __real_rte_eth_dev_rx_intr_enable(port, queue);
    }
    bool refused = world.refuses == queue;
    world.enabled[queue] += !refused;
    return refused ? -ENOTSUP : 0;
}

int __wrap_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue)
{
    if (!world.interrupts) {
        return __real_rte_eth_dev_rx_intr_disable(port, queue);
    }
    world.disabled[queue]++;
    return 0;
}

int __wrap_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue)
{
    return world.interrupts ? world.interrupt[queue] : __real_rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int __real_rte_eth_stats_get(uint16_t port, struct rte_eth_stats *stats);
int __wrap_rte_eth_stats_get(uint16_t port, struct rte_eth_stats *stats);

int __wrap_rte_eth_stats_get(uint16_t port, struct rte_eth_stats *stats)
{
    if (world.stats == NULL) {
        return __real_rte_eth_stats_get(port, stats);
    }
    *stats = *world.stats;
    return world.no_stats;
}

int __real_rte_eth_link_get_nowait(uint16_t port, struct rte_eth_link *link);
int __wrap_rte_eth_link_get_nowait(uint16_t port, struct rte_eth_link *link);

int __wrap_rte_eth_link_get_nowait(uint16_t port, struct rte_eth_link *link)
{
    int failed = __real_rte_eth_link_get_nowait(port, link);
    link->link_status = world.no_carrier ? RTE_ETH_LINK_DOWN : link->link_status;
    return failed;
}

int __wrap_rte_thread_register(void)
{
    world.registrations++;
    return world.refuse_thread ? -1 : __real_rte_thread_register();
}

// A thread's timers are to be exact: the only thing asked for here. It is asked just before the first sleep.
int __wrap_prctl(int option, unsigned long value)
{
    assert_int_equal(option, PR_SET_TIMERSLACK);
    assert_int_equal(value, 1);
    world.slacks++;
    if (world.before_sleep != NULL) {
        world.before_sleep();
    }
    return 0;
}

struct bt_dpdk *idle_begin(struct bt_io *io, enum bt_dpdk_idle idle)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    d->dev->idle = idle;
    memset(&world, 0, sizeof world);
    world.now = __real_bt_dpdk_now(io) + 3600 * 1000 * MS;
    world.on = true;
    world.step = 1000 * MS;
    for (unsigned i = 0; i < 100 && bt_link_next(d->link) <= world.now + 3600 * 1000 * MS; i++) { // what is due is done
        (void)bt_dpdk_look(d);
    }
    world.step = US;
    d->now_ns = d->last_rx_ns = world.now;
    d->look_ns = UINT64_MAX;
    return d;
}

static struct {
    struct rte_eth_fp_ops *calls, dpdks;
} replaced;

struct rte_eth_fp_ops *idle_calls(struct bt_io *io)
{
    if (replaced.calls == NULL) {
        replaced.calls = &rte_eth_fp_ops[bt_dpdk_of(io)->dev->port];
        replaced.dpdks = *replaced.calls;
    }
    return replaced.calls;
}

int idle_open(void **state)
{
    (void)state;
    replaced.calls = NULL;
    memset(&world, 0, sizeof world);
    hosts = hosts_open();
    return 0;
}

int idle_close(void **state)
{
    (void)state;
    if (replaced.calls != NULL) {
        *replaced.calls = replaced.dpdks;
    }
    world.on = world.no_carrier = false;
    hosts_close(&hosts);
    return 0;
}
