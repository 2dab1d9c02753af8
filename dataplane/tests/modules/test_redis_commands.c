// SPDX-License-Identifier: Apache-2.0
// which commands of Redis a group executes.
#include <string.h>

#include "unit.h"

#include "commands.h"

static struct bt_redis_verdict judge(const char *a, const char *b, const char *c, const char *d, const char *e)
{
    const char *text[] = {a, b, c, d, e};
    struct bt_resp_word word[5];
    unsigned n = 0;
    while (n < 5 && text[n] != NULL) {
        word[n] = (struct bt_resp_word){(const uint8_t *)text[n], (uint32_t)strlen(text[n])};
        n++;
    }
    return bt_redis_judge(word, n);
}

static void r397_the_table_is_in_order_and_each_refusal_has_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < bt_redis_command_count; i++) {
        const struct bt_redis_command *c = &bt_redis_commands[i];
        assert_true(i == 0 || strcmp(c[-1].name, c->name) < 0);
        assert_int_equal(c->use == BT_REDIS_REFUSED, c->why != BT_REDIS_NOT_REFUSED);
        assert_true(c->use != BT_REDIS_REFUSED || bt_redis_refusal_text(c->why)[0] != '\0');
        struct bt_resp_word w = {(const uint8_t *)c->name, (uint32_t)strlen(c->name)};
        assert_ptr_equal(bt_redis_command_find(w), c);
    }
}

static void r397_names_are_known_in_whatever_letters_and_no_others(void **state)
{
    (void)state;
    assert_int_equal(judge("GeT", "a", NULL, NULL, NULL).use, BT_REDIS_READ);
    assert_int_equal(judge("INCR", "a", NULL, NULL, NULL).use, BT_REDIS_WRITE);
    static const char *const none[] = {"", "ge", "gets", "g\xc3\xa9t", "@et", "zzz", "bobtail.refused"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct bt_redis_verdict v = judge(none[i], NULL, NULL, NULL, NULL);
        assert_true(v.use == BT_REDIS_REFUSED && v.why == BT_REDIS_UNKNOWN);
    }
    struct bt_resp_word zero = {(const uint8_t *)"get\0x", 5};
    assert_int_equal(bt_redis_judge(&zero, 1).why, BT_REDIS_UNKNOWN);
}

static void r397_options_are_judged_where_they_are_options(void **state)
{
    (void)state;
    assert_int_equal(judge("SET", "a", "1", NULL, NULL).use, BT_REDIS_WRITE);
    assert_int_equal(judge("SET", "ex", "px", "NX", "get").use, BT_REDIS_WRITE); // a key and a value
    static const char *const not[] = {"ex", "PX", "ExAt", "pxat", "keepttl"};
    for (size_t i = 0; i < sizeof not/ sizeof *not; i++) {
        struct bt_redis_verdict v = judge("SET", "a", "1", not[i], "10");
        assert_int_equal(v.use, BT_REDIS_REFUSED);
        assert_int_equal(v.why, BT_REDIS_EXPIRY);
        assert_memory_equal(v.option.p, not[i], strlen(not[i]));
        assert_int_equal(judge("SET", "a", "1", "NX", not[i]).why, BT_REDIS_EXPIRY);
    }
    assert_int_equal(judge("COPY", "a", "db", NULL, NULL).use, BT_REDIS_WRITE);
    assert_int_equal(judge("COPY", "a", "b", "DB", "1").why, BT_REDIS_FOREIGN);
}

static void r397_commands_of_other_modules_are_added_by_their_user_alone(void **state)
{
    (void)state;
    assert_int_equal(bt_redis_commands_add("Other.Put", BT_REDIS_WRITE), 0);
    assert_int_equal(judge("OTHER.put", "a", NULL, NULL, NULL).use, BT_REDIS_WRITE);
    assert_int_equal(bt_redis_commands_add("other.put", BT_REDIS_READ), -1);
    assert_int_equal(bt_redis_commands_add("spop", BT_REDIS_WRITE), -1);
    assert_int_equal(bt_redis_commands_add("", BT_REDIS_WRITE), -1);
    assert_int_equal(judge("spop", "a", NULL, NULL, NULL).why, BT_REDIS_RANDOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r397_the_table_is_in_order_and_each_refusal_has_its_reason),
        cmocka_unit_test(r397_names_are_known_in_whatever_letters_and_no_others),
        cmocka_unit_test(r397_options_are_judged_where_they_are_options),
        cmocka_unit_test(r397_commands_of_other_modules_are_added_by_their_user_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
