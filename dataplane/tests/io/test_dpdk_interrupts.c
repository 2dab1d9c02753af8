// SPDX-License-Identifier: Apache-2.0
// The DPDK driver asleep: naps, and receive interrupts, which no driver that runs everywhere has. The linker puts these
// in front of DPDK's calls (--wrap), and while they are on every queue has an eventfd for one.
#include "unit.h"

#include "dpdk_hosts.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool on;
    bool refused; // already when the device is configured
    int fd;
    atomic_uint enabled, disabled;
    void (*at_enable)(void); // once, before it is switched on
} interrupts;

int __real_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue);
int __real_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue);
int __real_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue);
int __wrap_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue);

int __wrap_rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t queue)
{
    if (!interrupts.on) {
        return __real_rte_eth_dev_rx_intr_enable(port, queue);
    }
    if (interrupts.at_enable != NULL) {
        void (*once)(void) = interrupts.at_enable;
        interrupts.at_enable = NULL;
        once();
    }
    atomic_fetch_add(&interrupts.enabled, 1);
    return 0;
}

int __wrap_rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t queue)
{
    if (!interrupts.on) {
        return __real_rte_eth_dev_rx_intr_disable(port, queue);
    }
    atomic_fetch_add(&interrupts.disabled, 1);
    return 0;
}

int __wrap_rte_eth_dev_rx_intr_ctl_q_get_fd(uint16_t port, uint16_t queue)
{
    return interrupts.on ? interrupts.fd : __real_rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int __real_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);

int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf)
{
    return interrupts.refused && conf->intr_conf.rxq ? -EINVAL : __real_rte_eth_dev_configure(port, rx, tx, conf);
}

// How long each sleep was to last at most.
static struct {
    uint64_t ns[4096];
    unsigned n;
} sleeps;

int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask);

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    if (sleeps.n < sizeof sleeps.ns / sizeof sleeps.ns[0]) {
        sleeps.ns[sleeps.n++] = (uint64_t)t->tv_sec * 1000 * MS + (uint64_t)t->tv_nsec;
    }
    return __real_ppoll(fds, n, t, mask);
}

// Two hosts that know each other's MAC, the second with interrupts.
static struct {
    struct bt_dpdk_device *dev[2];
    struct bt_io *from, *to;
    atomic_uint got;
} pair;

static void send_one(void)
{
    hosts_send(pair.dev[0], pair.from, dpdk_address(false, 2, REQUEST_PORT), 7);
}

// Takes what is there; returns how many packets that was.
static unsigned take_all(struct bt_dpdk_device *dev, struct bt_io *io)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(bt_dpdk_pool(dev), pkts[i]);
    }
    return n;
}

static void open_pair(bool with_interrupts)
{
    interrupts.on = with_interrupts;
    interrupts.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (unsigned i = 0; i < 2; i++) {
        pair.dev[i] = hosts_device(i + 1, 1, BT_DPDK_CHECKSUMS_AUTO);
    }
    pair.from = hosts_io(pair.dev[0], false, 1, 7000);
    pair.to = hosts_io(pair.dev[1], false, 2, REQUEST_PORT);
    atomic_store(&pair.got, 0);
    send_one();
    for (unsigned turn = 0; turn < 1000 && take_all(pair.dev[1], pair.to) == 0; turn++) {
        bt_io_wait(pair.to, bt_io_now(pair.to) + MS / 10);
        (void)take_all(pair.dev[0], pair.from);
    }
}

static void close_pair(void)
{
    struct hosts h = {.dev = {pair.dev[0], pair.dev[1]}, .peer = pair.from, .request = pair.to};
    hosts_close(&h);
    close(interrupts.fd);
    interrupts.on = false;
}

static void *wait_for_packet(void *arg)
{
    (void)arg;
    while (atomic_load(&pair.got) == 0) {
        bt_io_wait(pair.to, BT_IO_FOREVER);
        atomic_fetch_add(&pair.got, take_all(pair.dev[1], pair.to));
    }
    return NULL;
}

// Sends a packet and its interrupt to a thread that has slept for a while; true if the thread took the interrupt. It
// need not: the packet may come just when it looks by itself.
static bool interrupt_ends_a_sleep(void)
{
    const struct timespec some = {.tv_nsec = 250 * (long)MS};
    uint64_t one = 1;
    pthread_t t;
    atomic_store(&pair.got, 0);
    assert_int_equal(pthread_create(&t, NULL, wait_for_packet, NULL), 0);
    nanosleep(&some, NULL);
    send_one();
    assert_int_equal(write(interrupts.fd, &one, sizeof one), sizeof one);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&pair.got), 1);
    return read(interrupts.fd, &one, sizeof one) < 0; // taken already
}

