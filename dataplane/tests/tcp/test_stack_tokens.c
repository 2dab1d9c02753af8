// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: a window of tokens, for who asks and is answered (F-30, F-31, F-34).
#include "stack_bed.h"

#include <string.h>

#include "base/bytes.h"

static void who_asks_and_is_answered_gets_tokens(void **state)
{
    static const struct {
        bool asks, answers;
    } pairs[] = {{true, true}, {true, false}, {false, true}, {false, false}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool both = pairs[i].asks && pairs[i].answers;
        open_world(true, pairs[i].asks, pairs[i].answers);
        dial();
        talk_for(50000, 20000);
        hear_all(50000); // five tokens are no five bytes
        assert_int_equal(world.end[CLIENT].stack->tokens(world.client.conn), both);
        assert_int_equal(counted(SERVER, BT_TCP_FLOW_CONNS), both);
        assert_int_equal(world.client.signals != 0, both);
        assert_int_equal(world.client.signal, both ? 5 : 0);
        assert_int_equal(bt_tcp_flow_read(world.syn_ack + 20, world.syn_ack_len - 20),
                         both ? BT_TCP_FLOW_ASKED : BT_TCP_FLOW_NONE);
        world.end[SERVER].tells = 0; // F-31: it would be a deadlock
        talk_for(60000, 20000);
        hear_all(60000);
        assert_int_equal(world.client.signal, both ? (BT_FC_IDLE_BIT | BT_FC_PERIOD_US) : 0);
        close_world();
    }
}

// Other kinds of option are nobody's business, whatever they hold.
static void only_its_own_kind_is_read(void **state)
{
    uint8_t option[BT_TCP_FLOW_PADDED];
    (void)state;
    for (int kind = 2; kind < 256; kind++) {
        bt_tcp_flow_write(option);
        option[0] = (uint8_t)kind;
        assert_int_equal(bt_tcp_flow_read(option, sizeof option),
                         kind == BT_TCP_FLOW_KIND ? BT_TCP_FLOW_ASKED : BT_TCP_FLOW_NONE);
    }
}

static void what_is_asked_for_wrongly_is_not_given(void **state)
{
    uint8_t ours[BT_TCP_FLOW_PADDED], scaled[12] = {3, 3, 7, 1}, newer[BT_TCP_FLOW_PADDED], broken[4] = {253, 9, 0, 0};
    (void)state;
    open_world(true, false, true);
    bt_tcp_flow_write(ours);
    memcpy(scaled + 4, ours, sizeof ours);
    memcpy(newer, ours, sizeof newer);
    newer[4]++;
    syn(0xc0a80001u, 1, ours, sizeof ours);
    syn(0xc0a80001u, 2, scaled, sizeof scaled);
    syn(0xc0a80001u, 3, newer, sizeof newer);
    syn(0xc0a80001u, 4, broken, sizeof broken);
    world.now += MS;
    arrive();
    world.end[SERVER].stack->flush(world.now);
    static const bool given[] = {true, false, false, false};
    for (unsigned i = 0; i < 4; i++) {
        struct bt_pkt *p = bt_txq_pop(&world.end[SERVER].out);
        assert_non_null(p);
        bool there = bt_tcp_flow_read(p->data + 40, p->len - 40) == BT_TCP_FLOW_ASKED;
        assert_int_equal(bt_get16(p->data + 22), 1 + i);
        assert_int_equal(there, given[i]);
        assert_int_equal(bt_get16(p->data + 34), given[i] ? 5 : 65535); // a plain window, or tokens
        bt_pool_put(&world.end[SERVER].pool.pool, p);
    }
    assert_int_equal(counted(SERVER, BT_TCP_FLOW_REFUSED), 2);
    assert_int_equal(counted(SERVER, BT_TCP_BAD_OPTIONS), 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_and_is_answered_gets_tokens),
        cmocka_unit_test(what_is_asked_for_wrongly_is_not_given),
        cmocka_unit_test(only_its_own_kind_is_read),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
