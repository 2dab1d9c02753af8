// SPDX-License-Identifier: Apache-2.0
// What vectors cannot say: growing headers in place, limits, truncation.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/sack.h"

static struct bt_pool_fixed fixed;
static void *slab;

static int setup(void **state)
{
    (void)state;
    slab = aligned_alloc(64, (bt_pool_fixed_bytes(2) + 63) / 64 * 64);
    bt_pool_fixed_init(&fixed, slab, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(slab);
    return 0;
}

static struct bt_pkt *packet_with(const void *payload, uint32_t n, struct bt_r2p2_hdr *h)
{
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    memcpy(bt_pkt_append(pkt, n), payload, n);
    assert_true(bt_r2p2_push_header(pkt, h));
    return pkt;
}

static void r56_router_adds_forwarded_for_and_keeps_unknown_options(void **state)
{
    (void)state;
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    static const uint8_t raw[] = {0xcc, 0x10, 0x00, 0xe0, 0, 9, 0, 1, 0x42, 6, 1, 2, 3, 4, 0, 0, 'h', 'i'};
    memcpy(bt_pkt_append(pkt, sizeof raw), raw, sizeof raw);
    struct bt_r2p2_hdr h, back;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER, &h), BT_M_OK);
    struct bt_options add = {.present = BT_HAS_FORWARDED, .forwarded = bt_addr_v4u(0x0a000001, 77)};
    assert_true(bt_r2p2_add_options(pkt, &h, &add));
    assert_false(bt_r2p2_add_options(pkt, &h, &add)); // each kind at most once
    assert_int_equal(pkt->len, sizeof raw + 8);
    assert_memory_equal(pkt->data + 8, raw + 8, 8);
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &back), BT_M_OK);
    assert_true(bt_addr_eq(&back.opt.forwarded, &add.forwarded));
    assert_int_equal(back.payload_len, 2);
    assert_memory_equal(back.payload, "hi", 2);
    assert_int_equal(h.hdr_size, back.hdr_size);
    assert_true(h.payload == back.payload && h.payload_len == back.payload_len && h.opt.present == back.opt.present);
    bt_pool_put(&fixed.pool, pkt);
}

static void r55_options_never_grow_beyond_64_bytes_or_headroom(void **state)
{
    (void)state;
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_TAG | BT_HAS_CLASS | BT_HAS_TRACE;
    h.opt.forwarded = (struct bt_addr){.ip = {0xfd}, .port = 1};
    struct bt_pkt *pkt = packet_with("x", 1, &h);
    assert_int_equal(h.hdr_size, 56);
    struct bt_options add = {.present = BT_HAS_ROUTER, .router_id = 5};
    pkt->room_before = 7;
    assert_false(bt_r2p2_add_options(pkt, &h, &add));
    assert_int_equal(pkt->len, 57);
    pkt->room_before = 8;
    assert_true(bt_r2p2_add_options(pkt, &h, &add));
    assert_int_equal(h.hdr_size, 64);
    struct bt_r2p2_hdr back;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &back), BT_M_OK);
    assert_int_equal(back.opt.present, h.opt.present);
    assert_int_equal(back.opt.router_id, 5);
    bt_pool_put(&fixed.pool, pkt);
}

static void r13_datagram_sizes(void **state)
{
    (void)state;
    assert_int_equal(bt_r2p2_datagram_max(1500, true) - BT_R2P2_HEADER, 1464);
    assert_int_equal(bt_r2p2_datagram_max(1500, false) - BT_R2P2_HEADER, 1444);
}

// Every mutation of a valid packet either decodes or names its case; nothing is
// read outside the buffer (the sanitizer builds check that).
static void r45_no_input_is_trusted(void **state)
{
    (void)state;
    struct bt_rng rng;
    bt_rng_seed(&rng, 2024);
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_TAG | BT_HAS_CLASS | BT_HAS_TRACE | BT_HAS_ROUTER;
    h.opt.forwarded = bt_addr_v4u(1, 2);
    uint8_t good[80];
    size_t n = bt_r2p2_encode(good, sizeof good, &h);
    for (int i = 0; i < 200000; i++) {
        size_t len = bt_rng_below(&rng, (uint32_t)n + 1);
        uint8_t *p = malloc(len ? len : 1); // exact size: overreads trip ASan
        memcpy(p, good, len);
        for (unsigned k = bt_rng_below(&rng, 4); k-- && len;) {
            p[bt_rng_below(&rng, (uint32_t)len)] = (uint8_t)bt_rng_next(&rng);
        }
        struct bt_r2p2_hdr out;
        enum bt_mcase m = bt_r2p2_decode(p, len, (enum bt_role)bt_rng_below(&rng, 6), &out);
        assert_true(m < BT_M_COUNT);
        if (!m) {
            assert_true(out.payload + out.payload_len == p + len);
        }
        free(p);
    }
}

