// SPDX-License-Identifier: Apache-2.0
// What a replicated log carries beside clients' bytes, whose disk is whose, and writes that come again
// read back as written, refused when cut short, and the same after a snapshot.
#include "unit.h"

#include <string.h>

#include "run/command.h"
#include "run/roster.h"
#include "base/bytes.h"
#include "replica/sessions.h"

enum { ROOM = 1 << 21 };
static uint8_t p[ROOM];

static struct bt_command example(enum bt_command_kind kind)
{
    struct bt_command c = {.kind = (uint8_t)kind, .id = 7, .disk = 0x1122334455667788};
    c.body = (const uint8_t *)"bytes";
    c.n = 5;
    c.member = c.client = bt_addr_v4u(0x0a000001, 8100);
    bt_addr_set_port(&c.client, 8000);
    strcpy(c.name, "orders-3");
    memcpy(c.key, "0123456789abcdef", sizeof c.key);
    c.config = (struct bt_group_config){.count = 2, .member = {{1, BT_GROUP_VOTER}, {7, BT_GROUP_LEARNER}}};
    return c;
}

static void r308_the_first_key_of_bodies_is_theirs_for_ever(void **state)
{
    (void)state;
    static struct bt_roster r, back;
    static const uint8_t none[BT_COMMAND_KEY_LEN];
    struct bt_command c = {.kind = BT_COMMAND_KEY};
    assert_false(bt_command_get(p, bt_command_put(p, ROOM, &c), &c)); // all 0: no key
    bt_roster_key(&r, (const uint8_t *)"0123456789abcdef");
    bt_roster_key(&r, (const uint8_t *)"fedcba9876543210");
    size_t n = bt_roster_write(&r, p, ROOM);
    assert_int_equal(bt_roster_read(&back, p, n), n);
    assert_true(back.keyed);
    assert_memory_equal(back.body_key, "0123456789abcdef", BT_COMMAND_KEY_LEN);
    assert_int_equal(bt_roster_read(&back, p, n - 1), 0);
    r.keyed = false;
    n = bt_roster_write(&r, p, ROOM);
    assert_int_equal(bt_roster_read(&back, p, n), n);
    assert_false(back.keyed);
    assert_memory_equal(back.body_key, none, sizeof none);
}

static void r384_commands_are_read_as_written(void **state)
{
    (void)state;
    for (int kind = BT_COMMAND_WRITE; kind < BT_COMMAND_KINDS; kind++) {
        for (int session = 0; session <= (kind == BT_COMMAND_WRITE); session++) {
            struct bt_command c = example((enum bt_command_kind)kind), back;
            c.with_session = session;
            c.session = 99;
            c.seq = 3;
            uint32_t n = bt_command_put(p, ROOM, &c);
            assert_true(n != 0 && bt_command_get(p, n, &back));
            assert_int_equal(back.kind, kind);
            assert_int_equal(back.with_session, session);
            if (kind == BT_COMMAND_WRITE || kind == BT_COMMAND_READ) {
                assert_true(back.n == 5 && memcmp(back.body, "bytes", 5) == 0);
                assert_int_equal(back.session, session ? 99 : 0);
                assert_int_equal(back.seq, session ? 3 : 0);
            } else if (kind == BT_COMMAND_FORMED) {
                assert_true(back.config.count == 2 && back.config.member[1].id == 7);
            } else if (kind == BT_COMMAND_KEY) {
                assert_memory_equal(back.key, "0123456789abcdef", sizeof back.key);
            } else {
                assert_int_equal(back.id, 7);
            }
            if (kind == BT_COMMAND_REGISTER) {
                assert_int_equal(back.disk, c.disk);
            }
            if (kind == BT_COMMAND_ADDRESS) {
                assert_string_equal(back.name, "orders-3");
                assert_true(bt_addr_eq(&back.member, &c.member) && bt_addr_eq(&back.client, &c.client));
            }
            assert_int_equal(bt_command_put(p, n - 1, &c), 0); // and not into less room
        }
    }
}

