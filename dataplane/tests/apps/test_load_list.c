// SPDX-License-Identifier: Apache-2.0
// bobtail-load when its list of routers changes, what it says of itself on its control socket, and its log of outcomes.
#include "load_bed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool at_router(unsigned socket, unsigned router)
{
    struct bt_addr want = load_bed_router(router);
    return bt_addr_eq(&bed.app.conn[socket].router, &want);
}

static void list_is(unsigned first, unsigned n)
{
    bed.app.list.n = n;
    for (unsigned i = 0; i < n; i++) {
        bed.app.list.addr[i] = load_bed_router(first + i);
    }
}

static void sockets_leave_routers_that_are_no_longer_listed(void **state)
{
    (void)state;
    load_bed_new();
    load_bed_open(4, 2);
    list_is(1, 3); // 0 is gone, 2 and 3 are new
    bed.app.conn[0].timeouts_in_row = bed.app.conn[1].timeouts_in_row = 2;
    load_connections_update(&bed.app);
    assert_true(at_router(0, 1)); // its own number of the list
    assert_true(at_router(2, 3));
    assert_true(at_router(1, 1) && at_router(3, 1)); // whose router stays, stay
    assert_int_equal(bed.app.moves, 2);
    assert_int_equal(bed.app.n_routers, 3); // the one that is gone keeps its row
    assert_int_equal(bed.app.conn[0].timeouts_in_row, 0);
    assert_int_equal(bed.app.conn[1].timeouts_in_row, 2);
    load_connections_update(&bed.app);
    assert_int_equal(bed.app.moves, 2);
    load_bed_close();
}

static void a_router_that_cannot_be_reached_is_left_by_its_own_socket(void **state)
{
    struct bt_io_event ev = {.peer = load_bed_router(0), .local = 0};
    (void)state;
    load_bed_new();
    load_bed_open(2, 2);
    ev.local = 2; // of no socket
    load_connections_unreachable(&bed.app, &ev);
    ev.local = 1; // which uses the other one
    load_connections_unreachable(&bed.app, &ev);
    assert_int_equal(bed.app.moves, 0);
    ev.local = 0;
    load_connections_unreachable(&bed.app, &ev);
    assert_true(at_router(0, 1) && at_router(1, 1));
    assert_int_equal(bed.app.moves, 1);
    load_connections_unreachable(&bed.app, &ev); // it has gone already
    assert_int_equal(bed.app.moves, 1);
    load_bed_close();
}

static void the_report_has_room_for_256_routers_and_the_last_row_is_of_all_others(void **state)
{
    enum { ROWS = sizeof bed.app.routers / sizeof bed.app.routers[0] };
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    for (unsigned i = 1; i < ROWS + 3; i++) {
        list_is(i, 1);
        load_connections_update(&bed.app);
        assert_true(at_router(0, i));
        assert_int_equal(bed.app.conn[0].tally, i < ROWS ? i : ROWS - 1);
    }
    assert_int_equal(bed.app.n_routers, ROWS);
    load_bed_close();
}

static uint64_t sample(const struct bt_ctl_sample *s, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(s[i].desc.name, name) == 0) {
            return s[i].value;
        }
    }
    fail_msg("no %s", name);
    return 0;
}

static void the_control_socket_is_told_of_all_sockets_together(void **state)
{
    static struct bt_ctl_samples s;
    struct bt_ctl_router routers[4];
    struct bt_ctl_state st = {.routers = routers};
    (void)state;
    load_bed_new();
    load_bed_open(2, 2);
    bed.app.start_ns = bed.now - 3 * MS;
    bed.io_counter[0] = 5;
    for (unsigned i = 0; i < 3; i++) {
        load_bed_send(0);
    }
    load_ctl_app.counters(&bed.app, &s);
    assert_int_equal(sample(s.counters, s.n_counters, "client_requests_started_total"), 3);
    assert_int_equal(sample(s.counters, s.n_counters, "udp_tx_total"), 5);
    assert_int_equal(sample(s.gauges, s.n_gauges, "load_outstanding"), 3);
    load_ctl_app.state(&bed.app, &st);
    assert_false(st.draining);
    assert_int_equal(st.uptime_ns, 3 * MS);
    assert_int_equal(st.backlog, 3);
    assert_int_equal(st.n_routers, 2);
    assert_int_equal(st.routers[1].heard_ms_ago, -1);
    struct bt_addr second = load_bed_router(1);
    assert_true(bt_addr_eq(&st.routers[1].addr, &second));
    bed.app.slices = (struct bt_hist_slices *)&bed;
    assert_ptr_equal(load_ctl_app.slices(&bed.app, "latency"), &bed);
    assert_null(load_ctl_app.slices(&bed.app, "service"));
    bed.app.slices = NULL;
    assert_string_equal(load_ctl_app.role, "load");
    assert_string_equal(load_ctl_app.histogram_source, "Client");
    assert_string_equal(load_ctl_app.histogram_names, "latency");
    load_bed_pass(MS);
    load_bed_close();
}

