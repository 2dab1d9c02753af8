// SPDX-License-Identifier: Apache-2.0
// The packet loop of bobtail-crab-lb: whose reports are believed, what is answered, what of TCP is whose, and what is
// told of it.
#include "crab_lb_loop_bed.h"

#include "base/bytes.h"
#include "tcp/crab_report.h"

#include <stdlib.h>
#include <string.h>

static void report(uint32_t from, uint16_t port, uint32_t open)
{
    uint8_t bytes[BT_CRAB_REPORT_BYTES];
    bt_crab_report_write(bytes, &(struct bt_crab_load){.port = port, .open = open});
    crab_lb_arrive(0, from, bytes, sizeof bytes);
}

static uint64_t told(const char *name, const char *value)
{
    static struct bt_ctl_samples s;
    memset(&s, 0, sizeof s);
    lb_ctl_app.counters(&bed.app, &s);
    const struct bt_ctl_sample *rows[] = {s.counters, s.gauges};
    const size_t n[] = {s.n_counters, s.n_gauges};
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < n[k]; i++) {
            const struct bt_counter_desc *d = &rows[k][i].desc;
            if (strcmp(d->name, name) == 0 && (value == NULL || (d->value != NULL && strcmp(d->value, value) == 0))) {
                return rows[k][i].value;
            }
        }
    }
    fail_msg("no %s %s", name, value != NULL ? value : "");
    return 0;
}

static void servers_are_believed_in_every_vip_of_their_port(void **state)
{
    (void)state;
    report(0x0a000004, 80, 7);
    report(0x0a000004, 81, 8); // nobody's pool
    report(0x0a000063, 80, 9); // nobody's server
    crab_lb_arrive(0, 0x0a000004, "?", 1);
    bed.events_left = 20; // more than are asked for at once
    crab_lb_run();
    assert_int_equal(bed.events_left, 0);
    for (uint32_t v = 0; v < 2; v++) {
        assert_int_equal(bed.app.pools[v]->reports[1].open, 7);
        assert_int_equal(bed.app.pools[v]->reports[0].at_ns, 0);
        assert_true(bed.app.pools[v]->reports[1].at_ns != 0);
    }
    assert_int_equal(told("crab_reports_total", NULL), 1);
    assert_int_equal(told("crab_reports_dropped_total", "stranger"), 2);
    assert_int_equal(told("crab_reports_dropped_total", "malformed"), 1);
    assert_int_equal(told("crab_servers", "up"), 2);
    assert_int_equal(told("crab_servers", "capable"), 2);
    assert_int_equal(told("io_test_total", NULL), 41);
}

static uint32_t sign(uint8_t p[128], uint64_t run, uint64_t session, uint64_t sequence, uint32_t open)
{
    static const uint8_t begin[] = {'C', 'R', 2, 1, 0, 1, 0, 0};
    struct bt_addr server = bt_addr_v4u(0x0a000003, 80);
    memset(p, 0, 128);
    memcpy(p, begin, sizeof begin);
    bt_put64(p + 8, run);
    bt_put64(p + 16, session);
    bt_put64(p + 24, 5);
    bt_put64(p + 32, sequence);
    memcpy(p + 40, server.ip, 16);
    bt_put16(p + 56, server.port);
    bt_put32(p + 60, open);
    bt_crab_secret_sign(&bed.app.judge->secrets[0], p, 64);
    return 64 + BT_CRAB_SIGNED_TAG;
}

static void with_a_key_reports_are_of_a_session_that_was_opened(void **state)
{
    uint8_t p[128];
    (void)state;
    bed.app.judge = calloc(1, sizeof *bed.app.judge);
    bt_crab_judge_init(bed.app.judge, 77);
    bed.app.judge->secrets[0] = (struct bt_crab_secret){.bytes = "sixteen bytes or", .len = 16};
    crab_lb_run();
    report(0x0a000003, 80, 1);
    crab_lb_run();
    assert_int_equal(told("crab_reports_dropped_total", "unsigned"), 1);
    assert_int_equal(bed.n_sent, 0);
    crab_lb_arrive(0, 0x0a000063, p, sign(p, 0, 0, 1, 3));
    crab_lb_run();
    assert_int_equal(told("crab_reports_dropped_total", "session"), 1);
    assert_int_equal(bed.n_sent, 1); // and is told how to begin, by the way it came
    assert_int_equal(bed.sent[0].len, BT_CRAB_CHALLENGE_BYTES);
    assert_int_equal(bed.sent[0].local, 0);
    assert_int_equal(bed.sent[0].dst.port, 40000);
    assert_int_equal(bed.sent[0].dst.ip[15], 0x63);
    crab_lb_arrive(0, 0x0a000063, p, sign(p, 77, 1, 2, 30)); // who speaks for its servers need not be one of them
    crab_lb_run();
    assert_int_equal(told("crab_reports_total", NULL), 1);
    assert_int_equal(bed.app.pools[0]->reports[0].open, 30);
    assert_int_equal(bed.n_sent, 0);
    crab_lb_arrive(0, 0x0a000063, p, sign(p, 77, 1, 2, 31));
    crab_lb_run();
    assert_int_equal(told("crab_reports_dropped_total", "replay"), 1);
    uint32_t n = sign(p, 77, 1, 3, 32);
    p[n - 1] ^= 1;
    crab_lb_arrive(0, 0x0a000063, p, n);
    crab_lb_run();
    assert_int_equal(told("crab_reports_dropped_total", "tag"), 1);
    crab_lb_arrive(0, 0x0a000063, p, 5);
    crab_lb_run();
    assert_int_equal(told("crab_reports_dropped_total", "malformed"), 1);
    assert_int_equal(bed.app.pools[0]->reports[0].open, 30);
}

