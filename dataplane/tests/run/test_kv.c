// SPDX-License-Identifier: Apache-2.0
// The built-in service: what it answers, that a read changes nothing, and that a state read back is the same.
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "kv.h"

static uint8_t out[KV_REPLY_MAX];

static const char *ask(struct kv *kv, char op, const char *key, const char *rest, int read_only)
{
    static char text[KV_REPLY_MAX + 1];
    uint8_t p[512];
    size_t k = strlen(key), r = strlen(rest);
    p[0] = (uint8_t)op;
    p[1] = (uint8_t)k;
    memcpy(p + 2, key, k);
    memcpy(p + 2 + k, rest, r);
    size_t n = kv_answer(kv, p, 2 + k + r, read_only, out);
    memcpy(text, out, n);
    text[n] = '\0';
    return text;
}

static void values_are_what_was_put(void **state)
{
    struct kv *kv = kv_new();
    (void)state;
    assert_string_equal(ask(kv, 'G', "a", "", 1), "-");
    assert_string_equal(ask(kv, 'P', "a", "one", 0), "+");
    assert_string_equal(ask(kv, 'A', "a", "two", 0), "+");
    assert_string_equal(ask(kv, 'G', "a", "", 1), "+onetwo");
    assert_string_equal(ask(kv, 'A', "b", "x", 0), "+");
    assert_string_equal(ask(kv, 'D', "a", "", 0), "+");
    assert_string_equal(ask(kv, 'D', "a", "", 0), "-");
    assert_string_equal(ask(kv, 'G', "b", "", 1), "+x");
    assert_string_equal(ask(kv, 'Z', "b", "", 0), "!");
    for (const char *op = "PADC"; *op != '\0'; op++) { // a write that came as a read is refused, and changes nothing
        assert_string_equal(ask(kv, *op, "b", "y", 1), "R");
    }
    assert_string_equal(ask(kv, 'G', "b", "", 1), "+x");
    kv_free(kv);
}

static void compare_and_put_needs_the_value(void **state)
{
    struct kv *kv = kv_new();
    const uint8_t create[] = {'C', 1, 'k', 0, 0, 'v'}, replace[] = {'C', 1, 'k', 0, 1, 'v', 'w'};
    (void)state;
    assert_true(kv_answer(kv, create, sizeof create, 0, out) == 1 && out[0] == '+');
    assert_true(kv_answer(kv, create, sizeof create, 0, out) == 2 && out[0] == '-' && out[1] == 'v');
    assert_true(kv_answer(kv, replace, sizeof replace, 0, out) == 1 && out[0] == '+');
    assert_string_equal(ask(kv, 'G', "k", "", 1), "+w");
    for (size_t n = 0; n < 5; n++) {
        assert_true(kv_answer(kv, create, n, 0, out) == 1 && out[0] == '!');
    }
    kv_free(kv);
}

static void a_state_read_back_is_the_same(void **state)
{
    static uint8_t first[1 << 20], second[1 << 20];
    struct kv *a = kv_new(), *b = kv_new();
    struct bt_rng rng;
    (void)state;
    bt_rng_seed(&rng, 7);
    for (int i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", (unsigned)bt_rng_below(&rng, 300));
        ask(a, "PAD"[bt_rng_below(&rng, 3)], key, "piece", 0);
    }
    size_t n = kv_write(a, first, sizeof first);
    assert_true(n != SIZE_MAX && kv_read(b, first, n) == 0);
    assert_int_equal(kv_write(b, second, sizeof second), n);
    assert_memory_equal(first, second, n);
    for (size_t k = 1; k < n; k += 97) { // cut short it is none, and the state stays
        assert_int_equal(kv_read(b, first, k), -1);
    }
    assert_int_equal(kv_write(b, second, sizeof second), n);
    assert_memory_equal(first, second, n);
    assert_true(kv_write(a, second, 100) == SIZE_MAX);
    assert_int_equal(kv_read(b, NULL, 0), 0);
    assert_int_equal(kv_write(b, second, sizeof second), 8);
    kv_free(a);
    kv_free(b);
}

