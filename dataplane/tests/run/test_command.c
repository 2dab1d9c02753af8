// SPDX-License-Identifier: Apache-2.0
// The bytes of what a replicated log carries: they stand on disks, and another release reads them. Each is as
// long as it says, to the byte, and a byte that no writer sets is not passed over.
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "run/command.h"

enum { ROOM = 512 };

static uint8_t p[ROOM];
static struct bt_command back;

// Written behind bytes that are all set, in exactly as much room, and in one byte less not at all.
static uint32_t put(const struct bt_command *c)
{
    memset(p, 0xff, sizeof p);
    uint32_t n = bt_command_put(p, ROOM, c);
    assert_true(n >= BT_COMMAND_HEAD);
    assert_int_equal(p[n], 0xff);
    memset(p, 0xff, sizeof p);
    assert_int_equal(bt_command_put(p, n, c), n);
    for (uint32_t room = 0; room < n; room++) {
        uint8_t less[ROOM];
        assert_int_equal(bt_command_put(less, room, c), 0);
    }
    return n;
}

static void is(uint32_t n, const char *bytes, uint32_t length)
{
    assert_int_equal(n, length);
    assert_memory_equal(p, bytes, length);
    assert_true(bt_command_get(p, n, &back));
}

#define IS(n, bytes) is(n, bytes, sizeof(bytes) - 1)

// Each of the bytes from..to, set to one, makes it no command.
static void reserved(uint32_t n, uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at <= to; at++) {
        uint8_t was = p[at];
        assert_int_equal(was, 0);
        p[at] = 1;
        assert_false(bt_command_get(p, n, &back));
        p[at] = was;
    }
    assert_true(bt_command_get(p, n, &back));
}

static void r384_bytes_of_requests(void **state)
{
    struct bt_command c = {.kind = BT_COMMAND_WRITE, .body = (const uint8_t *)"bytes", .n = 5};
    (void)state;
    IS(put(&c), "\1\0\0\0bytes");
    reserved(9, 2, 3);
    assert_true(back.n == 5 && back.body == p + 4 && !back.with_session && !back.ext && back.session == 0);
    c.ext = true;
    IS(put(&c), "\1\2\0\0bytes");
    assert_true(back.ext && !back.with_session);
    c.with_session = true;
    c.session = UINT64_C(0x0102030405060708);
    c.seq = UINT64_C(0x1112131415161718);
    IS(put(&c), "\1\3\0\0\1\2\3\4\5\6\7\10\21\22\23\24\25\26\27\30bytes");
    assert_true(back.ext && back.with_session && back.session == c.session && back.seq == c.seq);
    assert_true(back.n == 5 && back.body == p + 20);
    c.n = 0;
    IS(put(&c), "\1\3\0\0\1\2\3\4\5\6\7\10\21\22\23\24\25\26\27\30");
    assert_int_equal(back.n, 0);
    assert_false(bt_command_get(p, 19, &back)); // a session's numbers are whole
    c = (struct bt_command){.kind = BT_COMMAND_READ};
    IS(put(&c), "\2\0\0\0");
    assert_true(back.kind == BT_COMMAND_READ && back.n == 0);
}

static void r384_bytes_of_what_a_group_says_of_itself(void **state)
{
    struct bt_command c = {.kind = BT_COMMAND_REGISTER, .id = 0x0102, .disk = UINT64_C(0x1112131415161718)};
    (void)state;
    IS(put(&c), "\3\0\0\0\1\2\0\0\0\0\0\0\21\22\23\24\25\26\27\30");
    assert_true(back.id == 0x0102 && back.disk == c.disk);
    reserved(20, 6, 11);
    reserved(20, 1, 3);
    assert_false(bt_command_get(p, 21, &back));
    c.id = 0;
    assert_false(bt_command_get(p, put(&c), &back));
    c = (struct bt_command){.kind = BT_COMMAND_KEY, .key = "0123456789abcde"};
    memcpy(c.key, "0123456789abcdef", sizeof c.key);
    assert_int_equal(put(&c), 4 + BT_COMMAND_KEY_LEN);
    assert_memory_equal(p + 1,
                        "\0\0\0"
                        "0123456789abcdef",
                        19);
    assert_int_equal(p[0], BT_COMMAND_KEY);
    assert_false(bt_command_get(p, 21, &back));
    c = (struct bt_command){.kind = BT_COMMAND_FORMED,
                            .config = {.count = 2, .member = {{1, BT_GROUP_VOTER}, {7, BT_GROUP_LEARNER}}}};
    uint32_t n = put(&c);
    assert_true(p[0] == BT_COMMAND_FORMED && bt_command_get(p, n, &back) && back.config.count == 2);
    assert_false(bt_command_get(p, n + 1, &back));
}

