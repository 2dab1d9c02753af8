// SPDX-License-Identifier: Apache-2.0
// Z-09: the hash of flows against the examples that cards are verified by, and how it spreads flows.
#include "unit.h"

#include "base/rng.h"
#include "base/toeplitz.h"

static struct bt_addr at(const char *text)
{
    struct bt_addr a;
    assert_int_equal(bt_addr_parse(text, 0, &a), 0);
    return a;
}

static void the_published_examples(void **state)
{
    static const struct {
        const char *src, *dst;
        uint32_t hash;
    } row[] = {
        {"66.9.149.187:2794", "161.142.100.80:1766", 0x51ccc178},
        {"199.92.111.2:14230", "65.69.140.83:4739", 0xc626b0ea},
        {"24.19.198.95:12898", "12.22.207.184:38024", 0x5c2b394a},
        {"38.27.205.30:48228", "209.142.163.6:2217", 0xafc7327f},
        {"153.39.163.191:44251", "202.188.127.2:1303", 0x10e828a2},
        {"[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x40207d3d},
        {"[3ffe:501:8::260:97ff:fe40:efab]:14230", "[ff02::1]:4739", 0xdde51bbf},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct bt_addr src = at(row[i].src), dst = at(row[i].dst);
        assert_int_equal(bt_toeplitz(&src, &dst), row[i].hash);
    }
}

static void flows_are_spread(void **state)
{
    struct bt_rng rng;
    struct bt_addr dst = at("10.0.0.1:80");
    (void)state;
    bt_rng_seed(&rng, 1);
    for (uint32_t n = 1; n <= 16; n++) {
        uint32_t got[16] = {0};
        for (uint32_t i = 0; i < 16000; i++) {
            struct bt_addr src = bt_addr_v4u(0x0a000000u + bt_rng_below(&rng, 65536), (uint16_t)(1024 + i));
            got[bt_toeplitz_queue(bt_toeplitz(&src, &dst), n)]++;
        }
        for (uint32_t q = 0; q < n; q++) { // a table of 128 entries gives some of them one more
            assert_in_range(got[q], 16000 / n * 3 / 4, 16000 / n * 5 / 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_published_examples), cmocka_unit_test(flows_are_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
