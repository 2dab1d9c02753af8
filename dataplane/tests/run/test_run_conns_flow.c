// SPDX-License-Identifier: Apache-2.0
// Flow control of connections on a TCP stack of their own (F-30 to F-34): who asks is told how many requests it may
// send, in the segments that go to it anyway; whoever does not ask is served and counted.
#include "conn_bed.h"

#include "base/bytes.h"
#include "sched/fc_receiver.h"

#define UNREAD_SIGNAL (BT_FC_IDLE_BIT | BT_FC_PERIOD_US)

// So short a wait that the load which is admitted is the least there is (F-8); and one that admits everything.
static const struct bt_fc_objective strict = {.wait_ns = 1, .percentile = 0.99, .cores = 1, .model = BT_FC_REFINED},
                                    lax = {.wait_ns = 1e9, .percentile = 0.99, .cores = 1, .model = BT_FC_REFINED};

static void begin(const struct bt_fc_objective *flow, bool asks)
{
    begin_bed((struct bed_options){.asks = asks, .flow = flow});
}

static uint16_t window_of_the_syn_ack(void)
{
    assert_int_not_equal(world.syn_ack_len, 0);
    return bt_get16(world.syn_ack + 14);
}

static void who_asks_is_told(void **state)
{
    static const struct {
        bool asks, flow;
    } rows[] = {{true, true}, {true, false}, {false, true}, {false, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool both = rows[i].asks && rows[i].flow;
        begin(rows[i].flow ? &lax : NULL, rows[i].asks);
        dial();
        uint32_t n = ask_for(SAME, 2000);
        talk_for(n, 20000);
        assert_int_equal(world.client.n, n);
        assert_memory_equal(world.client.got, world.said, n);
        assert_int_equal(stack_counted(BT_TCP_FLOW_CONNS), both);
        assert_int_equal(world.client.signals != 0, both);
        assert_int_equal(world.client.signal, both ? BT_FC_TOKENS : 0);
        assert_int_equal(window_of_the_syn_ack(), both ? BT_FC_TOKENS : 65535);
        assert_int_equal(conn(0)->flow != NULL, rows[i].flow);
        assert_int_equal(atomic_load(&bed.run->home[0].clocked), rows[i].flow);
        end_bed();
    }
}

/* One after the other, two requests and one. */
static void two_clients_ask(struct talk *other)
{
    bed.executes = false;
    dial();
    uint32_t n = ask_for(SAME, 100);
    n = ask_for(SAME, 100);
    turns(100);
    dial_as(other);
    turns(50);
    assert_int_equal(other->end->stack->write(other->conn, world.said, n / 2), n / 2);
    turns(50);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 3);
}

static void who_asks_is_known_by_itself(void **state)
{
    uint8_t room[1000];
    struct talk other = {.got = room, .room = sizeof room};
    (void)state;
    begin(&lax, true);
    two_clients_ask(&other);
    struct bt_fc_conn *flow[2] = {conn(0)->flow, conn(1)->flow};
    assert_ptr_not_equal(flow[0], flow[1]);
    assert_int_equal(flow[0]->pending, 2);
    assert_int_equal(flow[1]->pending, 1);
    assert_true(flow[0]->epoch != 0 && flow[1]->epoch != 0); // both are active
    bed.executes = true;
    turns(50);
    assert_int_equal(flow[0]->pending + flow[1]->pending, 0);
    other.end->stack->end(other.conn);
    turns(50);
    assert_int_equal(tcp()->open, 1);
    assert_int_equal(flow[1]->epoch, 0); // and one is no more
    assert_true(flow[0]->epoch != 0);
    end_bed();
}

static void those_who_do_not_ask_are_counted_together(void **state)
{
    uint8_t room[1000];
    struct talk other = {.got = room, .room = sizeof room};
    (void)state;
    begin(&lax, false);
    two_clients_ask(&other);
    struct bt_fc_conn *flow = conn(0)->flow;
    assert_ptr_equal(flow, conn(1)->flow);
    assert_int_equal(flow->pending, 3);
    assert_int_equal(flow->epoch, 0); // no client that could be told anything
    bed.executes = true;
    turns(50);
    assert_int_equal(flow->pending, 0);
    other.end->stack->end(other.conn);
    turns(50);
    assert_int_equal(tcp()->open, 1);
    end_bed();
}

