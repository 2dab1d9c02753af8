// SPDX-License-Identifier: Apache-2.0
// The Internet checksum against published vectors and against the slowest way to compute it.
#include "unit.h"

#include "base/rng.h"
#include "wire/checksum.h"

// Sixteen bits at a time, folding each, in big-endian order.
static uint16_t slow(const uint8_t *p, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static uint16_t fast(const uint8_t *p, size_t n)
{
    uint8_t at[2];
    bt_csum_store(at, bt_csum_bytes(0, p, n));
    return bt_get16(at);
}

static void e17_published_vectors(void **state)
{
    (void)state;
    const uint8_t rfc1071[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}; // §3: the sum is ddf2
    assert_int_equal(fast(rfc1071, sizeof rfc1071), (uint16_t)~0xddf2);
    const uint8_t ip4[] = {0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7};
    assert_int_equal(fast(ip4, sizeof ip4), 0xb861);
}

static void e17_every_length_and_alignment(void **state)
{
    (void)state;
    uint8_t buf[1600];
    struct bt_rng rng;
    bt_rng_seed(&rng, 11);
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof buf; i++) {
            buf[i] = round == 0 ? 0xff : round == 1 ? 0 : (uint8_t)bt_rng_next(&rng);
        }
        for (size_t n = 0; n < 1500; n += n < 80 ? 1 : 37) {
            for (size_t at = 0; at < 9; at++) {
                assert_int_equal(fast(buf + at, n), slow(buf + at, n));
            }
        }
    }
}

static void e17_pieces_add_up(void **state)
{
    (void)state;
    uint8_t buf[256];
    struct bt_rng rng;
    bt_rng_seed(&rng, 12);
    for (int i = 0; i < 2000; i++) {
        for (size_t k = 0; k < sizeof buf; k++) {
            buf[k] = (uint8_t)bt_rng_next(&rng);
        }
        size_t cut = 2 * bt_rng_below(&rng, 100), n = cut + bt_rng_below(&rng, 50);
        uint64_t sum = bt_csum_bytes(0, buf + cut, n - cut); // the odd end may come first: addition commutes
        sum = bt_csum_bytes(sum, buf, cut);
        uint8_t at[2];
        bt_csum_store(at, sum);
        assert_int_equal(bt_get16(at), slow(buf, n));
        if (n >= 2 && n % 2 == 0) { // a sum over its own checksum
            bt_put16(buf, 0);
            bt_put16(buf, slow(buf, n));
            assert_true(bt_csum_ok(bt_csum_bytes(0, buf, n)));
            buf[n - 1] ^= 1;
            assert_false(bt_csum_ok(bt_csum_bytes(0, buf, n)));
        }
    }
}

static void e17_udp_never_writes_the_missing_checksum(void **state)
{
    (void)state;
    const uint8_t ones[2] = {0xff, 0xff};
    uint8_t at[2];
    bt_csum_store_udp(at, bt_csum_bytes(0, ones, 2));
    assert_int_equal(bt_get16(at), 0xffff);
    bt_csum_store_partial(at, bt_csum_field(bt_csum_field(0, 0x1234), 0x1111));
    assert_int_equal(bt_get16(at), 0x2345);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e17_published_vectors),
        cmocka_unit_test(e17_every_length_and_alignment),
        cmocka_unit_test(e17_pieces_add_up),
        cmocka_unit_test(e17_udp_never_writes_the_missing_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
