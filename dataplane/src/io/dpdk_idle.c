// SPDX-License-Identifier: Apache-2.0
// What a thread does while nothing arrives. Polling alone would burn a core for an idle router and starve its
// neighbours on a shared one, so a thread that found nothing looks again for a moment, then gives the core away,
// then sleeps: on the device's interrupt where there is one, else for a nap at a time. A nap is a hundredth of the time
// since the last packet, 50 to 250 us: the longer nothing came, the fewer of them. An eventfd ends every sleep.
#include "io/dpdk_internal.h"

#include <poll.h>
#include <rte_pause.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS  UINT64_C(20000)     // SLEEP: look so long before sleeping
#define YIELD_NS UINT64_C(2000000)   // YIELD: give the core away so long before sleeping
#define NAP_NS   UINT64_C(50000)     // without interrupts nobody else says that a packet came: at least so long
#define NAP_MOST UINT64_C(250000)    // and at most
#define NAPS     100u                // of the time since the last packet
#define LONG_NS  UINT64_C(100000000) // with them: the carrier wants a look now and then
#define PAUSES   64u                 // looks between two yields
#define MIN_NS   UINT64_C(2000)      // a shorter sleep costs more than looking again

int bt_dpdk_bell_open(struct bt_dpdk_bell *bell)
{
    atomic_init(&bell->asked, false);
    atomic_init(&bell->asleep, false);
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return bell->fd >= 0 ? 0 : -1;
}

// Either the sleeper sees `asleep` cleared by nobody and `asked` unset before we set it, and then we see it asleep
// and write; or it sees `asked`. Both sides order their store before their load. Allowed in a signal handler.
void bt_dpdk_ring_bell(struct bt_dpdk_bell *bell)
{
    atomic_store(&bell->asked, true);
    if (atomic_load(&bell->asleep)) {
        uint64_t one = 1;
        ssize_t n = write(bell->fd, &one, sizeof one);
        (void)n;
    }
}

void bt_dpdk_wake(struct bt_io *io)
{
    bt_dpdk_ring_bell(&bt_dpdk_of(io)->bell);
}

static bool asked(struct bt_dpdk *d)
{
    return atomic_load_explicit(&d->bell.asked, memory_order_relaxed) && atomic_exchange(&d->bell.asked, false);
}

static void say_how_it_sleeps(const struct bt_dpdk_device *dev)
{
    if (dev->interrupts) {
        bt_dpdk_say(dev->log, "DPDK: an idle thread sleeps until the device's receive interrupt");
    } else {
        bt_dpdk_say(dev->log, "DPDK: the device has no receive interrupts; an idle thread sleeps %u to %u us at a time",
                    (unsigned)(NAP_NS / 1000), (unsigned)(NAP_MOST / 1000));
    }
}

// Whether the device really has receive interrupts shows when one is switched on. With one queue that has none nobody
// counts on them, and who does not sleep needs none.
void bt_dpdk_interrupts_open(struct bt_dpdk *d)
{
    struct bt_dpdk_device *dev = d->dev;
    bool before = dev->interrupts;
    for (unsigned i = 0; i < d->n_rx && dev->interrupts; i++) {
        dev->interrupts = rte_eth_dev_rx_intr_enable(dev->port, d->rx_queue[i]) == 0;
        if (dev->interrupts) {
            (void)rte_eth_dev_rx_intr_disable(dev->port, d->rx_queue[i]);
        }
    }
    if (dev->idle != BT_DPDK_IDLE_SPIN && (d->index == 0 || dev->interrupts != before)) {
        say_how_it_sleeps(dev);
    }
}

