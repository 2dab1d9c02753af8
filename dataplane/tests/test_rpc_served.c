// SPDX-License-Identifier: Apache-2.0
// What leaves a server when a request has been served, in which order, and what its histograms keep of it.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r39_feedback_follows_the_last_reply_packet),
        cmocka_unit_test(r39_feedback_is_behind_the_reply_in_the_queue),
        cmocka_unit_test(r53_histograms_hold_latency_and_service),
        cmocka_unit_test(r53_service_leaves_out_the_wait_for_the_request_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
