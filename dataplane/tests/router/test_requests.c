// SPDX-License-Identifier: Apache-2.0
// The request path: what is forwarded and how, what is held, what gets DROP and what gets silence.
#include <string.h>

#include "router/bed.h"

static void r102_fewest_outstanding_then_the_fifo(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 2);
    bed_join_all(&b, 2);
    uint32_t got[4] = {0};
    for (uint16_t i = 0; i < 8; i++) {
        bed_send(&b, i);
        int w = bed_take(&b);
        assert_in_range(w, 0, 3);
        got[w]++;
        if (i == 3) {
            for (int j = 0; j < 4; j++) {
                assert_int_equal(got[j], 1); /* idle ones first */
            }
        }
    }
    bed_send(&b, 100);
    bed_send(&b, 101);
    assert_int_equal(bed_take(&b), -1);
    assert_int_equal(bed_held(&b), 2);
    bed_feedback(&b, 2, &(struct bed_report){.received = 2, .served = 1, .n = 2, .incarnation = 1});
    assert_int_equal(bed_held(&b), 1);
    assert_int_equal(bed_take(&b), 2);
    assert_int_equal(bed_outstanding(&b, 2), 2);
    bed_close(&b);
}

static uint16_t take_id(struct bed *b)
{
    struct bt_pkt *pkt = bed_packet(b);
    assert_non_null(pkt);
    uint16_t id = (uint16_t)(pkt->data[4] << 8 | pkt->data[5]);
    bt_pool_put(b->pool, pkt);
    return id;
}

static void r104_held_requests_leave_in_order_of_arrival(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 3, 1);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 40; i++) {
        bed_send(&b, i);
    }
    uint64_t served[3] = {0};
    uint32_t w = 0;
    for (uint16_t i = 0; i < 40; i++) {
        if (i >= 3) {
            w = (w + 1) % 3;
            served[w]++;
            bed_feedback(&b, w, &(struct bed_report){.received = served[w], .served = served[w], .n = 1, .incarnation = 1});
        }
        assert_int_equal(take_id(&b), i);
    }
    bed_close(&b);
}

static void r105_the_fifo_is_bounded_in_number(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    b.config.central_limit = 3;
    bed_build(&b);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 5; i++) {
        bed_send(&b, i);
    }
    assert_int_equal(bed_take(&b), 0);
    assert_true(bed_take_drop(&b, 4));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_FULL), 1);
    assert_int_equal(bed_held(&b), 3);
    bed_close(&b);
}

static void r105_the_fifo_is_bounded_in_time(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    bed_send(&b, 2);
    bed_tick(&b, SEC / 2);
    bed_send(&b, 3);
    assert_true(bt_router_next(b.r) <= b.now + SEC / 2);
    bed_tick(&b, SEC / 2 - 1);
    assert_int_equal(bed_held(&b), 2);
    bed_tick(&b, 1);
    assert_true(bed_take_drop(&b, 2));
    assert_int_equal(bed_held(&b), 1);
    bed_tick(&b, SEC / 2);
    assert_true(bed_take_drop(&b, 3));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_TIMEOUT), 2);
    bed_close(&b);
}

static void r106_sticky_goes_to_the_master_without_credit(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 5; i++) {
        bed_request(&b, i, BT_POLICY_STICKY, 8);
        assert_int_equal(bed_take(&b), 0);
    }
    assert_int_equal(bed_outstanding(&b, 0), 5);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED_STICKY), 5);
    bed_send(&b, 9); /* others still go around the loaded master */
    assert_int_not_equal(bed_take(&b), 0);
    bed_close(&b);
}

static void r106_sticky_without_master_gets_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join(&b, 1, 1);
    bed_request(&b, 7, BT_POLICY_STICKY, 8);
    assert_true(bed_take_drop(&b, 7));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_MASTER), 1);
    bed_close(&b);
}

static void r12_policies_not_implemented_get_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join_all(&b, 1);
    for (uint8_t policy = 2; policy < 16; policy++) {
        bed_request(&b, policy, policy, 8);
        assert_true(bed_take_drop(&b, policy));
    }
    assert_int_equal(bed_counter(&b, BT_RC_DROP_POLICY), 14);
    assert_int_equal(bed_malformed(&b, BT_M6), 12); /* 4–15 are unknown, 2 and 3 another program's */
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 0);
    bed_close(&b);
}

