// SPDX-License-Identifier: Apache-2.0
// Segments taken apart and changed: C-2 to C-5, C-7 to C-9, C-20 to C-23; each with IPv4 and with IPv6.
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"
#include "base/rng.h"

static const struct bt_crab_encoding kind42 = {.kind = BT_CRAB_KIND},
                                     experimental = {.kind = 253, .experiment = 0xc4ab};

#define IP_HEAD (syn_six ? 40u : 20u)
#define OPTION  (syn_six ? 18u : 6u) // bytes of it without padding
#define PADDED  (OPTION + 2u)

static struct bt_crab_segment parsed(const struct syn *syn, const struct bt_crab_encoding *enc)
{
    uint8_t p[SYN_MOST];
    struct bt_crab_segment s;
    assert_int_equal(bt_crab_segment_parse(p, syn_write(syn, p), true, enc, &s), BT_CRAB_SEGMENT_OK);
    return s;
}

static struct bt_crab_segment with_options(const uint8_t *options, uint32_t n)
{
    struct syn syn = syn_plain();
    syn.options = options;
    syn.options_len = n;
    return parsed(&syn, &kind42);
}

static void c2_the_option_is_found_at_any_offset_with_any_padding(void **state)
{
    (void)state;
    for (uint32_t pads = 0; pads + OPTION <= 40; pads++) {
        uint8_t o[40];
        memset(o, 1, sizeof o);
        uint32_t n = syn_option(o + pads, 0x0a090909);
        struct bt_crab_segment s = with_options(o, pads + n);
        assert_int_equal(s.option, 20 + pads + 2);
        assert_int_equal(syn_number(&s.address), 0x0a090909);
        assert_true(s.named);
        assert_false(s.malformed);
    }
}

static void c3_other_lengths_are_passed_over_and_the_first_valid_one_counts(void **state)
{
    (void)state;
    uint8_t o[40] = {42, 4, 1, 2};
    uint32_t n = 4 + syn_option(o + 4, 0x0a000001);
    n += syn_option(o + n, 0x0a000002);
    struct bt_crab_segment s = with_options(o, n);
    assert_int_equal(syn_number(&s.address), 0x0a000001);
    assert_int_equal(s.duplicates, 1);
    assert_int_equal(with_options(o, 4).option, 0);
    for (uint8_t len = 2; len <= 40; len++) { // C-9: the other family's among them
        memset(o, 0, sizeof o);
        o[0] = 42;
        o[1] = len;
        s = with_options(o, sizeof o);
        assert_int_equal(s.option != 0, len == OPTION);
        assert_false(s.malformed || s.named);
    }
}

static void c4_garbage_ends_the_options_and_what_stood_before_it_holds(void **state)
{
    (void)state;
    const uint8_t garbage[][2] = {{9, 0}, {9, 1}, {8, 41}};
    uint8_t o[40];
    for (unsigned i = 0; i < 3; i++) {
        memcpy(o, garbage[i], 2);
        uint32_t n = 2 + syn_option(o + 2, 0x0a000001);
        struct bt_crab_segment s = with_options(o, n);
        assert_true(s.malformed);
        assert_int_equal(s.option, 0);
        n = syn_option(o, 0);
        memcpy(o + n, garbage[i], 2);
        s = with_options(o, n + 2);
        assert_true(s.malformed);
        assert_int_equal(s.option, 22);
    }
    const uint8_t cut[] = {1, 1, 1, 42}, one[] = {9, 1, 42, 6};
    assert_true(with_options(cut, sizeof cut).malformed);
    assert_true(with_options(one, sizeof one).malformed);
    memset(o, 1, sizeof o);
    o[0] = 0; // the end
    syn_option(o + 1, 0x0a000001);
    assert_int_equal(with_options(o, sizeof o).option, 0);
    assert_false(with_options(o, sizeof o).malformed);
}

