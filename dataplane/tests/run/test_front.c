// SPDX-License-Identifier: Apache-2.0
// A group's flow-control box as clients and members see it: what it passes and to whom, what it
// refuses and why, whose FEEDBACK it believes, and that each packet is counted once.
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "named.h"
#include "run/box.h"
#include "run/boxed.h"
#include "wire/feedback.h"
#include "wire/tag.h"

enum { PACKETS = 32, MEMBERS = 3, LIMIT = 2 };
static const uint64_t AWAKE = UINT64_C(3000000000); // its silence and its slow start are over

static struct bt_pool_fixed fixed;
static struct bt_txq out;
static struct bt_box_front *box;
static struct bt_group_document document;
static struct bt_keyring keys, none;
static uint64_t now, told[BT_BOX_COUNTERS];

static struct bt_addr at(uint32_t host, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u + host, port);
}

static struct bt_box_front_config config(void)
{
    return (struct bt_box_front_config){.document = &document,
                                        .clients = at(9, 8000),
                                        .feedback = at(9, 9000),
                                        .keys = keys,
                                        .mtu = 1500,
                                        .pool = &fixed.pool,
                                        .txq = &out,
                                        .seed = 5,
                                        .recent_pairs = 64};
}

static void open_with(bool multicast)
{
    static uint8_t mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER) + 4096] __attribute__((aligned(64)));
    assert_true(bt_pool_fixed_bytes(PACKETS) <= sizeof mem);
    bt_pool_fixed_init(&fixed, mem, PACKETS);
    bt_txq_init(&out);
    keys = (struct bt_keyring){.key = {{.id = 7, .bytes = {1, 2, 3}}}};
    document = (struct bt_group_document){.in_flight = LIMIT, .n_members = MEMBERS};
    for (uint16_t i = 0; i < MEMBERS; i++) {
        document.member[i].client = at(1u + i, 8000);
    }
    if (multicast) {
        document.multicast = bt_addr_v4u(0xef000001u, 8200);
    }
    struct bt_box_front_config c = config();
    now = 1000;
    memset(told, 0, sizeof told);
    box = bt_box_front_open(&c, now);
    assert_non_null(box);
    now += AWAKE;
}

static void close_it(void)
{
    bt_box_front_close(box);
    assert_int_equal(out.n, 0);
    assert_int_equal(fixed.left, PACKETS);
}

/* What was counted since this was last asked is this once, and nothing else; BT_BOX_COPIES apart. */
static void counted(enum bt_box_counter what, uint64_t copies)
{
    const uint64_t *c = bt_box_front_counters(box, now);
    for (unsigned i = 0; i < BT_BOX_COUNTERS; i++) {
        assert_int_equal(c[i] - told[i], i == BT_BOX_COPIES ? copies : i == what);
        told[i] = c[i];
    }
}

static struct bt_r2p2_hdr request(uint16_t id)
{
    struct bt_r2p2_hdr h;
    bt_r2p2_start(&h, BT_REQUEST, BT_POLICY_REPLICATED_WRITE, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = id;
    return h;
}

static void send_from(struct bt_addr from, const struct bt_r2p2_hdr *h, uint32_t payload)
{
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    assert_non_null(pkt);
    pkt->src = from;
    pkt->dst = at(9, 8000);
    pkt->local = BT_BOX_CLIENTS;
    memset(bt_pkt_append(pkt, payload), 'x', payload);
    struct bt_r2p2_hdr head = *h;
    assert_true(bt_r2p2_push_header(pkt, &head));
    bt_box_front_receive(box, now, pkt);
}

static void ask(uint16_t id)
{
    struct bt_r2p2_hdr h = request(id);
    send_from(at(20, 5000), &h, 10);
}

static void forget_copies(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct bt_pkt *p = bt_txq_pop(&out);
        assert_non_null(p);
        bt_pool_put(&fixed.pool, p);
    }
    assert_int_equal(out.n, 0);
}

/* The client is told that and why; nobody else is told anything. */
static void refused(uint16_t id, bool ext, enum bt_drop_reason why)
{
    struct bt_pkt *p = bt_txq_pop(&out);
    struct bt_r2p2_hdr h;
    assert_non_null(p);
    assert_int_equal(out.n, 0);
    assert_int_equal(bt_r2p2_decode(p->data, p->len, BT_ROLE_CLIENT, &h), BT_M_OK);
    assert_true(h.type == BT_DROP && h.req_id == id && h.ext == ext && h.first && h.last && h.count_or_index == 1);
    assert_true(bt_addr_eq(&p->dst, &(struct bt_addr[]){at(20, 5000)}[0]));
    assert_int_equal(h.payload_len, 4 + BT_DROP_WHY);
    assert_memory_equal(h.payload, "DROP", 4);
    uint8_t words[BT_DROP_WHY];
    bt_drop_why_write(words, &(struct bt_drop_why){.reason = (uint8_t)why});
    assert_memory_equal(h.payload + 4, words, sizeof words);
    bt_pool_put(&fixed.pool, p);
}

