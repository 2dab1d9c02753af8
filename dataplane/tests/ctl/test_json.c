// SPDX-License-Identifier: Apache-2.0
// The JSON reader: what RFC 8259 allows is read, what it forbids is refused, nothing is read past
// the end.
#include "unit.h"

#include "ctl/json.h"
#include "ctl/json_out.h"

#include <stdlib.h>
#include <string.h>

// Whether `text`, copied into memory that ends with its last byte, is one valid JSON value.
static bool valid(const char *text, size_t len)
{
    char *copy = malloc(len != 0 ? len : 1);
    struct bt_json j;
    memcpy(copy, text, len);
    bt_json_init(&j, copy, len);
    bool ok = bt_json_skip(&j, NULL, NULL) && bt_json_end(&j);
    free(copy);
    return ok;
}

static void valid_texts_are_read(void **state)
{
    static const char *const texts[] = {"{}",
                                        "[]",
                                        " [ ] ",
                                        "0",
                                        "-0",
                                        "12",
                                        "-1.5e+10",
                                        "1E9",
                                        "\"\"",
                                        "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                        "\"\\u00e9\\ud83d\\ude00\"",
                                        "\"\xc3\xa9\xf0\x9f\x98\x80\"",
                                        "true",
                                        "false",
                                        "null",
                                        "[1,[2,[3]],{\"a\":{}}]",
                                        "{\"a\":[],\"b\":{\"c\":null}}",
                                        "\t\r\n[1 , 2]\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!valid(texts[i], strlen(texts[i]))) {
            fail_msg("refused: %s", texts[i]);
        }
    }
}

static void invalid_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "[",
                                        "\"",
                                        "{]",
                                        "[}",
                                        "[1,]",
                                        "{\"a\":1,}",
                                        "[,1]",
                                        "{,}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{a:1}",
                                        "{1:1}",
                                        "[1 2]",
                                        "01",
                                        "-",
                                        "1.",
                                        ".5",
                                        "+1",
                                        "1e",
                                        "1e+",
                                        "0x10",
                                        "tru",
                                        "truee",
                                        "nul",
                                        "NaN",
                                        "Infinity",
                                        "'a'",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\ud800\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\udc00\"",
                                        "\"\n\"",
                                        "\"\x80\"",
                                        "\"\xc0\xaf\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xf4\x90\x80\x80\"",
                                        "\"\xe2\x82\"",
                                        "[] []",
                                        "{} x",
                                        "// c\n1",
                                        "[1]]"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (valid(texts[i], strlen(texts[i]))) {
            fail_msg("accepted: %s", texts[i]);
        }
    }
    assert_false(valid("\"a\0b\"", 5)); // a zero byte is a control character
}

static void every_prefix_of_a_text_is_refused(void **state)
{
    static const char text[] = "{\"a\":[1.5e3,\"\\u00e9\\n\",true,null,{\"b\":[]}],\"c\":\"\xf0\x9f\x98\x80\"}";
    (void)state;
    assert_true(valid(text, sizeof text - 1));
    for (size_t n = 0; n < sizeof text - 1; n++) {
        if (valid(text, n)) {
            fail_msg("accepted the first %zu bytes", n);
        }
    }
}

static void nesting_is_bounded(void **state)
{
    char text[2 * (BT_JSON_DEPTH + 1)];
    (void)state;
    for (unsigned depth = BT_JSON_DEPTH; depth <= BT_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(valid(text, 2 * (size_t)depth), depth == BT_JSON_DEPTH);
    }
}

static void strings_are_cut_between_characters(void **state)
{
    struct bt_json j;
    char buf[4];
    size_t len;
    (void)state;
    bt_json_init(&j, "\"ab\xc3\xa9z\"", 7);
    assert_true(bt_json_string(&j, buf, sizeof buf, &len));
    assert_int_equal(len, 5);
    assert_string_equal(buf, "ab");
}

static void skip_tells_where_a_value_lies(void **state)
{
    static const char text[] = "{\"hash\":\"x\", \"config\" : {\"a\":[1, 2] } ,\"v\":1}";
    struct bt_json j;
    char key[16];
    const char *from = NULL;
    size_t len = 0;
    (void)state;
    bt_json_init(&j, text, sizeof text - 1);
    assert_true(bt_json_enter(&j));
    assert_int_equal(bt_json_key(&j, key, sizeof key), 1);
    assert_true(bt_json_skip(&j, NULL, NULL));
    assert_int_equal(bt_json_key(&j, key, sizeof key), 1);
    assert_string_equal(key, "config");
    assert_true(bt_json_skip(&j, &from, &len));
    assert_int_equal(len, strlen("{\"a\":[1, 2] }"));
    assert_memory_equal(from, "{\"a\":[1, 2] }", len);
    assert_int_equal(bt_json_key(&j, key, sizeof key), 1);
    assert_true(bt_json_skip(&j, NULL, NULL));
    assert_int_equal(bt_json_key(&j, key, sizeof key), 0);
    assert_true(bt_json_end(&j));
}