static void c5_only_syn_and_syn_ack_are_looked_into(void **state)
{
    (void)state;
    struct syn syn = syn_plain();
    syn_mark(&syn);
    for (unsigned flags = 0; flags < 256; flags++) {
        syn.flags = (uint8_t)flags;
        unsigned kind = flags & 0x17; // C-20: ECE and CWR, URG and PSH do not matter
        bool opens = kind == BT_TCP_SYN || kind == (BT_TCP_SYN | BT_TCP_ACK);
        assert_int_equal(parsed(&syn, &kind42).option != 0, opens);
    }
}

static void c7_the_experimental_kind_needs_its_number(void **state)
{
    (void)state;
    struct syn syn = syn_plain();
    uint8_t o[20];
    struct bt_addr seven = syn_ip(0x0a000007);
    bt_crab_write_option(o, &experimental, &seven);
    assert_memory_equal(o, ((const uint8_t[]){253, syn_six ? 20 : 8, 0xc4, 0xab}), 4);
    syn.options = o;
    syn.options_len = PADDED;
    struct bt_crab_segment s = parsed(&syn, &experimental);
    assert_int_equal(syn_number(&s.address), 0x0a000007);
    o[3] = 0;
    assert_int_equal(parsed(&syn, &experimental).option, 0);
    assert_int_equal(parsed(&syn, &kind42).option, 0);
}

static void refused(const uint8_t *p, uint32_t n, enum bt_crab_segment_error why)
{
    struct bt_crab_segment s;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), why);
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST], *length = p + (syn_six ? 4 : 2), *offset = p + IP_HEAD + 12;
    struct syn syn = syn_plain();
    uint32_t n = syn_write(&syn, p), counted = syn_six ? n - 40 : n;
    for (uint32_t len = 0; len < n; len++) {
        refused(p, len, BT_CRAB_SEGMENT_TRUNCATED);
    }
    *offset = 0x60; // four bytes more than there are
    refused(p, n, BT_CRAB_SEGMENT_TRUNCATED);
    *offset = 0x50;
    for (uint16_t total = 0; total < counted; total++) { // the frame is long enough, the packet is not
        bt_put16(length, total);
        refused(p, n, BT_CRAB_SEGMENT_TRUNCATED);
    }
    bt_put16(length, UINT16_MAX);
    refused(p, n, BT_CRAB_SEGMENT_TRUNCATED);
    bt_put16(length, (uint16_t)counted);
    refused(p, n, BT_CRAB_SEGMENT_OK);
    *offset = 0x40;
    refused(p, n, BT_CRAB_SEGMENT_HEADER);
    *offset = 0xf0;
    refused(p, n, BT_CRAB_SEGMENT_TRUNCATED);
    static const uint8_t wrong[] = {0x44, 0x00, 0x55, 0xf5}; // a header of 16 bytes; other versions
    for (unsigned i = 0; i < sizeof wrong; i++) {
        p[0] = wrong[i];
        for (uint32_t len = 0; len < 20; len++) { // too short to say what it is
            refused(p, len, BT_CRAB_SEGMENT_TRUNCATED);
        }
        refused(p, 20, BT_CRAB_SEGMENT_HEADER);
    }
}

static void what_ip4_says_of_itself_is_checked(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s;
    syn.six = false;
    uint32_t n = syn_write(&syn, p);
    p[0] = 0x44;
    refused(p, n, BT_CRAB_SEGMENT_HEADER);
    syn_write(&syn, p);
    p[8] ^= 1;
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_IP_SUM);
    syn_write(&syn, p);
    p[6] = 0x20;
    refused(p, n, BT_CRAB_SEGMENT_FRAGMENT);
}

// C-9: nobody looks behind extension headers; an address of IPv4 in IPv6's clothes would pass for that host (E-4).
static void c9_what_ip6_says_of_itself_is_checked(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    syn.six = true;
    uint32_t n = syn_write(&syn, p);
    const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    for (unsigned header = 0; header < 256; header++) {
        enum bt_crab_segment_error want = BT_CRAB_SEGMENT_HEADER;
        if (header == 43 || header == 51 || header == 60 || header == 135 || header == 139 || header == 140) {
            want = BT_CRAB_SEGMENT_EXTENSION;
        }
        if (header == 0) { // hop by hop, and longer than the packet with these ports
            want = BT_CRAB_SEGMENT_TRUNCATED;
        }
        if (header == 44) {
            want = BT_CRAB_SEGMENT_FRAGMENT;
        }
        p[6] = (uint8_t)header;
        refused(p, n, header == 6 ? BT_CRAB_SEGMENT_OK : want);
    }
    for (unsigned at = 8; at <= 24; at += 16) {
        syn_write(&syn, p);
        memcpy(p + at, mapped, sizeof mapped);
        refused(p, n, BT_CRAB_SEGMENT_HEADER);
    }
}

