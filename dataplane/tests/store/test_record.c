// SPDX-License-Identifier: Apache-2.0
// Records and heads byte by byte, and every byte of them that must be zero or agree with another.
#include "unit.h"

#include "base/bytes.h"
#include "store/record.h"

#include <string.h>

static void r366_bytes_of_a_record(void **state)
{
    (void)state;
    for (uint32_t length = 0; length <= 17; length++) {
        static const char body[] = "what an entry says";
        // clang-format off
        const uint8_t head[BT_RECORD_BYTES] = {
            BT_RECORD_ENTRY, 3, 0, 0, 0, 0, 0, (uint8_t)length,
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28};
        // clang-format on
        const struct bt_record r = {.type = BT_RECORD_ENTRY,
                                    .kind = 3,
                                    .length = length,
                                    .a = UINT64_C(0x1112131415161718),
                                    .b = UINT64_C(0x2122232425262728),
                                    .body = (const uint8_t *)body};
        struct bt_record back;
        uint8_t p[64];
        uint32_t whole = BT_RECORD_BYTES + (length + 7) / 8 * 8;
        memset(p, 0xff, sizeof p);
        assert_int_equal(bt_record_put(p, &r), whole);
        assert_memory_equal(p, head, sizeof head);
        assert_memory_equal(p + BT_RECORD_BYTES, body, length);
        assert_int_equal(p[whole], 0xff);
        assert_int_equal(bt_record_get(p, sizeof p, &back), whole);
        assert_int_equal(bt_record_get(p, whole, &back), whole);
        assert_true(back.type == r.type && back.kind == r.kind && back.length == length);
        assert_true(back.a == r.a && back.b == r.b && back.body == p + BT_RECORD_BYTES);
        for (uint32_t n = 0; n < whole; n++) {
            assert_int_equal(bt_record_get(p, n, &back), 0);
        }
        for (uint32_t at = BT_RECORD_BYTES + length; at < whole; at++) { // every byte of its padding
            assert_int_equal(p[at], 0);
            p[at] = 1;
            assert_int_equal(bt_record_get(p, whole, &back), 0);
            p[at] = 0;
        }
        for (uint32_t at = 2; at < 4; at++) {
            p[at] = 1;
            assert_int_equal(bt_record_get(p, whole, &back), 0);
            p[at] = 0;
        }
        bt_put32(p + 4, UINT32_MAX); // as long as nothing is
        assert_int_equal(bt_record_get(p, sizeof p, &back), 0);
    }
}

static struct bt_group_config config(void)
{
    return (struct bt_group_config){.count = 2, .member = {{1, BT_GROUP_VOTER}, {0x0203, BT_GROUP_LEARNER}}};
}

static const struct bt_store_ids ids = {.cluster = "the cluster     ", .member = "the member      "};

static struct bt_segment_head head(void)
{
    return (struct bt_segment_head){
        .ids = ids,
        .number = 9,
        .previous = 7,
        .first = 3,
        .previous_end = 0x01020304,
        .log = {.hard = {.term = 5, .vote = 0x0203}, .base = 10, .last = 20, .snapshot = 15},
        .snapshot = {
            .number = 6, .last_index = 15, .last_term = 4, .length = UINT64_C(0x3132333435363738), .config = config()}};
}

enum { ROOM = BT_SEGMENT_HEAD_MAX, HEAD = 128, MEMBERS = HEAD + 8 };

static uint8_t p[ROOM];

static bool read_head(struct bt_segment_head *h)
{
    struct bt_record r;
    return bt_record_get(p, ROOM, &r) != 0 && bt_segment_head_get(&r, h);
}