static void equal_states_have_equal_hashes_however_they_came_about(void **state)
{
    static uint8_t bytes[4096];
    struct kv *a = kv_new(), *b = kv_new();
    (void)state;
    assert_int_equal(kv_hash(a), 0);
    ask(a, 'P', "one", "1", 0);
    ask(a, 'P', "two", "2", 0);
    ask(b, 'P', "two", "x", 0);
    ask(b, 'P', "gone", "", 0);
    ask(b, 'P', "one", "", 0);
    ask(b, 'A', "one", "1", 0);
    assert_int_not_equal(kv_hash(a), kv_hash(b));
    ask(b, 'D', "gone", "", 0);
    ask(b, 'P', "two", "2", 0);
    assert_int_equal(kv_hash(a), kv_hash(b));
    ask(b, 'D', "one", "", 0);
    ask(b, 'P', "on", "e1", 0); // the same bytes
    assert_int_not_equal(kv_hash(a), kv_hash(b));
    assert_int_equal(kv_read(b, bytes, kv_write(a, bytes, sizeof bytes)), 0);
    assert_int_equal(kv_hash(a), kv_hash(b));
    kv_read(b, NULL, 0);
    assert_int_equal(kv_hash(b), 0);
    kv_free(a);
    kv_free(b);
}

static void too_much_is_refused(void **state)
{
    static uint8_t p[2 + 4 + KV_VALUE_MAX] = {'P', 4};
    struct kv *kv = kv_new();
    (void)state;
    uint32_t puts = 0;
    do {
        bt_put32(p + 2, puts++);
        kv_answer(kv, p, sizeof p, 0, out);
    } while (out[0] == '+' && puts < 100000);
    assert_int_equal(out[0], 'F');
    assert_in_range(puts, KV_BYTES_MAX / (KV_VALUE_MAX + 16) - 2, KV_BYTES_MAX / KV_VALUE_MAX + 2);
    kv_free(kv);
}

// 'L' and a key: how many keys there are, and those behind it; `rest`: two bytes that say how many at most.
static size_t list(struct kv *kv, const char *after, const char *rest, size_t rest_n)
{
    uint8_t p[64] = {'L', (uint8_t)strlen(after)};
    memcpy(p + 2, after, p[1]);
    memcpy(p + 2 + p[1], rest, rest_n);
    return kv_answer(kv, p, 2u + p[1] + rest_n, 1, out);
}

static void keys_are_listed_in_their_order(void **state)
{
    struct kv *kv = kv_new();
    (void)state;
    assert_int_equal(list(kv, "", "", 0), 5);
    assert_memory_equal(out, "+\0\0\0\0", 5);
    for (const char *key = "dbeac"; *key != '\0'; key++) {
        ask(kv, 'P', (const char[]){*key, *key, '\0'}, "value", 0);
    }
    static const struct {
        const char *after, *rest;
        size_t rest_n;
        const char *keys;
    } rows[] = {
        {"", "", 0, "\2aa\2bb\2cc\2dd\2ee"},
        {"bb", "", 0, "\2cc\2dd\2ee"},
        {"b", "", 0, "\2bb\2cc\2dd\2ee"},
        {"bbb", "", 0, "\2cc\2dd\2ee"},
        {"ee", "", 0, ""},
        {"z", "", 0, ""},
        {"aa", "\0\2", 2, "\2bb\2cc"},
        {"", "\0\1", 2, "\2aa"},
        {"", "\0\0", 2, ""},
        {"cc", "\1\0", 2, "\2dd\2ee"},
        {"dd", "\0", 1, "\2ee"},
        {"dd", "\0\0\0", 3, "\2ee"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].keys);
        assert_int_equal(list(kv, rows[i].after, rows[i].rest, rows[i].rest_n), 5 + n);
        assert_memory_equal(out, "+\0\0\0\5", 5);
        assert_memory_equal(out + 5, rows[i].keys, n);
    }
    kv_free(kv);
}

