// SPDX-License-Identifier: Apache-2.0
// Connections of homes with a TCP stack of their own, and a client with another copy of the stack: requests are
// answered over any wire, one client cannot fill memory, and how a connection ends is counted.
#include "conn_bed.h"
#include "starve.h"

#include <stdlib.h>
#include <string.h>

static void nothing_else_ended(void)
{
    for (enum bt_run_tcp_counter k = BT_RUN_TCP_MALFORMED; k < BT_RUN_TCP_COUNTERS; k++) {
        assert_int_equal(run_counted(k), 0);
    }
}

static void requests_of_every_size(bool v6)
{
    uint32_t n = 0, asked = 0;
    begin_bed((struct bed_options){.v6 = v6});
    for (uint32_t size = 1; size <= MOST; size = size * 3 / 2 + 1) {
        n = ask_for(SAME, size);
        asked++;
    }
    dial();
    all_came_back(n);
    assert_int_equal(bed.handled, asked);
    assert_int_equal(run_counted(BT_RUN_TCP_ACCEPTED), 1);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), asked);
    assert_int_equal(tcp()->open, 1);
    turns(200);                             // acknowledgements that wait
    assert_int_equal(bed.port[0].bytes, n); // nothing twice
    assert_int_equal(stack_counted(BT_TCP_SEGMENTS_IN), bed.port[0].took);
    assert_int_equal(stack_counted(BT_TCP_SEGMENTS_OUT), bed.port[0].sent);
    assert_int_equal(stack_counted(BT_TCP_RESENT), 0);
    assert_int_equal(stack_counted(BT_TCP_FLOW_CONNS), 0);
    assert_int_equal(conn(0)->unread, 0);
    world.client.end->stack->end(world.client.conn);
    world.client.conn = NULL;
    turns(50);
    assert_int_equal(tcp()->open, 0);
    assert_false(world.client.gone);
    nothing_else_ended();
    end_bed();
}

static void requests_are_answered_over_ipv4(void **state)
{
    (void)state;
    requests_of_every_size(false);
}

static void requests_are_answered_over_ipv6(void **state)
{
    (void)state;
    requests_of_every_size(true);
}

/* Timers of the stack run, or what is lost would stay so. */
static void a_bad_wire_costs_time_only(void **state)
{
    uint32_t n = 0;
    (void)state;
    begin_bed((struct bed_options){0});
    for (uint32_t i = 0; i < 40; i++) {
        n = ask_for(SAME, 1 + i * 71);
    }
    world.loss = world.twice = 50;
    dial();
    talk_for(n, 4000000);
    assert_int_equal(world.client.n, n);
    assert_memory_equal(world.client.got, world.said, n);
    assert_int_equal(bed.handled, 40);
    assert_true(stack_counted(BT_TCP_RESENT) > 0);
    nothing_else_ended();
    end_bed();
}

/* A place that a connection leaves is another one's, as often as one comes. */
static void places_are_used_again(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    for (uint32_t i = 0; i < 3 * CONNECTIONS; i++) {
        say_nothing();
        world.client.n = world.client.sent = 0;
        world.client.opened = false;
        uint32_t n = ask_for(SAME, 100 + i);
        dial();
        all_came_back(n);
        world.client.end->stack->end(world.client.conn);
        world.client.conn = NULL;
        turns(50);
        assert_int_equal(tcp()->open, 0);
        assert_int_equal(run_counted(BT_RUN_TCP_ACCEPTED), i + 1);
    }
    nothing_else_ended();
    end_bed();
}

/* What several clients say in one turn is all taken in it. */
static void clients_of_one_turn_are_all_served(void **state)
{
    struct talk other[CONNECTIONS - 1] = {0};
    uint8_t got[CONNECTIONS - 1][1000];
    (void)state;
    begin_bed((struct bed_options){0});
    dial();
    for (unsigned i = 0; i < CONNECTIONS - 1; i++) {
        other[i] = (struct talk){.got = got[i], .room = sizeof got[i]};
        dial_as(&other[i]);
    }
    turns(50);
    bed.executes = false;
    uint32_t n = ask_for(SAME, 200);
    for (unsigned i = 0; i < CONNECTIONS - 1; i++) {
        assert_int_equal(other[i].end->stack->write(other[i].conn, world.said, n), n);
    }
    turns(5);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), CONNECTIONS);
    bed.executes = true;
    all_came_back(n);
    turns(5);
    for (unsigned i = 0; i < CONNECTIONS - 1; i++) {
        assert_int_equal(other[i].n, n);
        assert_memory_equal(other[i].got, world.said, n);
    }
    end_bed();
}