// A thread that waits for an interrupt sleeps long, not a nap at a time, and the interrupt ends its sleep.
static void an_interrupt_ends_a_sleep(void **state)
{
    const uint64_t longest = 100 * MS;
    unsigned tries = 0;
    (void)state;
    open_pair(true);
    unsigned armed = atomic_load(&interrupts.enabled);
    uint64_t slept = hosts_counter(pair.to, "io_wakeups_total", NULL), start = bt_io_now(pair.to);
    while (!interrupt_ends_a_sleep()) {
        assert_true(++tries < 5);
    }
    slept = hosts_counter(pair.to, "io_wakeups_total", NULL) - slept;
    assert_true(atomic_load(&interrupts.enabled) > armed);
    assert_int_equal(atomic_load(&interrupts.enabled), atomic_load(&interrupts.disabled)); // off while it works
    assert_true(slept <= (bt_io_now(pair.to) - start) / longest + 2 * (tries + 1));
    close_pair();
}

// A packet that came before its interrupt was switched on makes none: it is looked for before the sleep.
static void a_packet_before_its_interrupt_is_found(void **state)
{
    (void)state;
    open_pair(true);
    uint64_t slept = hosts_counter(pair.to, "io_wakeups_total", NULL);
    interrupts.at_enable = send_one;
    bt_io_wait(pair.to, BT_IO_FOREVER);
    assert_null(interrupts.at_enable);
    assert_int_equal(take_all(pair.dev[1], pair.to), 1);
    assert_int_equal(hosts_counter(pair.to, "io_wakeups_total", NULL), slept);
    close_pair();
}

// Naps of one wait: how many were as long as can be, and how many a timer of the link or the wait's end cut short.
struct naps {
    unsigned longest, cut;
};

static struct naps count_naps(uint64_t longest)
{
    struct naps naps = {0};
    uint64_t before = 0;
    for (unsigned i = 0; i < sleeps.n; i++) {
        assert_true(sleeps.ns[i] <= longest);
        naps.longest += sleeps.ns[i] == longest;
        naps.cut += sleeps.ns[i] < before;
        before = sleeps.ns[i] > before ? sleeps.ns[i] : before;
    }
    return naps;
}

// Without interrupts the naps grow with the time nothing came, from 50 to 250 us, and are short again after a packet.
static void naps_grow_while_nothing_comes(void **state)
{
    enum { SHORTEST = 50000, LONGEST = 250000, TRIES = 20, MAY_BE_CUT = 4 };
    (void)state;
    open_pair(false);
    bool from_the_start = false;
    for (unsigned try = 0; try < TRIES && !from_the_start; try++) { // whoever is held up for 5 ms misses the short ones
        send_one();
        bt_io_wait(pair.to, BT_IO_FOREVER);
        assert_int_equal(take_all(pair.dev[1], pair.to), 1);
        sleeps.n = 0;
        bt_io_wait(pair.to, bt_io_now(pair.to) + 60 * MS);
        struct naps naps = count_naps(LONGEST);
        assert_true(naps.longest > 0 && naps.cut <= MAY_BE_CUT);
        from_the_start = sleeps.ns[0] == SHORTEST;
    }
    assert_true(from_the_start);
    close_pair();
}

static struct {
    unsigned interrupt, naps;
} said;

static void hear(const char *line)
{
    said.interrupt += strcmp(line, "DPDK: an idle thread sleeps until the device's receive interrupt") == 0;
    said.naps += strcmp(line, "DPDK: the device has no receive interrupts; an idle thread sleeps 50 to 250 us at a "
                              "time") == 0;
}

// Once per device, whatever it is that the device refuses.
static void how_it_sleeps_is_said(void **state)
{
    (void)state;
    hosts_log = hear;
    open_pair(true);
    close_pair();
    assert_true(said.interrupt == 2 && said.naps == 0);
    open_pair(false); // refuses to switch one on
    close_pair();
    assert_true(said.interrupt == 2 && said.naps == 2);
    interrupts.refused = true; // refuses to be configured with them
    open_pair(true);
    unsigned armed = atomic_load(&interrupts.enabled);
    bt_io_wait(pair.to, bt_io_now(pair.to) + 10 * MS);
    assert_int_equal(atomic_load(&interrupts.enabled), armed);
    close_pair();
    interrupts.refused = false;
    assert_true(said.interrupt == 2 && said.naps == 4);
    hosts_log = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_ends_a_sleep),
        cmocka_unit_test(a_packet_before_its_interrupt_is_found),
        cmocka_unit_test(naps_grow_while_nothing_comes),
        cmocka_unit_test(how_it_sleeps_is_said),
    };
    return cmocka_run_group_tests(tests, hosts_start, NULL);
}