static void a_generator_that_is_told_to_leave_offers_nothing_more(void **state)
{
    struct bt_ctl_state st = {.is_router = false};
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    bed.app.list.n = 0;
    bed.app.end_ns = UINT64_MAX;
    load_ctl_app.leave(&bed.app);
    assert_true(bed.app.stopping);
    assert_int_equal(bed.app.end_ns, bed.now);
    load_ctl_app.state(&bed.app, &st);
    assert_true(st.draining);
    bed.now += MS;
    load_ctl_app.leave(&bed.app); // again: the end stays what it was
    assert_int_equal(bed.app.end_ns, bed.now - MS);
    load_bed_close();
}

static void every_request_has_a_line_with_its_end(void **state)
{
    char path[] = "/tmp/load_outcomes.XXXXXX", want[400], got[400] = "";
    struct load_app *app = &bed.app;
    (void)state;
    close(mkstemp(path));
    load_bed_new();
    app->opt.outcome_log = path;
    load_bed_open(2, 2);
    assert_true(load_outcomes_open(app));
    app->start_ns = bed.now - 5 * MS;
    uint64_t serial = app->next_serial;
    static const enum load_peer peers[] = {PEER_ECHOES, PEER_DROPS, PEER_SPOILS, PEER_IS_SILENT};
    for (unsigned i = 0; i < 4; i++) {
        bed.peer = peers[i];
        load_bed_send(0);
        load_bed_pass(2 * MS);
    }
    load_bed_pass(20 * MS);
    bed.peer = PEER_IS_SILENT;
    load_bed_send(0);
    bt_client_close(app->conn[0].client, bed.now);
    assert_true(load_outcomes_close(app));
    unsigned port = bed.local[0].port;
    snprintf(want, sizeof want,
             "%016" PRIx64 " answered %u 127.0.1.1:8000 5 7\n%016" PRIx64 " dropped %u 127.0.1.2:8000 7 9\n"
             "%016" PRIx64 " corrupt %u 127.0.1.1:8000 9 11\n%016" PRIx64 " timeout %u 127.0.1.2:8000 11 33\n"
             "%016" PRIx64 " error %u 127.0.1.1:8000 33 33\n",
             serial, port, serial + 1, port + 1, serial + 2, port, serial + 3, port + 1, serial + 4, port);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(got, 1, sizeof got - 1, f) > 0);
    fclose(f);
    unlink(path);
    assert_string_equal(got, want);
    load_bed_close();
}

static void a_log_of_outcomes_that_cannot_be_written_is_a_failure(void **state)
{
    struct load_record r = {.serial = 1};
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    assert_true(load_outcomes_open(app)); // none was asked for
    assert_null(app->outcomes);
    load_outcomes_add(app, &r, "answered");
    assert_true(load_outcomes_close(app));
    app->opt.outcome_log = "/nonexistent/outcomes";
    assert_false(load_outcomes_open(app));
    app->opt.outcome_log = "/dev/full";
    assert_true(load_outcomes_open(app));
    load_outcomes_add(app, &r, "answered");
    assert_false(load_outcomes_close(app));
    assert_true(load_outcomes_open(app));
    for (unsigned i = 0; i < 2000; i++) { // more than is kept back until the end
        load_outcomes_add(app, &r, "answered");
    }
    assert_false(load_outcomes_close(app));
    load_bed_close();
}

static void a_body_tells_whose_it_is_to_the_last_byte(void **state)
{
    uint8_t body[64], other[64], scratch[64];
    (void)state;
    for (uint32_t n = 0; n <= 40; n++) {
        memset(body, 0xee, sizeof body);
        load_body_fill(body, n, 0x1122334455667788, true);
        assert_int_equal(body[n], 0xee);
        assert_true(load_body_is(body, n, 0x1122334455667788, scratch));
        assert_int_equal(load_body_is(body, n, 0x1122334455667789, scratch), n == 0);
        for (uint32_t i = 0; i < n; i++) {
            body[i] ^= 1;
            assert_false(load_body_is(body, n, 0x1122334455667788, scratch));
            body[i] ^= 1;
        }
        // Without the pattern only the number is written.
        memset(other, 0xee, sizeof other);
        load_body_fill(other, n, 0x1122334455667788, false);
        assert_memory_equal(other, body, n < 8 ? n : 8);
        assert_int_equal(other[n < 8 ? n : 8], 0xee);
    }
    load_body_fill(body, 16, 1, true);
    load_body_fill(other, 16, 2, true);
    assert_memory_not_equal(body + 8, other + 8, 8); // words behind the first depend on it, too
    static const uint8_t second[] = {0xc1, 0x5c, 0x02, 0x89, 0xec, 0x2d, 0x0a, 0x91}; // word 1 of serial 1, splitmix64
    assert_memory_equal(body + 8, second, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_leave_routers_that_are_no_longer_listed),
        cmocka_unit_test(a_router_that_cannot_be_reached_is_left_by_its_own_socket),
        cmocka_unit_test(the_report_has_room_for_256_routers_and_the_last_row_is_of_all_others),
        cmocka_unit_test(the_control_socket_is_told_of_all_sockets_together),
        cmocka_unit_test(a_generator_that_is_told_to_leave_offers_nothing_more),
        cmocka_unit_test(every_request_has_a_line_with_its_end),
        cmocka_unit_test(a_log_of_outcomes_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(a_body_tells_whose_it_is_to_the_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