static void one_too_many_is_reset(void **state)
{
    struct talk other[CONNECTIONS] = {0};
    (void)state;
    begin_bed((struct bed_options){0});
    uint32_t n = ask_for(SAME, 500);
    dial();
    turns(50);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        dial_as(&other[i]);
        turns(50);
        assert_int_equal(other[i].gone, i == CONNECTIONS - 1);
    }
    assert_int_equal(run_counted(BT_RUN_TCP_ACCEPTED), CONNECTIONS);
    assert_int_equal(run_counted(BT_RUN_TCP_FULL), 1);
    assert_int_equal(run_counted(BT_RUN_TCP_RESET), 0);
    assert_int_equal(tcp()->open, CONNECTIONS);
    all_came_back(n);
    end_bed();
}

/* What was asked for is executed and answered though the client says no more. */
static void an_ended_client_is_answered(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    bed.executes = false;
    uint32_t n = ask_for(SAME, 700);
    n = ask_for(SAME, 1900);
    dial();
    turns(100);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 2);
    world.client.end->stack->end(world.client.conn);
    world.client.conn = NULL;
    turns(50);
    assert_true(conn(0)->ended);
    assert_int_equal(tcp()->open, 1);
    assert_int_equal(bt_run_tcp_backlog(bed.run), 2);
    assert_int_equal(bed.handled, 0);
    bed.executes = true;
    turns(100);
    assert_int_equal(bed.handled, 2);
    assert_int_equal(bed.port[0].bytes, n);
    assert_int_equal(tcp()->open, 0);
    assert_int_equal(bt_run_tcp_backlog(bed.run), 0);
    nothing_else_ended();
    end_bed();
}

static void a_client_that_ends_inside_a_request_is_counted(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    uint32_t n = ask_for(SAME, 300);
    uint32_t cut = ask_for(SAME, 300) - 1;
    dial();
    for (unsigned i = 0; i < 100; i++) {
        turn(cut);
    }
    assert_int_equal(world.client.n, n);
    world.client.end->stack->end(world.client.conn);
    world.client.conn = NULL;
    turns(50);
    assert_int_equal(run_counted(BT_RUN_TCP_CUT), 1);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 1);
    assert_int_equal(tcp()->open, 0);
    end_bed();
}

/* Its requests run to their ends, and nobody is answered. */
static void a_reset_takes_the_connection_away(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    bed.executes = false;
    (void)ask_for(SAME, 700);
    dial();
    turns(100);
    world.client.end->stack->reset(world.client.conn);
    world.client.conn = NULL;
    turns(50);
    assert_int_equal(run_counted(BT_RUN_TCP_RESET), 1);
    assert_true(conn(0)->dead);
    assert_null(conn(0)->stacks);
    assert_int_equal(tcp()->open, 1); // its request is not over
    bed.executes = true;
    turns(50);
    assert_int_equal(bed.handled, 1);
    assert_int_equal(tcp()->open, 0);
    assert_int_equal(bed.port[0].bytes, 0);
    assert_int_equal(run_counted(BT_RUN_TCP_RESET), 1);
    end_bed();
}

static void a_reset_of_one_that_asks_nothing_frees_its_place(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    dial();
    all_came_back(ask_for(SAME, 10));
    turns(50);
    assert_int_equal(tcp()->open, 1);
    world.client.end->stack->reset(world.client.conn);
    world.client.conn = NULL;
    turns(5);
    assert_int_equal(run_counted(BT_RUN_TCP_RESET), 1);
    assert_int_equal(tcp()->open, 0);
    end_bed();
}

/* Its answer is sent again and again, and then it is given up: by a timer, while nothing comes. */
static void a_client_that_is_no_more_is_given_up(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    bed.executes = false;
    (void)ask_for(SAME, 700);
    dial();
    turns(100);
    world.loss = 1000;
    bed.executes = true;
    while (run_counted(BT_RUN_TCP_RESET) == 0) { // the test's own time limit ends it
        assert_int_equal(tcp()->open, 1);
        world.now += BT_TCP_TICK_MS * MS;
        turns(1);
    }
    assert_int_equal(tcp()->open, 0);
    assert_int_equal(run_counted(BT_RUN_TCP_RESET), 1);
    assert_int_equal(bt_run_tcp_backlog(bed.run), 0);
    end_bed();
}