static void r384_what_is_no_command_is_refused(void **state)
{
    (void)state;
    struct bt_command c, back;
    for (int kind = BT_COMMAND_REGISTER; kind < BT_COMMAND_KINDS; kind++) {
        c = example((enum bt_command_kind)kind);
        uint32_t n = bt_command_put(p, ROOM, &c), least = kind == BT_COMMAND_ADDRESS ? n - 8 : n;
        for (uint32_t k = 0; k < least; k++) {
            assert_false(bt_command_get(p, k, &back));
        }
    }
    c = example(BT_COMMAND_WRITE);
    uint32_t n = bt_command_put(p, ROOM, &c);
    p[0] = BT_COMMAND_KINDS;
    assert_false(bt_command_get(p, n, &back));
    p[0] = BT_COMMAND_READ;
    p[1] = 1; // a read has no session
    assert_false(bt_command_get(p, n, &back));
    p[1] = 4;
    assert_false(bt_command_get(p, n, &back));
    p[1] = 2; // a client that knows extensions
    assert_true(bt_command_get(p, n, &back) && back.ext);
    p[0] = BT_COMMAND_FORMED; // has no client
    assert_false(bt_command_get(p, n, &back));
    p[0] = BT_COMMAND_WRITE;
    p[1] = 1; // a session without its numbers
    assert_false(bt_command_get(p, 10, &back));
    p[1] = 0;
    p[3] = 1;
    assert_false(bt_command_get(p, n, &back));
}

static void config_of(struct bt_roster *r, uint64_t index, const uint16_t *ids, uint16_t n)
{
    struct bt_group_config c = {.count = n};
    for (uint16_t i = 0; i < n; i++) {
        c.member[i] = (struct bt_group_member){ids[i], BT_GROUP_VOTER};
    }
    bt_roster_config(r, index, &c);
}

static void r382_the_first_disk_of_an_id_is_its_disk(void **state)
{
    static struct bt_roster r, back;
    (void)state;
    memset(&r, 0, sizeof r);
    config_of(&r, 0, (const uint16_t[]){1, 2, 3}, 3);
    bt_roster_register(&r, 5, 2, 22);
    bt_roster_register(&r, 6, 2, 23);
    assert_int_equal(bt_roster_find(&r, 2)->disk, 22);
    assert_int_equal(r.registered_at, 5);
    assert_false(bt_roster_find(&r, 1)->registered);
    config_of(&r, 9, (const uint16_t[]){1, 3, 4}, 3);
    assert_true(bt_roster_find(&r, 2)->removed && bt_roster_find(&r, 4)->member);
    bt_roster_register(&r, 10, 2, 24); // who was removed gets no disk again
    assert_int_equal(bt_roster_find(&r, 2)->disk, 22);
    struct bt_command c = example(BT_COMMAND_ADDRESS);
    bt_roster_address(&r, 11, &c);
    r.formed = true;
    size_t n = bt_roster_write(&r, p, ROOM);
    assert_true(n != 0 && bt_roster_read(&back, p, n) == n);
    assert_memory_equal(&r, &back, sizeof r);
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(bt_roster_read(&back, p, k), 0);
    }
    for (size_t k = 0; k + 8 <= n; k++) { // a name ends where its length says
        if (memcmp(p + k, "orders-3", 8) == 0) {
            p[k + 3] = 0;
            assert_int_equal(bt_roster_read(&back, p, n), 0);
            return;
        }
    }
    fail_msg("no row has the name");
}

static void r382_of_many_removed_the_first_is_forgotten(void **state)
{
    static struct bt_roster r;
    (void)state;
    memset(&r, 0, sizeof r);
    for (uint16_t id = 1; id <= BT_ROSTER_MAX + 5; id++) {
        config_of(&r, id, &id, 1);
    }
    assert_int_equal(r.count, BT_ROSTER_MAX);
    assert_null(bt_roster_find(&r, 1));
    assert_non_null(bt_roster_find(&r, BT_ROSTER_MAX + 5));
    assert_true(bt_roster_find(&r, 100)->removed);
}

static enum bt_session_status ask(struct bt_sessions *s, uint64_t index, uint64_t id, uint64_t seq, const char *was)
{
    const uint8_t *reply = NULL;
    uint32_t n = 0;
    enum bt_session_status status = bt_sessions_ask(s, index, id, seq, &reply, &n);
    if (status == BT_SESSION_NEW) {
        bt_sessions_done(s, id, (const uint8_t *)was, (uint32_t)strlen(was));
    } else if (status == BT_SESSION_DONE) {
        assert_true(n == strlen(was) && memcmp(reply, was, n) == 0);
    }
    return status;
}