static void is_copy(struct bt_pkt *p, const struct bt_addr *to, bool session)
{
    struct bt_r2p2_hdr h;
    assert_non_null(p);
    assert_true(bt_addr_eq(&p->dst, to) && bt_addr_eq(&p->src, &(struct bt_addr[]){at(9, 8000)}[0]));
    assert_true(bt_boxed_is(p, &h));
    assert_int_equal(bt_boxed_open(p, &h, &keys, false), BT_GROUP_PACKET_OK);
    assert_true(bt_addr_eq(&h.opt.forwarded, &(struct bt_addr[]){at(20, 5000)}[0]) && h.opt.key_id == 7);
    assert_int_equal(h.opt.present, BT_HAS_FORWARDED | BT_HAS_TAG | (session ? BT_HAS_SESSION : 0));
    assert_true(h.req_id == 5 && h.policy == BT_POLICY_REPLICATED_WRITE && h.payload_len == 10 && h.payload[9] == 'x');
    assert_true(!session || (h.opt.session == 77 && h.opt.session_seq == 8));
    bt_pool_put(&fixed.pool, p);
}

static void r330_a_request_goes_to_every_member(void **state)
{
    (void)state;
    for (int session = 0; session < 2; session++) {
        open_with(false);
        struct bt_r2p2_hdr h = request(5);
        h.opt = (struct bt_options){.present = session ? BT_HAS_SESSION : 0, .session = 77, .session_seq = 8};
        send_from(at(20, 5000), &h, 10);
        counted(BT_BOX_PASSED, MEMBERS);
        assert_int_equal(bt_box_front_inside(box, now), 1);
        for (unsigned i = 0; i < MEMBERS; i++) {
            is_copy(bt_txq_pop(&out), &document.member[i].client, session != 0);
        }
        send_from(at(20, 5000), &h, 10); // once more
        counted(BT_BOX_PASSED_AGAIN, MEMBERS);
        assert_int_equal(bt_box_front_inside(box, now), 1);
        forget_copies(MEMBERS);
        close_it();
    }
}

static void r330_where_there_is_a_group_it_goes_there_once(void **state)
{
    (void)state;
    open_with(true);
    ask(5);
    counted(BT_BOX_PASSED, 1);
    is_copy(bt_txq_pop(&out), &document.multicast, false);
    close_it();
}

static void r331_what_is_above_the_limit_is_refused(void **state)
{
    (void)state;
    open_with(true);
    assert_int_equal(bt_box_front_limit(box), LIMIT);
    for (uint16_t id = 0; id < LIMIT; id++) {
        ask(id);
        counted(BT_BOX_PASSED, 1);
    }
    forget_copies(LIMIT);
    ask(LIMIT);
    counted(BT_BOX_BAD_BUSY, 0);
    refused(LIMIT, true, BT_DROP_BUSY);
    assert_int_equal(bt_box_front_inside(box, now), LIMIT);
    now += UINT64_C(2000000001); // nobody said what became of them
    assert_int_equal(bt_box_front_inside(box, now), 0);
    const uint64_t *c = bt_box_front_counters(box, now);
    assert_int_equal(c[BT_BOX_TIMED_OUT], LIMIT);
    close_it();
}

static void r333_one_that_has_just_started_is_silent(void **state)
{
    (void)state;
    open_with(true);
    now -= AWAKE;
    ask(5);
    counted(BT_BOX_BAD_HUSHED, 0);
    close_it();
}

static void r314_how_long_a_request_may_be(void **state)
{
    (void)state;
    struct bt_options all = {.present = BT_HAS_FORWARDED | BT_HAS_TAG};
    uint32_t most = bt_r2p2_datagram_max(1500, false) - BT_R2P2_HEADER - (uint32_t)bt_options_size(&all);
    most = most < bt_boxed_most(1500) ? most : bt_boxed_most(1500);
    open_with(true);
    struct bt_r2p2_hdr h = request(5);
    send_from(at(20, 5000), &h, most);
    counted(BT_BOX_PASSED, 1);
    forget_copies(1);
    h.req_id = 6;
    send_from(at(20, 5000), &h, most + 1);
    counted(BT_BOX_BAD_TOO_LONG, 0);
    refused(6, true, BT_DROP_TOO_LONG);
    h.req_id = 7;
    h.last = false; // the first of two
    h.count_or_index = 2;
    send_from(at(20, 5000), &h, 14);
    counted(BT_BOX_BAD_TOO_LONG, 0);
    refused(7, true, BT_DROP_TOO_LONG);
    h.first = false;
    h.last = true;
    h.count_or_index = 1; // and its second
    send_from(at(20, 5000), &h, 10);
    counted(BT_BOX_BAD_REST, 0);
    close_it();
}

