// SPDX-License-Identifier: Apache-2.0
// What a thread does while nothing arrives: how long it looks, when it gives the core away, how long it sleeps.
#include "unit.h"

#include "dpdk_world.h"

#include <string.h>

// SLEEP: it looks for 20 us, then sleeps, and never gives the core away in between.
static void who_shall_sleep_looks_for_20_us(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SLEEP);
    uint64_t start = world.now;
    bt_io_wait(hosts.request, start + 70 * US);
    assert_int_equal(world.slept_at, start + 20 * US);
    assert_int_equal(world.sleeps_ns, 50 * US);
    assert_int_equal(world.sleeps, 1);
    assert_int_equal(world.yields, 0);
    assert_int_equal(d->counters[BT_DPDK_WAKEUPS], 1);
    assert_true(world.now >= start + 70 * US && world.now <= start + 71 * US);
}

// YIELD: every 64th look gives the core away, and after 2 ms it sleeps.
static void who_gives_way_does_so_for_2_ms(void **state)
{
    (void)state;
    (void)idle_begin(hosts.request, BT_DPDK_IDLE_YIELD);
    uint64_t start = world.now;
    bt_io_wait(hosts.request, start + 127 * US);
    assert_int_equal(world.yields, 1);
    assert_int_equal(world.yielded_at, start + 64 * US);
    (void)idle_begin(hosts.request, BT_DPDK_IDLE_YIELD);
    start = world.now;
    bt_io_wait(hosts.request, start + 2010 * US);
    assert_int_equal(world.slept_at, start + 2000 * US);
    assert_int_equal(world.sleeps, 1);
    assert_int_equal(world.sleeps_ns, 10 * US); // the wait's end is nearer than a nap's
    assert_int_equal(world.yields, 1999 / 64);
}

// SPIN: one look, whatever there is to wait for.
static void who_spins_looks_once(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SPIN);
    world.looks = 0;
    d->last_rx_ns = world.now - 100 * MS;
    bt_io_wait(hosts.request, BT_IO_FOREVER);
    assert_int_equal(world.looks, 1);
    assert_int_equal(world.sleeps + world.yields, 0);
}

// How long one sleep lasts, after so long without a packet.
static uint64_t sleep_after(struct bt_io *io, uint64_t quiet, uint64_t end)
{
    struct bt_dpdk *d = idle_begin(io, BT_DPDK_IDLE_SLEEP);
    d->last_rx_ns = world.now + US - quiet; // one look from now
    bt_io_wait(io, world.now + US + end);
    return world.sleeps != 0 ? world.sleeps_ns : 0;
}

static void a_nap_is_a_hundredth_of_the_time_without_a_packet(void **state)
{
    static const struct {
        uint64_t quiet, nap;
    } rows[] = {{20 * US, 50 * US},  {4 * MS, 50 * US},   {5 * MS, 50 * US},   {6 * MS, 60 * US},
                {24 * MS, 240 * US}, {25 * MS, 250 * US}, {26 * MS, 250 * US}, {900 * MS, 250 * US}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(sleep_after(hosts.request, rows[i].quiet, 10 * MS), rows[i].nap);
    }
}

// Neither the end of the wait nor a timer is slept over, and what is nearer than 2 us is not slept for.
static void a_sleep_ends_with_the_wait(void **state)
{
    (void)state;
    assert_int_equal(sleep_after(hosts.request, 900 * MS, 249 * US), 249 * US);
    assert_int_equal(sleep_after(hosts.request, 900 * MS, 2 * US + 1), 2 * US + 1);
    assert_int_equal(sleep_after(hosts.request, 900 * MS, 2 * US), 0);
}

// Nobody's packets come to a thread without a queue but those it is told of: it sleeps until then.
static void a_thread_without_a_queue_sleeps_long(void **state)
{
    (void)state;
    assert_int_equal(bt_dpdk_of(hosts.feedback)->n_rx, 0);
    assert_int_equal(sleep_after(hosts.feedback, 900 * MS, 3000 * MS), 100 * MS);
}

// Of many sleeps only the first asks for exact timers.
static void exact_timers_are_asked_for_once(void **state)
{
    (void)state;
    struct bt_dpdk *d = idle_begin(hosts.request, BT_DPDK_IDLE_SLEEP);
    d->last_rx_ns = world.now - 900 * MS;
    bt_io_wait(hosts.request, world.now + 5 * MS);
    assert_true(world.sleeps > 10);
    assert_int_equal(world.slacks, 1);
}

static unsigned said;

static void hear(const char *line)
{
    said += strstr(line, "an idle thread sleeps 50 to 250 us at a time") != NULL;
}

// By the first io of a device, if a thread ever sleeps.
static void how_long_it_sleeps_is_said(void **state)
{
    static const enum bt_dpdk_idle idles[] = {BT_DPDK_IDLE_SLEEP, BT_DPDK_IDLE_SPIN, BT_DPDK_IDLE_YIELD};
    struct bt_dpdk_device *dev = hosts.dev[1];
    (void)state;
    dev->log = hear;
    for (unsigned i = 0; i < sizeof idles / sizeof idles[0]; i++) {
        said = 0;
        dev->idle = idles[i];
        hosts.request->ops->close(hosts.request); // the first
        hosts.request = hosts_io(dev, false, 2, REQUEST_PORT);
        assert_int_equal(said, idles[i] != BT_DPDK_IDLE_SPIN);
        hosts.feedback->ops->close(hosts.feedback);
        hosts.feedback = hosts_io(dev, false, 2, FEEDBACK_PORT);
        assert_int_equal(said, idles[i] != BT_DPDK_IDLE_SPIN);
    }
    dev->log = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOSTS(who_shall_sleep_looks_for_20_us),
        WITH_HOSTS(who_gives_way_does_so_for_2_ms),
        WITH_HOSTS(who_spins_looks_once),
        WITH_HOSTS(a_nap_is_a_hundredth_of_the_time_without_a_packet),
        WITH_HOSTS(a_sleep_ends_with_the_wait),
        WITH_HOSTS(a_thread_without_a_queue_sleeps_long),
        WITH_HOSTS(exact_timers_are_asked_for_once),
        WITH_HOSTS(how_long_it_sleeps_is_said),
    };
    return cmocka_run_group_tests_name("idle", tests, hosts_start, NULL);
}
