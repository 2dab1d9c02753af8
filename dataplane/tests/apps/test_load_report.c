// SPDX-License-Identifier: Apache-2.0
// What bobtail-load prints: its result as JSON and as a table, a line per second, and progress.
#include "unit.h"

#include "bobtail-load/load_app.h"
#include "captured.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static struct load_app app;
static uint64_t too_long;

uint64_t load_connections_too_long(const struct load_app *of)
{
    assert_ptr_equal(of, &app);
    return too_long;
}

// What `print` writes to descriptor `fd`.
static const char *said(int fd, void (*print)(void))
{
    static char text[16384];
    struct captured c = captured_begin(fd);
    print();
    captured_end(&c, text, sizeof text);
    return text;
}

static void final(void)
{
    load_report_final(&app);
}

// 8 requests answered in 2 ms, one in 40 ms, one unanswered; every number is another one.
static void a_run(void)
{
    app = (struct load_app){
        .opt = {.rate = 100, .seed = 77, .target = "routers.test"},
        .measure_ns = 1000 * MS,
        .end_ns = 1400 * MS,
        .tally = {.offered = 40, .sent = 39, .completed = 10, .dropped = 11, .timeouts = 12, .errors = 13},
        .moves = 14,
        .mtu = 1500,
        .n_routers = 2};
    app.routers[0] = (struct load_router_tally){bt_addr_v4u(0x0a000001, 8000), 21, 22, 23, 24};
    app.routers[1] = (struct load_router_tally){{.ip = {0xfd, [15] = 1}, .port = 9}, 31, 32, 33, 34};
    for (unsigned i = 0; i < 8; i++) {
        bt_hist_record(&app.hist, 2 * MS);
    }
    bt_hist_record(&app.hist, 40 * MS);
    bt_hist_record_inf(&app.hist, 1);
    too_long = 0;
}

static void the_result_is_one_object_of_json(void **state)
{
    static const char want[] =
        "{\"offered\":40,\"sent\":39,\"completed\":10,\"dropped\":11,\"degraded\":15,\"heldBack\":16,\"timeouts\":12,"
        "\"errors\":13,\"lost\":3,\"achievedRps\":25.000,\"percentilesMicroseconds\":{\"50\":2007.039,\"90\":40108.031,"
        "\"95\":null,\"99\":null,\"99.9\":null,\"99.99\":null},\"histogram\":{\"encoding\":\"ll7\",\"total\":10,"
        "\"inf\":1,"
        "\"sumNanoseconds\":56000000,\"buckets\":[[1397,8],[1945,1]]},\"windowSeconds\":0.400,\"routerMoves\":14,"
        "\"resolveFailures\":17,\"corrupt\":18,\"endedTwice\":19,\"unended\":20,\"mtu\":1500,\"packetsTooLong\":25,"
        "\"seed\":77,\"errorCodes\":{\"other\":1,\"replyIncomplete\":2,\"noBuffer\":3,\"cancelled\":4,\"tableFull\":5,"
        "\"noRequestId\":6,\"tooLarge\":7,\"badArgument\":8},\"routers\":[{\"address\":\"10.0.0.1:8000\",\"sent\":21,"
        "\"completed\":22,\"dropped\":23,\"timeouts\":24},{\"address\":\"[fd00::1]:9\",\"sent\":31,\"completed\":32,"
        "\"dropped\":33,\"timeouts\":34}]}\n";
    (void)state;
    a_run();
    app.opt.output = OUTPUT_JSON;
    app.tally.degraded = 15;
    app.tally.held = 16;
    app.resolver.failures = 17;
    app.corrupt = 18;
    app.ended_twice = 19;
    app.outstanding = 20;
    too_long = 25;
    for (unsigned i = 2; i < 10; i++) {
        app.error_codes[i] = i - 1;
    }
    assert_string_equal(said(1, final), want);
}

static void nothing_measured_is_no_number(void **state)
{
    (void)state;
    memset(&app, 0, sizeof app);
    app.opt.output = OUTPUT_JSON;
    too_long = 0;
    const char *text = said(1, final);
    assert_non_null(strstr(text, "\"achievedRps\":0.000,\"percentilesMicroseconds\":{},"));
    assert_non_null(strstr(text, "\"windowSeconds\":0.000,"));
    assert_non_null(strstr(text, "\"errorCodes\":{},\"routers\":[]}\n"));
    app.opt.output = OUTPUT_TABLE;
    text = said(1, final);
    assert_non_null(strstr(text, "\np50                      -\n"));
}