static void r334_what_a_client_may_not_send(void **state)
{
    (void)state;
    open_with(true);
    for (int policy = 0; policy < BT_POLICY_REPLICATED_WRITE; policy++) {
        struct bt_r2p2_hdr h = request(5);
        h.policy = (uint8_t)policy;
        send_from(at(20, 5000), &h, 10);
        counted(BT_BOX_BAD_UNORDERED, 0);
        refused(5, true, BT_DROP_UNORDERED);
    }
    struct bt_r2p2_hdr plain = request(5);
    plain.ext = false;
    plain.policy = BT_POLICY_UNRESTRICTED;
    send_from(at(20, 5000), &plain, 10);
    counted(BT_BOX_BAD_UNORDERED, 0);
    refused(5, false, BT_DROP_UNORDERED);
    struct bt_r2p2_hdr forged = request(5);
    forged.opt = (struct bt_options){.present = BT_HAS_FORWARDED, .forwarded = at(21, 5000)};
    send_from(at(20, 5000), &forged, 10);
    counted(BT_BOX_BAD_FORGED, 0);
    forged.opt = (struct bt_options){.present = BT_HAS_TAG, .key_id = 7};
    send_from(at(20, 5000), &forged, 10);
    counted(BT_BOX_BAD_FORGED, 0);
    struct bt_r2p2_hdr h = request(5), reply = request(5);
    send_from(at(9, 8000), &h, 10); // from itself
    counted(BT_BOX_BAD_MALFORMED, 0);
    send_from(bt_addr_v4u(0xef000001u, 5000), &h, 10); // from no host
    counted(BT_BOX_BAD_MALFORMED, 0);
    reply.type = BT_REPLY;
    send_from(at(20, 5000), &reply, 10);
    counted(BT_BOX_BAD_MALFORMED, 0);
    close_it();
}

/* FEEDBACK about request `id` of the client, signed with this key. */
static void feedback(uint16_t id, uint8_t flags, const struct bt_key *key, uint32_t cut)
{
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    struct bt_r2p2_hdr h;
    uint8_t text[64];
    struct bt_feedback fb = {.version = 1, .flags = flags, .req_id = id, .client = at(20, 5000), .n = 1};
    size_t n = bt_feedback_encode(text, sizeof text, &fb);
    assert_non_null(pkt);
    assert_true(n > cut);
    pkt->src = at(1, 8000);
    pkt->dst = at(9, 9000);
    pkt->local = BT_BOX_FEEDBACK;
    memcpy(bt_pkt_append(pkt, (uint32_t)n - cut), text, n - cut);
    bt_r2p2_start(&h, BT_FEEDBACK, BT_POLICY_UNRESTRICTED, true);
    h.last = true;
    h.count_or_index = 1;
    h.opt = (struct bt_options){.present = BT_HAS_TAG, .key_id = key->id};
    assert_true(bt_r2p2_push_header(pkt, &h));
    assert_true(bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst));
    bt_box_front_receive(box, now, pkt);
}

static void r331_feedback_ends_a_pair_once(void **state)
{
    const struct bt_key foreign = {.id = 7, .bytes = {9}};
    (void)state;
    open_with(true);
    ask(5);
    forget_copies(1);
    counted(BT_BOX_PASSED, 1);
    feedback(5, BT_FEEDBACK_PAIR, &foreign, 0);
    counted(BT_BOX_BAD_FEEDBACK_TAG, 0);
    feedback(5, 0, &keys.key[0], 0);
    counted(BT_BOX_BAD_FEEDBACK_FORM, 0);
    feedback(5, BT_FEEDBACK_PAIR, &keys.key[0], 1);
    counted(BT_BOX_BAD_FEEDBACK_FORM, 0);
    feedback(6, BT_FEEDBACK_PAIR, &keys.key[0], 0);
    counted(BT_BOX_BAD_FEEDBACK_UNKNOWN, 0);
    assert_int_equal(bt_box_front_inside(box, now), 1);
    feedback(5, BT_FEEDBACK_PAIR, &keys.key[0], 0);
    counted(BT_BOX_ANSWERED, 0);
    assert_int_equal(bt_box_front_inside(box, now), 0);
    feedback(5, BT_FEEDBACK_PAIR, &keys.key[0], 0);
    counted(BT_BOX_BAD_FEEDBACK_UNKNOWN, 0);
    struct bt_r2p2_hdr h = request(5); // what a client sends, where members speak
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    pkt->src = at(20, 5000);
    pkt->dst = at(9, 9000);
    pkt->local = BT_BOX_FEEDBACK;
    assert_true(bt_r2p2_push_header(pkt, &h));
    bt_box_front_receive(box, now, pkt);
    counted(BT_BOX_BAD_FEEDBACK_FORM, 0);
    close_it();
}

