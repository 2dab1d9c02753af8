// SPDX-License-Identifier: Apache-2.0
// Who takes a lock to send: threads that share a queue, and nobody else. The test holds the locks of all queues, so
// that who waits for one shows.
#include "unit.h"

#include "fixture_dpdk.h"
#include "io/dpdk_internal.h"

#include <pthread.h>
#include <rte_eth_ring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { QUEUES = 2, IOS = 3 };

static struct rte_ring *one_out, *one_in, *out[QUEUES], *in[QUEUES];
static char said[1000];

static void say(const char *line)
{
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s\n", line);
}

struct sender {
    struct bt_dpdk_device *dev;
    struct bt_io *io;
    atomic_bool done;
    pthread_t thread;
};

// Sends to a neighbour that is not known: a question for its address leaves.
static void *send_one(void *arg)
{
    struct sender *s = arg;
    struct bt_pkt *p = bt_pool_get(bt_dpdk_pool(s->dev));
    struct bt_txq q;
    bt_txq_init(&q);
    if (p != NULL && bt_pkt_append(p, 8) != NULL) {
        p->dst = dpdk_address(false, 2, 9);
        bt_txq_push(&q, p);
        bt_io_tx(s->io, &q);
        atomic_store(&s->done, true);
    }
    return NULL;
}

static unsigned drain(struct rte_ring *r)
{
    unsigned n = 0;
    void *m;
    while (rte_ring_dequeue(r, &m) == 0) {
        rte_pktmbuf_free(m);
        n++;
    }
    return n;
}

static struct bt_dpdk_device *open_senders(const char *port, unsigned ios, struct sender *s)
{
    struct bt_link_prefix own[2];
    char err[400];
    dpdk_addresses(1, own);
    struct bt_dpdk_device_config cfg = {
        .port = port, .addrs = own, .n_addrs = 1, .ios = ios, .buffers = 2048, .seed = 1, .log = say};
    said[0] = '\0';
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (dev == NULL) {
        fail_msg("%s", err);
    }
    for (unsigned i = 0; i < ios; i++) {
        struct bt_addr local = dpdk_address(false, 1, (uint16_t)(8000 + i));
        struct bt_dpdk_config io = {.locals = &local, .n_locals = 1};
        s[i] = (struct sender){.dev = dev, .io = bt_dpdk_open(dev, &io, err, sizeof err)};
        if (s[i].io == NULL) {
            fail_msg("%s", err);
        }
    }
    return dev;
}

// All send while the test holds every lock; says which of them could, and that all could after that.
static void check_who_waits(struct bt_dpdk_device *dev, struct sender *s, unsigned ios, const bool *waits)
{
    const struct timespec some = {.tv_nsec = 50000000};
    for (unsigned q = 0; q < BT_DPDK_MAX_QUEUES; q++) {
        rte_spinlock_lock(&dev->tx_lock[q]);
    }
    for (unsigned i = 0; i < ios; i++) {
        assert_int_equal(pthread_create(&s[i].thread, NULL, send_one, &s[i]), 0);
    }
    for (unsigned i = 0; i < ios; i++) {
        if (!waits[i]) {
            pthread_join(s[i].thread, NULL);
            assert_true(atomic_load(&s[i].done));
        }
    }
    nanosleep(&some, NULL);
    for (unsigned i = 0; i < ios; i++) {
        assert_int_equal(atomic_load(&s[i].done), !waits[i]);
    }
    rte_spinlock_unlock(&dev->tx_lock[0]); // that of the only queue that is shared here
    for (unsigned i = 0; i < ios; i++) {
        if (waits[i]) {
            pthread_join(s[i].thread, NULL);
            assert_true(atomic_load(&s[i].done));
        }
    }
    assert_false(rte_spinlock_is_locked(&dev->tx_lock[0]));
    for (unsigned q = 1; q < BT_DPDK_MAX_QUEUES; q++) {
        assert_true(rte_spinlock_is_locked(&dev->tx_lock[q])); // nobody touched the others
        rte_spinlock_unlock(&dev->tx_lock[q]);
    }
}

static void close_senders(struct bt_dpdk_device *dev, struct sender *s, unsigned ios)
{
    for (unsigned i = ios; i-- > 0;) {
        s[i].io->ops->close(s[i].io);
    }
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

static void threads_with_a_queue_each_take_no_lock(void **state)
{
    static const bool nobody[QUEUES];
    struct sender s[QUEUES];
    (void)state;
    struct bt_dpdk_device *dev = open_senders("net_ring_turns2", QUEUES, s);
    assert_null(strstr(said, "take turns"));
    check_who_waits(dev, s, QUEUES, nobody);
    assert_true(drain(out[0]) >= 1 && drain(out[1]) >= 1); // each by its own
    close_senders(dev, s, QUEUES);
}

static void threads_on_one_queue_take_turns(void **state)
{
    static const bool all[QUEUES] = {true, true};
    struct sender s[QUEUES];
    (void)state;
    struct bt_dpdk_device *dev = open_senders("net_ring_turns1", QUEUES, s);
    assert_non_null(strstr(said, "2 threads have 1 queue: those that share one take turns to send"));
    check_who_waits(dev, s, QUEUES, all);
    assert_true(drain(one_out) >= QUEUES);
    close_senders(dev, s, QUEUES);
}

static void only_those_that_share_a_queue_take_turns(void **state)
{
    static const bool first_and_third[IOS] = {true, false, true};
    struct sender s[IOS];
    (void)state;
    struct bt_dpdk_device *dev = open_senders("net_ring_turns2", IOS, s);
    assert_non_null(strstr(said, "3 threads have 2 queues"));
    check_who_waits(dev, s, IOS, first_and_third);
    assert_true(drain(out[0]) >= 2 && drain(out[1]) >= 1);
    close_senders(dev, s, IOS);
}

// A single thread neither shares nor misses a queue.
static void one_thread_takes_no_lock(void **state)
{
    static const bool nobody[1];
    struct sender s[1];
    (void)state;
    struct bt_dpdk_device *dev = open_senders("net_ring_turns1", 1, s);
    assert_null(strstr(said, "take turns"));
    check_who_waits(dev, s, 1, nobody);
    assert_true(drain(one_out) >= 1);
    close_senders(dev, s, 1);
}

static struct rte_ring *new_ring(const char *name)
{
    struct rte_ring *r = rte_ring_create(name, 64, SOCKET_ID_ANY, 0);
    assert_non_null(r);
    return r;
}

static int start(void **state)
{
    char why[400];
    (void)state;
    if (!dpdk_begin("net_ring", why, sizeof why)) {
        print_message("%s\n", why);
        return -1;
    }
    one_out = new_ring("turns-out");
    one_in = new_ring("turns-in");
    out[0] = new_ring("turns-out0");
    out[1] = new_ring("turns-out1");
    in[0] = new_ring("turns-in0");
    in[1] = new_ring("turns-in1");
    return rte_eth_from_rings("turns1", &one_in, 1, &one_out, 1, 0) >= 0 &&
                   rte_eth_from_rings("turns2", in, QUEUES, out, QUEUES, 0) >= 0
               ? 0
               : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_with_a_queue_each_take_no_lock),
        cmocka_unit_test(threads_on_one_queue_take_turns),
        cmocka_unit_test(only_those_that_share_a_queue_take_turns),
        cmocka_unit_test(one_thread_takes_no_lock),
    };
    return cmocka_run_group_tests_name("turns", tests, start, NULL);
}
