// SPDX-License-Identifier: Apache-2.0
// Every parser of outside bytes: header, options, FEEDBACK, SACK, tags. What
// decodes must encode to something that decodes to the same.
#include "input.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/sack.h"
#include "wire/tag.h"

static void same_options(const struct bt_options *a, const struct bt_options *b)
{
    CHECK(a->present == b->present);
    CHECK(!(a->present & BT_HAS_FORWARDED) || bt_addr_eq(&a->forwarded, &b->forwarded));
    CHECK(!(a->present & BT_HAS_TAG) || (a->key_id == b->key_id && memcmp(a->tag, b->tag, 8) == 0));
    CHECK(!(a->present & BT_HAS_CLASS) || (a->class_id == b->class_id && a->class_flags == b->class_flags));
    CHECK(!(a->present & BT_HAS_TRACE) || a->trace == b->trace);
    CHECK(!(a->present & BT_HAS_ROUTER) || a->router_id == b->router_id);
}

static void round_trip(const struct bt_r2p2_hdr *h)
{
    uint8_t buf[BT_R2P2_HEADER_MAX];
    struct bt_r2p2_hdr out = *h, back;
    size_t n = bt_r2p2_encode(buf, sizeof buf, &out);
    CHECK(n >= 8 && n <= h->hdr_size); // unknown options and padding may go
    if (h->type == BT_FEEDBACK && n == 16) {
        return; // without its payload it would read as a legacy one
    }
    CHECK(bt_r2p2_decode(buf, n, BT_ROLE_ANY, &back) == BT_M_OK);
    CHECK(back.type == h->type && back.policy == h->policy && back.first == h->first && back.last == h->last);
    CHECK(back.ext == h->ext && back.req_id == h->req_id && back.count_or_index == h->count_or_index);
    same_options(&h->opt, &back.opt);
}

static void feedback(const struct bt_r2p2_hdr *h)
{
    struct bt_feedback fb, back;
    uint8_t buf[64];
    if (bt_feedback_decode(h->payload, h->payload_len, &fb) || fb.version > 3) {
        return;
    }
    size_t n = bt_feedback_encode(buf, sizeof buf, &fb);
    CHECK(n == h->payload_len);
    CHECK(bt_feedback_decode(buf, n, &back) == BT_M_OK);
    CHECK(back.served == fb.served && back.received == fb.received && back.n == fb.n && back.flags == fb.flags &&
          back.signal == fb.signal);
}

static void sack(const struct bt_r2p2_hdr *h)
{
    struct bt_sack s;
    uint8_t buf[BT_SACK_SIZE_MAX];
    unsigned missing = 0;
    if (bt_sack_decode(h->payload, h->payload_len, &s)) {
        return;
    }
    for (unsigned i = 0; i < s.nbits; i++) {
        missing += bt_sack_missing(&s, i);
    }
    CHECK(missing <= s.nbits);
    CHECK(bt_sack_encode(buf, sizeof buf, &s) == h->payload_len);
}

static void tags(const uint8_t *p, size_t n, const struct bt_r2p2_hdr *h)
{
    static const struct bt_keyring keys = {{{1, {1}}, {2, {2}}}};
    struct bt_addr a = bt_addr_v4u(0x0a000001, 1), b = bt_addr_v4u(0x0a000002, 2);
    enum bt_tag_result r = bt_tag_verify(p, n, h, &keys, &a, &b);
    CHECK((r == BT_TAG_ABSENT) == !(h->opt.present & BT_HAS_TAG));
    uint8_t *copy = malloc(n);
    memcpy(copy, p, n);
    if (n < 1500 && bt_tag_sign(copy, n, h, &keys.key[0], &a, &b) && h->opt.key_id == 1) {
        CHECK(bt_tag_verify(copy, n, h, &keys, &a, &b) == BT_TAG_VALID);
    }
    free(copy);
}

static void grow(const uint8_t *p, size_t n, const struct bt_r2p2_hdr *h)
{
    static uint8_t mem[4096];
    struct bt_pkt pkt = {.data = mem + 128, .room_before = 128, .room_after = sizeof mem - 128};
    struct bt_r2p2_hdr now = *h, back;
    struct bt_options add = {.present = BT_HAS_FORWARDED | BT_HAS_ROUTER, .forwarded = bt_addr_v4u(7, 7)};
    if (n > 1500) {
        return;
    }
    memcpy(bt_pkt_append(&pkt, (uint32_t)n), p, n);
    if (!bt_r2p2_add_options(&pkt, &now, &add)) {
        CHECK(pkt.len == n && memcmp(pkt.data, p, n) == 0);
        return;
    }
    CHECK(bt_r2p2_decode(pkt.data, pkt.len, BT_ROLE_ANY, &back) == BT_M_OK);
    CHECK(back.payload_len == h->payload_len && memcmp(back.payload, h->payload, h->payload_len) == 0);
    same_options(&now.opt, &back.opt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bt_r2p2_hdr h;
    if (size < 1) {
        return 0;
    }
    enum bt_role role = (enum bt_role)(data[0] % 6);
    uint8_t *p = malloc(size); // exact size: an overread is seen
    size_t n = size - 1;
    memcpy(p, data + 1, n);
    enum bt_mcase m = bt_r2p2_decode(p, n, role, &h);
    CHECK(m < BT_M_COUNT);
    if (m == BT_M_OK) {
        CHECK(h.payload >= p && h.payload + h.payload_len == p + n);
        if (h.type == BT_FEEDBACK) {
            feedback(&h);
        }
        if (h.type == BT_SACK) {
            sack(&h);
        }
        if (!h.legacy) {
            round_trip(&h);
            tags(p, n, &h);
            grow(p, n, &h);
        }
    }
    free(p);
    return 0;
}
