// SPDX-License-Identifier: Apache-2.0
// How a thread that waits is woken by others, and becomes one of DPDK's.
#include "unit.h"

#include "dpdk_world.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static void ring(void)
{
    bt_io_wake(hosts.request);
}

static bool has_rung(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void ring_asleep(struct pollfd *fds)
{
    assert_int_equal(fds[0].fd, bt_dpdk_of(hosts.request)->bell.fd);
    assert_false(has_rung(fds[0].fd));
    ring();
    assert_true(has_rung(fds[0].fd));
}

// Who works is not disturbed by a bell, and finds at its next wait that it was rung, once.
static void a_bell_is_heard_once(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SLEEP);
    assert_true((fcntl(d->bell.fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(d->bell.fd, F_GETFL) & O_NONBLOCK) != 0);
    d->last_rx_ns = world.now - 900 * MS;
    ring();
    assert_false(has_rung(d->bell.fd));
    world.looks = 0;
    bt_io_wait(hosts.request, world.now + 50 * MS);
    assert_int_equal(world.looks, 1);
    assert_int_equal(world.sleeps, 0);
    world.asleep = ring_asleep;
    bt_io_wait(hosts.request, world.now + 50 * MS);
    assert_int_equal(world.sleeps, 1);
    assert_false(has_rung(d->bell.fd)); // what ended the sleep is taken
    assert_false(atomic_load(&d->bell.asleep));
    world.asleep = NULL;
    bt_io_wait(hosts.request, world.now + MS);
    assert_true(world.sleeps > 1);
}

// A bell between the last look and the sleep: there is none.
static void a_bell_before_the_sleep_is_heard(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SLEEP);
    d->slack_set = false;
    d->last_rx_ns = world.now - 900 * MS;
    world.before_sleep = ring;
    bt_io_wait(hosts.request, world.now + 50 * MS);
    assert_int_equal(world.slacks, 1);
    assert_int_equal(world.sleeps, 0);
}

static void hand_over(void)
{
    struct bt_dpdk *d = bt_dpdk_of(hosts.feedback);
    struct bt_pkt *p = bt_pool_get(&d->dev->pool);
    assert_non_null(p);
    memset(bt_pkt_append(p, 60), 0, 60);
    assert_int_equal(rte_ring_enqueue(d->handed, p), 0);
}

// And what another thread hands over just then, before it rings.
static void a_frame_before_the_sleep_is_found(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.feedback, BT_DPDK_IDLE_SLEEP);
    d->slack_set = false;
    d->last_rx_ns = world.now - 900 * MS;
    world.before_sleep = hand_over;
    bt_io_wait(hosts.feedback, world.now + 10 * US);
    assert_int_equal(world.slacks, 1);
    assert_int_equal(world.sleeps, 0);
}

static void a_bell_begins_silent(void **state)
{
    struct bt_dpdk_bell bell;
    const struct rlimit none = {0, 0};
    struct rlimit before;
    (void)state;
    memset(&bell, 1, sizeof bell);
    assert_int_equal(bt_dpdk_bell_open(&bell), 0);
    assert_false(atomic_load(&bell.asked));
    assert_false(atomic_load(&bell.asleep));
    assert_false(has_rung(bell.fd));
    close(bell.fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit no_more = {none.rlim_cur, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &no_more), 0);
    int opened = bt_dpdk_bell_open(&bell);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(opened, -1);
}

static uint16_t nothing(void *queue, struct rte_mbuf **m, uint16_t n)
{
    (void)queue;
    (void)m;
    (void)n;
    return 0;
}

static void signal_the_first(struct pollfd *fds)
{
    const uint64_t one = 1;
    (void)fds;
    assert_int_equal(write(world.interrupt[0], &one, sizeof one), sizeof one);
}