static void integers_are_exact_or_refused(void **state)
{
    int64_t v;
    (void)state;
    assert_true(bt_json_to_int("9223372036854775807", 19, &v));
    assert_true(v == INT64_MAX);
    assert_false(bt_json_to_int("9223372036854775808", 19, &v));
    assert_true(bt_json_to_int("-9223372036854775807", 20, &v));
    assert_true(v == -INT64_MAX);
    assert_false(bt_json_to_int("1.0", 3, &v));
    assert_false(bt_json_to_int("1e2", 3, &v));
    assert_false(bt_json_to_int("-", 1, &v));
}

static void written_json_is_read_back(void **state)
{
    struct bt_json_out o = {0};
    (void)state;
    bt_json_out_open(&o, NULL, '{');
    bt_json_out_string(&o, "quote\"\\\n", "\x01 tab\t \xc3\xa9");
    bt_json_out_u64(&o, "big", UINT64_MAX);
    bt_json_out_i64(&o, "small", INT64_MIN);
    bt_json_out_double(&o, "real", 1.25);
    bt_json_out_double(&o, "infinite", 1.0 / 0.0);
    bt_json_out_open(&o, "list", '[');
    bt_json_out_bool(&o, NULL, true);
    bt_json_out_open(&o, NULL, '[');
    bt_json_out_close(&o, ']');
    bt_json_out_u64(&o, NULL, 7);
    bt_json_out_close(&o, ']');
    bt_json_out_close(&o, '}');
    assert_string_equal(o.text,
                        "{\"quote\\\"\\\\\\u000a\":\"\\u0001 tab\\u0009 \xc3\xa9\",\"big\":18446744073709551615,"
                        "\"small\":-9223372036854775808,\"real\":1.250,\"infinite\":null,\"list\":[true,[],7]}");
    assert_true(valid(o.text, o.len));
    bt_json_out_free(&o);
}

static void a_refusal_says_why(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"[1,", "the text ends early"},  {"-", "malformed number"},         {"01", "malformed number"},
        {"1.", "malformed number"},      {"1e", "malformed number"},        {"1e+x", "malformed number"},
        {"nul", "unexpected character"}, {"[1;2]", "unexpected character"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bt_json j;
        bt_json_init(&j, cases[i].text, strlen(cases[i].text));
        assert_false(bt_json_skip(&j, NULL, NULL));
        assert_string_equal(j.failed, cases[i].why);
    }
    char deep[BT_JSON_DEPTH + 1];
    memset(deep, '[', sizeof deep);
    struct bt_json j;
    bt_json_init(&j, deep, sizeof deep);
    assert_false(bt_json_skip(&j, NULL, NULL));
    assert_string_equal(j.failed, "nested too deeply");
}

// To the first and the last character of each length in UTF-8.
static void escapes_become_characters(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\"\\u0001\"", "\x01"},
        {"\"\\u007f\"", "\x7f"},
        {"\"\\u0080\"", "\xc2\x80"},
        {"\"\\u07ff\"", "\xdf\xbf"},
        {"\"\\u07FF\"", "\xdf\xbf"},
        {"\"\\u0800\"", "\xe0\xa0\x80"},
        {"\"\\ud7ff\"", "\xed\x9f\xbf"},
        {"\"\\ue000\"", "\xee\x80\x80"},
        {"\"\\uffff\"", "\xef\xbf\xbf"},
        {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
        {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf"},
        {"\"\\u9aF0\"", "\xe9\xab\xb0"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bt_json j;
        char buf[16];
        size_t len;
        bt_json_init(&j, cases[i].text, strlen(cases[i].text));
        if (!bt_json_string(&j, buf, sizeof buf, &len) || strcmp(buf, cases[i].want) != 0) {
            fail_msg("%s is not read right", cases[i].text);
        }
        assert_int_equal(len, strlen(cases[i].want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_are_read),
        cmocka_unit_test(invalid_texts_are_refused),
        cmocka_unit_test(every_prefix_of_a_text_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(strings_are_cut_between_characters),
        cmocka_unit_test(skip_tells_where_a_value_lies),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(written_json_is_read_back),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(escapes_become_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
