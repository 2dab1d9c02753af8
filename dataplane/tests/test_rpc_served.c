// SPDX-License-Identifier: Apache-2.0
// What leaves a server when a request has been served, in which order, and what its histograms and traces keep of it:
//
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lab.h"

static struct lab lab;

static void r39_feedback_follows_the_last_reply_packet(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab.path = LAB_ENCAPSULATED;
    lab_start(&lab);
    struct bt_request rq = {.timeout_ns = SEC};
    lab_call_with(&lab, &rq, 8, 300000); // several bursts
    while (lab.call[0].end == LAB_NONE) {
        lab_run(&lab, lab.now + 50000);
        if (lab.sent[LAB_REPLY] < 205) {
            assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_REPLIES], 0);
        }
    }
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_REPLIES], 1);
    lab_end(&lab);
}

static bool reply_seen, order_ok;

static void spy_order(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    (void)pkt;
    if (h->type == BT_REPLY) {
        reply_seen = true;
    }
    if (h->type == BT_FEEDBACK && h->req_id) {
        order_ok = reply_seen;
    }
}

static void r39_feedback_is_behind_the_reply_in_the_queue(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.path = LAB_ENCAPSULATED;
    lab.spy = spy_order;
    reply_seen = order_ok = false;
    lab_start(&lab);
    lab_call(&lab, 8, 3000, SEC);
    lab_run(&lab, 0);
    assert_true(order_ok);
    lab_end(&lab);
}

static void r53_histograms_hold_latency_and_service(void **state)
{
    (void)state;
    lab_init(&lab, 11);
    lab.scfg.latency = calloc(2, bt_hist_slices_bytes());
    lab.scfg.service = lab.scfg.latency + 1;
    bt_hist_slices_init(lab.scfg.latency, lab.now);
    bt_hist_slices_init(lab.scfg.service, lab.now);
    lab.service_ns = 3 * MS;
    lab_start(&lab);
    lab_call(&lab, 5000, 8, SEC); // first packet in … last packet out: one round trip more
    lab_run(&lab, 0);
    struct bt_hist *h = malloc(sizeof *h);
    struct bt_hist_window w;
    bt_hist_slices_merge(lab.scfg.service, lab.now, 10, h, &w);
    assert_int_equal(h->total, 1);
    assert_in_range(h->sum_ns, 3 * MS, 3 * MS + 1000);
    bt_hist_slices_merge(lab.scfg.latency, lab.now, 10, h, &w);
    assert_int_equal(w.arrived, 1);
    assert_in_range(h->sum_ns, 3 * MS + 20000, 3 * MS + 22000);
    free(h);
    lab_end(&lab);
    free(lab.scfg.latency);
}

/* A request of one packet that is answered at once took no time, neither to wait nor to be executed. */
static void r53_what_is_answered_at_once_took_no_time(void **state)
{
    (void)state;
    lab_init(&lab, 13);
    lab.scfg.latency = calloc(2, bt_hist_slices_bytes());
    assert_non_null(lab.scfg.latency);
    lab.scfg.service = (struct bt_hist_slices *)((char *)lab.scfg.latency + bt_hist_slices_bytes());
    bt_hist_slices_init(lab.scfg.latency, lab.now);
    bt_hist_slices_init(lab.scfg.service, lab.now);
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    lab.admit = false;
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    lab.admit = true;
    lab.refuse = true;
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    struct bt_hist *h = calloc(1, sizeof *h);
    struct bt_hist_window w;
    bt_hist_slices_merge(lab.scfg.service, lab.now, 10, h, &w);
    assert_int_equal(h->total, 1);
    assert_int_equal(h->sum_ns, 0);
    bt_hist_slices_merge(lab.scfg.latency, lab.now, 10, h, &w);
    assert_int_equal(h->total, 1);
    assert_int_equal(h->sum_ns, 0);
    assert_int_equal(w.arrived, 3);
    assert_int_equal(w.rejected, 2); // before and behind the door
    free(h);
    free(lab.scfg.latency);
    lab_end(&lab);
}