static struct bt_command address(const char *name)
{
    struct bt_command c = {.kind = BT_COMMAND_ADDRESS, .id = 0x0102};
    c.member = bt_addr_v4u(0x0a000001, 0x1112);
    c.client = bt_addr_v4u(0x0a000001, 0x2122);
    strcpy(c.name, name);
    return c;
}

static void r384_bytes_of_an_address(void **state)
{
    struct bt_command c = address("m2");
    (void)state;
    assert_int_equal(put(&c), 30);
    assert_int_equal(p[0], BT_COMMAND_ADDRESS);
    assert_memory_equal(p + 1, "\0\0\0\1\2\21\22\41\42\0\0\0\0\0\0\0\0\0\0\0\0\377\377\12\0\0\1m2", 29);
    assert_true(bt_command_get(p, 30, &back));
    assert_true(bt_addr_eq(&back.member, &c.member) && bt_addr_eq(&back.client, &c.client) && back.id == 0x0102);
    assert_string_equal(back.name, "m2");
    reserved(30, 10, 11);
    c = address("");
    assert_int_equal(put(&c), 28);
    assert_true(bt_command_get(p, 28, &back) && back.name[0] == '\0');
    assert_false(bt_command_get(p, 27, &back));
}

static void r384_what_is_no_address(void **state)
{
    char longest[BT_COMMAND_NAME];
    (void)state;
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct bt_command c = address(longest);
    uint32_t n = put(&c);
    assert_true(bt_command_get(p, n, &back));
    assert_string_equal(back.name, longest);
    p[n] = 'n'; // one more, and its end would have no place
    assert_false(bt_command_get(p, n + 1, &back));
    p[n - 1] = '\0'; // it ends where its length says
    assert_false(bt_command_get(p, n, &back));
    c = address("m2");
    c.id = 0;
    assert_false(bt_command_get(p, put(&c), &back));
    c = address("m2");
    bt_addr_set_port(&c.member, 0);
    assert_false(bt_command_get(p, put(&c), &back));
    c = address("m2");
    bt_addr_set_port(&c.client, 0);
    assert_false(bt_command_get(p, put(&c), &back));
    c = address("m2");
    c.member = bt_addr_v4u(0xe0000001, 8100); // nobody speaks from there
    assert_false(bt_command_get(p, put(&c), &back));
}

static void r384_flags_belong_to_requests(void **state)
{
    (void)state;
    for (uint8_t kind = 0; kind <= BT_COMMAND_KINDS; kind++) {
        for (uint8_t flags = 0; flags <= 4; flags++) {
            memset(p, 1, sizeof p);
            struct bt_command c = address("m2");
            c.kind = kind;
            c.disk = 5;
            memset(c.key, 1, sizeof c.key);
            c.config = (struct bt_group_config){.count = 1, .member = {{1, BT_GROUP_VOTER}}};
            c.body = (const uint8_t *)"0123456789abcdef";
            c.n = 16;
            uint32_t n = bt_command_put(p, ROOM, &c);
            p[1] = flags;
            bool known = kind >= BT_COMMAND_WRITE && kind < BT_COMMAND_KINDS;
            bool session = (flags & 1) != 0, ext = (flags & 2) != 0;
            bool may = flags < 4 && (!session || kind == BT_COMMAND_WRITE) && (!ext || kind <= BT_COMMAND_READ);
            assert_int_equal(bt_command_get(p, n, &back), known && may);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r384_bytes_of_requests),        cmocka_unit_test(r384_bytes_of_what_a_group_says_of_itself),
        cmocka_unit_test(r384_bytes_of_an_address),      cmocka_unit_test(r384_what_is_no_address),
        cmocka_unit_test(r384_flags_belong_to_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
