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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_what_was_put),
        cmocka_unit_test(compare_and_put_needs_the_value),
        cmocka_unit_test(a_state_read_back_is_the_same),
        cmocka_unit_test(equal_states_have_equal_hashes_however_they_came_about),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
