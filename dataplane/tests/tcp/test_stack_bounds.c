// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: floods, closed windows and segments from elsewhere keep bounded state, and are counted.
#include "stack_bed.h"

#include <stdlib.h>

#include "base/bytes.h"

static void a_flood_of_syns_is_bounded(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000); // somebody is there already
    for (uint32_t i = 0; i < 10000; i++) {
        syn(0xc0a80000u + i, (uint16_t)(1024 + i), NULL, 0);
        world.now += MS;
        arrive();
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_int_equal(counted(SERVER, BT_TCP_HALF_OPEN_LOST), 10000 - BT_TCP_HALF_OPEN);
    assert_int_equal(world.end[SERVER].stack->open_now(), BT_TCP_HALF_OPEN + 1);
    world.client.holds = false;
    uint32_t before = world.client.n;
    talk_for(2000, 10000); // and is served
    assert_true(before >= 1000 && world.client.n == 2000);
    struct talk other = {.end = &world.end[CLIENT], .got = malloc(10), .room = 10};
    other.conn = world.end[CLIENT].stack->connect(&world.end[SERVER].at, &other, world.now);
    for (unsigned i = 0; i < 200 && !other.opened; i++) {
        turn(0); // a new one comes in, too
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_true(other.opened);
    close_world();
    free(other.got);
}

static void a_window_that_is_closed_is_probed(void **state)
{
    (void)state;
    open_world(true, false, false);
    world.talk[0].holds = true;
    dial();
    talk_for(200000, 60000);
    assert_true(world.talk[0].n >= 65535 - BT_TCP_MSS && world.talk[0].n <= 65535); // not a byte beyond
    assert_true(counted(SERVER, BT_TCP_PROBES) > 0);
    world.talk[0].holds = false;
    talk_for(200000, 60000);
    hear_all(200000);
    close_world();
}

static void what_is_outside_the_window_is_counted_and_dropped(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    uint32_t port = bt_get16(world.syn_ack + 2), next = bt_get32(world.syn_ack + 8) + 1000,
             ack = bt_get32(world.syn_ack + 4) + 1;
    forge(port, next + 100000, ack);
    forge(port, next - 500, ack);
    forge(port + 1, next, ack); // of no connection
    for (unsigned i = 0; i < 10; i++) {
        turn(1000);
    }
    assert_int_equal(counted(SERVER, BT_TCP_DROP_WINDOW), 1);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_OLD), 1);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_UNKNOWN), 1);
    hear_all(1000);
    close_world();
}

/* Many connections, each with segments that wait for one that does not come. */
static void segments_out_of_order_are_bounded(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    uint32_t port = bt_get16(world.syn_ack + 2), next = bt_get32(world.syn_ack + 8) + 1000,
             ack = bt_get32(world.syn_ack + 4) + 1;
    for (uint32_t i = 0; i < 3000; i++) {
        forge(port, next + 100 + 8 * i, ack);
        world.now += MS;
        arrive();
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_true(BUFFERS - world.end[SERVER].pool.left <= 64); // of one connection
    talk_for(3000, 10000);
    assert_int_equal(world.client.n, 3000); // the holes are filled by what was said
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_syns_is_bounded),
        cmocka_unit_test(a_window_that_is_closed_is_probed),
        cmocka_unit_test(what_is_outside_the_window_is_counted_and_dropped),
        cmocka_unit_test(segments_out_of_order_are_bounded),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