static struct bt_addr any_address(struct bt_rng *rng)
{
    struct bt_addr a = syn_ip((uint32_t)bt_rng_next(rng));
    for (unsigned i = 1; i < 12 && syn_six; i++) { // the first byte says that it is none of IPv4
        a.ip[i] = (uint8_t)bt_rng_next(rng);
    }
    return a;
}

struct given {
    struct syn syn;
    uint8_t options[40], data[101], ip_options[8];
    bool there; // a placeholder
};

static void draw(struct bt_rng *rng, struct given *g)
{
    struct syn *s = &g->syn;
    for (unsigned i = 0; i < sizeof g->data; i++) {
        g->data[i] = (uint8_t)bt_rng_next(rng);
    }
    memset(g->options, 1, sizeof g->options);
    memset(g->ip_options, 1, sizeof g->ip_options);
    *s = syn_plain();
    s->net = bt_rng_next(rng) | UINT64_C(1) << 63;
    s->src = (uint32_t)bt_rng_next(rng);
    s->dst = (uint32_t)bt_rng_next(rng);
    s->seq = (uint32_t)bt_rng_next(rng);
    s->ttl = (uint8_t)(2 + bt_rng_below(rng, 254));
    s->data = g->data;
    s->data_len = bt_rng_below(rng, sizeof g->data);
    s->ip_options = g->ip_options;
    s->ip_options_len = syn_six ? 0 : 4 * bt_rng_below(rng, 3);
    s->options = g->options;
    s->options_len = bt_rng_below(rng, 41);
    g->there = s->options_len >= OPTION && bt_rng_below(rng, 2) == 0;
    if (g->there) {
        syn_option(g->options + bt_rng_below(rng, s->options_len - OPTION + 1), 0);
    }
}

static void is_redirected(const struct given *g, const uint8_t *p, const struct bt_crab_segment *now,
                          const struct bt_addr *vip, const struct bt_addr *dip)
{
    struct bt_addr src = syn_address(&g->syn, g->syn.src);
    assert_true(syn_sums_right(p));
    assert_true(bt_addr_ip_eq(&now->address, vip));
    assert_true(bt_addr_ip_eq(&now->dst, dip));
    assert_true(bt_addr_ip_eq(&now->src, &src)); // C-21: untouched
    assert_int_equal(now->src.port, g->syn.sport);
    assert_int_equal(now->dst.port, g->syn.dport);
    assert_int_equal(now->seq, g->syn.seq);
    assert_int_equal(now->ttl, g->syn.ttl - 1);
    assert_int_equal(now->malformed, false);
    assert_memory_equal(p + now->total - g->syn.data_len, g->data, g->syn.data_len);
}

// C-9, C-21, C-22, C-23 for every offset of the option, IP options, data in the SYN: sums stay right.
static void c21_c22_checksums_stay_right_whatever_is_changed(void **state)
{
    (void)state;
    struct bt_rng rng;
    unsigned changed = 0;
    bt_rng_seed(&rng, 21);
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t p[SYN_MOST];
        struct given g;
        struct bt_crab_segment s, after;
        draw(&rng, &g);
        uint32_t n = syn_write(&g.syn, p);
        struct bt_addr vip = syn_address(&g.syn, g.syn.dst), dip = any_address(&rng);
        assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
        const struct bt_crab_encoding *enc = g.there || round % 2 == 0 ? &kind42 : &experimental;
        if (g.there) {
            bt_crab_write_address(p, &s, &vip);
        } else if (bt_crab_insert_bytes(&s) != 0) {
            bt_crab_insert(p, &s, enc, &vip);
        } else {
            continue;
        }
        bt_crab_redirect(p, &s, &dip);
        assert_int_equal(bt_crab_segment_parse(p, s.total, true, enc, &after), BT_CRAB_SEGMENT_OK);
        assert_int_equal(after.total, n + (g.there ? 0 : PADDED));
        is_redirected(&g, p, &after, &vip, &dip);
        changed++;
    }
    assert_true(changed > 8000);
}

