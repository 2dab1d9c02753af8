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

/* So few of each connection that only all together are too many: one gives way then. */
static void segments_of_many_connections_are_bounded_together(void **state)
{
    enum { CONNECTIONS = 40, EACH = 30 };
    static struct talk at_server[CONNECTIONS], at_client[CONNECTIONS];
    (void)state;
    open_world(true, false, false);
    struct end *server = &world.end[SERVER];
    server->talk = at_server;
    server->talks = CONNECTIONS;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        dial_as(&at_client[i]);
        for (unsigned k = 0; k < 20; k++) {
            turn(0);
        }
        uint32_t port = bt_get16(world.syn_ack + 2), next = bt_get32(world.syn_ack + 8),
                 ack = bt_get32(world.syn_ack + 4) + 1;
        for (uint32_t k = 0; k < EACH; k++) {
            forge(port, next + 100 + 8 * k, ack);
            world.now += MS;
            arrive();
            bt_pool_put_chain(&server->pool.pool, server->out.head);
            bt_txq_init(&server->out);
            assert_in_range(BUFFERS - server->pool.left, 1, BT_TCP_HELD);
        }
    }
    assert_int_equal(server->used, CONNECTIONS);
    assert_true(counted(SERVER, BT_TCP_DROP_HELD) >= CONNECTIONS * EACH - BT_TCP_HELD);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_HELD) + BUFFERS - server->pool.left, CONNECTIONS * EACH);
    close_world();
}

/* What finds no packet to leave in is counted, and sent when there is one. */
static void segments_without_a_buffer_are_sent_later(void **state)
{
    struct bt_pkt *all = NULL;
    struct bt_pool *pool = &world.end[CLIENT].pool.pool;
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        turn(1000); // all is acknowledged
    }
    for (struct bt_pkt *p; (p = bt_pool_get(pool)) != NULL;) {
        p->next = all;
        all = p;
    }
    uint64_t sent = counted(CLIENT, BT_TCP_SEGMENTS_OUT);
    turn(1001);
    assert_true(counted(CLIENT, BT_TCP_TX_NO_BUFFER) > 0);
    assert_int_equal(counted(CLIENT, BT_TCP_SEGMENTS_OUT), sent);
    bt_pool_put_chain(pool, all);
    talk_for(3000, 40000);
    hear_all(3000);
    close_world();
}

/* Before a packet there must be room for what lwIP keeps of it. */
static void a_packet_without_room_before_it_is_dropped(void **state)
{
    (void)state;
    open_world(true, false, false);
    struct bt_pkt *p = bt_pool_get(&world.end[SERVER].pool.pool);
    assert_non_null(p);
    bt_pkt_append(p, 40);
    p->data -= p->room_before;
    p->room_before = 0;
    world.end[SERVER].stack->rx(p, world.now);
    assert_int_equal(counted(SERVER, BT_TCP_SEGMENTS_IN), 1);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_HEADER), 1);
    assert_int_equal(world.end[SERVER].pool.left, BUFFERS); // it came back
    dial();
    talk_for(1000, 1000);
    hear_all(1000);
    close_world();
}

/* Of a connection that was reset nobody is told any more, and its peer is. */
static void a_reset_is_told_to_the_peer(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    world.end[CLIENT].stack->reset(world.client.conn);
    world.client.conn = NULL;
    for (unsigned i = 0; i < 10; i++) {
        turn(0);
    }
    assert_true(world.talk[0].gone);
    assert_false(world.client.gone);
    assert_int_equal(world.end[SERVER].stack->open_now(), 0);
    assert_int_equal(world.end[CLIENT].stack->open_now(), 0);
    close_world();
}

/* Whom the owner does not want is reset. */
static void whom_the_owner_refuses_is_reset(void **state)
{
    (void)state;
    open_world(true, false, false);
    world.end[SERVER].talks = 0;
    dial();
    talk_for(1000, 100);
    assert_true(world.client.gone);
    assert_int_equal(world.end[SERVER].used, 0);
    assert_int_equal(counted(SERVER, BT_TCP_ACCEPTED), 1);
    assert_int_equal(world.end[SERVER].stack->open_now(), 0);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_syns_is_bounded),
        cmocka_unit_test(a_window_that_is_closed_is_probed),
        cmocka_unit_test(what_is_outside_the_window_is_counted_and_dropped),
        cmocka_unit_test(segments_out_of_order_are_bounded),
        cmocka_unit_test(segments_of_many_connections_are_bounded_together),
        cmocka_unit_test(segments_without_a_buffer_are_sent_later),
        cmocka_unit_test(a_packet_without_room_before_it_is_dropped),
        cmocka_unit_test(a_reset_is_told_to_the_peer),
        cmocka_unit_test(whom_the_owner_refuses_is_reset),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