// Switches the interrupts on; returns how many descriptors to watch it wrote.
static unsigned arm(struct bt_dpdk *d, struct pollfd *fds)
{
    unsigned n = 0;
    for (unsigned i = 0; i < d->n_rx; i++) {
        int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(d->dev->port, d->rx_queue[i]);
        if (fd >= 0 && rte_eth_dev_rx_intr_enable(d->dev->port, d->rx_queue[i]) == 0) {
            fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return n;
}

static void disarm(struct bt_dpdk *d, const struct pollfd *fds, unsigned n)
{
    uint64_t count;
    for (unsigned i = 0; i < d->n_rx; i++) {
        (void)rte_eth_dev_rx_intr_disable(d->dev->port, d->rx_queue[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        if ((fds[i].revents & POLLIN) != 0 && read(fds[i].fd, &count, sizeof count) < 0) {
            continue; // somebody was faster
        }
    }
}

static uint64_t nap(const struct bt_dpdk *d)
{
    uint64_t ns = (d->now_ns - d->last_rx_ns) / NAPS;
    return ns < NAP_NS ? NAP_NS : ns > NAP_MOST ? NAP_MOST : ns;
}

// Until something comes, by the bell or by one of the interrupts armed; at most ns.
static void wait_for_any(struct bt_dpdk *d, struct pollfd *fds, unsigned armed, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    int n = ppoll(fds, 1 + armed, &t, NULL);
    d->counters[BT_DPDK_WAKEUPS]++;
    uint64_t count;
    if (n > 0 && (fds[0].revents & POLLIN) != 0 && read(d->bell.fd, &count, sizeof count) < 0) {
        return; // nothing to read: fine
    }
}

static void sleep_until(struct bt_dpdk *d, uint64_t until_ns)
{
    struct pollfd fds[1 + BT_DPDK_MAX_QUEUES] = {{.fd = d->bell.fd, .events = POLLIN}};
    unsigned armed = d->dev->interrupts ? arm(d, fds + 1) : 0;
    bool told = d->n_rx == 0 || (armed == d->n_rx && armed != 0); // somebody will wake us
    uint64_t most = d->now_ns + (told ? LONG_NS : nap(d));
    uint64_t end = until_ns < most ? until_ns : most;
    if (!d->slack_set) {
        prctl(PR_SET_TIMERSLACK, 1UL); // the default would double a nap
        d->slack_set = true;
    }
    atomic_store(&d->bell.asleep, true);
    bool nothing = !atomic_load(&d->bell.asked) && (d->handed == NULL || rte_ring_empty(d->handed));
    // A packet that came before its interrupt was switched on makes none.
    if (nothing && (armed == 0 || !bt_dpdk_look(d)) && end > d->now_ns + MIN_NS) {
        wait_for_any(d, fds, armed, end - d->now_ns);
    }
    atomic_store(&d->bell.asleep, false);
    if (armed != 0) {
        disarm(d, fds + 1, armed);
    }
}

static void pass_time(struct bt_dpdk *d, uint64_t until_ns, unsigned turn)
{
    uint64_t quiet = d->now_ns - d->last_rx_ns;
    uint64_t due = bt_link_next(d->link);
    bool yielding = d->dev->idle == BT_DPDK_IDLE_YIELD;
    if (quiet >= (yielding ? YIELD_NS : SPIN_NS)) {
        sleep_until(d, until_ns < due ? until_ns : due);
    } else if (yielding && turn % PAUSES == PAUSES - 1) {
        sched_yield();
    } else {
        rte_pause();
    }
}

// A thread of ours becomes one of DPDK's when it first waits: its buffers then come from a cache of its own.
static void adopt_thread(struct bt_dpdk *d)
{
    d->registered = true;
    if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {
        d->lcore = rte_lcore_id();
    }
}

void bt_dpdk_wait(struct bt_io *io, uint64_t until_ns)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    if (!d->registered) {
        adopt_thread(d);
    }
    for (unsigned turn = 0; d->pending == 0 && !bt_dpdk_look(d) && !asked(d); turn++) {
        if (d->dev->idle == BT_DPDK_IDLE_SPIN || d->now_ns >= until_ns) {
            return;
        }
        pass_time(d, until_ns, turn);
    }
}