static void requests_without_members_get_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 0, 1);
    bed_send(&b, 3);
    assert_true(bed_take_drop(&b, 3));
    bed_request(&b, 4, BT_POLICY_STICKY, 8);
    assert_true(bed_take_drop(&b, 4));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_MEMBERS), 2);
    bed_close(&b);
}

/* what may be forwarded besides the ordinary single packet. */
static void multi_packet_req0_is_forwarded_and_counts_one_credit(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    const uint8_t first[] = {0xcc, 8, 0x00, 0x80 | 0x20, 0, 1, 0, 9, 'a', 'b', 'c'};
    bed_request_bytes(&b, &b.client, first, sizeof first);
    assert_int_equal(bed_take(&b), 0);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    const uint8_t empty[] = {0xcc, 8, 0x00, 0xc0, 0, 2, 0, 1};
    bed_request_bytes(&b, &b.client, empty, sizeof empty);
    assert_int_equal(bed_held(&b), 1);
    bed_close(&b);
}

struct bad {
    const char *what;
    enum bt_mcase m;
    uint8_t bytes[80];
    size_t len;
};

static const struct bad bad_requests[] = {
    {"empty", BT_M1, {0}, 0},
    {"short", BT_M1, {0xcc, 8, 0, 0xc0, 0, 1, 0}, 7},
    {"magic", BT_M2, {0xcd, 8, 0, 0xc0, 0, 1, 0, 1}, 8},
    {"header size below 8", BT_M3, {0xcc, 7, 0, 0xc0, 0, 1, 0, 1}, 8},
    {"header beyond packet", BT_M3, {0xcc, 12, 0, 0xc0, 0, 1, 0, 1}, 8},
    {"REPLY", BT_M5, {0xcc, 8, 0x10, 0xc0, 0, 1, 0, 1}, 8},
    {"FEEDBACK at the request port", BT_M5, {0xcc, 8, 0x20, 0xc0, 0, 1, 0, 1}, 8},
    {"DROP", BT_M5, {0xcc, 8, 0x41, 0xc0, 0, 1, 0, 1}, 8},
    {"SACK", BT_M5, {0xcc, 8, 0x80, 0xc0, 0, 1, 0, 1}, 8},
    {"Raft", BT_M26, {0xcc, 8, 0x50, 0xc0, 0, 1, 0, 1}, 8},
    {"reserved type", BT_M5, {0xcc, 8, 0xf0, 0xc0, 0, 1, 0, 1}, 8},
    {"count 0", BT_M7, {0xcc, 8, 0, 0xc0, 0, 1, 0, 0}, 8},
    {"F|L with count 2", BT_M8, {0xcc, 8, 0, 0xc0, 0, 1, 0, 2}, 8},
    {"F with count 1", BT_M8, {0xcc, 8, 0, 0x80, 0, 1, 0, 1}, 8},
    {"REQ0 index on REQn", BT_M9, {0xcc, 8, 0, 0x00, 0, 1, 0, 0}, 8},
    {"REQn", BT_M5, {0xcc, 8, 0, 0x00, 0, 1, 0, 1}, 8},
    {"last REQn", BT_M5, {0xcc, 8, 0, 0x40, 0, 1, 0, 1}, 8},
    {"odd header size", BT_M_OPT_SIZE, {0xcc, 10, 0, 0xc0, 0, 1, 0, 1, 0, 0}, 10},
    {"option beyond header", BT_M_OPT_TRUNCATED, {0xcc, 12, 0, 0xc0, 0, 1, 0, 1, 3, 9, 0, 0}, 12},
    {"class of 3 bytes", BT_M_OPT_LENGTH, {0xcc, 12, 0, 0xc0, 0, 1, 0, 1, 3, 3, 0, 0}, 12},
    {"class twice", BT_M_OPT_DUPLICATE, {0xcc, 16, 0, 0xc0, 0, 1, 0, 1, 3, 4, 0, 0, 3, 4, 0, 0}, 16},
    {"forwarded-for from a client", BT_M_FORWARDER, {0xcc, 16, 0, 0xc0, 0, 1, 0, 1, 1, 8, 1, 2, 10, 0, 0, 9}, 16},
    {"tag from a client", BT_M_FORWARDER, {0xcc, 20, 0, 0xc0, 0, 1, 0, 1, 2, 12, 1}, 20},
    {"router id from a client", BT_M_FORWARDER, {0xcc, 16, 0, 0xc0, 0, 1, 0, 1, 5, 6, 1, 2, 3, 4}, 16},
};