static void r366_bytes_of_a_segment_s_head(void **state)
{
    (void)state;
    struct bt_segment_head h = head(), back;
    uint8_t *b = p + BT_RECORD_BYTES;
    memset(p, 0xff, sizeof p);
    assert_int_equal(bt_segment_head_put(p, &h), BT_RECORD_BYTES + MEMBERS + 8);
    assert_int_equal(p[0], BT_RECORD_HEAD);
    assert_int_equal(bt_get32(p + 4), MEMBERS + 8);
    assert_int_equal(bt_get64(p + 8), 9);
    assert_int_equal(bt_get64(p + 16), 0);
    assert_memory_equal(b, "the cluster     the member      ", 32);
    static const struct {
        uint8_t at;
        uint64_t value;
    } numbers[] = {{32, 7}, {40, 3}, {56, 5}, {64, 10}, {72, 20}, {80, 15}, {88, 6}, {96, 15}, {104, 4}, {120, 0}};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(bt_get64(b + numbers[i].at), numbers[i].value);
    }
    assert_int_equal(bt_get32(b + 48), 0x01020304);
    assert_int_equal(bt_get16(b + 52), 0);
    assert_int_equal(bt_get16(b + 54), 0x0203);
    assert_true(bt_get64(b + 112) == UINT64_C(0x3132333435363738));
    const uint8_t members[] = {0, 2, 0, 0, 0, 0, 0, 0, 0, 1, BT_GROUP_VOTER, 0, 2, 3, BT_GROUP_LEARNER, 0};
    assert_memory_equal(b + HEAD, members, sizeof members);
    assert_true(read_head(&back));
    assert_memory_equal(&back.ids, &ids, sizeof ids);
    assert_true(back.number == 9 && back.previous == 7 && back.first == 3 && back.previous_end == 0x01020304);
    assert_true(back.log.hard.term == 5 && back.log.hard.vote == 0x0203);
    assert_true(back.log.base == 10 && back.log.last == 20 && back.log.snapshot == 15);
    assert_true(back.snapshot.number == 6 && back.snapshot.last_index == 15 && back.snapshot.last_term == 4);
    assert_true(back.snapshot.length == h.snapshot.length && back.snapshot.config.count == 2);
    assert_int_equal(back.snapshot.config.member[1].id, 0x0203);
    assert_int_equal(back.snapshot.config.member[1].role, BT_GROUP_LEARNER);
}

static bool with(const struct bt_segment_head *h)
{
    struct bt_segment_head back;
    bt_segment_head_put(p, h);
    return read_head(&back);
}

// One number of a head that is right, and whether it may be so.
#define MAY(field, value, right)                                                                                       \
    do {                                                                                                               \
        struct bt_segment_head one = head();                                                                           \
        one.field = (value);                                                                                           \
        assert_int_equal(with(&one), (right));                                                                         \
    } while (0)

static void r369_numbers_that_contradict_each_other_are_not_believed(void **state)
{
    (void)state;
    MAY(first, 0, false);
    MAY(first, 7, true);
    MAY(first, 8, false); // the one before is not needed, then
    MAY(first, 10, false);
    MAY(previous, 8, true);
    MAY(previous, 9, false);
    MAY(previous, 3, true);
    MAY(previous, 2, false);
    MAY(log.base, 15, true);
    MAY(log.base, 16, false);
    MAY(log.last, 15, true);
    MAY(log.last, 14, false);
    MAY(log.snapshot, 16, false); // not the one that is named
    MAY(snapshot.last_index, 14, false);
    MAY(snapshot.number, 8, true);
    MAY(snapshot.number, 9, false);
    MAY(snapshot.number, 0, false); // none, of entry 15
    struct bt_segment_head alone = head();
    alone.first = 9;
    alone.previous = 0;
    assert_true(with(&alone));
    struct bt_segment_head young = head();
    young.log = (struct bt_log){0};
    young.snapshot = (struct bt_snapshot_mark){.config = config()};
    assert_true(with(&young));
    young.log.base = 1;
    assert_false(with(&young));
}

static bool changed(uint32_t at, uint8_t value)
{
    struct bt_segment_head h = head(), back;
    bt_segment_head_put(p, &h);
    p[at] = value;
    return read_head(&back);
}

static void r369_bytes_of_a_head_that_no_writer_sets(void **state)
{
    (void)state;
    const uint32_t b = BT_RECORD_BYTES, c = b + HEAD;
    assert_true(changed(b, 'T'));
    assert_false(changed(0, BT_RECORD_ENTRY));
    assert_false(changed(1, 1));
    for (uint32_t at = 16; at < 24; at++) {
        assert_false(changed(at, 1));
    }
    assert_false(changed(b + 52, 1));
    assert_false(changed(b + 53, 1));
    for (uint32_t at = 120; at < 128; at++) {
        assert_false(changed(b + at, 1));
    }
    for (uint32_t at = 2; at < 8; at++) {
        assert_false(changed(c + at, 1));
    }
    assert_false(changed(c + 1, 1)); // one member, and bytes behind it
    assert_false(changed(c + 1, 3));
    assert_false(changed(c, 1));
    assert_false(changed(c + 9, 0)); // member 0
    assert_false(changed(c + 10, 0));
    assert_true(changed(c + 10, BT_GROUP_LEARNER));
    assert_false(changed(c + 10, BT_GROUP_LEARNER + BT_GROUP_VOTER));
    assert_false(changed(c + 11, 1));
    assert_false(changed(c + 15, 1));
    struct bt_segment_head h = head();
    h.snapshot.config.member[1].id = 1; // ids rise
    assert_false(with(&h));
    h.snapshot.config.member[1].id = 2;
    assert_true(with(&h));
}