static void probes_leave_by_the_port_of_tcp(void **state)
{
    (void)state;
    crab_lb_run();
    assert_int_equal(bed.n_sent, 3); // a server each
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bed.sent[i].local, 1);
        assert_int_equal(bed.sent[i].as_src, 0);
        assert_int_equal(bed.sent[i].dst.port, 0);
        assert_in_range(bed.sent[i].dst.ip[15], 3, 5);
        assert_int_equal(bed.sent[i].bytes[0] >> 4, 4); // a packet of IPv4, from itself
        assert_memory_equal(bed.sent[i].bytes + 12, "\x0a\0\0\x02", 4);
    }
    assert_int_equal(told("crab_probes_total", NULL), 3);
}

static void tcp_to_itself_is_an_answer_and_the_rest_is_balanced(void **state)
{
    static const uint8_t garbage[40] = {0x45};
    struct bt_pkt *own, *vip;
    (void)state;
    crab_lb_run();
    vip = crab_lb_arrive(1, 0x0a000001, garbage, sizeof garbage);
    vip->dst = bt_addr_v4u(0x0a000009, 0);
    own = crab_lb_arrive(1, 0x0a000001, garbage, sizeof garbage);
    own->dst = bt_addr_v4u(0x0a000002, 0);
    crab_lb_run();
    uint64_t seen = 0;
    const struct bt_counter_desc *desc;
    unsigned n;
    const uint64_t *c = bt_crab_counters(bed.app.crab, &desc, &n);
    for (unsigned i = BT_CRAB_DROP_TRUNCATED; i < BT_CRAB_COUNTERS; i++) {
        seen += c[i];
    }
    assert_int_equal(c[BT_CRAB_RX], 1); // the VIP's alone
    assert_int_equal(seen, 1);
    assert_int_equal(bed.n_sent, 0);
}

static void without_buffers_it_goes_on(void **state)
{
    struct bt_pkt *taken[PACKETS];
    unsigned n = 0;
    (void)state;
    while (n < PACKETS && (taken[n] = bt_pool_get(&bed.pool.pool)) != NULL) {
        n++;
    }
    crab_lb_run();
    assert_int_equal(bed.n_sent, 0); // probes that do not leave are lost ones
    while (n > 0) {
        bt_pool_put(&bed.pool.pool, taken[--n]);
    }
}

static void answers_to_probes_are_told_by_what_they_were(void **state)
{
    struct bt_crab_prober *p = &bed.app.prober;
    (void)state;
    p->sent = 11;
    p->answered = 12;
    p->refused = 13;
    p->silent = 14;
    p->unasked = 15;
    assert_int_equal(told("crab_probes_total", NULL), 11);
    assert_int_equal(told("crab_probe_answers_total", "accepted"), 12);
    assert_int_equal(told("crab_probe_answers_total", "refused"), 13);
    assert_int_equal(told("crab_probe_answers_total", "silent"), 14);
    assert_int_equal(told("crab_probe_answers_total", "unasked"), 15);
    p->n = 9;
    assert_int_equal(told("crab_servers", "down"), 5); // less those that are up in two pools
}

static void it_has_an_age_and_no_histograms(void **state)
{
    struct bt_ctl_state st = {.is_router = false};
    (void)state;
    lb_ctl_app.state(&bed.app, &st);
    assert_int_equal(st.uptime_ns, 5);
    assert_null(lb_ctl_app.slices(&bed.app, "latency"));
    lb_ctl_app.leave(&bed.app); // it holds nothing
    assert_true(lb_ctl_app.now(NULL) != 0);
    assert_string_equal(lb_ctl_app.role, "crab-lb");
    assert_string_equal(lb_ctl_app.histogram_names, "none");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, crab_lb_open, crab_lb_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(servers_are_believed_in_every_vip_of_their_port),
        TEST(with_a_key_reports_are_of_a_session_that_was_opened),
        TEST(probes_leave_by_the_port_of_tcp),
        TEST(tcp_to_itself_is_an_answer_and_the_rest_is_balanced),
        TEST(without_buffers_it_goes_on),
        TEST(answers_to_probes_are_told_by_what_they_were),
        TEST(it_has_an_age_and_no_histograms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