/* every one is counted by its case, nothing is sent and no state changes. */
static void r54_malformed_requests_are_counted_and_discarded(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 1);
    bed_join_all(&b, 1);
    for (size_t i = 0; i < sizeof bad_requests / sizeof *bad_requests; i++) {
        const struct bad *bad = &bad_requests[i];
        uint64_t before = bed_malformed(&b, bad->m);
        bed_request_bytes(&b, &b.client, bad->bytes, bad->len);
        if (bed_malformed(&b, bad->m) != before + 1) {
            fail_msg("%s: not counted as %s", bad->what, bt_mcase_name(bad->m));
        }
        assert_null(bed_packet(&b));
        assert_int_equal(b.fixed.left, b.packets);
    }
    assert_int_equal(bed_counter(&b, BT_RC_REQUESTS), 0);
    assert_int_equal(bed_outstanding(&b, 0) + bed_outstanding(&b, 1), 0);
    bed_close(&b);
}

static void r55_critical_unknown_option_gets_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 1);
    bed_join_all(&b, 1);
    const uint8_t critical[] = {0xcc, 12, 0, 0xc0, 0, 9, 0, 1, 0x81, 4, 0, 0};
    bed_request_bytes(&b, &b.client, critical, sizeof critical);
    assert_true(bed_take_drop(&b, 9));
    assert_int_equal(bed_malformed(&b, BT_M_OPT_CRITICAL), 1);
    const uint8_t harmless[] = {0xcc, 12, 0, 0xc0, 0, 9, 0, 1, 0x71, 4, 0, 0};
    bed_request_bytes(&b, &b.client, harmless, sizeof harmless);
    assert_in_range(bed_take(&b), 0, 1);
    bed_close(&b);
}

static void m23_sources_nobody_honest_has(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 1);
    bed_join_all(&b, 1);
    struct bt_addr bad[] = {bt_addr_v4u(0x0a000063, 0), bt_addr_v4u(0xe0000001, 5), bt_addr_v4u(0xffffffff, 5),
                            b.requests, b.feedback};
    const uint8_t request[] = {0xcc, 8, 0, 0xc0, 0, 1, 0, 1};
    for (size_t i = 0; i < 5; i++) {
        bed_request_bytes(&b, &bad[i], request, sizeof request);
        assert_null(bed_packet(&b));
    }
    assert_int_equal(bed_malformed(&b, BT_M23), 5);
    bed_close(&b);
}

static void r56_encapsulated_carries_client_and_tag(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    bed_use_keys(&b);
    bed_build(&b);
    bed_join_all(&b, 1);
    const uint8_t request[] = {0xcc, 24, 0, 0xe0, 0x12, 0x34, 0, 1, /* class 3 non-droppable, trace */
                               3, 4, 3, 1, 4, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 'h', 'e', 'y'};
    bed_request_bytes(&b, &b.client, request, sizeof request);
    struct bt_pkt *pkt = bed_packet(&b);
    assert_non_null(pkt);
    struct bt_r2p2_hdr hdr;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
    assert_int_equal(hdr.req_id, 0x1234);
    assert_true(hdr.ext && hdr.first && hdr.last);
    assert_int_equal(hdr.payload_len, 3);
    assert_memory_equal(hdr.payload, "hey", 3);
    assert_true(bt_addr_eq(&hdr.opt.forwarded, &b.client));
    assert_int_equal(hdr.opt.class_id, 3);
    assert_int_equal(hdr.opt.class_flags, BT_CLASS_NON_DROPPABLE);
    assert_true(hdr.opt.trace == UINT64_C(0x0102030405060708));
    assert_true(bt_addr_eq(&pkt->src, &b.requests));
    assert_true(bt_addr_eq(&pkt->dst, &b.members[0]));
    assert_int_equal(pkt->tx_as_src, 0);
    assert_int_equal(pkt->local, BT_ROUTER_PORT_REQUEST);
    assert_int_equal(hdr.opt.key_id, 1);
    assert_int_equal(bt_tag_verify(pkt->data, pkt->len, &hdr, &b.keys, &pkt->src, &pkt->dst), BT_TAG_VALID);
    bt_pool_put(b.pool, pkt);
    bed_close(&b);
}