// Of two queues both have to wake a thread that sleeps long; else it naps, on the one there is. All are off while it
// works, and what woke it is taken.
static void a_thread_sleeps_long_if_every_queue_wakes_it(void **state)
{
    static const struct {
        bool has[2];
        int refuses;
        unsigned armed;
        uint64_t sleeps;
    } rows[] = {{{true, true}, -1, 2, 100 * MS},
                {{true, true}, 1, 1, 250 * US},
                {{true, false}, -1, 1, 250 * US},
                {{false, false}, -1, 0, 250 * US}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SLEEP);
        int fds[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)}; // who reads the second waits for ever
        idle_calls(hosts.request)->rx_pkt_burst = nothing;
        d->n_rx = 2;
        d->rx_queue[1] = 1;
        d->dev->interrupts = world.interrupts = true;
        world.refuses = rows[i].refuses;
        for (unsigned q = 0; q < 2; q++) {
            world.interrupt[q] = rows[i].has[q] ? fds[q] : -1;
        }
        d->last_rx_ns = world.now - 900 * MS;
        world.asleep = rows[i].armed != 0 ? signal_the_first : NULL;
        bt_io_wait(hosts.request, world.now + 3 * rows[i].sleeps);
        assert_int_equal(world.sleeps_ns, rows[i].sleeps - (rows[i].armed != 0 ? US : 0)); // it looked once more
        assert_int_equal(world.watched, 1 + rows[i].armed);
        for (unsigned k = 0; k < rows[i].armed; k++) {
            assert_int_equal(world.watch[1 + k], fds[k]);
        }
        assert_false(has_rung(fds[0]));
        for (unsigned q = 0; q < 2; q++) {
            assert_true(rows[i].armed == 0 ? world.disabled[q] == 0 : world.disabled[q] >= world.enabled[q]);
            close(fds[q]);
        }
        d->n_rx = 1;
        d->dev->interrupts = false;
    }
}

static void wait_twice(struct bt_io *io)
{
    bt_io_wait(io, 0);
    bt_io_wait(io, 0);
}

// A thread that waits is one of DPDK's from then on, until it closes its io.
static void *be_adopted(void *unused)
{
    struct bt_dpdk *d = bt_dpdk_of(hosts.feedback);
    (void)unused;
    assert_int_equal(rte_lcore_id(), LCORE_ID_ANY);
    wait_twice(hosts.feedback);
    assert_int_equal(world.registrations, 1);
    assert_int_not_equal(rte_lcore_id(), LCORE_ID_ANY);
    assert_int_equal(d->lcore, rte_lcore_id());
    hosts.feedback->ops->close(hosts.feedback);
    hosts.feedback = NULL;
    assert_int_equal(rte_lcore_id(), LCORE_ID_ANY);
    return NULL;
}

static void *be_refused(void *unused)
{
    (void)unused;
    world.refuse_thread = true;
    wait_twice(hosts.feedback);
    assert_int_equal(world.registrations, 1);
    assert_int_equal(bt_dpdk_of(hosts.feedback)->lcore, LCORE_ID_ANY);
    return NULL;
}

static void run_thread(void *(*run)(void *))
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, run, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
}

static void a_thread_that_waits_is_adopted_once(void **state)
{
    (void)state;
    wait_twice(hosts.request); // DPDK knows the main thread
    assert_int_equal(world.registrations, 0);
    assert_int_equal(bt_dpdk_of(hosts.request)->lcore, LCORE_ID_ANY);
    run_thread(be_adopted);
}

static void a_thread_that_dpdk_refuses_does_not_ask_again(void **state)
{
    (void)state;
    run_thread(be_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOSTS(a_bell_is_heard_once),
        WITH_HOSTS(a_bell_before_the_sleep_is_heard),
        WITH_HOSTS(a_frame_before_the_sleep_is_found),
        cmocka_unit_test(a_bell_begins_silent),
        WITH_HOSTS(a_thread_sleeps_long_if_every_queue_wakes_it),
        WITH_HOSTS(a_thread_that_waits_is_adopted_once),
        WITH_HOSTS(a_thread_that_dpdk_refuses_does_not_ask_again),
    };
    return cmocka_run_group_tests_name("bell", tests, hosts_start, NULL);
}
