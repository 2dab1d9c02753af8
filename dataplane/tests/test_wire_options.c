// SPDX-License-Identifier: Apache-2.0
// each option alone and beside every other: its bytes, what is read of them, what a router adds to them.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "wire/r2p2.h"

enum { KINDS = BT_OPTION_FLOW };

static struct bt_options everything(void)
{
    return (struct bt_options){.forwarded = bt_addr_v4u(0x0a010203, 0x80e8),
                               .trace = UINT64_C(0x0102030405060708),
                               .session = UINT64_C(0x1112131415161718),
                               .session_seq = UINT64_C(0x2122232425262728),
                               .router_id = 0x31323334,
                               .copy = 0x41424344,
                               .class_id = 0x51,
                               .class_flags = 0x52,
                               .key_id = 0x61,
                               .tag_flags = 0x62,
                               .flow = 0x7172,
                               .tag = {0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88}};
}

// By kind, without padding.
static const struct {
    uint8_t n;
    uint8_t bytes[18];
} wire[KINDS + 1] = {
    [BT_OPTION_FORWARDED] = {8, {1, 8, 0x80, 0xe8, 10, 1, 2, 3}},
    [BT_OPTION_TAG] = {12, {2, 12, 0x61, 0x62, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88}},
    [BT_OPTION_CLASS] = {4, {3, 4, 0x51, 0x52}},
    [BT_OPTION_TRACE] = {10, {4, 10, 1, 2, 3, 4, 5, 6, 7, 8}},
    [BT_OPTION_ROUTER] = {6, {5, 6, 0x31, 0x32, 0x33, 0x34}},
    [BT_OPTION_COPY] = {6, {6, 6, 0x41, 0x42, 0x43, 0x44}},
    [BT_OPTION_SESSION] = {18,
                           {7, 18, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                            0x27, 0x28}},
    [BT_OPTION_FLOW] = {4, {8, 4, 0x71, 0x72}},
};

// The bytes of a set of kinds; how many, padding included.
static size_t bytes_of(uint32_t present, uint8_t *to)
{
    size_t n = 0;
    for (unsigned kind = 1; kind <= KINDS; kind++) {
        if (present & 1u << kind) {
            memcpy(to + n, wire[kind].bytes, wire[kind].n);
            n += wire[kind].n;
        }
    }
    while (n % 4 != 0) {
        to[n++] = BT_OPTION_PAD;
    }
    return n;
}

// Where a tag's eight bytes lie in such bytes, which begin at `from` of the packet.
static size_t tag_at(uint32_t present, size_t from)
{
    return from + (present & BT_HAS_FORWARDED ? 8 : 0) + 4;
}

static void same(const struct bt_options *got, const struct bt_options *want, uint32_t present)
{
    assert_int_equal(got->present, present);
    assert_true(!(present & BT_HAS_FORWARDED) || bt_addr_eq(&got->forwarded, &want->forwarded));
    assert_true(!(present & BT_HAS_TRACE) || got->trace == want->trace);
    assert_true(!(present & BT_HAS_SESSION) ||
                (got->session == want->session && got->session_seq == want->session_seq));
    assert_true(!(present & BT_HAS_ROUTER) || got->router_id == want->router_id);
    assert_true(!(present & BT_HAS_COPY) || got->copy == want->copy);
    assert_true(!(present & BT_HAS_CLASS) ||
                (got->class_id == want->class_id && got->class_flags == want->class_flags));
    assert_true(!(present & BT_HAS_FLOW) || got->flow == want->flow);
    if (present & BT_HAS_TAG) {
        assert_true(got->key_id == want->key_id && got->tag_flags == want->tag_flags);
        assert_memory_equal(got->tag, want->tag, sizeof got->tag);
    }
}

static void r55_every_set_of_options_is_written_and_read_back(void **state)
{
    (void)state;
    for (uint32_t present = 0; present < 2u << KINDS; present += 2) {
        struct bt_options o = everything(), back;
        uint8_t want[80], got[80];
        size_t n = bytes_of(present, want);
        o.present = present;
        assert_int_equal(bt_options_size(&o), n);
        assert_int_equal(bt_options_encode(got, 8, &o), n);
        assert_memory_equal(got, want, n);
        assert_int_equal(o.tag_offset, present & BT_HAS_TAG ? tag_at(present, 8) : 0);
        assert_int_equal(bt_options_decode(got, n, 8, &back), BT_M_OK);
        struct bt_options all = everything();
        same(&back, &all, present);
        assert_int_equal(back.tag_offset, o.tag_offset);
    }
}

static void r55_a_client_of_ipv6_takes_twenty_bytes(void **state)
{
    (void)state;
    struct bt_options o = {.present = BT_HAS_FORWARDED, .forwarded = {.ip = {0xfd, [15] = 9}, .port = 0x80e8}}, back;
    const uint8_t want[20] = {1, 20, 0x80, 0xe8, 0xfd, [19] = 9};
    uint8_t got[20];
    assert_int_equal(bt_options_size(&o), sizeof want);
    assert_int_equal(bt_options_encode(got, 8, &o), sizeof want);
    assert_memory_equal(got, want, sizeof want);
    memset(&back, 0xff, sizeof back);
    assert_int_equal(bt_options_decode(got, sizeof got, 8, &back), BT_M_OK);
    assert_true(bt_addr_eq(&back.forwarded, &o.forwarded));
}