static void r4_transparent_keeps_the_source_and_names_the_router(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    bed_build(&b);
    bed_join_all(&b, 1);
    bed_send(&b, 5);
    struct bt_pkt *pkt = bed_packet(&b);
    assert_non_null(pkt);
    struct bt_r2p2_hdr hdr;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
    assert_true(bt_addr_eq(&pkt->src, &b.client));
    assert_int_equal(pkt->tx_as_src, 1);
    assert_int_equal(hdr.opt.present, BT_HAS_ROUTER);
    assert_int_equal(hdr.opt.router_id, bt_router_id(&b.requests));
    bt_pool_put(b.pool, pkt);
    bed_close(&b);
}

/* the option must fit the packet. 1472 B of UDP payload; with tag 20 B of options are added. */
static void r4_no_room_for_the_options_gets_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    bed_use_keys(&b);
    bed_build(&b);
    bed_join_all(&b, 1);
    bed_request(&b, 1, BT_POLICY_UNRESTRICTED, 1472 - 8 - 20 + 1);
    assert_true(bed_take_drop(&b, 1));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_ROOM), 1);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    bed_request(&b, 2, BT_POLICY_UNRESTRICTED, 1472 - 8 - 20);
    assert_int_equal(bed_take(&b), 0);
    bed_close(&b);
}

static void r4_header_above_64_bytes_gets_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    uint8_t full[64] = {0xcc, 60, 0, 0xe0, 0, 8, 0, 1, 0x70, 52};
    bed_request_bytes(&b, &b.client, full, sizeof full); /* 60 + 8 > 64 */
    assert_true(bed_take_drop(&b, 8));
    full[1] = 56;
    full[9] = 48;
    bed_request_bytes(&b, &b.client, full, sizeof full);
    assert_int_equal(bed_take(&b), 0);
    bed_close(&b);
}

static void r122_holds_back_for_an_idle_worker(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 3);
    b.config.hold_back_packets = 2;
    b.config.hold_back_ns = 5000;
    bed_build(&b);
    bed_join_all(&b, 3);
    bed_send(&b, 1);
    bed_send(&b, 2);
    assert_in_range(bed_take(&b), 0, 1);
    assert_in_range(bed_take(&b), 0, 1); /* idle workers: at once */
    bed_send(&b, 3);
    assert_int_equal(bed_take(&b), -1);
    assert_int_equal(bt_router_next(b.r), b.now + 5000);
    bed_tick(&b, 4999);
    assert_int_equal(bed_take(&b), -1);
    bed_tick(&b, 1); /* patience is over: a busy worker will do */
    assert_in_range(bed_take(&b), 0, 1);
    bed_send(&b, 4);
    bed_feedback(&b, 0, &(struct bed_report){.received = 2, .served = 2, .n = 3, .incarnation = 1});
    assert_int_equal(bed_take(&b), 0); /* became idle in time */
    bed_send(&b, 5);
    bed_send(&b, 6);
    assert_int_equal(bed_held(&b), 2);
    bed_send(&b, 7); /* one more than may wait */
    assert_int_equal(bed_held(&b), 2);
    assert_int_equal(take_id(&b), 5); /* the oldest leaves for it, not the newcomer */
    assert_int_equal(bed_counter(&b, BT_RC_HELD_BACK), 4);
    bed_close(&b);
}