/* The short way takes only what the full one accepts, and reads the same; in packets cut short nothing. */
static bool read_alike(const uint8_t *p, size_t n, const struct bt_r2p2_hdr *h, enum bt_mcase m)
{
    struct bt_r2p2_hdr s;
    bool reply = p[2] >> 4 == BT_REPLY;
    if (!(reply ? bt_r2p2_read_usual(p, n, BT_REPLY, &s) : bt_r2p2_read_usual(p, n, BT_REQUEST, &s))) {
        return false;
    }
    assert_int_equal(m, BT_M_OK);
    assert_true(s.type == h->type && s.policy == h->policy && s.first == h->first && s.last == h->last);
    assert_true(s.ext == h->ext && s.legacy == h->legacy && s.req_id == h->req_id);
    assert_true(s.count_or_index == h->count_or_index && s.hdr_size == h->hdr_size);
    assert_true(s.payload == h->payload && s.payload_len == h->payload_len && s.opt.present == h->opt.present);
    assert_true(s.opt.present == 0 || bt_addr_eq(&s.opt.forwarded, &h->opt.forwarded));
    for (size_t less = 0; less < h->hdr_size; less++) {
        uint8_t cut[BT_R2P2_HEADER_MAX]; /* valgrind and the sanitizers see a read beyond `less` */
        memcpy(cut, p, less);
        assert_false(reply ? bt_r2p2_read_usual(cut, less, BT_REPLY, &s)
                           : bt_r2p2_read_usual(cut, less, BT_REQUEST, &s));
    }
    return true;
}

/* what is usual is read in a shorter way, with the same result. Every byte of the header is tried with every
 * value; what the options say is compared with bt_options_decode. */
static void r55_the_usual_header_is_read_as_any_other(void **state)
{
    (void)state;
    const uint8_t usual[2][24] = {{0xcc, 8, 0x10, 0xc0, 0x12, 0x34, 0, 1, 'h', 'i'},
                                  {0xcc, 16, 0x00, 0xe0, 0x12, 0x34, 0, 1, 1, 8, 0x80, 0xe8, 10, 1, 2, 3, 'h', 'i'}};
    uint32_t good = 0, shortly = 0;
    for (int form = 0; form < 2; form++) {
        const size_t head = usual[form][1], n = head + 2;
        for (size_t at = 1; at < head; at++) {
            for (unsigned value = 0; value < 256; value++) {
                uint8_t p[24];
                memcpy(p, usual[form], sizeof p);
                p[at] = (uint8_t)value;
                struct bt_r2p2_hdr h;
                struct bt_options want = {0};
                enum bt_mcase m = bt_r2p2_decode(p, n, BT_ROLE_ANY, &h);
                shortly += read_alike(p, n, &h, m);
                bool fits = p[1] >= 8 && p[1] <= n && p[1] % 4 == 0;
                enum bt_mcase options = fits ? bt_options_decode(p + 8, p[1] - 8u, 8, &want) : BT_M_OK;
                if (m != BT_M_OK || !fits) {
                    assert_true(m != BT_M_OK && (m == options || options == BT_M_OK));
                    continue;
                }
                good++;
                assert_int_equal(options, BT_M_OK);
                assert_true(h.opt.present == want.present && h.hdr_size == p[1] && h.payload == p + p[1]);
                assert_true(h.payload_len == n - p[1] && h.type == p[2] >> 4 && h.policy == (p[2] & 15) && !h.legacy);
                assert_true(h.first == p[3] >> 7 && h.last == (p[3] >> 6 & 1) && h.ext == (p[3] >> 5 & 1));
                assert_true(h.req_id == (p[4] << 8 | p[5]) && h.count_or_index == (p[6] << 8 | p[7]));
                assert_true(want.present == 0 || bt_addr_eq(&h.opt.forwarded, &want.forwarded));
            }
        }
    }
    assert_true(good > 2 * 256 + 6 * 256); /* request ids; port and address */
    assert_true(shortly > 2 * 256 + 6 * 256 && shortly < good);
    const uint8_t *reply = usual[0];
    struct bt_r2p2_hdr h;
    assert_int_equal(bt_r2p2_decode(reply, 10, BT_ROLE_CLIENT, &h), BT_M_OK);
    assert_int_equal(bt_r2p2_decode(reply, 10, BT_ROLE_SERVER, &h), BT_M5);
    assert_int_equal(bt_r2p2_decode(reply, 7, BT_ROLE_CLIENT, &h), BT_M1);
    assert_int_equal(bt_r2p2_decode(usual[1], 15, BT_ROLE_SERVER, &h), BT_M3);
}