// Every known option of another length, and cut short.
static void r55_an_option_has_its_one_length(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind <= KINDS; kind++) {
        for (uint8_t len = 0; len < 30; len++) {
            uint8_t p[32] = {(uint8_t)kind, len};
            struct bt_options o;
            bool right = len == wire[kind].n || (kind == BT_OPTION_FORWARDED && len == 20);
            enum bt_mcase want = len < 2 ? BT_M_OPT_TRUNCATED : right ? BT_M_OK : BT_M_OPT_LENGTH;
            assert_int_equal(bt_options_decode(p, sizeof p, 8, &o), want);
            if (len >= 2) {
                assert_int_equal(bt_options_decode(p, len - 1u, 8, &o), BT_M_OPT_TRUNCATED);
            }
        }
        uint8_t twice[40];
        struct bt_options o;
        memcpy(twice, wire[kind].bytes, wire[kind].n);
        memcpy(twice + wire[kind].n, wire[kind].bytes, wire[kind].n);
        assert_int_equal(bt_options_decode(twice, 2u * wire[kind].n, 8, &o), BT_M_OPT_DUPLICATE);
        assert_int_equal(bt_options_decode(twice, wire[kind].n + 1u, 8, &o), BT_M_OPT_TRUNCATED);
    }
}

// one kind is added behind another: as if both had been written, but for their order and padding.
static void r56_any_option_is_added_behind_any_other(void **state)
{
    (void)state;
    struct bt_pool_fixed fixed;
    void *slab = aligned_alloc(64, (bt_pool_fixed_bytes(1) + 63) / 64 * 64);
    bt_pool_fixed_init(&fixed, slab, 1);
    for (unsigned first = 0; first <= KINDS; first++) {
        for (unsigned second = 1; second <= KINDS; second++) {
            struct bt_options all = everything(), add = everything();
            struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = 9}, back;
            struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
            h.count_or_index = 1;
            h.opt = everything();
            h.opt.present = first != 0 ? 1u << first : 0;
            add.present = 1u << second;
            memcpy(bt_pkt_append(pkt, 2), "hi", 2);
            assert_true(bt_r2p2_push_header(pkt, &h));
            if (first != second) {
                if (h.opt.present == 0) {
                    memset(&h.opt, 0, sizeof h.opt);
                }
                assert_true(h.payload == pkt->data + h.hdr_size && h.payload_len == 2);
                assert_true(bt_r2p2_add_options(pkt, &h, &add));
                uint32_t both = h.opt.present;
                assert_int_equal(both, (first != 0 ? 1u << first : 0) | 1u << second);
                assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &back), BT_M_OK);
                same(&h.opt, &all, both);
                same(&back.opt, &all, both);
                assert_true(!(both & BT_HAS_TAG) || h.opt.tag_offset == back.opt.tag_offset);
                assert_true(back.hdr_size == h.hdr_size && h.payload == back.payload && back.payload_len == 2);
                assert_memory_equal(h.payload, "hi", 2);
            } else {
                assert_false(bt_r2p2_add_options(pkt, &h, &add));
            }
            bt_pool_put(&fixed.pool, pkt);
        }
    }
    free(slab);
}

// A router marks a request degraded in the bytes that it forwards: one byte, wherever the option is.
static void r58_class_flags_are_changed_in_place(void **state)
{
    (void)state;
    for (uint32_t present = 0; present < 2u << KINDS; present += 2) {
        uint8_t p[84] = {BT_OPTION_PAD, BT_OPTION_PAD}, want[84];
        size_t n = 2 + bytes_of(present, p + 2);
        memcpy(want, p, sizeof p);
        struct bt_options o;
        for (size_t at = 0; at + 3 < n && present & BT_HAS_CLASS; at++) {
            if (memcmp(p + at, wire[BT_OPTION_CLASS].bytes, 4) == 0) {
                want[at + 3] = 0x0d;
            }
        }
        bt_options_set_class_flags(p, n, 0x0d);
        assert_memory_equal(p, want, sizeof p);
        assert_int_equal(bt_options_decode(p, n, 8, &o), BT_M_OK);
        assert_true(!(present & BT_HAS_CLASS) || o.class_flags == 0x0d);
    }
}

// Routers and workers of every release must name a router alike: FNV-1a of its address and port.
static void r55_a_router_s_id_is_a_hash_of_its_address(void **state)
{
    (void)state;
    struct bt_addr a = bt_addr_v4u(0x0a000003, 8000);
    assert_int_equal(bt_router_id(&a), 0x53a3fdf);
    a.port++;
    assert_int_not_equal(bt_router_id(&a), 0x53a3fdf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r55_every_set_of_options_is_written_and_read_back),
        cmocka_unit_test(r55_a_client_of_ipv6_takes_twenty_bytes),
        cmocka_unit_test(r55_an_option_has_its_one_length),
        cmocka_unit_test(r56_any_option_is_added_behind_any_other),
        cmocka_unit_test(r58_class_flags_are_changed_in_place),
        cmocka_unit_test(r55_a_router_s_id_is_a_hash_of_its_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
