// SPDX-License-Identifier: Apache-2.0
// Answers word for word: every field has its own name and its own value, no two values alike. Field names are the
// contract with the sidecar (clients/go/r2p2/ctl).
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl_internal.h"

static void expect(struct bt_json_out *o, const char *want)
{
    assert_false(o->overflow);
    assert_string_equal(o->text, want);
    bt_json_out_free(o);
}

static void expect_state(const struct bt_ctl_state *s, const struct bt_ctl_app *app, const char *want)
{
    struct bt_json_out o = {0};
    bt_ctl_reply_state(&o, "4f", s, app);
    expect(&o, want);
}

static void describe(void *arg, struct bt_json_out *o)
{
    bt_json_out_string(o, "more", arg);
}

#define BEGUN(draining) "{\"v\":1,\"ok\":true,\"hash\":\"4f\",\"draining\":" draining ",\"uptimeSeconds\":2.500"
#define BARE_ROUTER     ",\"members\":[],\"queue\":{\"held\":0,\"limit\":0}"
#define BARE_SERVER     ",\"routers\":[],\"backlog\":0,\"workers\":[]"

static void a_program_with_nothing_to_say_leaves_parts_out(void **state)
{
    struct bt_ctl_state s = {.uptime_ns = 2500000000, .is_router = true};
    struct bt_ctl_app app = {.arg = "yes"};
    (void)state;
    expect_state(&s, NULL, BEGUN("false") BARE_ROUTER "}");
    s.is_router = false;
    s.draining = true;
    expect_state(&s, &app, BEGUN("true") BARE_SERVER "}"); // it describes nothing more
    app.describe = describe;
    expect_state(&s, &app, BEGUN("true") BARE_SERVER ",\"more\":\"yes\"}");
}

static void a_router_tells_of_each_worker(void **state)
{
    // Each of the four words is true of one worker alone.
    struct bt_ctl_member members[4] = {{.addr = bt_addr_v4u(0x0a000001, 8001),
                                        .joined = true,
                                        .n = 3,
                                        .outstanding = -4,
                                        .sent = UINT64_MAX,
                                        .done = 6,
                                        .lost = 7,
                                        .incarnation = UINT32_MAX,
                                        .feedback_age_ms = -1},
                                       {.addr = bt_addr_v4u(0x0a000002, 8002), .eligible = true},
                                       {.addr = bt_addr_v4u(0x0a000003, 8003), .suspect = true},
                                       {.addr = bt_addr_v4u(0x0a000004, 8004), .ejected = true}};
    struct bt_ctl_state s = {
        .uptime_ns = 2500000000, .is_router = true, .members = members, .n_members = 4, .held = 9, .held_limit = 10};
    (void)state;
#define NOTHING                                                                                                        \
    "\"n\":0,\"outstanding\":0,\"sent\":0,\"done\":0,\"lost\":0,\"incarnation\":0,\"feedbackAgeMilliseconds\":0"
    expect_state(
        &s, NULL,
        BEGUN(
            "false") ",\"members\":["
                     "{\"address\":\"10.0.0.1\",\"port\":8001,\"joined\":true,\"eligible\":false,\"suspect\":false,"
                     "\"ejected\":false,\"n\":3,\"outstanding\":-4,\"sent\":18446744073709551615,\"done\":6,\"lost\":7,"
                     "\"incarnation\":4294967295,\"feedbackAgeMilliseconds\":-1},"
                     "{\"address\":\"10.0.0.2\",\"port\":8002,\"joined\":false,\"eligible\":true,\"suspect\":false,"
                     "\"ejected\":false," NOTHING "},"
                     "{\"address\":\"10.0.0.3\",\"port\":8003,\"joined\":false,\"eligible\":false,\"suspect\":true,"
                     "\"ejected\":false," NOTHING "},"
                     "{\"address\":\"10.0.0.4\",\"port\":8004,\"joined\":false,\"eligible\":false,\"suspect\":false,"
                     "\"ejected\":true," NOTHING "}],"
                     "\"queue\":{\"held\":9,\"limit\":10}}");
}