// As many keys as one answer holds; without a number 512 of them.
static void a_list_ends_where_the_answer_does(void **state)
{
    enum { KEYS = 600, LONG = 250 };
    (void)state;
    for (size_t length = 5; length <= LONG; length += LONG - 5) {
        struct kv *kv = kv_new();
        for (int i = 0; i < KEYS; i++) {
            char key[LONG + 1];
            memset(key, 'k', length);
            snprintf(key, sizeof key, "%05d", i);
            key[5] = length == 5 ? '\0' : 'k';
            key[length] = '\0';
            assert_string_equal(ask(kv, 'P', key, "", 0), "+");
        }
        size_t n = list(kv, "", "", 0), most = (KV_REPLY_MAX - 1 - KV_KEY_MAX - 5 - 1) / (length + 1) + 1;
        assert_int_equal(n, 5 + (most < 512 ? most : 512) * (length + 1));
        assert_memory_equal(out, "+\0\0\2\x58", 5); // 600 in all
        assert_int_equal(list(kv, "", "\2\x58", 2), 5 + (most < KEYS ? most : KEYS) * (length + 1));
        kv_free(kv);
    }
}

static void a_value_is_so_long_at_most(void **state)
{
    static uint8_t p[3 + KV_VALUE_MAX + 1] = {'P', 1, 'k'};
    struct kv *kv = kv_new();
    (void)state;
    assert_int_equal(kv_answer(kv, p, sizeof p, 0, out), 1);
    assert_int_equal(out[0], 'F');
    assert_string_equal(ask(kv, 'G', "k", "", 1), "-"); // nothing changed
    assert_true(kv_answer(kv, p, sizeof p - 1, 0, out) == 1 && out[0] == '+');
    assert_string_equal(ask(kv, 'A', "k", "x", 0), "F");
    assert_string_equal(ask(kv, 'A', "k", "", 0), "+");
    assert_true(kv_answer(kv, (const uint8_t *)"G\1k", 3, 1, out) == 1 + KV_VALUE_MAX && out[0] == '+');
    kv_free(kv);
}

// Written down by nobody: bytes behind the last item, a key or a value that is too long, an item twice, another count.
static void bytes_that_are_no_state_are_refused(void **state)
{
    static uint8_t p[8 + 2 * (8 + KV_KEY_MAX + 1 + KV_VALUE_MAX + 1)];
    struct kv *kv = kv_new();
    (void)state;
    ask(kv, 'P', "a", "1", 0);
    for (uint32_t key = KV_KEY_MAX; key <= KV_KEY_MAX + 1; key++) {
        for (uint32_t value = KV_VALUE_MAX; value <= KV_VALUE_MAX + 1; value++) {
            bt_put64(p, 1);
            bt_put32(p + 8, key);
            bt_put32(p + 12, value);
            bool right = key == KV_KEY_MAX && value == KV_VALUE_MAX;
            assert_int_equal(kv_read(kv, p, 16u + key + value), right ? 0 : -1);
            assert_int_equal(kv_read(kv, p, 16u + key + value + 1), -1);
            assert_int_equal(kv_read(kv, p, 16u + key + value - 1), -1);
        }
    }
    struct kv *two = kv_new();
    ask(two, 'P', "b", "2", 0);
    ask(two, 'P', "c", "3", 0);
    assert_int_equal(kv_write(two, p, 27), SIZE_MAX);
    assert_int_equal(kv_write(two, p, 28), 28); // to the byte
    assert_int_equal(kv_read(kv, p, 28), 0);
    assert_string_equal(ask(kv, 'G', "c", "", 1), "+3");
    for (uint64_t count = 0; count < 4; count++) {
        bt_put64(p, count);
        assert_int_equal(kv_read(kv, p, 28), count == 2 ? 0 : -1);
    }
    bt_put64(p, 2);
    memcpy(p + 18, p + 8, 10); // the first item once more
    assert_int_equal(kv_read(kv, p, 28), -1);
    assert_string_equal(ask(kv, 'G', "c", "", 1), "+3"); // and the state stays
    assert_string_equal(ask(kv, 'G', "a", "", 1), "-");
    kv_free(two);
    kv_free(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_what_was_put),
        cmocka_unit_test(compare_and_put_needs_the_value),
        cmocka_unit_test(a_state_read_back_is_the_same),
        cmocka_unit_test(equal_states_have_equal_hashes_however_they_came_about),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(keys_are_listed_in_their_order),
        cmocka_unit_test(a_list_ends_where_the_answer_does),
        cmocka_unit_test(a_value_is_so_long_at_most),
        cmocka_unit_test(bytes_that_are_no_state_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
