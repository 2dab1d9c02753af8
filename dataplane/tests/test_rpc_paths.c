// SPDX-License-Identifier: Apache-2.0
// Whole RPCs between a client and a server, by size and path, without faults.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lab.h"

static struct lab lab;

static void one_rpc(enum lab_path path, bool ext, uint32_t len, uint32_t reply)
{
    lab_init(&lab, len * 7 + reply);
    lab.path = path;
    lab.ccfg.extensions = ext;
    lab_start(&lab);
    assert_true(lab_call(&lab, len, reply, 2 * SEC) >= 0);
    lab_run(&lab, 0);
    if (lab.call[0].end != LAB_SUCCESS || !lab.call[0].intact) {
        fail_msg("path %d ext %d: %u B -> %u B: end %d, %u B came", path, ext, len, reply, lab.call[0].end,
                 lab.call[0].reply_len);
    }
    assert_int_equal(lab.sent[LAB_SACK], 0);
    lab_end(&lab);
}

static void r16_every_size_completes_on_every_path(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0,    1,    3,    4,    14,   15,    1400,   1432,    1433,
                                     1464, 1465, 1478, 1479, 4096, 16384, 200000, 1u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int path = LAB_DIRECT; path <= LAB_TRANSPARENT; path++) {
            for (int ext = 0; ext < 2; ext++) {
                if (path != LAB_DIRECT && !ext && sizes[i] > 1440 && sizes[i] <= 1464) {
                    continue; // no room for the router's option: R-4, the router's business
                }
                one_rpc((enum lab_path)path, ext, sizes[i], 8);
                one_rpc((enum lab_path)path, ext, 8, sizes[i]);
            }
        }
    }
}

static void r9_message_above_the_maximum_is_refused_at_once(void **state)
{
    (void)state;
    lab_init(&lab, 1);
    lab_start(&lab);
    assert_int_equal(lab_call(&lab, (1u << 20) + 1, 8, SEC), BT_RPC_TOO_LARGE);
    assert_int_equal(bt_client_pending(lab.client), 0);
    lab_end(&lab);
}

// §4: 14 B in REQ0 of a multi-packet request, 1464 B in the others.
static uint32_t seen_len[64], seen;

static void spy_lengths(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    if (h->type == BT_REQUEST && seen < 64) {
        seen_len[seen++] = pkt->len - h->hdr_size;
    }
}

