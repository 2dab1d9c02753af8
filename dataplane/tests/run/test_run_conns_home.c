// SPDX-License-Identifier: Apache-2.0
// Homes with a TCP stack of their own: when they want a turn, how much one takes, what several have counted, and how
// many there may be.
#include "conn_bed.h"

#include <string.h>

#include "base/bytes.h"

/* When the next turn is: the stack's timers, or the port's own. */
static void the_earlier_timer_is_next(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    turns(1);
    assert_true(atomic_load(&bed.run->home[0].due_ns) == UINT64_MAX);
    dial();
    turns(50);
    uint64_t due = atomic_load(&bed.run->home[0].due_ns);
    assert_true(due > world.now && due <= world.now + BT_TCP_TICK_MS * MS);
    bed.port[0].due = due - 1;
    turns(1);
    assert_true(atomic_load(&bed.run->home[0].due_ns) == due - 1);
    bed.port[0].due = due + 1000 * MS;
    turns(1);
    assert_true(atomic_load(&bed.run->home[0].due_ns) == due);
    end_bed();
}

/* The first sequence number to somebody, without what the time adds (RFC 6528). */
static uint32_t secret_of_numbers(void)
{
    begin_bed((struct bed_options){0});
    syn(0x0a000005, 1000, NULL, 0);
    world.now += MS;
    arrive();
    assert_true(bt_sched_take(bed.run->lane[0].sched, 0));
    run_home_turn(&bed.run->home[0], NULL, true);
    struct bt_pkt *p = bt_txq_pop(&world.end[SERVER].out);
    assert_non_null(p);
    assert_int_equal(p->data[33], 0x12); // SYN and ACK
    uint32_t seq = bt_get32(p->data + 24) - (uint32_t)(world.now >> 12);
    bt_pool_put(&world.end[SERVER].pool.pool, p);
    end_bed();
    return seq;
}

/* Who knows the numbers of one server's life knows nothing of the next one's. */
static void first_numbers_cannot_be_guessed(void **state)
{
    (void)state;
    assert_int_not_equal(secret_of_numbers(), secret_of_numbers());
}

/* A poll takes a batch, and says when there may be more. */
static void a_poll_takes_a_batch(void **state)
{
    (void)state;
    begin_bed((struct bed_options){.batch = 3});
    for (unsigned i = 0; i < 5; i++) {
        syn(0x0a000005, (uint16_t)(1000 + i), NULL, 0);
    }
    world.now += MS;
    arrive();
    assert_true(bt_sched_take(bed.run->lane[0].sched, 0));
    assert_true(bt_run_wire_stack.poll(tcp()));
    assert_int_equal(bed.port[0].took, 3);
    assert_false(bt_run_wire_stack.poll(tcp()));
    assert_int_equal(bed.port[0].took, 5);
    run_home_turn(&bed.run->home[0], NULL, false);
    bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head); // to hosts that are not there
    bt_txq_init(&world.end[SERVER].out);
    end_bed();
}

/* Each home has a stack of its own on a port of its own; all together are read. */
static void homes_are_read_together(void **state)
{
    uint64_t counts[2] = {0, 77};
    const struct bt_counter_desc *names = NULL;
    (void)state;
    begin_bed((struct bed_options){.threads = 2});
    dial();
    all_came_back(ask_for(SAME, 100));
    struct bt_pkt *stray = bt_pool_get(&world.end[SERVER].pool.pool);
    assert_non_null(stray);
    memset(bt_pkt_append(stray, 40), 0, 40); // no IP at all
    stray->local = BT_RUN_TCP_LOCAL;
    bed.port[1].in[bed.port[1].n_in++] = stray;
    turns(1);
    assert_int_equal(bed.port[1].took, 1);
    assert_int_equal(stack_counted(BT_TCP_SEGMENTS_IN), bed.port[0].took + 1);
    assert_int_equal(stack_counted(BT_TCP_DROP_HEADER), 1);
    assert_int_equal(bt_run_read_stack_ios(bed.run, &names, counts, 2), 2);
    assert_string_equal(names[1].name, "b");
    assert_int_equal(counts[0], 3 + 10);
    assert_int_equal(counts[1], 5 + 20);
    counts[1] = 77;
    assert_int_equal(bt_run_read_stack_ios(bed.run, &names, counts, 1), 1);
    assert_int_equal(counts[0], 3 + 10);
    assert_int_equal(counts[1], 77);
    end_bed();
}

static void what_there_is_no_room_for_is_refused(void **state)
{
    const struct bt_tcp_stack *all[BT_TCP_COPIES];
    unsigned n = 0;
    (void)state;
    refused_bed(BT_TCP_CONNECTIONS + 1, "connections: with a TCP stack of its own a thread has at most 4096");
    while (n < BT_TCP_COPIES - 1 && (all[n] = bt_tcp_stack_take()) != NULL) { // the client has the last one
        n++;
    }
    assert_int_equal(n, BT_TCP_COPIES - 1);
    refused_bed(1, "threads: at most 16 can have a TCP stack of their own");
    while (n > 0) {
        bt_tcp_stack_give(all[--n]);
    }
    begin_bed((struct bed_options){.connections = BT_TCP_CONNECTIONS});
    end_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earlier_timer_is_next),
        cmocka_unit_test(first_numbers_cannot_be_guessed),
        cmocka_unit_test(a_poll_takes_a_batch),
        cmocka_unit_test(homes_are_read_together),
        cmocka_unit_test(what_there_is_no_room_for_is_refused),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