/* the second of two requests that a worker holds waits for the first; that is no execution. */
static void r53_service_leaves_out_the_wait_for_the_request_before(void **state)
{
    (void)state;
    lab_init(&lab, 11);
    lab.scfg.latency = calloc(2, bt_hist_slices_bytes());
    assert_non_null(lab.scfg.latency);
    lab.scfg.service = (struct bt_hist_slices *)((char *)lab.scfg.latency + bt_hist_slices_bytes());
    bt_hist_slices_init(lab.scfg.latency, lab.now);
    bt_hist_slices_init(lab.scfg.service, lab.now);
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, lab.now + 5 * MS);
    lab_answer_all(&lab); /* as if the second took no time */
    lab_run(&lab, 0);
    struct bt_hist *h = calloc(1, sizeof *h);
    struct bt_hist_window w;
    bt_hist_slices_merge(lab.scfg.service, lab.now, 10, h, &w);
    assert_int_equal(h->total, 2);
    assert_in_range(bt_hist_percentile(h, 100000), 4 * MS, 6 * MS);
    assert_in_range(bt_hist_percentile(h, 50000), 0, 2000);
    free(h);
    free(lab.scfg.latency);
    lab_end(&lab);
}

static struct bt_trace_ring traces;

static void begin_traced(enum lab_path path)
{
    memset(&traces, 0, sizeof traces);
    lab_init(&lab, 12);
    lab.path = path;
    lab.scfg.traces = &traces;
    lab.hold = true;
    lab_start(&lab);
}

// A request of several packets with a trace id that is at work for 3 ms; it is handed over when its rest is here.
static void traced_call(void)
{
    struct bt_request rq = {.timeout_ns = SEC, .with_trace = true, .trace = 0xfeedbeefcafe0001u};
    lab_call_with(&lab, &rq, 5000, 8);
    lab_run(&lab, lab.now + 3 * MS);
    assert_int_equal(lab.waitings, 1);
}

static const struct bt_trace *only_trace(void)
{
    const struct bt_trace *t = &traces.trace[0];
    assert_int_equal(traces.written, 1);
    assert_true(t->id == 0xfeedbeefcafe0001u);
    assert_true(bt_addr_eq(&t->client, &lab.caddr));
    assert_true(bt_addr_eq(&t->worker, &lab.saddr));
    assert_int_not_equal(t->req_id, 0);
    assert_int_equal(t->req_id, lab.last_request.req_id);
    return t;
}

static void r59_trace_of_a_request_that_is_answered(void **state)
{
    (void)state;
    for (enum lab_path path = LAB_DIRECT; path <= LAB_TRANSPARENT; path++) {
        begin_traced(path);
        uint64_t sent = lab.now;
        traced_call();
        uint64_t handed = lab.waiting_at[0], answered = lab.now;
        assert_int_equal(traces.written, 0);
        lab_answer_all(&lab);
        const struct bt_trace *t = only_trace();
        assert_int_equal(t->start_ns, sent + (path == LAB_DIRECT ? 10000 : 20000)); // 10 us a hop
        assert_int_equal(t->middle_ns, handed);
        assert_true(t->middle_ns > t->start_ns);
        assert_int_equal(t->end_ns, answered);
        assert_int_equal(t->routed, path != LAB_DIRECT);
        assert_false(t->dropped);
        lab_end(&lab);
    }
}

static void r59_trace_of_a_request_that_gets_no_answer(void **state)
{
    (void)state;
    int (*const ways[])(struct bt_server *, uint64_t, uint64_t, struct bt_txq *) = {bt_server_drop, bt_server_forget};
    for (unsigned i = 0; i < 2; i++) {
        begin_traced(LAB_DIRECT);
        uint64_t sent = lab.now;
        traced_call();
        struct bt_txq txq;
        bt_txq_init(&txq);
        assert_int_equal(ways[i](lab.server, lab.now, lab.waiting[0], &txq), 0);
        lab_transmit(&lab, &txq);
        const struct bt_trace *t = only_trace();
        assert_int_equal(t->start_ns, sent + 10000);
        assert_int_equal(t->middle_ns, lab.waiting_at[0]);
        assert_int_equal(t->end_ns, lab.now);
        assert_true(t->dropped);
        assert_false(t->routed);
        lab_end(&lab);
    }
}

static void r59_no_trace_of_a_request_without_an_id(void **state)
{
    (void)state;
    begin_traced(LAB_DIRECT);
    lab.hold = false;
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(traces.written, 0);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r39_feedback_follows_the_last_reply_packet),
        cmocka_unit_test(r39_feedback_is_behind_the_reply_in_the_queue),
        cmocka_unit_test(r53_histograms_hold_latency_and_service),
        cmocka_unit_test(r53_what_is_answered_at_once_took_no_time),
        cmocka_unit_test(r53_service_leaves_out_the_wait_for_the_request_before),
        cmocka_unit_test(r59_trace_of_a_request_that_is_answered),
        cmocka_unit_test(r59_trace_of_a_request_that_gets_no_answer),
        cmocka_unit_test(r59_no_trace_of_a_request_without_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