static void r387_a_write_that_comes_again_is_answered_again(void **state)
{
    static struct bt_sessions s, back;
    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(ask(&s, 1, 50, 2, ""), BT_SESSION_UNKNOWN); // an unknown session begins with 1
    assert_int_equal(ask(&s, 2, 50, 1, "one"), BT_SESSION_NEW);
    assert_int_equal(ask(&s, 3, 50, 1, "one"), BT_SESSION_DONE);
    assert_int_equal(ask(&s, 4, 50, 4, "four"), BT_SESSION_NEW); // two of them never came
    assert_int_equal(ask(&s, 5, 50, 1, ""), BT_SESSION_OLD);
    assert_int_equal(ask(&s, 6, 51, 1, "x"), BT_SESSION_NEW);
    size_t n = bt_sessions_write(&s, p, ROOM);
    assert_true(n != 0 && bt_sessions_read(&back, p, n) == n);
    assert_int_equal(ask(&back, 7, 50, 4, "four"), BT_SESSION_DONE);
    assert_int_equal(ask(&back, 8, 51, 1, "x"), BT_SESSION_DONE);
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(bt_sessions_read(&back, p, k), 0);
    }
    assert_int_equal(bt_sessions_write(&s, p, n - 1), 0);
}

// What a session goes on from when it is opened at an index.
static uint64_t opened(struct bt_sessions *s, uint64_t index, uint64_t id)
{
    const uint8_t *reply = NULL;
    uint32_t n = 0;
    assert_int_equal(bt_sessions_ask(s, index, id, 0, &reply, &n), BT_SESSION_OPENED);
    assert_int_equal(n, BT_SESSIONS_OPEN);
    return bt_get64(reply);
}

static void r387_a_session_that_was_forgotten_begins_above_all_it_did(void **state)
{
    static struct bt_sessions s, back;
    (void)state;
    memset(&s, 0, sizeof s);
    s.most = 2;
    assert_int_equal(opened(&s, 10, 50), 10);
    assert_int_equal(opened(&s, 11, 50), 10);                      // a duplicate
    assert_int_equal(ask(&s, 12, 50, 13, ""), BT_SESSION_UNKNOWN); // above its own index
    assert_int_equal(ask(&s, 12, 50, 11, "a"), BT_SESSION_NEW);
    assert_int_equal(opened(&s, 13, 50), 11); // late
    assert_int_equal(ask(&s, 14, 50, 11, "a"), BT_SESSION_DONE);
    opened(&s, 15, 51);
    opened(&s, 16, 52);
    assert_int_equal(s.count, 2);
    assert_int_equal(ask(&s, 17, 50, 11, ""), BT_SESSION_UNKNOWN);
    assert_int_equal(opened(&s, 18, 50), 18); // of late copies: the opening, then the write
    assert_int_equal(ask(&s, 19, 50, 11, ""), BT_SESSION_OLD);
    size_t n = bt_sessions_write(&s, p, ROOM);
    assert_true(n != 0 && bt_sessions_read(&back, p, n) == n);
    assert_int_equal(opened(&back, 20, 50), 18);
}

static void r387_a_long_reply_is_not_kept_but_its_write_is_known(void **state)
{
    static struct bt_sessions s;
    static uint8_t reply[BT_SESSIONS_REPLY + 1];
    const uint8_t *was;
    uint32_t n;
    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(bt_sessions_ask(&s, 1, 9, 1, &was, &n), BT_SESSION_NEW);
    bt_sessions_done(&s, 9, reply, sizeof reply);
    assert_int_equal(bt_sessions_ask(&s, 2, 9, 1, &was, &n), BT_SESSION_NO_COPY);
}

