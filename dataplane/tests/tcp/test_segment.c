// SPDX-License-Identifier: Apache-2.0
// Segments taken apart and changed: C-2 to C-5, C-7, C-8, C-20 to C-23.
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"
#include "base/rng.h"

static const struct bt_crab_encoding kind42 = {.kind = BT_CRAB_KIND},
                                     experimental = {.kind = 253, .experiment = 0xc4ab};

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
    for (uint32_t pads = 0; pads <= 30; pads++) {
        uint8_t o[40];
        memset(o, 1, sizeof o);
        memcpy(o + pads, (const uint8_t[]){42, 6, 10, 9, 9, 9}, 6);
        struct bt_crab_segment s = with_options(o, pads + 6);
        assert_int_equal(s.option, 20 + pads + 2);
        assert_int_equal(s.address, 0x0a090909);
        assert_false(s.malformed);
    }
}

static void c3_other_lengths_are_passed_over_and_the_first_valid_one_counts(void **state)
{
    (void)state;
    const uint8_t o[] = {42, 4, 1, 2, 42, 6, 10, 0, 0, 1, 42, 6, 10, 0, 0, 2, 42, 8, 0, 0, 0, 0, 0, 0};
    struct bt_crab_segment s = with_options(o, sizeof o);
    assert_int_equal(s.address, 0x0a000001);
    assert_int_equal(s.duplicates, 1);
    assert_int_equal(with_options(o, 4).option, 0);
}

static void c4_garbage_ends_the_options_and_what_stood_before_it_holds(void **state)
{
    (void)state;
    const uint8_t zero[] = {9, 0, 42, 6, 10, 0, 0, 1}, one[] = {9, 1, 42, 6}, beyond[] = {42, 6, 0, 0, 0, 0, 8, 200};
    assert_true(with_options(zero, sizeof zero).malformed);
    assert_int_equal(with_options(zero, sizeof zero).option, 0);
    assert_true(with_options(one, sizeof one).malformed);
    const uint8_t one_more[] = {8, 9, 0, 0, 0, 0, 0, 0}, one_byte[] = {9, 1, 42, 6, 10, 0, 0, 1};
    assert_true(with_options(one_more, sizeof one_more).malformed);
    assert_true(with_options(one_byte, sizeof one_byte).malformed);
    assert_int_equal(with_options(one_byte, sizeof one_byte).option, 0);
    assert_true(with_options(beyond, sizeof beyond).malformed);
    assert_int_equal(with_options(beyond, sizeof beyond).option, 22);
    const uint8_t cut[] = {1, 1, 1, 42}, end[] = {0, 42, 6, 1, 1, 1, 1, 1};
    assert_true(with_options(cut, sizeof cut).malformed);
    assert_int_equal(with_options(end, sizeof end).option, 0);
    assert_false(with_options(end, sizeof end).malformed);
}

static void c5_only_syn_and_syn_ack_are_looked_into(void **state)
{
    (void)state;
    struct syn syn = syn_plain();
    syn.options = (const uint8_t[]){42, 6, 0, 0, 0, 0};
    syn.options_len = 6;
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
    uint8_t o[] = {253, 8, 0xc4, 0xab, 10, 0, 0, 7};
    syn.options = o;
    syn.options_len = sizeof o;
    assert_int_equal(parsed(&syn, &experimental).address, 0x0a000007);
    o[3] = 0;
    assert_int_equal(parsed(&syn, &experimental).option, 0);
    assert_int_equal(parsed(&syn, &kind42).option, 0);
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s;
    uint32_t n = syn_write(&syn, p);
    for (uint32_t len = 0; len < n; len++)
        assert_int_equal(bt_crab_segment_parse(p, len, true, &kind42, &s), BT_CRAB_SEGMENT_TRUNCATED);
    p[32] = 0x60; // four bytes more than there are
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_TRUNCATED);
    p[32] = 0x50;
    for (uint16_t total = 0; total < n; total++) { // the frame is long enough, the packet is not
        bt_put16(p + 2, total);
        assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_TRUNCATED);
    }
    bt_put16(p + 2, (uint16_t)n);
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_OK);
    p[32] = 0x40;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_HEADER);
    p[32] = 0xf0;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_TRUNCATED);
    p[0] = 0x44;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_HEADER);
    p[0] = 0x65;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_HEADER);
    syn_write(&syn, p);
    p[8] ^= 1;
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_IP_SUM);
    syn_write(&syn, p);
    p[6] = 0x20;
    assert_int_equal(bt_crab_segment_parse(p, n, false, &kind42, &s), BT_CRAB_SEGMENT_FRAGMENT);
}

