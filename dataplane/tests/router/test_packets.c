// SPDX-License-Identifier: Apache-2.0
// Packets in and out: malformed requests, and what a forwarded one looks like.
#include <string.h>

#include "router/bed.h"

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
    /* a DROP would go to whoever forwarded it */
    {"router id and a policy unknown", BT_M_FORWARDER, {0xcc, 16, 9, 0xc0, 0, 1, 0, 1, 5, 6, 1, 2, 3, 4}, 16},
    {"forwarded-for and a critical option",
     BT_M_FORWARDER,
     {0xcc, 20, 0, 0xc0, 0, 1, 0, 1, 1, 8, 1, 2, 10, 0, 0, 9, 0x80, 4, 0, 0},
     20},
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
    assert_int_equal(bed_counter(&b, BT_RC_DROP_OPTION), 1);
    assert_int_equal(bed_malformed(&b, BT_M_OPT_CRITICAL), 0); /* that is of packets without an answer (K-18) */
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
                               3,    4,  3, 1,    4,    10,   1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 'h', 'e', 'y'};
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

/* a plain request of an IPv4 client is rewritten and tagged straight from its bytes, and is then what the
 * general functions make of it, with every size that may be and with either of two live keys. */
static void r57_the_short_way_tags_as_the_long_one(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 64);
    bed_use_keys(&b);
    b.keys.key[0].id = 0xfe;
    bed_build(&b);
    bed_join_all(&b, 64);
    for (uint32_t body = 0; body < 1472 - 8 - 20; body += 1 + body / 4) {
        bed_request(&b, (uint16_t)(0xff00 + body), BT_POLICY_UNRESTRICTED, body);
        struct bt_pkt *pkt = bed_packet(&b), *want = bt_pool_get(b.pool);
        assert_true(pkt != NULL && want != NULL);
        struct bt_r2p2_hdr hdr = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
        hdr.req_id = (uint16_t)(0xff00 + body);
        struct bt_options add = {.present = BT_HAS_FORWARDED | BT_HAS_TAG, .forwarded = b.client, .key_id = 0xfe};
        assert_int_equal(bt_r2p2_encode(bt_pkt_append(want, 8), 8, &hdr), 8);
        memset(bt_pkt_append(want, body), 0x5a, body);
        assert_true(bt_r2p2_add_options(want, &hdr, &add));
        assert_true(bt_tag_sign(want->data, want->len, &hdr, &b.keys.key[0], &b.requests, &b.members[0]));
        assert_int_equal(pkt->len, want->len);
        assert_memory_equal(pkt->data, want->data, want->len);
        assert_true(bt_addr_eq(&pkt->src, &b.requests) && bt_addr_eq(&pkt->dst, &b.members[0]) && pkt->tx_as_src == 0);
        assert_int_equal(pkt->room_before, want->room_before);
        bt_pool_put(b.pool, pkt);
        bt_pool_put(b.pool, want);
    }
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

/* K-17: of a client without X, which leaves no room for the router's option. Its worker takes it for one that came
 * directly, so it costs no credit. */
static void k17_transparent_without_room_goes_as_it_came(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) { /* held for want of credit, too */
        struct bed b;
        bed_defaults(&b, 1, 1);
        b.config.forwarding = BT_FORWARD_TRANSPARENT;
        bed_build(&b);
        bed_join_all(&b, 1);
        uint8_t request[8 + 1464] = {0xcc, 8, 0, 0xc0, 0, 7, 0, 1};
        if (stopped) {
            bed_send(&b, 1);
            assert_int_equal(bed_take(&b), 0);
        }
        for (size_t body = 1457; body <= 1464; body++) {
            bed_request_bytes(&b, &b.client, request, 8 + body);
            if (stopped) {
                assert_int_equal(bed_take(&b), -1);
            }
        }
        if (stopped) {
            bed_feedback(
                &b, 0,
                &(struct bed_report){
                    .n = 1, .incarnation = 1, .received = 1, .served = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 1});
        }
        for (size_t body = 1457; body <= 1464; body++) {
            struct bt_pkt *pkt = bed_packet(&b);
            assert_non_null(pkt);
            assert_int_equal(pkt->len, 8 + body);
            assert_memory_equal(pkt->data, request, 8 + body);
            assert_true(bt_addr_eq(&pkt->src, &b.client) && bt_addr_eq(&pkt->dst, &b.members[0]) &&
                        pkt->tx_as_src == 1);
            bt_pool_put(b.pool, pkt);
        }
        assert_int_equal(bed_counter(&b, BT_RC_FORWARDED_BARE), 8);
        assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 8 + stopped); /* of these */
        assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_ROOM), 0);
        assert_int_equal(bed_outstanding(&b, 0), 0);
        bed_close(&b);
    }
}