static void r107_policy_changes_at_run_time_keep_counters(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 2);
    bed_join_all(&b, 2);
    for (uint16_t i = 0; i < 12; i++) {
        bed_send(&b, i); /* 8 forwarded, 4 held */
    }
    bed_discard(&b);
    assert_int_equal(bed_held(&b), 4);
    for (int policy = BT_ROUTER_JSQ; policy < BT_ROUTER_POLICIES; policy++) {
        b.config.policy = (enum bt_router_policy)policy;
        bed_apply(&b);
        assert_true(bt_router_next(b.r) <= b.now); /* pushing policies have no reason to hold */
        bed_tick(&b, 0);
        assert_int_equal(bed_held(&b), 0);
        bed_send(&b, (uint16_t)(100 + policy));
    }
    bed_discard(&b);
    uint32_t sum = 0;
    for (uint32_t w = 0; w < 4; w++) {
        sum += bed_outstanding(&b, w);
        assert_int_equal(bed_row(&b, w).sent, bed_outstanding(&b, w));
    }
    assert_int_equal(sum, 16);
    b.config.policy = BT_ROUTER_JBSQ;
    bed_apply(&b);
    bed_send(&b, 200);
    assert_int_equal(bed_held(&b), 1);
    bed_close(&b);
}

/* while no queue reaches n, JBSQ(n) is JSQ, choice by choice. */
static void q33_jbsq_with_ample_n_is_jsq(void **state)
{
    (void)state;
    struct bed a, b;
    bed_open(&a, 16, 64);
    bed_defaults(&b, 16, 64);
    b.config.policy = BT_ROUTER_JSQ;
    bed_build(&b);
    bed_join_all(&a, 64);
    bed_join_all(&b, 64);
    uint64_t done[16] = {0}, sent[16] = {0};
    struct bt_rng rng;
    bt_rng_seed(&rng, 42);
    for (int step = 0; step < 5000; step++) {
        uint32_t w = bt_rng_below(&rng, 16);
        if (bt_rng_below(&rng, 2) == 0 && sent[w] > done[w]) {
            done[w]++;
            struct bed_report report = {.received = sent[w], .served = done[w], .n = 64, .incarnation = 1};
            bed_feedback(&a, w, &report);
            bed_feedback(&b, w, &report);
            continue;
        }
        bed_send(&a, (uint16_t)step);
        bed_send(&b, (uint16_t)step);
        int wa = bed_take(&a), wb = bed_take(&b);
        assert_int_equal(wa, wb);
        assert_in_range(wa, 0, 15);
        sent[wa]++;
    }
    bed_close(&a);
    bed_close(&b);
}

/* JBSQ(1) is one queue: never an idle worker and a held request at the same time, first come first served. */
static void q33_jbsq1_is_a_single_queue(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 8, 1);
    bed_join_all(&b, 1);
    uint64_t done[8] = {0};
    bool busy[8] = {false};
    uint16_t next_in = 0, next_out = 0;
    struct bt_rng rng;
    bt_rng_seed(&rng, 1);
    for (int step = 0; step < 20000; step++) {
        uint32_t w = bt_rng_below(&rng, 8);
        if (bt_rng_below(&rng, 9) >= 4 && busy[w]) {
            busy[w] = false;
            done[w]++;
            bed_feedback(&b, w, &(struct bed_report){.received = done[w], .served = done[w], .n = 1, .incarnation = 1});
        } else if (bed_held(&b) < 100) {
            bed_send(&b, next_in++);
        }
        struct bt_pkt *pkt;
        while ((pkt = bed_packet(&b)) != NULL) {
            assert_int_equal((uint16_t)(pkt->data[4] << 8 | pkt->data[5]), next_out++);
            for (uint32_t i = 0; i < 8; i++) {
                if (bt_addr_eq(&pkt->dst, &b.members[i])) {
                    assert_false(busy[i]);
                    busy[i] = true;
                }
            }
            bt_pool_put(b.pool, pkt);
        }
        bool idle = false;
        for (uint32_t i = 0; i < 8; i++) {
            idle = idle || !busy[i];
        }
        assert_true(!idle || bed_held(&b) == 0);
    }
    bed_close(&b);
}