// C-21, C-22, C-23 for every offset of the option, IP options, data in the SYN: sums stay right.
static void c21_c22_checksums_stay_right_whatever_is_changed(void **state)
{
    (void)state;
    struct bt_rng rng;
    bt_rng_seed(&rng, 21);
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t p[SYN_MOST], before[SYN_MOST], o[40], data[101], ip_options[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        for (unsigned i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)bt_rng_next(&rng);
        memset(o, 1, sizeof o);
        struct syn syn = syn_plain();
        syn.src = (uint32_t)bt_rng_next(&rng);
        syn.dst = (uint32_t)bt_rng_next(&rng);
        syn.seq = (uint32_t)bt_rng_next(&rng);
        syn.ttl = (uint8_t)(2 + bt_rng_below(&rng, 254));
        syn.data = data;
        syn.data_len = bt_rng_below(&rng, sizeof data);
        syn.ip_options = ip_options;
        syn.ip_options_len = 4 * bt_rng_below(&rng, 3);
        syn.options = o;
        syn.options_len = bt_rng_below(&rng, 37);
        bool there = syn.options_len >= 6 && bt_rng_below(&rng, 2) == 0;
        if (there)
            memcpy(o + bt_rng_below(&rng, syn.options_len - 5), (const uint8_t[]){42, 6, 0, 0, 0, 0}, 6);
        uint32_t n = syn_write(&syn, p), vip = syn.dst, dip = (uint32_t)bt_rng_next(&rng);
        struct bt_crab_segment s, after;
        assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
        memcpy(before, p, n);
        if (there)
            bt_crab_write_address(p, &s, vip);
        else if (bt_crab_insert_bytes(&s) != 0)
            bt_crab_insert(p, &s, round % 2 == 0 ? &kind42 : &experimental, vip);
        else
            continue;
        bt_crab_redirect(p, &s, dip);
        assert_true(syn_sums_right(p));
        const struct bt_crab_encoding *enc = there || round % 2 == 0 ? &kind42 : &experimental;
        assert_int_equal(bt_crab_segment_parse(p, s.total, true, enc, &after), BT_CRAB_SEGMENT_OK);
        assert_int_equal(after.address, vip);
        assert_int_equal(after.dst, dip);
        assert_int_equal(after.src, syn.src); // C-21: untouched
        assert_int_equal(after.sport, syn.sport);
        assert_int_equal(after.seq, syn.seq);
        assert_int_equal(after.ttl, syn.ttl - 1);
        assert_int_equal(after.total, n + (there ? 0 : 8));
        assert_memory_equal(p + after.total - syn.data_len, before + n - syn.data_len, syn.data_len);
        assert_int_equal(after.malformed, false);
    }
}

static void what_was_changed_is_described(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s, now;
    uint32_t n = syn_write(&syn, p);
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    bt_crab_insert(p, &s, &kind42, 0x0a090909);
    bt_crab_redirect(p, &s, 0x0a010002);
    assert_int_equal(bt_crab_segment_parse(p, n + 8, true, &kind42, &now), BT_CRAB_SEGMENT_OK);
    assert_int_equal(s.address, now.address);
    assert_int_equal(s.option, now.option);
    assert_int_equal(s.dst, now.dst);
    assert_int_equal(s.total, now.total);
    assert_int_equal(s.tcp_head, now.tcp_head);
    assert_int_equal(s.ttl, now.ttl);
}

static void c8_no_option_in_the_longest_packet(void **state)
{
    (void)state;
    struct syn syn = syn_plain();
    struct bt_crab_segment s = parsed(&syn, &kind42);
    s.total = UINT16_MAX - 8;
    assert_int_equal(bt_crab_insert_bytes(&s), 8);
    s.total++;
    assert_int_equal(bt_crab_insert_bytes(&s), 0);
}

static void c8_no_option_where_there_is_no_space(void **state)
{
    (void)state;
    uint8_t o[40];
    memset(o, 1, sizeof o);
    struct bt_crab_segment s = with_options(o, 32);
    assert_int_equal(bt_crab_insert_bytes(&s), 8);
    s = with_options(o, 36);
    assert_int_equal(bt_crab_insert_bytes(&s), 0);
}

static void c23_a_damaged_segment_stays_damaged(void **state)
{
    (void)state;
    uint8_t p[SYN_MOST];
    struct syn syn = syn_plain();
    struct bt_crab_segment s;
    syn.options = syn_linux_options;
    syn.options_len = sizeof syn_linux_options;
    uint32_t n = syn_write(&syn, p);
    p[37] ^= 0x40; // in the TCP checksum's reach
    assert_int_equal(bt_crab_segment_parse(p, n, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    bt_crab_write_address(p, &s, syn.dst);
    bt_crab_redirect(p, &s, 0x0a000102);
    assert_false(syn_sums_right(p));
    p[37] ^= 0x40;
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
        cmocka_unit_test(c21_c22_checksums_stay_right_whatever_is_changed),
        cmocka_unit_test(what_was_changed_is_described),
        cmocka_unit_test(c8_no_option_in_the_longest_packet),
        cmocka_unit_test(c8_no_option_where_there_is_no_space),
        cmocka_unit_test(c23_a_damaged_segment_stays_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