static void a_router_tells_of_hedging_and_of_its_fast_path(void **state)
{
    struct bt_ctl_state s = {.uptime_ns = 2500000000,
                             .is_router = true,
                             .hedging = {"Delayed", 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
                             .fast_path = {true, "Active", "it runs"}};
    (void)state;
    expect_state(&s, NULL,
                 BEGUN("false") BARE_ROUTER
                 ",\"hedging\":{\"mode\":\"Delayed\",\"copies\":11,\"won\":12,\"cancelled\":13,\"preempted\":14,"
                 "\"delayNanoseconds\":15,\"busyMillionths\":16,\"compared\":17,\"hiccupMillionths\":18,"
                 "\"hiccupNanoseconds\":19,\"serviceNanoseconds\":20},"
                 "\"fastPath\":{\"active\":true,\"reason\":\"Active\",\"message\":\"it runs\"}}");
}

static void a_server_tells_of_its_routers_and_workers(void **state)
{
    struct bt_ctl_router routers[2] = {{bt_addr_v4u(0x0a000001, 7), 21}, {bt_addr_v4u(0x0a000002, 8), -1}};
    struct bt_ctl_worker workers[2] = {{8000, 22}, {8001, 23}};
    struct bt_ctl_state s = {
        .uptime_ns = 2500000000, .routers = routers, .n_routers = 2, .workers = workers, .n_workers = 2, .backlog = 45};
    (void)state;
    expect_state(&s, NULL,
                 BEGUN("false") ",\"routers\":[{\"address\":\"10.0.0.1:7\",\"heardMillisecondsAgo\":21},"
                                "{\"address\":\"10.0.0.2:8\",\"heardMillisecondsAgo\":-1}],\"backlog\":45,"
                                "\"workers\":[{\"port\":8000,\"backlog\":22},{\"port\":8001,\"backlog\":23}]}");
}

static void a_server_tells_of_flow_control_and_scheduling(void **state)
{
    struct bt_ctl_state s = {.uptime_ns = 2500000000,
                             .flow = {.on = true,
                                      .throttling = true,
                                      .load_ppm = 31,
                                      .admitted_ppm = 32,
                                      .service_ns = 33,
                                      .cv2_milli = 34,
                                      .refused = 35,
                                      .silences = 36,
                                      .clients = 37},
                             .scheduling = {"Stealing", 41, 42, 43, 44, 45, 46, 47, 48, 49}};
    (void)state;
#define FLOW(throttling, alarm)                                                                                        \
    ",\"flowControl\":{\"throttling\":" throttling ",\"alarm\":" alarm                                                 \
    ",\"loadMillionths\":31,\"admittedMillionths\":32,\"serviceNanoseconds\":33,\"variationThousandths\":34,"          \
    "\"refused\":35,\"silences\":36,\"clients\":37}"
#define SCHEDULING                                                                                                     \
    ",\"scheduling\":{\"mode\":\"Stealing\",\"lanes\":41,\"activeCores\":42,\"minCores\":43,\"maxCores\":44,"          \
    "\"processors\":45,\"steals\":46,\"parks\":47,\"slowHandlers\":48,\"longestNanoseconds\":49}"
    expect_state(&s, NULL, BEGUN("false") BARE_SERVER FLOW("true", "false") SCHEDULING "}");
    s.flow.throttling = false;
    s.flow.alarm = true;
    expect_state(&s, NULL, BEGUN("false") BARE_SERVER FLOW("false", "true") SCHEDULING "}");
}

static void a_device_is_told_as_it_was_found(void **state)
{
    struct bt_ctl_state s = {.uptime_ns = 2500000000,
                             .is_router = true,
                             .device = {.driver = "net_mlx5",
                                        .pci = "0000:03:00.0",
                                        .mac = "02:00:00:00:00:01",
                                        .link = "Up",
                                        .mtu = 9000,
                                        .device_node = 0,
                                        .memory_node = 1,
                                        .cpu_node = -1,
                                        .hugepages_mib = 512,
                                        .cpus = "2-3,6"}};
    (void)state;
#define DEVICE(link)                                                                                                   \
    ",\"device\":{\"driver\":\"net_mlx5\",\"pciAddress\":\"0000:03:00.0\",\"mac\":\"02:00:00:00:00:01\",\"link\":"     \
    "\"" link "\",\"mtu\":9000,\"deviceNode\":0,\"memoryNode\":1,\"cpuNode\":-1,\"hugepagesMebibytes\":512,"           \
    "\"cpus\":\"2-3,6\"}"
    expect_state(&s, NULL, BEGUN("false") DEVICE("Up") BARE_ROUTER "}");
    s.device.link = NULL; // not known yet
    expect_state(&s, NULL, BEGUN("false") DEVICE("") BARE_ROUTER "}");
}

static void samples_have_a_label_with_its_value_or_none(void **state)
{
    static const struct bt_counter_desc descs[] = {{"a", "reason", "full"},
                                                   {"b", NULL, NULL},
                                                   {NULL, NULL, NULL}, // left out
                                                   {"c", "reason", NULL},
                                                   {"d", NULL, "full"}};
    static const uint64_t values[] = {1, UINT64_MAX, 3, 4, 5};
    struct bt_ctl_samples *samples = calloc(1, sizeof *samples);
    struct bt_json_out o = {0};
    (void)state;
    bt_ctl_add_counters(samples, descs, values, 5);
    bt_ctl_add_gauge(samples, "g", 6);
    bt_ctl_add_labelled_gauge(samples, &descs[0], 7);
    bt_ctl_reply_samples(&o, samples);
    expect(&o, "{\"v\":1,\"ok\":true,\"counters\":[{\"name\":\"a\",\"labels\":{\"reason\":\"full\"},\"value\":1},"
               "{\"name\":\"b\",\"labels\":{},\"value\":18446744073709551615},"
               "{\"name\":\"c\",\"labels\":{},\"value\":4},{\"name\":\"d\",\"labels\":{},\"value\":5}],"
               "\"gauges\":[{\"name\":\"g\",\"labels\":{},\"value\":6},"
               "{\"name\":\"a\",\"labels\":{\"reason\":\"full\"},\"value\":7}]}");
    free(samples);
}

// Those past the end are left out, and nothing is written there.
static void samples_end_where_their_room_ends(void **state)
{
    static const struct bt_counter_desc one = {"a", NULL, NULL};
    struct bt_ctl_samples *samples = calloc(1, sizeof *samples);
    (void)state;
    for (uint64_t i = 1; i <= BT_CTL_SAMPLES_MAX + 1; i++) {
        bt_ctl_add_counters(samples, &one, &i, 1);
        bt_ctl_add_gauge(samples, "g", i);
    }
    assert_int_equal(samples->n_counters, BT_CTL_SAMPLES_MAX);
    assert_int_equal(samples->n_gauges, BT_CTL_SAMPLES_MAX);
    assert_int_equal(samples->counters[BT_CTL_SAMPLES_MAX - 1].value, BT_CTL_SAMPLES_MAX);
    assert_int_equal(samples->gauges[BT_CTL_SAMPLES_MAX - 1].value, BT_CTL_SAMPLES_MAX);
    free(samples);
}

static void a_histogram_names_the_buckets_that_hold_something(void **state)
{
    struct bt_hist *h = calloc(1, sizeof *h);
    struct bt_json_out o = {0};
    (void)state;
    bt_json_out_open(&o, NULL, '{');
    h->total = 9;
    h->inf = 2;
    h->sum_ns = 77;
    h->bucket[0] = 3;
    h->bucket[BT_HIST_BUCKETS - 1] = 4;
    bt_ctl_reply_histogram(&o, "h", h);
    bt_json_out_close(&o, '}');
    char want[160];
    snprintf(want, sizeof want,
             "{\"h\":{\"encoding\":\"ll7\",\"total\":9,\"inf\":2,\"sumNanoseconds\":77,\"buckets\":[[0,3],[%u,4]]}}",
             BT_HIST_BUCKETS - 1);
    expect(&o, want);
    free(h);
}

static void traces_are_told_with_all_their_moments(void **state)
{
    struct bt_ctl_traces *t = calloc(1, sizeof *t);
    struct bt_json_out o = {0};
    (void)state;
    t->count = 2;
    t->next = 51;
    t->lost = 52;
    t->now_ns = 53;
    t->trace[0] = (struct bt_trace){.id = 0xab,
                                    .start_ns = 1,
                                    .middle_ns = 2,
                                    .end_ns = 3,
                                    .client = bt_addr_v4u(0x0a000001, 4),
                                    .worker = bt_addr_v4u(0x0a000002, 5),
                                    .req_id = 6,
                                    .routed = true};
    t->trace[1] = t->trace[0];
    t->trace[1].routed = false;
    t->trace[1].dropped = true;
    bt_ctl_reply_traces(&o, t);
#define TRACE(routed, dropped)                                                                                         \
    "{\"id\":\"00000000000000ab\",\"startNanoseconds\":1,\"middleNanoseconds\":2,\"endNanoseconds\":3,"                \
    "\"client\":\"10.0.0.1:4\",\"worker\":\"10.0.0.2:5\",\"request\":6,\"routed\":" routed ",\"dropped\":" dropped "}"
    expect(&o, "{\"v\":1,\"ok\":true,\"traces\":[" TRACE("true", "false") "," TRACE(
                   "false", "true") "],"
                                    "\"next\":51,\"lost\":52,\"nowNanoseconds\":53}");
    free(t);
}

static void a_refusal_has_a_code_a_field_and_a_message(void **state)
{
    struct bt_ctl_error e;
    struct bt_json_out o = {0};
    (void)state;
    assert_false(bt_ctl_refuse(&e, BT_CTL_HASH_MISMATCH, "hash", "got %d", 4));
    bt_ctl_reply_error(&o, &e);
    expect(&o, "{\"v\":1,\"ok\":false,\"error\":{\"code\":\"HashMismatch\",\"field\":\"hash\",\"message\":\"got 4\"}}");
}

// One that several workers know was heard when any of them heard it (ctl.h).
static void a_router_that_several_workers_know_is_told_once(void **state)
{
    enum { MS = 1000000 };
    struct bt_ctl_router routers[2 * BT_CONFIG_ROUTERS_MAX];
    struct bt_ctl_state s = {.routers = routers};
    struct bt_addr a = bt_addr_v4u(0x0a000001, 7), b = bt_addr_v4u(0x0a000002, 7);
    (void)state;
    bt_ctl_add_router(&s, &a, 0, 100 * MS);
    assert_true(s.n_routers == 1 && bt_addr_eq(&routers[0].addr, &a));
    assert_int_equal(routers[0].heard_ms_ago, -1);
    bt_ctl_add_router(&s, &a, 40 * MS, 100 * MS); // by another worker
    assert_int_equal(routers[0].heard_ms_ago, 60);
    bt_ctl_add_router(&s, &a, 30 * MS, 100 * MS); // longer ago
    assert_int_equal(routers[0].heard_ms_ago, 60);
    bt_ctl_add_router(&s, &a, 90 * MS, 100 * MS);
    assert_int_equal(routers[0].heard_ms_ago, 10);
    bt_ctl_add_router(&s, &a, 0, 100 * MS); // one that never heard it changes nothing
    assert_int_equal(routers[0].heard_ms_ago, 10);
    bt_ctl_add_router(&s, &b, 100 * MS, 100 * MS);
    assert_true(s.n_routers == 2 && bt_addr_eq(&routers[1].addr, &b));
    assert_int_equal(routers[1].heard_ms_ago, 0);
    for (uint16_t i = 0; i < 2 * BT_CONFIG_ROUTERS_MAX; i++) {
        struct bt_addr more = bt_addr_v4u(0x0a000100u + i, 7);
        bt_ctl_add_router(&s, &more, 1, 100 * MS);
    }
    assert_int_equal(s.n_routers, 2 * BT_CONFIG_ROUTERS_MAX); // as many as there is room for
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_with_nothing_to_say_leaves_parts_out),
        cmocka_unit_test(a_router_tells_of_each_worker),
        cmocka_unit_test(a_router_tells_of_hedging_and_of_its_fast_path),
        cmocka_unit_test(a_server_tells_of_its_routers_and_workers),
        cmocka_unit_test(a_server_tells_of_flow_control_and_scheduling),
        cmocka_unit_test(a_device_is_told_as_it_was_found),
        cmocka_unit_test(samples_have_a_label_with_its_value_or_none),
        cmocka_unit_test(samples_end_where_their_room_ends),
        cmocka_unit_test(a_histogram_names_the_buckets_that_hold_something),
        cmocka_unit_test(traces_are_told_with_all_their_moments),
        cmocka_unit_test(a_refusal_has_a_code_a_field_and_a_message),
        cmocka_unit_test(a_router_that_several_workers_know_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