/* From its first acknowledgement on, which leaves before anything was taken. */
static void who_is_read_is_never_silenced(void **state)
{
    (void)state;
    begin(&lax, true);
    bed.executes = false;
    dial();
    uint32_t n = ask_for(SAME, 3000);
    for (unsigned i = 0; i < 200; i++) {
        turn(n);
        assert_true(world.client.signals == 0 || world.client.signal == BT_FC_TOKENS);
    }
    assert_true(world.client.signals > 1);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 1);
    end_bed();
}

/* Its requests are no further ones for a token to let in. */
static void who_is_not_read_is_silenced(void **state)
{
    uint32_t n = 0;
    (void)state;
    begin(&lax, true);
    bed.executes = false;
    dial();
    turns(50);
    assert_int_equal(world.client.signal, BT_FC_TOKENS);
    for (unsigned i = 0; i <= RUN_TCP_PER_TURN; i++) {
        n = ask_for(SAME, 1000); // so many bytes that they are acknowledged before an answer
    }
    turns(200);
    assert_false(conn(0)->reads);
    assert_int_equal(world.client.signal, UNREAD_SIGNAL);
    bed.executes = true;
    talk_for(n, 20000);
    assert_int_equal(world.client.n, n);
    assert_int_equal(world.client.signal, BT_FC_TOKENS);
    end_bed();
}

/* One after another they are answered, and whether the client was told to be silent meanwhile. */
static bool overload(unsigned requests)
{
    uint32_t n = 0;
    bool silenced = false;
    say_nothing();
    world.client.n = world.client.sent = 0;
    for (unsigned i = 0; i < requests; i++) {
        n = ask_for(SLOW, 10);
    }
    while (world.client.n < n) { // the test's own time limit ends it
        turn(n);
        silenced |= (world.client.signal & BT_FC_IDLE_BIT) != 0 && world.client.signal != UNREAD_SIGNAL;
    }
    assert_memory_equal(world.client.got, world.said, n);
    return silenced;
}

/* Whoever comes now gets no tokens. */
static bool closed_to_others(void)
{
    struct talk late = {0};
    dial_as(&late);
    turns(20);
    assert_true(late.opened);
    bool closed = window_of_the_syn_ack() == UNREAD_SIGNAL;
    late.end->stack->end(late.conn);
    turns(50);
    return closed;
}

/* A client that sends more than the objective allows is told to be silent, and is answered all the same: of a stream
 * nothing can be left out. How soon depends on the machine's clock. */
static void too_much_is_answered_by_silence(void **state)
{
    enum { REQUESTS = 500 };
    unsigned rounds = 0;
    bool silenced = false, closed = false;
    (void)state;
    begin(&strict, true);
    dial();
    while (!silenced || !closed) { // the test's own time limit ends it
        silenced |= overload(REQUESTS);
        closed |= closed_to_others();
        rounds++;
    }
    assert_int_equal(bed.handled, rounds * REQUESTS);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), rounds * REQUESTS);
    assert_int_equal(conn(0)->flow->pending, 0);
    end_bed();
}

/* The same requests, one at a time with pauses between them, are within what an easier objective allows. */
static void what_is_allowed_is_not_answered_by_silence(void **state)
{
    enum { REQUESTS = BT_FC_SAMPLES + 100, PAUSE_NS = 200000 };
    (void)state;
    begin(&lax, true);
    dial();
    for (unsigned i = 0; i < REQUESTS; i++) {
        uint32_t n = ask_for(SLOW, 10);
        talk_for(n, 20000);
        assert_int_equal(world.client.n, n);
        assert_int_equal(world.client.signal, BT_FC_TOKENS);
        for (uint64_t began = run_clock_ns(); run_clock_ns() - began < PAUSE_NS;) {
        }
    }
    end_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_is_told),
        cmocka_unit_test(who_asks_is_known_by_itself),
        cmocka_unit_test(those_who_do_not_ask_are_counted_together),
        cmocka_unit_test(who_is_read_is_never_silenced),
        cmocka_unit_test(who_is_not_read_is_silenced),
        cmocka_unit_test(too_much_is_answered_by_silence),
        cmocka_unit_test(what_is_allowed_is_not_answered_by_silence),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
