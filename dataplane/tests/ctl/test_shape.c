// SPDX-License-Identifier: Apache-2.0
// The reader of JSON documents: every kind of value arrives, and every fault is said by its field and in the same
// words.
#include "unit.h"

#include "ctl/shape.h"

#include <stdlib.h>
#include <string.h>

struct leaf {
    uint8_t small;
    char name[8];
};

struct tree {
    char name[8];
    uint16_t port;
    int64_t any;
    double share;
    bool on, given;
    uint32_t kind;
    int parsed;
    uint32_t n_leaves;
    struct leaf *leaves;
    uint64_t n_numbers;
    uint32_t numbers[3];
    struct leaf inner;
};

#define AT(m) BT_SHAPE_AT(struct tree, m)

static const char *parse(const char *text, void *to)
{
    *(int *)to = text[0];
    return text[0] == 'x' ? NULL : "must begin with x";
}

static void at_most_two(struct bt_shape_reader *r, void *base)
{
    const struct tree *t = base;
    if (t->n_leaves > 2) {
        bt_shape_refuse(r, "[2].name", "is one leaf too many");
    }
}

static const char *const kinds[] = {"Oak", "Elm", NULL};
static const struct bt_shape_field leaf_fields[] = {
    {"small", BT_SHAPE_WHOLE, true, BT_SHAPE_AT(struct leaf, small), .min = 1, .max = 255},
    {"name", BT_SHAPE_TEXT, false, BT_SHAPE_AT(struct leaf, name)},
};
static const struct bt_shape leaf_shape = {leaf_fields, 2, sizeof(struct leaf), false};
static const struct bt_shape_field leaf = {"", BT_SHAPE_OBJECT, .shape = &leaf_shape};
static const struct bt_shape_field number = {"", BT_SHAPE_WHOLE, .to = {0, 4}, .max = 9};
static const struct bt_shape_field tree_fields[] = {
    {"name", BT_SHAPE_TEXT, true, AT(name), .min = 1},
    {"port", BT_SHAPE_WHOLE, false, AT(port), .min = 1, .max = 65535},
    {"any", BT_SHAPE_WHOLE, false, AT(any)},
    {"share", BT_SHAPE_NUMBER, false, AT(share), .max = 1},
    {"on", BT_SHAPE_TRUTH, false, AT(on), .given = AT(given)},
    {"kind", BT_SHAPE_WORD, false, AT(kind), .words = kinds, .first_word = 5},
    {"parsed", BT_SHAPE_PARSED, false, AT(parsed), .parse = parse},
    {"leaves", BT_SHAPE_LIST, false, AT(leaves), AT(n_leaves), .max = 9, .item = &leaf, .check = at_most_two},
    {"numbers", BT_SHAPE_ARRAY, false, AT(numbers), AT(n_numbers), .min = 1, .max = 3, .item = &number},
    {"inner", BT_SHAPE_OBJECT, false, AT(inner), .shape = &leaf_shape},
    {"note", BT_SHAPE_SKIPPED},
};
static const struct bt_shape tree_shape = {tree_fields, sizeof tree_fields / sizeof *tree_fields, 0, false};

static bool read(const char *text, struct tree *t, struct bt_ctl_error *e)
{
    *t = (struct tree){.port = 7};
    *e = (struct bt_ctl_error){.code = ""};
    return bt_shape_read(&tree_shape, t, text, strlen(text), BT_CTL_INVALID_REQUEST, e);
}

static void every_kind_of_value_arrives(void **state)
{
    struct tree t;
    struct bt_ctl_error e;
    (void)state;
    bool ok = read("{\"name\":\"oak\",\"any\":-9223372036854775807,\"share\":0.25,\"on\":true,\"kind\":\"Elm\","
                   "\"parsed\":\"xyz\",\"leaves\":[{\"small\":255,\"name\":\"a\"},{\"small\":1}],\"numbers\":[9,0],"
                   "\"inner\":{\"small\":2},\"note\":{\"a\":[1]}}",
                   &t, &e);
    if (!ok) {
        fail_msg("%s: %s", e.field, e.message);
    }
    assert_string_equal(t.name, "oak");
    assert_int_equal(t.port, 7); // the default stays
    assert_true(t.any == -INT64_MAX && t.share == 0.25 && t.on && t.given);
    assert_int_equal(t.kind, 6);
    assert_int_equal(t.parsed, 'x');
    assert_int_equal(t.n_leaves, 2);
    assert_int_equal(t.leaves[0].small, 255);
    assert_string_equal(t.leaves[1].name, "");
    assert_int_equal(t.n_numbers, 2);
    assert_int_equal(t.numbers[0], 9);
    assert_int_equal(t.inner.small, 2);
    free(t.leaves);
    assert_true(read("{\"name\":\"oak\"}", &t, &e));
    assert_false(t.given);
}