/* K-17: and of a size that its own network carries, which is more than others' where the device's frames are longer. */
static void k17_without_room_means_of_its_own_frames(void **state)
{
    (void)state;
    static const struct {
        uint32_t most, body;
        bool goes;
    } rows[] = {{1600, 1590, true}, {1600, 1593, false}, {1400, 1390, true}, {1400, 1393, false}, {0, 1464, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bed b;
        bed_defaults(&b, 1, 1);
        b.config.forwarding = BT_FORWARD_TRANSPARENT;
        b.config.max_payload = rows[i].most;
        bed_build(&b);
        bed_join_all(&b, 1);
        uint8_t request[8 + 1600] = {0xcc, 8, 0, 0xc0, 0, 7, 0, 1};
        bed_request_bytes(&b, &b.client, request, 8 + rows[i].body);
        assert_int_equal(bed_take(&b), rows[i].goes ? 0 : -1);
        assert_int_equal(bed_counter(&b, BT_RC_FORWARDED_BARE), rows[i].goes);
        bed_close(&b);
    }
}

/* A DROP is written where its request stood: one that leaves no room for it gets none, and is counted all the same. */
static void r12_a_drop_has_room_or_is_not_sent(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    for (uint32_t room = 12; room <= 17; room++) {
        uint8_t request[12] = {0xcc, 8, 9, 0xc0, 0, 7, 0, 1}; /* a policy that nobody knows */
        struct bt_pkt *pkt = bt_pool_get(b.pool);
        assert_non_null(pkt);
        memcpy(pkt->data, request, sizeof request);
        pkt->len = sizeof request;
        pkt->room_after = room - 12;
        pkt->src = b.client;
        pkt->dst = b.requests;
        bt_router_request(b.r, b.now, pkt, &b.out);
        assert_int_equal(bed_counter(&b, BT_RC_DROP_POLICY), room - 11);
        assert_int_equal(bed_take_drop(&b, 7), room >= 16);
    }
    bed_close(&b);
}

/* K-18: each packet is in one counter, whatever it is, and each request has one end. */
static void k18_each_packet_is_counted_once(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 3, 2);
    bed_join(&b, 1, 2);
    uint8_t p[64] = {0};
    uint64_t sent = 0, discarded = 0, dropped = 0, now_held = 0;
    uint64_t before = bed_counter(&b, BT_RC_FEEDBACK);
    for (uint32_t i = 0; i < 20000; i++) {
        static const uint8_t policies[] = {0, 1, 2, 9}, flags[] = {0xc0, 0xe0, 0x80, 0x40, 0};
        static const uint8_t options[] = {0, 0x70, 0x81, 0x05};
        uint32_t n = i * 2654435761u;
        p[0] = n % 31 == 0 ? 0xcd : 0xcc;
        p[1] = options[n >> 8 & 3] != 0 ? 12 : 8;
        p[2] = (uint8_t)((n >> 10 & 7) == 7 ? 0x10 : policies[n >> 13 & 3]);
        p[3] = flags[(n >> 15) % 5];
        p[4] = (uint8_t)(i >> 8);
        p[5] = (uint8_t)i;
        p[7] = (uint8_t)(1 + (n >> 18 & 1));
        p[8] = options[n >> 8 & 3];
        p[9] = 4;
        bed_request_bytes(&b, &b.client, p, n >> 20 & 3 ? 12 + (n >> 22 & 31) : n >> 22 & 7);
        sent++;
        bed_discard(&b);
    }
    for (int m = 0; m < BT_M_COUNT; m++) {
        discarded += m == BT_M_OK ? 0 : bed_malformed(&b, (enum bt_mcase)m);
    }
    for (int c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
        dropped += bed_counter(&b, (enum bt_router_counter)c);
    }
    now_held = bed_held(&b);
    assert_true(discarded > 1000 && dropped > 1000);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), before);
    assert_int_equal(bed_counter(&b, BT_RC_REQUESTS) + discarded, sent);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED) + dropped + now_held, bed_counter(&b, BT_RC_REQUESTS));
    bed_tick(&b, 10000000000);
    bed_discard(&b);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r54_malformed_requests_are_counted_and_discarded),
        cmocka_unit_test(r55_critical_unknown_option_gets_drop),
        cmocka_unit_test(m23_sources_nobody_honest_has),
        cmocka_unit_test(r56_encapsulated_carries_client_and_tag),
        cmocka_unit_test(r57_the_short_way_tags_as_the_long_one),
        cmocka_unit_test(r4_transparent_keeps_the_source_and_names_the_router),
        cmocka_unit_test(r4_no_room_for_the_options_gets_drop),
        cmocka_unit_test(k17_transparent_without_room_goes_as_it_came),
        cmocka_unit_test(k17_without_room_means_of_its_own_frames),
        cmocka_unit_test(r12_a_drop_has_room_or_is_not_sent),
        cmocka_unit_test(k18_each_packet_is_counted_once),
        cmocka_unit_test(r4_header_above_64_bytes_gets_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