/* M-5, M-26: who takes packets of which type. */
static void m5_each_role_takes_its_own_types(void **state)
{
    (void)state;
    static const uint16_t takes[] = {
        [BT_ROLE_CLIENT] = 1u << BT_REPLY | 1u << BT_REQRDY | 1u << BT_DROP | 1u << BT_SACK,
        [BT_ROLE_SERVER] = 1u << BT_REQUEST | 1u << BT_SACK | 1u << BT_CANCEL,
        [BT_ROLE_ROUTER] = 1u << BT_REQUEST | 1u << BT_FEEDBACK,
        [BT_ROLE_ROUTER_REQUESTS] = 1u << BT_REQUEST,
        [BT_ROLE_ROUTER_FEEDBACK] = 1u << BT_FEEDBACK,
        [BT_ROLE_MEMBER] = 1u << BT_RAFT_REQUEST,
        [BT_ROLE_ANY] = (1u << (BT_CANCEL + 1)) - 1,
    };
    for (unsigned role = 0; role <= BT_ROLE_ANY; role++) {
        for (unsigned type = 0; type < 16; type++) {
            const uint8_t p[10] = {0xcc, 8, (uint8_t)(type << 4), 0xe0, 0, 9, 0, 1, 'h', 'i'};
            bool raft = type >= BT_RAFT_REQUEST && type <= BT_RAFT_MESSAGE;
            struct bt_r2p2_hdr h;
            enum bt_mcase want = takes[role] >> type & 1 ? BT_M_OK : raft ? BT_M26 : BT_M5;
            assert_int_equal(bt_r2p2_decode(p, sizeof p, (enum bt_role)role, &h), want);
            assert_int_equal(h.payload_len, want == BT_M_OK ? 2 : 0); // of what is refused nothing is named
        }
    }
}

/* M-7 to M-9: which flags go with which count. Those of one packet always are whole; messages may be in parts. */
static void m7_m8_m9_flags_agree_with_the_count(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= BT_CANCEL; type++) {
        bool parts = type == BT_REQUEST || type == BT_REPLY || (type >= BT_RAFT_REQUEST && type <= BT_RAFT_MESSAGE);
        for (unsigned flags = 0; flags < 4; flags++) {
            for (uint8_t count = 0; count < 3; count++) {
                bool first = flags & 2, last = flags & 1;
                const uint8_t p[10] = {0xcc, 8, (uint8_t)(type << 4), (uint8_t)(flags << 6 | 0x20), 0, 9, 0, count};
                struct bt_r2p2_hdr h;
                enum bt_mcase want = BT_M_OK;
                if (!parts && !(first && last)) {
                    want = BT_M7;
                } else if (!first) {
                    want = count == 0 ? BT_M9 : BT_M_OK;
                } else if (count == 0) {
                    want = BT_M7;
                } else if (last != (count == 1)) {
                    want = BT_M8;
                }
                assert_int_equal(bt_r2p2_decode(p, sizeof p, BT_ROLE_ANY, &h), want);
            }
        }
    }
}

static void mcase_names_are_distinct(void **state)
{
    (void)state;
    for (int a = 0; a < BT_M_COUNT; a++) {
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(bt_mcase_name((enum bt_mcase)a), bt_mcase_name((enum bt_mcase)b));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r56_router_adds_forwarded_for_and_keeps_unknown_options),
        cmocka_unit_test(r55_options_never_grow_beyond_64_bytes_or_headroom),
        cmocka_unit_test(r13_datagram_sizes),
        cmocka_unit_test(r45_no_input_is_trusted),
        cmocka_unit_test(r55_the_usual_header_is_read_as_any_other),
        cmocka_unit_test(m5_each_role_takes_its_own_types),
        cmocka_unit_test(m7_m8_m9_flags_agree_with_the_count),
        cmocka_unit_test(mcase_names_are_distinct),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