static void every_fault_is_said_by_its_field(void **state)
{
    static const struct {
        const char *text, *field, *says;
    } cases[] = {
        {"{}", "name", "is required"},
        {"[]", "", "must be an object; got a list"},
        {"{\"name\":\"a\"} x", "", "must end after its closing brace"},
        {"{\"name\":", "", "is not valid JSON"},
        {"{\"name\":\"\"}", "name", "must not be empty"},
        {"{\"name\":\"12345678\"}", "name", "must have at most 7 bytes; got 8"},
        {"{\"name\":\"a\\u0000b\"}", "name", "must not contain a zero byte"},
        {"{\"name\":3}", "name", "must be a string; got a number"},
        {"{\"name\":\"a\",\"name\":\"b\"}", "name", "occurs twice; keep one"},
        {"{\"nama\":\"a\"}", "nama", "unknown field; remove it"},
        {"{\"name\":\"a\",\"port\":0}", "port", "must be 1..65535; got 0"},
        {"{\"name\":\"a\",\"port\":1.5}", "port", "must be an integer; got 1.5"},
        {"{\"name\":\"a\",\"share\":1.5}", "share", "must be 0..1; got 1.5"},
        {"{\"name\":\"a\",\"share\":\"1\"}", "share", "must be a number; got a string"},
        {"{\"name\":\"a\",\"on\":1}", "on", "must be true or false; got a number"},
        {"{\"name\":\"a\",\"kind\":\"Fir\"}", "kind", "must be one of Oak, Elm; got \"Fir\""},
        {"{\"name\":\"a\",\"kind\":\"\"}", "kind", "must be one of Oak, Elm; got \"\""},
        {"{\"name\":\"a\",\"parsed\":\"y\"}", "parsed", "must begin with x; got \"y\""},
        {"{\"name\":\"a\",\"leaves\":{}}", "leaves", "must be a list; got an object"},
        {"{\"name\":\"a\",\"leaves\":[{\"small\":1},{\"small\":256}]}", "leaves[1].small", "must be 1..255; got 256"},
        {"{\"name\":\"a\",\"leaves\":[{\"small\":1},{}]}", "leaves[1].small", "is required"},
        {"{\"name\":\"a\",\"leaves\":[{\"small\":1},{\"small\":1},{\"small\":1}]}", "leaves[2].name",
         "one leaf too many"},
        {"{\"name\":\"a\",\"numbers\":[]}", "numbers", "must have at least 1 entry"},
        {"{\"name\":\"a\",\"numbers\":[1,2,3,4]}", "numbers", "must have at most 3 entries"},
        {"{\"name\":\"a\",\"numbers\":[1,10]}", "numbers[1]", "must be 0..9; got 10"},
        {"{\"name\":\"a\",\"inner\":{\"small\":0}}", "inner.small", "must be 1..255; got 0"},
        // Form comes before values, and of values the first one.
        {"{\"name\":\"a\",\"port\":0,\"x\":1}", "x", "unknown field"},
        {"{\"name\":\"a\",\"port\":0,\"share\":2}", "port", "must be 1..65535"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree t;
        struct bt_ctl_error e;
        assert_false(read(cases[i].text, &t, &e));
        if (strcmp(e.field, cases[i].field) != 0 || strstr(e.message, cases[i].says) == NULL) {
            fail_msg("%s: \"%s: %s\", want field \"%s\" saying \"%s\"", cases[i].text, e.field, e.message,
                     cases[i].field, cases[i].says);
        }
        assert_string_equal(e.code, BT_CTL_INVALID_REQUEST);
        free(t.leaves);
    }
}

/* Whatever is missing at the end, or in the middle of a word, is no document; nothing beyond the end is looked at. */
static void a_document_that_was_cut_is_refused(void **state)
{
    static const char whole[] =
        "{\"name\":\"oak\",\"any\":-12,\"share\":0.25,\"on\":true,\"kind\":\"Elm\",\"parsed\":\"xyz\","
        "\"leaves\":[{\"small\":255,\"name\":\"a\"}],\"numbers\":[9,0],\"inner\":{\"small\":2},"
        "\"note\":{\"a\":[1,null,false]}}";
    (void)state;
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        struct tree t = {.port = 7};
        struct bt_ctl_error e = {.code = ""};
        char *cut = malloc(n != 0 ? n : 1); // of its own size, for who looks for reads beyond it
        memcpy(cut, whole, n);
        if (bt_shape_read(&tree_shape, &t, cut, n, BT_CTL_INVALID_REQUEST, &e)) {
            fail_msg("%.*s", (int)n, whole);
        }
        assert_non_null(strstr(e.message, "is not valid JSON"));
        free(t.leaves);
        free(cut);
    }
}

static void an_open_shape_reads_over_what_it_does_not_know(void **state)
{
    static const struct bt_shape open = {tree_fields, 1, 0, true};
    const char *text = "{\"other\":[{}],\"name\":\"a\",\"port\":0}";
    struct tree t = {.port = 7};
    struct bt_ctl_error e;
    (void)state;
    assert_true(bt_shape_read(&open, &t, text, strlen(text), BT_CTL_INVALID_REQUEST, &e));
    assert_string_equal(t.name, "a");
    assert_int_equal(t.port, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_arrives),
        cmocka_unit_test(every_fault_is_said_by_its_field),
        cmocka_unit_test(a_document_that_was_cut_is_refused),
        cmocka_unit_test(an_open_shape_reads_over_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