/* What came before is answered, what comes after is not even kept; then the connection ends. */
static void a_request_that_is_too_long_ends_its_connection(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    bed.executes = false;
    uint32_t good = ask_for(SAME, 900);
    uint32_t at = ask_for(SAME, 100) - 104;
    world.said[at] = 0x7f; // of its length
    dial();
    turns(100);
    assert_int_equal(run_counted(BT_RUN_TCP_TOO_LONG), 1);
    assert_true(conn(0)->broken);
    uint32_t kept = conn(0)->in.len;
    (void)ask_for(SAME, 1000);
    turns(50);
    assert_int_equal(conn(0)->in.len, kept);
    bed.executes = true;
    turns(100);
    assert_int_equal(world.client.n, good);
    assert_memory_equal(world.client.got, world.said, good);
    assert_true(world.client.ended);
    assert_false(world.client.gone);
    assert_int_equal(run_counted(BT_RUN_TCP_TOO_LONG), 1);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 1);
    assert_int_equal(tcp()->open, 0);
    end_bed();
}

static void a_handler_without_a_reply_ends_its_connection(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    uint32_t n = ask_for(SAME, 50);
    (void)ask_for(NOTHING, 50);
    dial();
    turns(100);
    assert_int_equal(world.client.n, n);
    assert_true(world.client.ended);
    assert_int_equal(run_counted(BT_RUN_TCP_REFUSED), 1);
    assert_int_equal(tcp()->open, 0);
    end_bed();
}

/* For its request, or for the answer: its client is told by the end, and the next one is served. */
static void a_client_for_which_there_is_no_memory_is_given_up(void **state)
{
    (void)state;
    for (unsigned before = 0; before < 2; before++) {
        begin_bed((struct bed_options){0});
        (void)ask_for(SAME, 50);
        dial();
        starve_after(before);
        turns(100);
        assert_true(starve_ended());
        assert_int_equal(run_counted(BT_RUN_TCP_MEMORY), 1);
        assert_int_equal(bed.handled, before);
        assert_int_equal(world.client.n, 0);
        assert_true(world.client.ended && !world.client.gone);
        assert_int_equal(run_counted(BT_RUN_TCP_RESET) + run_counted(BT_RUN_TCP_REFUSED), 0);
        assert_int_equal(tcp()->open, 0);
        end_bed();
    }
}

/* A client that takes nothing is not read when so much waits for it, and goes on when it takes again. */
static void who_takes_nothing_is_not_read(void **state)
{
    enum { EACH = 1000, REQUESTS = 300, REPLY = 100 * (EACH + 4), ROOM = REQUESTS * REPLY };
    uint32_t n = 0;
    (void)state;
    begin_bed((struct bed_options){0});
    world.client.got = realloc(world.client.got, world.client.room = ROOM);
    assert_non_null(world.client.got);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        n = ask_for(MUCH, EACH);
    }
    world.client.holds = true;
    dial();
    turns(3000);
    const struct run_conn *c = conn(0);
    uint32_t waits = c->out.len - c->out.from;
    assert_in_range(waits, 262144, 262144 + RUN_TCP_PER_TURN * REPLY);
    assert_false(c->reads);
    assert_true(c->unread != 0 && c->unread <= 65535);
    assert_int_equal(world.client.n, 65535); // its window
    uint64_t taken = run_counted(BT_RUN_TCP_REQUESTS);
    assert_int_equal(bed.handled, taken);
    assert_true(taken < 25 && world.client.sent < n);
    assert_int_equal(bt_run_tcp_backlog(bed.run), 1);
    world.client.holds = false;
    while (world.client.n < ROOM) { // the test's own time limit ends it
        turn(n);
    }
    assert_int_equal(world.client.n, ROOM);
    for (uint32_t i = 0; i < ROOM; i += EACH + 4) {
        assert_memory_equal(world.client.got + i, world.said + i / REPLY * (EACH + 4), EACH + 4);
    }
    turns(50);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), REQUESTS);
    assert_int_equal(c->unread, 0);
    assert_true(c->reads);
    nothing_else_ended();
    end_bed();
}

/* Sixteen requests of a connection at once; the others wait for them. */
static void a_connection_has_so_many_requests_at_once(void **state)
{
    uint32_t n = 0;
    (void)state;
    begin_bed((struct bed_options){0});
    bed.executes = false;
    for (unsigned i = 0; i < RUN_TCP_PER_TURN + 5; i++) {
        n = ask_for(SAME, 20);
    }
    dial();
    turns(100);
    assert_int_equal(conn(0)->pending, RUN_TCP_PER_TURN);
    assert_false(conn(0)->reads);
    bed.executes = true;
    all_came_back(n);
    turns(1);
    assert_int_equal(conn(0)->pending, 0);
    assert_true(conn(0)->reads);
    end_bed();
}

