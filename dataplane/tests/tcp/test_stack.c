// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: what is sent arrives once and in order, whatever the wire does, and copies are apart.
#include "stack_bed.h"

#include "counter_names.h"

static void echoes(bool v4)
{
    open_world(v4, false, false);
    dial();
    talk_for(sizeof world.said, 20000);
    hear_all(sizeof world.said);
    assert_int_equal(counted(SERVER, BT_TCP_ACCEPTED), 1);
    assert_int_equal(counted(SERVER, BT_TCP_RESENT) + counted(CLIENT, BT_TCP_RESENT), 0);
    world.end[CLIENT].stack->end(world.client.conn); // both ends close in peace
    for (unsigned i = 0; i < 100; i++) {
        turn(0);
    }
    assert_false(world.talk[0].gone);
    assert_null(world.talk[0].conn);
    assert_int_equal(world.end[SERVER].stack->open_now(), 0);
    close_world();
}

static void bytes_come_back_over_ipv4(void **state)
{
    (void)state;
    echoes(true);
}

static void bytes_come_back_over_ipv6(void **state)
{
    (void)state;
    echoes(false);
}

static void a_bad_wire_costs_time_only(void **state)
{
    uint64_t resent = 0, sums = 0, old = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS(20); seed++) {
        open_world(seed % 2 != 0, seed % 3 == 0, seed % 4 < 2);
        bt_rng_seed(&world.rng, seed);
        world.loss = 30;
        world.twice = 30;
        world.late = 100;
        world.damage = 20;
        dial();
        talk_for(60000, 4000000);
        hear_all(60000);
        resent += counted(SERVER, BT_TCP_RESENT) + counted(CLIENT, BT_TCP_RESENT);
        sums += counted(SERVER, BT_TCP_DROP_SUM);
        old += counted(SERVER, BT_TCP_DROP_OLD);
        close_world();
    }
    assert_true(resent > SEEDS(20));
    assert_true(sums > SEEDS(20));
    assert_true(old > SEEDS(20));
}

static void copies_know_nothing_of_one_another(void **state)
{
    const struct bt_tcp_stack *all[BT_TCP_COPIES];
    (void)state;
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        all[i] = bt_tcp_stack_take();
        assert_non_null(all[i]);
        for (unsigned k = 0; k < i; k++) {
            assert_ptr_not_equal(all[i]->counters(), all[k]->counters());
        }
    }
    assert_null(bt_tcp_stack_take());
    bt_tcp_stack_give(all[3]); // this one and no other is to be had again
    assert_ptr_equal(bt_tcp_stack_take(), all[3]);
    assert_null(bt_tcp_stack_take());
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        bt_tcp_stack_give(all[i]);
    }
}

// What docs/reference/metrics.md calls each of them.
static void counters_stand_under_their_names(void **state)
{
    (void)state;
    assert_counter_names(bt_tcp_counter_desc, BT_TCP_COUNTERS,
                         "tcp_segments_received_total\n"
                         "tcp_segments_sent_total\n"
                         "tcp_segments_resent_total\n"
                         "tcp_connections_total\n"
                         "tcp_flow_connections_total\n"
                         "tcp_flow_refused_total\n"
                         "tcp_bad_options_total\n"
                         "tcp_half_open_lost_total\n"
                         "tcp_window_probes_total\n"
                         "tcp_dropped_total{reason=checksum}\n"
                         "tcp_dropped_total{reason=header}\n"
                         "tcp_dropped_total{reason=out_of_window}\n"
                         "tcp_dropped_total{reason=duplicate}\n"
                         "tcp_dropped_total{reason=no_connection}\n"
                         "tcp_dropped_total{reason=memory}\n"
                         "tcp_dropped_total{reason=out_of_order}\n"
                         "tcp_send_dropped_total{reason=no_buffer}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_over_ipv4),        cmocka_unit_test(bytes_come_back_over_ipv6),
        cmocka_unit_test(a_bad_wire_costs_time_only),       cmocka_unit_test(copies_know_nothing_of_one_another),
        cmocka_unit_test(counters_stand_under_their_names),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