static void r387_of_many_sessions_the_silent_one_goes(void **state)
{
    static struct bt_sessions s;
    (void)state;
    memset(&s, 0, sizeof s);
    for (uint64_t i = 1; i <= BT_SESSIONS_MAX; i++) {
        assert_int_equal(ask(&s, i, 1000 + i, 1, "r"), BT_SESSION_NEW);
    }
    assert_int_equal(ask(&s, 2000, 1001, 1, "r"), BT_SESSION_DONE); // the first one speaks: the second is the oldest
    assert_int_equal(ask(&s, 2001, 5000, 1, "r"), BT_SESSION_NEW);
    assert_int_equal(ask(&s, 2002, 1002, 2, "r"), BT_SESSION_UNKNOWN);
    assert_int_equal(ask(&s, 2003, 1001, 2, "r"), BT_SESSION_NEW);
}

// Whoever was registered, or said where it is, and never was a member: its row is as old as that word.
static void r382_rows_are_as_old_as_the_last_word_of_them(void **state)
{
    static struct bt_roster r;
    (void)state;
    memset(&r, 0, sizeof r);
    for (uint16_t id = 1; id <= BT_ROSTER_MAX; id++) {
        bt_roster_register(&r, 1000 - id, id, 70 + id);
    }
    assert_int_equal(r.registered_at, 1000 - BT_ROSTER_MAX);
    for (uint16_t i = 0; i < 3; i++) {
        struct bt_command c = {.id = (uint16_t)(BT_ROSTER_MAX - i)};
        bt_roster_address(&r, 2000, &c);
        assert_int_equal(bt_roster_find(&r, c.id)->index, 2000);
    }
    struct bt_command late = {.id = 1};
    bt_roster_address(&r, 5, &late); // earlier than what is known
    assert_int_equal(bt_roster_find(&r, 1)->index, 999);
    bt_roster_register(&r, 3000, 60001, 7);
    assert_int_equal(r.count, BT_ROSTER_MAX);
    assert_null(bt_roster_find(&r, BT_ROSTER_MAX - 3)); // the oldest of all rows
    assert_non_null(bt_roster_find(&r, BT_ROSTER_MAX));
    assert_int_equal(bt_roster_find(&r, 60001)->index, 3000);
    assert_int_equal(bt_roster_find(&r, 60001)->disk, 7);
}

// Who was silent for longest is known behind a snapshot, too.
static void r387_the_silent_one_goes_behind_a_snapshot_as_well(void **state)
{
    static struct bt_sessions s, back;
    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(ask(&s, 1, 51, 1, "a"), BT_SESSION_NEW);
    assert_int_equal(ask(&s, 2, 52, 1, "b"), BT_SESSION_NEW);
    assert_int_equal(ask(&s, 3, 53, 1, "c"), BT_SESSION_NEW);
    assert_int_equal(ask(&s, 4, 51, 1, "a"), BT_SESSION_DONE);
    assert_int_equal(ask(&s, 5, 52, 1, "b"), BT_SESSION_DONE); // 53 is the silent one
    memset(&back, 0xa5, sizeof back);
    back.most = 3;
    size_t n = bt_sessions_write(&s, p, ROOM);
    assert_true(n != 0 && bt_sessions_read(&back, p, n) == n);
    assert_int_equal(back.count, 3);
    assert_int_equal(ask(&back, 6, 54, 1, "d"), BT_SESSION_NEW);
    assert_int_equal(back.count, 3);
    assert_int_equal(ask(&back, 7, 51, 1, "a"), BT_SESSION_DONE);
    assert_int_equal(ask(&back, 8, 52, 1, "b"), BT_SESSION_DONE);
    assert_int_equal(ask(&back, 9, 53, 2, ""), BT_SESSION_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r308_the_first_key_of_bodies_is_theirs_for_ever),
        cmocka_unit_test(r384_commands_are_read_as_written),
        cmocka_unit_test(r384_what_is_no_command_is_refused),
        cmocka_unit_test(r382_the_first_disk_of_an_id_is_its_disk),
        cmocka_unit_test(r382_of_many_removed_the_first_is_forgotten),
        cmocka_unit_test(r387_a_write_that_comes_again_is_answered_again),
        cmocka_unit_test(r387_a_session_that_was_forgotten_begins_above_all_it_did),
        cmocka_unit_test(r387_a_long_reply_is_not_kept_but_its_write_is_known),
        cmocka_unit_test(r387_of_many_sessions_the_silent_one_goes),
        cmocka_unit_test(r382_rows_are_as_old_as_the_last_word_of_them),
        cmocka_unit_test(r387_the_silent_one_goes_behind_a_snapshot_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
