// SPDX-License-Identifier: Apache-2.0
// commands of Redis in a message, and where one is none.
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "wire/resp.h"

static struct bt_resp out;

static bool reads(const char *text)
{
    return bt_resp_read((const uint8_t *)text, (uint32_t)strlen(text), &out);
}

static void r396_words_and_commands_are_found(void **state)
{
    (void)state;
    assert_true(reads("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$0\r\n\r\n"));
    assert_int_equal(out.commands, 2);
    assert_null(out.why);
    assert_int_equal(out.words, 3);
    assert_int_equal(out.command[0].count, 2);
    assert_int_equal(out.command[1].first, 2);
    assert_memory_equal(out.word[0].p, "GET", 3);
    assert_int_equal(out.word[2].n, 0);
    assert_false(reads("x"));
    assert_true(reads("*1\r\n$7\r\na\r\n$1\r\n\r\n")); // a word may hold anything
    assert_int_equal(out.words, 1);
    assert_null(out.why);
}

static void r396_what_is_none_is_named_by_its_byte(void **state)
{
    static const struct {
        const char *text, *why;
        uint32_t at;
    } rows[] = {
        {"", "'*'", 0},
        {"PING\r\n", "'*'", 0},
        {"*0\r\n", "at least one word", 4},
        {"*-1\r\n", "a number", 1},
        {"*01\r\n$1\r\na\r\n", "a number", 3},
        {"*+1\r\n", "a number", 1},
        {"*1\n$1\r\na\r\n", "the end of a line", 2},
        {"*1\r\n:1\r\n", "'$'", 4},
        {"*1\r\n$-1\r\n", "a number", 5},
        {"*1\r\n$4\r\nabc", "as many bytes", 8},
        {"*1\r\n$3\r\nabcd\r\n", "the end of a line", 11},
        {"*1\r\n$3\r\nabc", "the end of a line", 11},
        {"*2\r\n$1\r\na\r\n", "'$'", 11},
        {"*1\r\n$1\r\na\r\nx", "'*'", 11},
        {"*12345678\r\n", "the end of a line", 8},
        {"*1025\r\n", "at most 64 commands", 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(reads(rows[i].text));
        if (out.at != rows[i].at || strstr(out.why, rows[i].why) == NULL) {
            fail_msg("row %zu: byte %u, %s", i, out.at, out.why);
        }
    }
}

static void r396_as_many_commands_as_it_says_and_no_more(void **state)
{
    static char text[16 * BT_RESP_WORDS];
    uint32_t n = 0;
    (void)state;
    for (uint32_t i = 0; i < BT_RESP_COMMANDS; i++) {
        n += (uint32_t)snprintf(text + n, sizeof text - n, "*1\r\n$1\r\na\r\n");
    }
    assert_true(bt_resp_read((const uint8_t *)text, n, &out));
    n += (uint32_t)snprintf(text + n, sizeof text - n, "*1\r\n$1\r\na\r\n");
    assert_false(bt_resp_read((const uint8_t *)text, n, &out));
    n = (uint32_t)snprintf(text, sizeof text, "*%u\r\n", BT_RESP_WORDS);
    for (uint32_t i = 0; i < BT_RESP_WORDS; i++) {
        n += (uint32_t)snprintf(text + n, sizeof text - n, "$1\r\na\r\n");
    }
    assert_true(bt_resp_read((const uint8_t *)text, n, &out));
    assert_int_equal(out.words, BT_RESP_WORDS);
    n += (uint32_t)snprintf(text + n, sizeof text - n, "*1\r\n$1\r\na\r\n");
    assert_false(bt_resp_read((const uint8_t *)text, n, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r396_words_and_commands_are_found),
        cmocka_unit_test(r396_what_is_none_is_named_by_its_byte),
        cmocka_unit_test(r396_as_many_commands_as_it_says_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