static void the_table_has_a_line_for_each_fate_and_router(void **state)
{
    static const char want[] = "offered              40   (100.0/s for 0.4 s)\n"
                               "sent                 39\n"
                               "completed            10   (25.0/s)\n"
                               "dropped              11   refused by router or server, not executed\n"
                               "timeouts             12\n"
                               "errors               13\n"
                               "lost                 19   offered - completed - dropped\n"
                               "p50              2007.0 us\n"
                               "p90             40108.0 us\n"
                               "p95             unanswered\n"
                               "p99             unanswered\n"
                               "p99.9           unanswered\n"
                               "p99.99          unanswered\n"
                               "\n"
                               "router                             sent  completed    dropped   timeouts\n"
                               "10.0.0.1:8000                        21         22         23         24\n"
                               "[fd00::1]:9                          31         32         33         34\n"
                               "moves to another router: 14; seed 77\n";
    (void)state;
    a_run();
    assert_string_equal(said(1, final), want);
}

static void what_is_unusual_has_a_line_when_it_happened(void **state)
{
    static const char end[] = "seed 77\n"
                              "failed look-ups of routers.test: 17; the last list stayed in use\n"
                              "packets the network does not take: 25 of up to 1500 bytes; lower --mtu\n"
                              "corrupt replies: 18\n"
                              "requests that ended twice: 19, or never: 0\n";
    (void)state;
    a_run();
    app.tally.degraded = 15;
    app.tally.held = 1;
    app.opt.flow_control = true;
    app.resolver.failures = 17;
    app.corrupt = 18;
    app.ended_twice = 19;
    too_long = 25;
    const char *text = said(1, final);
    assert_non_null(strstr(text, "\ndegraded             15   of the completed: marked on their way\n"
                                 "held back             1   not sent: they would probably have waited for too long\n"));
    assert_non_null(strstr(text, "\nlost                 18   offered - completed - dropped - held back\n"));
    assert_string_equal(strstr(text, "seed 77"), end);
    app.ended_twice = 0;
    app.outstanding = 20;
    assert_non_null(strstr(said(1, final), "\nrequests that ended twice: 0, or never: 20\n"));
}

static uint64_t second_at;

static void second(void)
{
    load_report_second(&app, second_at);
}

static void a_second(void)
{
    a_run();
    app.start_ns = 1000 * MS;
    app.progress_at_ns = 1500 * MS;
    app.outstanding = 9;
    app.second = (struct load_tally){.offered = 1, .sent = 2, .completed = 3, .dropped = 4, .timeouts = 5, .errors = 6};
    for (unsigned i = 0; i < 98; i++) {
        bt_hist_record(&app.second_hist, 2 * MS);
    }
    bt_hist_record(&app.second_hist, 40 * MS);
    bt_hist_record(&app.second_hist, 80 * MS);
}

static void a_second_is_a_line_of_json_and_begins_the_next(void **state)
{
    char line[400] = "";
    (void)state;
    a_second();
    app.slices_file = tmpfile();
    assert_non_null(app.slices_file);
    load_report_second(&app, 2500 * MS);
    assert_true(pread(fileno(app.slices_file), line, sizeof line - 1, 0) > 0); // it is there at once
    assert_string_equal(line,
                        "{\"second\":1.500,\"offered\":1,\"sent\":2,\"completed\":3,\"dropped\":4,\"timeouts\":5,"
                        "\"errors\":6,\"outstanding\":9,\"p50Microseconds\":2007.039,\"p99Microseconds\":40108.031}\n");
    assert_int_equal(app.second.offered, 0);
    assert_int_equal(app.second.errors, 0);
    assert_int_equal(app.second_hist.total, 0);
    assert_int_equal(app.second_ns, 2500 * MS);
    assert_int_equal(app.tally.offered, 40); // the whole run's stay
    assert_int_equal(app.hist.total, 10);
    fclose(app.slices_file);
}

static void progress_is_told_as_often_as_asked_for(void **state)
{
    (void)state;
    a_second();
    second_at = 2500 * MS;
    assert_string_equal(said(2, second), ""); // nobody asked
    a_second();
    app.opt.progress_ns = 1000 * MS;
    second_at = 2500 * MS - 1;
    assert_string_equal(said(2, second), "");
    assert_int_equal(app.second_ns, second_at);
    a_second();
    app.opt.progress_ns = 1000 * MS;
    second_at = 2500 * MS;
    const char *line = said(2, second);
    assert_int_equal(app.progress_at_ns, second_at);
    assert_string_equal(line,
                        "    2 s  offered 1  completed 3  dropped 4  timeouts 5  p50 2007.0 us  p99 40108.0 us\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_is_one_object_of_json),
        cmocka_unit_test(nothing_measured_is_no_number),
        cmocka_unit_test(the_table_has_a_line_for_each_fate_and_router),
        cmocka_unit_test(what_is_unusual_has_a_line_when_it_happened),
        cmocka_unit_test(a_second_is_a_line_of_json_and_begins_the_next),
        cmocka_unit_test(progress_is_told_as_often_as_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