/* With another limit it begins anew, and counts on. */
static void r333_another_limit_begins_anew(void **state)
{
    (void)state;
    open_with(true);
    ask(5);
    counted(BT_BOX_PASSED, 1);
    ask(5);
    counted(BT_BOX_PASSED_AGAIN, 1);
    forget_copies(2);
    feedback(5, BT_FEEDBACK_PAIR, &keys.key[0], 0);
    counted(BT_BOX_ANSWERED, 0);
    feedback(6, BT_FEEDBACK_PAIR, &keys.key[0], 0);
    counted(BT_BOX_BAD_FEEDBACK_UNKNOWN, 0);
    ask(7);
    counted(BT_BOX_PASSED, 1);
    forget_copies(1);
    struct bt_group_document next = document;
    assert_true(bt_box_front_reconfigure(box, now, &next, &keys)); // the same: nobody is forgotten
    assert_int_equal(bt_box_front_inside(box, now), 1);
    next.in_flight = LIMIT + 1;
    next.multicast.port = 0;
    now += UINT64_C(2000000001);
    assert_true(bt_box_front_reconfigure(box, now, &next, &keys));
    assert_int_equal(bt_box_front_limit(box), LIMIT + 1);
    assert_int_equal(bt_box_front_inside(box, now), 0);
    counted(BT_BOX_TIMED_OUT, 0);
    ask(8);
    counted(BT_BOX_BAD_HUSHED, 0);
    next.in_flight = LIMIT;
    assert_true(bt_box_front_reconfigure(box, now, &next, &keys));
    now += AWAKE;
    ask(9);
    counted(BT_BOX_PASSED, MEMBERS); // by its new document
    forget_copies(MEMBERS);
    close_it();
}

static void what_cannot_be_sent_is_counted(void **state)
{
    struct bt_pkt *taken[PACKETS];
    (void)state;
    open_with(false);
    for (unsigned i = 0; i + 2 < PACKETS; i++) { // two are left: the request, and a copy
        taken[i] = bt_pool_get(&fixed.pool);
    }
    ask(5);
    const uint64_t *c = bt_box_front_counters(box, now);
    assert_int_equal(c[BT_BOX_COPIES], 1);
    assert_int_equal(c[BT_BOX_BAD_NO_BUFFER], MEMBERS - 1);
    struct bt_r2p2_hdr h = request(6);
    h.policy = BT_POLICY_STICKY;
    send_from(at(20, 5000), &h, 10); // one is left, and it comes in it
    assert_int_equal(bt_box_front_counters(box, now)[BT_BOX_BAD_NO_BUFFER], MEMBERS);
    forget_copies(1);
    assert_true(bt_box_front_reconfigure(box, now, &document, &none)); // nothing to sign with
    ask(7);
    assert_int_equal(bt_box_front_counters(box, now)[BT_BOX_BAD_NO_BUFFER], 2 * MEMBERS);
    assert_int_equal(bt_box_front_counters(box, now)[BT_BOX_COPIES], 1);
    for (unsigned i = 0; i + 2 < PACKETS; i++) {
        bt_pool_put(&fixed.pool, taken[i]);
    }
    ask(7); // once more, with room and nothing to sign with: nothing is sent, and nothing is kept
    assert_int_equal(bt_box_front_counters(box, now)[BT_BOX_BAD_NO_BUFFER], 3 * MEMBERS);
    assert_int_equal(bt_box_front_counters(box, now)[BT_BOX_COPIES], 1);
    close_it();
}

static void a_box_of_no_use_is_none(void **state)
{
    (void)state;
    open_with(false);
    struct bt_box_front_config c = config();
    c.mtu = 40;
    assert_null(bt_box_front_open(&c, now));
    bt_box_front_close(NULL);
    close_it();
}

static void each_counter_of_a_box_has_a_name(void **state)
{
    (void)state;
    each_has_a_name(bt_box_counter_desc, BT_BOX_COUNTERS, "box_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r330_a_request_goes_to_every_member),
        cmocka_unit_test(r330_where_there_is_a_group_it_goes_there_once),
        cmocka_unit_test(r331_what_is_above_the_limit_is_refused),
        cmocka_unit_test(r333_one_that_has_just_started_is_silent),
        cmocka_unit_test(r314_how_long_a_request_may_be),
        cmocka_unit_test(r334_what_a_client_may_not_send),
        cmocka_unit_test(r331_feedback_ends_a_pair_once),
        cmocka_unit_test(r333_another_limit_begins_anew),
        cmocka_unit_test(what_cannot_be_sent_is_counted),
        cmocka_unit_test(a_box_of_no_use_is_none),
        cmocka_unit_test(each_counter_of_a_box_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