static void latency_runs_from_arrival_to_feedback(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    bed_send(&b, 2); /* held: its waiting counts */
    b.now += 3 * MS;
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 1, .n = 1, .incarnation = 1,
                                             .flags = BT_FEEDBACK_PAIR, .req_id = 1});
    b.now += 3 * MS;
    bed_feedback(&b, 0, &(struct bed_report){.received = 2, .served = 2, .n = 1, .incarnation = 1,
                                             .flags = BT_FEEDBACK_PAIR, .req_id = 2});
    bed_send(&b, 3);
    b.now += MS;
    bed_feedback(&b, 0, &(struct bed_report){.received = 3, .served = 3, .n = 1, .incarnation = 1,
                                             .flags = BT_FEEDBACK_PAIR | BT_FEEDBACK_DROPPED, .req_id = 3});
    bed_send(&b, 4); /* never answered */
    bed_tick(&b, 10 * SEC - 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 0);
    bed_tick(&b, 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 1);
    static struct bt_hist h;
    struct bt_hist_window window;
    bt_hist_slices_merge(bt_router_latency(b.r), b.now, 60, &h, &window);
    assert_int_equal(h.total, 3);
    assert_int_equal(h.inf, 1);
    assert_int_equal(h.sum_ns, 9 * MS);
    assert_int_equal(h.bucket[bt_hist_index(3 * MS)], 1);
    assert_int_equal(h.bucket[bt_hist_index(6 * MS)], 1);
    assert_int_equal(window.arrived, 4);
    assert_int_equal(window.rejected, 1);
    bt_hist_slices_merge(bt_router_hold(b.r), b.now, 60, &h, &window);
    assert_int_equal(h.total, 4);
    assert_int_equal(h.sum_ns, 3 * MS);
    bed_close(&b);
}

static void latency_pairs_are_bounded_and_checked(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 1);
    b.config.policy = BT_ROUTER_ROUND_ROBIN;
    bed_build(&b);
    bed_join_all(&b, 1);
    for (uint32_t i = 0; i < 300; i++) {
        bed_send(&b, (uint16_t)i);
        bed_discard(&b);
    }
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 300);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FULL), 300 - 256);
    struct bed_report report = {.received = 150, .served = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR};
    bed_feedback(&b, 1, &report); /* pair 0 went to worker 0 */
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNKNOWN), 1);
    bed_feedback(&b, 0, &report);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    bed_feedback(&b, 0, &report); /* the network's copy */
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    bed_close(&b);
}

static void drain_keeps_forwarding_until_quiet(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    assert_false(bt_router_drained(b.r, b.now + 100 * SEC, SEC));
    bt_router_drain(b.r, b.now);
    assert_true(bt_router_draining(b.r));
    b.now += SEC / 2;
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    assert_false(bt_router_drained(b.r, b.now + SEC - 1, SEC));
    assert_true(bt_router_drained(b.r, b.now + SEC, SEC));
    bed_send(&b, 2);
    assert_false(bt_router_drained(b.r, b.now + 100 * SEC, SEC)); /* held */
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r102_fewest_outstanding_then_the_fifo),
        cmocka_unit_test(r104_held_requests_leave_in_order_of_arrival),
        cmocka_unit_test(r105_the_fifo_is_bounded_in_number),
        cmocka_unit_test(r105_the_fifo_is_bounded_in_time),
        cmocka_unit_test(r106_sticky_goes_to_the_master_without_credit),
        cmocka_unit_test(r106_sticky_without_master_gets_drop),
        cmocka_unit_test(r12_policies_not_implemented_get_drop),
        cmocka_unit_test(requests_without_members_get_drop),
        cmocka_unit_test(multi_packet_req0_is_forwarded_and_counts_one_credit),
        cmocka_unit_test(r54_malformed_requests_are_counted_and_discarded),
        cmocka_unit_test(r55_critical_unknown_option_gets_drop),
        cmocka_unit_test(m23_sources_nobody_honest_has),
        cmocka_unit_test(r56_encapsulated_carries_client_and_tag),
        cmocka_unit_test(r4_transparent_keeps_the_source_and_names_the_router),
        cmocka_unit_test(r4_no_room_for_the_options_gets_drop),
        cmocka_unit_test(r4_header_above_64_bytes_gets_drop),
        cmocka_unit_test(r122_holds_back_for_an_idle_worker),
        cmocka_unit_test(r107_policy_changes_at_run_time_keep_counters),
        cmocka_unit_test(q33_jbsq_with_ample_n_is_jsq),
        cmocka_unit_test(q33_jbsq1_is_a_single_queue),
        cmocka_unit_test(latency_runs_from_arrival_to_feedback),
        cmocka_unit_test(latency_pairs_are_bounded_and_checked),
        cmocka_unit_test(drain_keeps_forwarding_until_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