static void r366_a_configuration_is_as_large_as_a_group(void **state)
{
    (void)state;
    struct bt_segment_head h = head(), back;
    h.snapshot.config.count = BT_GROUP_MEMBERS_MAX;
    for (uint16_t i = 0; i < BT_GROUP_MEMBERS_MAX; i++) {
        h.snapshot.config.member[i] = (struct bt_group_member){.id = (uint16_t)(i + 1), .role = BT_GROUP_VOTER};
    }
    assert_int_equal(bt_segment_head_put(p, &h), BT_SEGMENT_HEAD_MAX);
    assert_true(read_head(&back));
    assert_int_equal(back.snapshot.config.count, BT_GROUP_MEMBERS_MAX);
    assert_int_equal(back.snapshot.config.member[BT_GROUP_MEMBERS_MAX - 1].id, BT_GROUP_MEMBERS_MAX);
    h.snapshot.config.count = 0;
    assert_int_equal(bt_segment_head_put(p, &h), BT_RECORD_BYTES + HEAD + 8);
    assert_true(read_head(&back));
    assert_int_equal(back.snapshot.config.count, 0);
}

static void r366_bytes_of_a_snapshot_s_head(void **state)
{
    (void)state;
    const struct bt_snapshot s = {
        .last_index = 15, .last_term = 4, .length = UINT64_C(0x3132333435363738), .config = config()};
    struct bt_snapshot back;
    struct bt_store_ids whose;
    struct bt_record r;
    const uint8_t *b = p + BT_RECORD_BYTES;
    memset(p, 0xff, sizeof p);
    assert_int_equal(bt_snapshot_head_put(p, &ids, &s), BT_RECORD_BYTES + 40 + 16);
    assert_int_equal(p[0], BT_RECORD_SNAPSHOT);
    assert_int_equal(bt_get64(p + 8), 15);
    assert_int_equal(bt_get64(p + 16), 4);
    assert_memory_equal(b, "the cluster     the member      ", 32);
    assert_true(bt_get64(b + 32) == s.length);
    assert_int_equal(bt_get16(b + 40), 2);
    assert_int_not_equal(bt_record_get(p, ROOM, &r), 0);
    assert_true(bt_snapshot_head_get(&r, &whose, &back));
    assert_memory_equal(&whose, &ids, sizeof ids);
    assert_true(back.last_index == 15 && back.last_term == 4 && back.length == s.length);
    assert_int_equal(back.config.count, 2);
    assert_int_equal(back.config.member[1].id, 0x0203);
    r.kind = 1;
    assert_false(bt_snapshot_head_get(&r, &whose, &back));
    r.kind = 0;
    r.type = BT_RECORD_HEAD;
    assert_false(bt_snapshot_head_get(&r, &whose, &back));
    r.type = BT_RECORD_SNAPSHOT;
    r.length--;
    assert_false(bt_snapshot_head_get(&r, &whose, &back));
    r.length = 40 + 7; // no room for a configuration
    assert_false(bt_snapshot_head_get(&r, &whose, &back));
    struct bt_segment_head h = head();
    bt_segment_head_put(p, &h);
    assert_int_not_equal(bt_record_get(p, ROOM, &r), 0);
    r.length = HEAD + 7;
    assert_false(bt_segment_head_get(&r, &h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r366_bytes_of_a_record),
        cmocka_unit_test(r366_bytes_of_a_segment_s_head),
        cmocka_unit_test(r369_numbers_that_contradict_each_other_are_not_believed),
        cmocka_unit_test(r369_bytes_of_a_head_that_no_writer_sets),
        cmocka_unit_test(r366_a_configuration_is_as_large_as_a_group),
        cmocka_unit_test(r366_bytes_of_a_snapshot_s_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