static void what_was_changed_is_described(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s, now;
    struct bt_addr vip = syn_ip(0x0a090909), dip = syn_ip(0x0a010002);
    uint32_t n = syn_write(&syn, p);
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    bt_crab_insert(p, &s, &kind42, &vip);
    bt_crab_redirect(p, &s, &dip);
    assert_int_equal(bt_crab_segment_parse(p, n + PADDED, true, &kind42, &now), BT_CRAB_SEGMENT_OK);
    assert_true(bt_addr_eq(&s.address, &now.address) && s.named == now.named);
    assert_int_equal(s.option, now.option);
    assert_true(bt_addr_eq(&s.dst, &now.dst));
    assert_int_equal(s.total, now.total);
    assert_int_equal(s.tcp_head, now.tcp_head);
    assert_int_equal(s.ttl, now.ttl);
}

static void c8_no_option_in_the_longest_packet(void **state)
{
    (void)state;
    struct syn syn = syn_plain();
    struct bt_crab_segment s = parsed(&syn, &kind42);
    s.total = UINT16_MAX + (syn_six ? 40u : 0u) - PADDED; // IPv6 does not count its own header
    assert_int_equal(bt_crab_insert_bytes(&s), PADDED);
    s.total++;
    assert_int_equal(bt_crab_insert_bytes(&s), 0);
}

static void c8_no_option_where_there_is_no_space(void **state)
{
    (void)state;
    uint8_t o[40];
    memset(o, 1, sizeof o);
    struct bt_crab_segment s = with_options(o, 40 - PADDED);
    assert_int_equal(bt_crab_insert_bytes(&s), PADDED);
    s = with_options(o, 44 - PADDED);
    assert_int_equal(bt_crab_insert_bytes(&s), 0);
}

static void c23_a_damaged_segment_stays_damaged(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s;
    struct bt_addr vip = syn_ip(syn.dst), dip = syn_ip(0x0a000102);
    syn_mark(&syn);
    uint32_t n = syn_write(&syn, p);
    uint8_t *damaged = p + IP_HEAD + 17; // in the TCP checksum's reach
    *damaged ^= 0x40;
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    bt_crab_write_address(p, &s, &vip);
    bt_crab_redirect(p, &s, &dip);
    assert_false(syn_sums_right(p));
    *damaged ^= 0x40;
    assert_true(syn_sums_right(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c2_the_option_is_found_at_any_offset_with_any_padding),
        cmocka_unit_test(c3_other_lengths_are_passed_over_and_the_first_valid_one_counts),
        cmocka_unit_test(c4_garbage_ends_the_options_and_what_stood_before_it_holds),
        cmocka_unit_test(c5_only_syn_and_syn_ack_are_looked_into),
        cmocka_unit_test(c7_the_experimental_kind_needs_its_number),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(what_ip4_says_of_itself_is_checked),
        cmocka_unit_test(c9_what_ip6_says_of_itself_is_checked),
        cmocka_unit_test(c21_c22_checksums_stay_right_whatever_is_changed),
        cmocka_unit_test(what_was_changed_is_described),
        cmocka_unit_test(c8_no_option_in_the_longest_packet),
        cmocka_unit_test(c8_no_option_where_there_is_no_space),
        cmocka_unit_test(c23_a_damaged_segment_stays_damaged),
    };
    int four = cmocka_run_group_tests_name("IPv4", tests, syn_four_group, NULL);
    return four + cmocka_run_group_tests_name("IPv6", tests, syn_six_group, NULL);
}