static void request_split_is_14_then_1464(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab.ccfg.extensions = false;
    lab.spy = spy_lengths;
    seen = 0;
    lab_start(&lab);
    lab_call(&lab, 1464, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(seen, 1); // one packet: 1464 B still fit
    seen = 0;
    lab_call(&lab, 1479, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(seen, 3); // 14 + 1464 + 1
    assert_int_equal(seen_len[0], 14);
    assert_int_equal(seen_len[1], 1464);
    assert_int_equal(seen_len[2], 1);
    seen = 0;
    lab_call(&lab, 4096, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(seen, 4); // 1 + ceil((4096 - 14) / 1464)
    lab_end(&lab);
}

// 32 B stay free in REQ0 of an X client, so a router can add its option.
static void r60_x_clients_leave_room_for_the_router(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.spy = spy_lengths;
    lab_start(&lab);
    seen = 0;
    lab_call(&lab, 1432, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(seen, 1);
    seen = 0;
    lab_call(&lab, 1433, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(seen, 2);
    lab_end(&lab);
}

static void r16_ipv6_uses_1444_byte_payloads(void **state)
{
    (void)state;
    lab_init(&lab, 4);
    lab.caddr = (struct bt_addr){.ip = {0xfd, [15] = 1}, .port = 40000};
    lab.saddr = (struct bt_addr){.ip = {0xfd, [15] = 2}, .port = 8000};
    lab.raddr = (struct bt_addr){.ip = {0xfd, [15] = 3}, .port = 8000};
    lab.rfeedback = (struct bt_addr){.ip = {0xfd, [15] = 3}, .port = 9000};
    lab.path = LAB_ENCAPSULATED;
    lab.spy = spy_lengths;
    lab_start(&lab);
    seen = 0;
    lab_call(&lab, 14 + 1444 + 1, 5000, SEC);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_true(lab.call[0].intact);
    assert_int_equal(seen_len[1], 1444);
    // FEEDBACK of an IPv6 pair is version 2.
    assert_int_equal(lab.feedback[lab.feedbacks - 1].version, 2);
    assert_true(bt_addr_eq(&lab.feedback[lab.feedbacks - 1].client, &lab.caddr));
    lab_end(&lab);
}

static uint32_t burst_of_time;
static uint64_t burst_at;

static void spy_bursts(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)pkt;
    if (h->type != BT_REQUEST && h->type != BT_REPLY) {
        return;
    }
    burst_of_time = l->now == burst_at ? burst_of_time + 1 : 1;
    burst_at = l->now;
    assert_true(burst_of_time <= 64);
}

static void r28_bursts_are_capped_and_paced(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab.spy = spy_bursts;
    lab_start(&lab);
    lab_call(&lab, 1u << 20, 8, SEC);
    lab_run(&lab, 0);
    lab_call(&lab, 8, 1u << 20, SEC);
    lab_run(&lab, 0);
    assert_true(lab.call[0].intact && lab.call[1].intact);
    lab_end(&lab);
}

// nothing is kept for peers that cannot ask for it again, and what is
// kept for those that can goes after the collection time.
static void r20_r24_replies_are_kept_for_x_clients_only(void **state)
{
    (void)state;
    for (int ext = 0; ext < 2; ext++) {
        lab_init(&lab, 7);
        lab.ccfg.extensions = ext;
        lab_start(&lab);
        lab_call(&lab, 8, 200000, SEC); // more than one burst: a train in either case
        lab_run(&lab, 0);
        assert_int_equal(lab.call[0].end, LAB_SUCCESS);
        uint32_t kept = lab.pool.count - lab.pool.left;
        assert_int_equal(kept, ext ? 137 : 0);
        lab_run(&lab, lab.now + 4 * lab.scfg.timers.rto_ns + MS);
        assert_int_equal(lab.pool.left, lab.pool.count);
        lab_end(&lab);
    }
}

static void r58_r59_class_and_trace_reach_server_reply_and_feedback(void **state)
{
    (void)state;
    lab_init(&lab, 6);
    lab.path = LAB_ENCAPSULATED;
    lab_start(&lab);
    struct bt_request rq = {.timeout_ns = SEC,
                            .with_class = true,
                            .class_id = 9,
                            .class_flags = BT_CLASS_NON_DROPPABLE,
                            .with_trace = true,
                            .trace = 0xfeedbeefcafe0001u};
    lab_call_with(&lab, &rq, 100, 3000);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_int_equal(lab.last_request.class_id, 9);
    assert_int_equal(lab.last_request.class_flags, BT_CLASS_NON_DROPPABLE);
    assert_int_equal(lab.last_request.trace, rq.trace);
    assert_int_equal(lab.last_request.router, 0);
    assert_int_equal(lab.call[0].info.trace, rq.trace); // rides on the F packet of three
    const struct bt_r2p2_hdr *h = &lab.feedback_hdr[lab.feedbacks - 1];
    assert_true(h->opt.present & BT_HAS_TRACE);
    assert_int_equal(h->opt.trace, rq.trace);
    lab_call_with(&lab, &rq, 100, 30);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[1].info.trace, rq.trace);
    assert_int_equal(lab.call[1].info.class_id, 9);
    lab_call(&lab, 100, 30, SEC); // in the place of the one before
    lab_run(&lab, 0);
    assert_int_equal(lab.last_request.class_id, 0);
    assert_int_equal(lab.last_request.class_flags, 0);
    assert_int_equal(lab.last_request.trace, 0);
    assert_int_equal(lab.call[2].info.trace, 0);
    assert_int_equal(lab.call[2].info.class_id, 0);
    lab_end(&lab);
}

static void all_of_a_request_reaches_the_application(void **state)
{
    (void)state;
    for (enum lab_path path = LAB_DIRECT; path <= LAB_TRANSPARENT; path++) {
        for (uint8_t policy = 0; policy < 2; policy++) {
            for (int parts = 0; parts < 2; parts++) {
                lab_init(&lab, 9);
                lab.path = path;
                lab_start(&lab);
                uint64_t first = lab.now + (path == LAB_DIRECT ? 10000 : 20000);
                struct bt_request rq = {.timeout_ns = SEC, .policy = policy};
                lab_call_with(&lab, &rq, parts ? 5000 : 100, 8);
                lab_run(&lab, 0);
                assert_int_equal(lab.call[0].end, LAB_SUCCESS);
                const struct bt_server_request *r = &lab.last_request;
                assert_true(bt_addr_eq(&r->client, &lab.caddr));
                assert_int_equal(r->policy, policy);
                assert_int_equal(r->router, path == LAB_DIRECT ? -1 : 0);
                assert_int_equal(r->t_first_ns, first);
                assert_int_equal(r->msg.len, parts ? 5000 : 100);
                assert_int_equal(r->msg.packets, parts ? 5 : 1);
                lab_end(&lab);
            }
        }
    }
}

// From the next time each is set.
static void r19_a_server_s_timers_may_change(void **state)
{
    (void)state;
    lab_init(&lab, 10);
    lab.path = LAB_ENCAPSULATED;
    lab_start(&lab);
    struct bt_rpc_timers t = lab.scfg.timers;
    lab_run(&lab, lab.now + 100 * MS);
    int before = lab.feedbacks;
    t.feedback_period_ns = 0;
    assert_int_equal(bt_server_set_timers(lab.server, &t), BT_RPC_BAD_ARGUMENT);
    t.feedback_period_ns = 1 * MS;
    assert_int_equal(bt_server_set_timers(lab.server, &t), 0);
    lab_run(&lab, lab.now + 110 * MS);
    assert_in_range(lab.feedbacks - before, 90, 111); // ten times as often
    lab_end(&lab);
}

// who asks for a replicated write, and which of its writes it is, of this request alone.
static void r387_session_reaches_the_application(void **state)
{
    (void)state;
    lab_init(&lab, 8);
    lab_start(&lab);
    for (uint16_t id = 1; id <= 2; id++) {
        struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = id};
        uint8_t p[64] = {0};
        h.count_or_index = 1;
        h.opt.present = id == 1 ? BT_HAS_SESSION : 0;
        h.opt.session = 0x1112131415161718u;
        h.opt.session_seq = 0x2122232425262728u;
        size_t n = bt_r2p2_encode(p, sizeof p, &h);
        lab_inject_server(&lab, p, n + 5, &lab.caddr);
        assert_true(lab.last_request.session == (id == 1 ? h.opt.session : 0));
        assert_true(lab.last_request.session_seq == (id == 1 ? h.opt.session_seq : 0));
        assert_int_equal(lab.last_request.req_id, id);
        assert_int_equal(lab.last_request.router, -1);
    }
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r16_every_size_completes_on_every_path),
        cmocka_unit_test(r9_message_above_the_maximum_is_refused_at_once),
        cmocka_unit_test(request_split_is_14_then_1464),
        cmocka_unit_test(r60_x_clients_leave_room_for_the_router),
        cmocka_unit_test(r16_ipv6_uses_1444_byte_payloads),
        cmocka_unit_test(r28_bursts_are_capped_and_paced),
        cmocka_unit_test(r20_r24_replies_are_kept_for_x_clients_only),
        cmocka_unit_test(r58_r59_class_and_trace_reach_server_reply_and_feedback),
        cmocka_unit_test(all_of_a_request_reaches_the_application),
        cmocka_unit_test(r19_a_server_s_timers_may_change),
        cmocka_unit_test(r387_session_reaches_the_application),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
