// SPDX-License-Identifier: Apache-2.0
// Addresses: one byte order everywhere, M-23 sources.
#include "unit.h"

#include <string.h>

#include "base/addr.h"

static void r16_text_round_trip(void **state)
{
    (void)state;
    static const char *const same[] = {
        "10.0.0.1:8000",  "255.255.255.255:65535", "0.0.0.0:1", "[::1]:8000",    "[fd00::1:2]:9",
        "[2001:db8::]:1", "[1:2:3:4:5:6:7:8]:80",  "[::]:5",    "[1:0:0:2::3]:7"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct bt_addr a;
        char text[BT_ADDR_TEXT];
        if (bt_addr_parse(same[i], 0, &a)) {
            fail_msg("%s does not parse", same[i]);
        }
        assert_string_equal(bt_addr_format(&a, text), same[i]);
        assert_int_equal(a.pad, 0);
    }
}

static void addr_parse_rejects(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "10.0.0.1",
                                      "10.0.0.1:",
                                      "10.0.0.1:0",
                                      "10.0.0.1:65536",
                                      "10.0.0.256:1",
                                      "10.0.0:1",
                                      "10.0.0.1:8x",
                                      "[::1",
                                      "[::1]",
                                      "::1:8000x",
                                      "[1::2::3]:1",
                                      "[1:2:3:4:5:6:7]:1",
                                      "[1:2:3:4:5:6:7:8:9]:1",
                                      "[12345::]:1",
                                      "host:80",
                                      "010.0.0.1:1",
                                      "10.0.0.1:08",
                                      " 10.0.0.1:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bt_addr a = {.port = 77}, before = a;
        if (!bt_addr_parse(bad[i], 0, &a)) {
            fail_msg("\"%s\" was accepted", bad[i]);
        }
        assert_memory_equal(&a, &before, sizeof a);
    }
}

static void addr_default_port_and_bytes(void **state)
{
    (void)state;
    struct bt_addr a, b = bt_addr_v4u(0x0a000102, 8000);
    assert_int_equal(bt_addr_parse("10.0.1.2", 8000, &a), 0);
    assert_true(bt_addr_eq(&a, &b));
    assert_true(bt_addr_is_v4(&a));
    assert_int_equal(a.ip[12], 10);
    assert_int_equal(a.ip[15], 2);
    assert_int_equal(bt_addr_parse("fd00::7", 53, &a), 0);
    assert_false(bt_addr_is_v4(&a));
    assert_int_equal(bt_addr_parse("::ffff:10.0.1.2", 8000, &a), 0);
    assert_true(bt_addr_eq(&a, &b));
}

static void m23_bad_sources(void **state)
{
    (void)state;
    static const char *const bad[] = {"224.0.0.1:5", "255.255.255.255:5", "0.0.0.0:5", "[ff02::1]:5", "[::]:5"};
    static const char *const fine[] = {"10.0.0.1:5", "127.0.0.1:1", "[fd00::1]:5"};
    struct bt_addr a;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bt_addr_parse(bad[i], 0, &a), 0);
        assert_true(bt_addr_bad_source(&a));
    }
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        assert_int_equal(bt_addr_parse(fine[i], 0, &a), 0);
        assert_false(bt_addr_bad_source(&a));
    }
    a.port = 0;
    assert_true(bt_addr_bad_source(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r16_text_round_trip),
        cmocka_unit_test(addr_parse_rejects),
        cmocka_unit_test(addr_default_port_and_bytes),
        cmocka_unit_test(m23_bad_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
