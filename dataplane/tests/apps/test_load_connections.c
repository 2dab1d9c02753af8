// SPDX-License-Identifier: Apache-2.0
// What becomes of every request of bobtail-load, and when a socket takes another router.
#include "load_bed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void uses(unsigned socket, unsigned router)
{
    struct bt_addr want = load_bed_router(router);
    assert_true(bt_addr_eq(&bed.app.conn[socket].router, &want));
    assert_true(bt_addr_eq(&bed.app.routers[bed.app.conn[socket].tally].addr, &want));
}

static void requests_go_by_the_sockets_in_turn_and_count_once_measured(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    app->measure_ns = bed.now;
    load_bed_open(3, 3);
    uint64_t serial = app->next_serial;
    load_bed_send(1); // due before the measured time
    for (unsigned i = 0; i < 3; i++) {
        load_bed_send(0);
    }
    assert_int_equal(app->next_serial, serial + 4);
    assert_int_equal(app->second.offered, 4);
    assert_int_equal(app->second.sent, 4);
    assert_int_equal(app->tally.offered, 3);
    assert_int_equal(app->tally.sent, 3);
    assert_int_equal(app->outstanding, 4);
    static const unsigned by[] = {0, 1, 2, 0};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(bed.by[i], by[i]);
        assert_true(bt_addr_eq(&bed.to[i], &app->conn[by[i]].router));
        assert_int_equal(app->routers[app->conn[by[i]].tally].sent, by[i] == 0 ? 2 : 1);
    }
    load_bed_pass(MS);
    assert_int_equal(app->second.completed, 4);
    assert_int_equal(app->tally.completed, 3);
    assert_int_equal(app->hist.total, 3);
    assert_int_equal(app->second_hist.total, 4);
    assert_int_equal(app->routers[app->conn[0].tally].completed, 2);
    assert_int_equal(app->outstanding, 0);
    load_bed_close();
}

// An open loop: what waits in the generator counts as waiting.
static void latency_counts_from_when_a_request_was_due(void **state)
{
    struct load_app *app = &bed.app;
    struct bt_hist_window w;
    struct bt_hist kept;
    (void)state;
    load_bed_new();
    app->slices = bt_map(bt_hist_slices_bytes());
    bt_hist_slices_init(app->slices, bed.now);
    load_bed_open(1, 1);
    load_bed_send(5 * MS);
    load_bed_pass(MS);
    assert_int_equal(app->hist.bucket[bt_hist_index(6 * MS)], 1);
    assert_int_equal(app->hist.sum_ns, 6 * MS);
    assert_int_equal(app->second_hist.sum_ns, 6 * MS);
    bed.peer = PEER_DROPS;
    load_bed_send(0);
    load_bed_pass(MS);
    bed.peer = PEER_IS_SILENT;
    load_bed_send(0);
    load_bed_pass(20 * MS);
    bt_hist_slices_merge(app->slices, bed.now, 1, &kept, &w);
    assert_int_equal(w.arrived, 3);
    assert_int_equal(w.rejected, 1);
    assert_int_equal(kept.sum_ns, 6 * MS);
    assert_int_equal(kept.inf, 1);
    assert_int_equal(kept.total, 2);
    load_bed_close();
    munmap(app->slices, bt_hist_slices_bytes());
}

static void an_answer_that_is_not_the_request_is_corrupt(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    static const enum load_peer wrong[] = {PEER_SPOILS, PEER_SHORTENS};
    for (unsigned i = 1; i <= 2; i++) {
        bed.peer = wrong[i - 1];
        load_bed_send(0);
        load_bed_pass(MS);
        assert_int_equal(app->corrupt, i);
        assert_int_equal(app->tally.errors, i);
        assert_int_equal(app->hist.inf, i);
        assert_int_equal(app->second.completed, i); // something did come
    }
    assert_int_equal(app->tally.completed, 0);
    app->opt.verify = false;
    load_bed_send(0);
    load_bed_pass(MS);
    assert_int_equal(app->corrupt, 2);
    assert_int_equal(app->tally.completed, 1);
    load_bed_close();
}

static void time_out(unsigned times)
{
    bed.peer = PEER_IS_SILENT;
    for (unsigned i = 0; i < times; i++) {
        load_bed_send(0);
        load_bed_pass(20 * MS);
    }
}