/* All packets of a home, away and back again. */
static struct bt_pkt *take_all(void)
{
    struct bt_pkt *all = NULL;
    for (struct bt_pkt *p; (p = bt_pool_get(&tcp()->memory.pool.pool)) != NULL;) {
        p->next = all;
        all = p;
    }
    return all;
}

static void held_without(bool packets)
{
    struct talk other = {.got = malloc(sizeof world.said), .room = sizeof world.said};
    begin_bed((struct bed_options){0});
    bed.executes = false;
    uint32_t n = ask_for(SAME, 3000); // of two packets, so that one alone is not enough
    dial();
    turns(100);
    struct bobtail_request *jobs = tcp()->free_jobs;
    struct bt_pkt *all = packets ? take_all() : NULL;
    if (packets) {
        struct bt_pkt *one = all;
        all = one->next;
        one->next = NULL;
        bt_pool_put(&tcp()->memory.pool.pool, one);
    } else {
        tcp()->free_jobs = NULL;
    }
    dial_as(&other);
    turns(50);
    assert_int_equal(other.end->stack->write(other.conn, world.said, n), n);
    turns(50);
    assert_int_equal(tcp()->held, 1);
    assert_true(conn(1)->held);
    assert_false(conn(1)->reads);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 1);
    if (packets) {
        bt_pool_put_chain(&tcp()->memory.pool.pool, all);
    } else {
        tcp()->free_jobs = jobs;
    }
    bed.executes = true; // the first one's answer makes the other one go on
    all_came_back(n);
    turns(100);
    assert_int_equal(other.n, n);
    assert_memory_equal(other.got, world.said, n);
    assert_int_equal(tcp()->held, 0);
    assert_true(conn(1)->reads);
    assert_int_equal(run_counted(BT_RUN_TCP_REQUESTS), 2);
    nothing_else_ended();
    end_bed();
    free(other.got);
}

static void a_request_waits_for_memory(void **state)
{
    (void)state;
    held_without(true);
    held_without(false);
}

static void nobody_is_accepted_after_the_end_of_listening(void **state)
{
    struct talk late = {0};
    (void)state;
    begin_bed((struct bed_options){0});
    dial();
    turns(50);
    bt_run_end_listening(bed.run);
    dial_as(&late);
    turns(50);
    assert_true(late.gone);
    assert_int_equal(stack_counted(BT_TCP_DROP_UNKNOWN), 1);
    assert_int_equal(run_counted(BT_RUN_TCP_ACCEPTED), 1);
    all_came_back(ask_for(SAME, 100)); // who was there goes on
    end_bed();
}

/* Clients of a server that closes see the end of their connections, and no reset. */
static void a_server_that_closes_says_so(void **state)
{
    (void)state;
    begin_bed((struct bed_options){0});
    dial();
    all_came_back(ask_for(SAME, 100));
    turns(100);
    close_server();
    turns(5);
    assert_true(world.client.ended);
    assert_false(world.client.gone);
    end_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered_over_ipv4),
        cmocka_unit_test(requests_are_answered_over_ipv6),
        cmocka_unit_test(a_bad_wire_costs_time_only),
        cmocka_unit_test(places_are_used_again),
        cmocka_unit_test(clients_of_one_turn_are_all_served),
        cmocka_unit_test(one_too_many_is_reset),
        cmocka_unit_test(an_ended_client_is_answered),
        cmocka_unit_test(a_client_that_ends_inside_a_request_is_counted),
        cmocka_unit_test(a_reset_takes_the_connection_away),
        cmocka_unit_test(a_reset_of_one_that_asks_nothing_frees_its_place),
        cmocka_unit_test(a_client_that_is_no_more_is_given_up),
        cmocka_unit_test(a_request_that_is_too_long_ends_its_connection),
        cmocka_unit_test(a_handler_without_a_reply_ends_its_connection),
        cmocka_unit_test(a_client_for_which_there_is_no_memory_is_given_up),
        cmocka_unit_test(who_takes_nothing_is_not_read),
        cmocka_unit_test(a_connection_has_so_many_requests_at_once),
        cmocka_unit_test(a_request_waits_for_memory),
        cmocka_unit_test(nobody_is_accepted_after_the_end_of_listening),
        cmocka_unit_test(a_server_that_closes_says_so),
    };
    prepare_world();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