static void three_timeouts_in_a_row_send_a_socket_to_the_next_router(void **state)
{
    static const enum load_peer alive[] = {PEER_ECHOES, PEER_DROPS};
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 2);
    for (unsigned i = 0; i < 2; i++) {
        time_out(2);
        bed.peer = alive[i]; // an answer or a refusal: it lives
        load_bed_send(0);
        load_bed_pass(MS);
    }
    time_out(2);
    uses(0, 0);
    assert_int_equal(app->moves, 0);
    time_out(1);
    uses(0, 1);
    assert_int_equal(app->moves, 1);
    time_out(2);
    uses(0, 1);
    time_out(1);
    uses(0, 0); // round the list
    assert_int_equal(app->moves, 2);
    assert_int_equal(app->tally.timeouts, 10);
    assert_int_equal(app->second.timeouts, 10);
    assert_int_equal(app->hist.inf, 10);
    assert_int_equal(app->second_hist.inf, 10);
    assert_int_equal(app->routers[0].timeouts, 7);
    assert_int_equal(app->routers[1].timeouts, 3);
    load_bed_close();
}

static void timeouts_of_a_router_left_behind_do_not_count_against_the_next(void **state)
{
    (void)state;
    load_bed_new();
    load_bed_open(1, 2);
    bed.peer = PEER_IS_SILENT;
    for (unsigned i = 0; i < 8; i++) {
        load_bed_send(0);
    }
    load_bed_pass(20 * MS);
    assert_int_equal(bed.app.tally.timeouts, 8);
    assert_int_equal(bed.app.moves, 1);
    assert_int_equal(bed.app.conn[0].timeouts_in_row, 0);
    load_bed_close();
    load_bed_new();
    load_bed_open(1, 1);
    time_out(4); // with one router there is nowhere to go
    uses(0, 0);
    assert_int_equal(bed.app.moves, 0);
    assert_int_equal(bed.app.conn[0].timeouts_in_row, 1);
    load_bed_close();
}

static void a_refusal_is_counted_and_is_no_answer(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    bed.peer = PEER_DROPS;
    app->measure_ns = bed.now;
    load_bed_send(1);
    load_bed_send(0);
    load_bed_pass(MS);
    assert_int_equal(app->second.dropped, 2);
    assert_int_equal(app->tally.dropped, 1);
    assert_int_equal(app->routers[0].dropped, 2);
    assert_int_equal(app->hist.total, 0);
    assert_int_equal(app->second_hist.total, 0);
    assert_int_equal(app->tally.errors, 0);
    load_bed_close();
}

static void what_finds_no_place_is_offered_and_an_error(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    app->opt.pending = 2;
    app->measure_ns = bed.now;
    load_bed_open(1, 1);
    load_bed_send(0);
    load_bed_send(0);
    load_bed_send(0); // no record is free
    load_bed_send(1);
    assert_int_equal(app->second.offered, 4);
    assert_int_equal(app->second.sent, 2);
    assert_int_equal(app->tally.offered, 3);
    assert_int_equal(app->error_codes[-BT_RPC_TABLE_FULL], 2);
    assert_int_equal(app->second.errors, 2);
    assert_int_equal(app->tally.errors, 1);
    assert_int_equal(app->hist.inf, 1);
    assert_int_equal(app->second_hist.inf, 2);
    load_bed_pass(MS);
    load_bed_send(0); // both places are free again
    load_bed_send(0);
    assert_int_equal(app->second.sent, 4);
    assert_int_equal(app->outstanding, 2);
    app->opt.request_bytes = 1465; // more than the client was made for
    load_bed_pass(MS);
    app->body = realloc(app->body, 1465);
    load_bed_send(0);
    assert_int_equal(app->error_codes[-BT_RPC_TOO_LARGE], 1);
    assert_int_equal(app->second.errors, 3);
    assert_int_equal(app->outstanding, 0);
    load_bed_close();
}

static void requests_that_a_close_ends_are_errors_that_say_so(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    bed.peer = PEER_IS_SILENT;
    load_bed_send(0);
    load_bed_send(0);
    bt_client_close(app->conn[0].client, bed.now);
    assert_int_equal(app->error_codes[-BT_RPC_CANCELLED], 2);
    assert_int_equal(app->tally.errors, 2);
    assert_int_equal(app->second.errors, 2);
    assert_int_equal(app->hist.inf, 2);
    load_bed_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_by_the_sockets_in_turn_and_count_once_measured),
        cmocka_unit_test(latency_counts_from_when_a_request_was_due),
        cmocka_unit_test(an_answer_that_is_not_the_request_is_corrupt),
        cmocka_unit_test(three_timeouts_in_a_row_send_a_socket_to_the_next_router),
        cmocka_unit_test(timeouts_of_a_router_left_behind_do_not_count_against_the_next),
        cmocka_unit_test(a_refusal_is_counted_and_is_no_answer),
        cmocka_unit_test(what_finds_no_place_is_offered_and_an_error),
        cmocka_unit_test(requests_that_a_close_ends_are_errors_that_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
