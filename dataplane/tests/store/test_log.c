// SPDX-License-Identifier: Apache-2.0
// What may follow what in a log: each operation at both sides of each of its bounds.
#include "unit.h"

#include "store/log.h"

#include <string.h>

static const struct bt_log some = {.hard = {.term = 5, .vote = 2}, .base = 10, .last = 20, .snapshot = 15};

static bool alike(const struct bt_log *a, const struct bt_log *b)
{
    return a->hard.term == b->hard.term && a->hard.vote == b->hard.vote && a->base == b->base && a->last == b->last &&
           a->snapshot == b->snapshot;
}

static void entries_follow_the_last_one(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 30; index++) {
        struct bt_log l = some, want = some;
        assert_int_equal(bt_log_append(&l, index), index == 21);
        want.last = index == 21 ? 21 : 20;
        assert_true(alike(&l, &want));
    }
    struct bt_log full = {.last = UINT64_MAX};
    assert_false(bt_log_append(&full, 0)); // there is no index behind the last of all
    assert_false(bt_log_append(&full, UINT64_MAX));
}

static void a_log_cut_below_its_snapshot_begins_behind_it(void **state)
{
    (void)state;
    for (uint64_t from = 0; from < 30; from++) {
        struct bt_log l = some, want = some;
        bool right = from >= 1 && from <= 21;
        assert_int_equal(bt_log_truncate(&l, from), right);
        if (right) {
            want.last = from > 15 ? from - 1 : 15;
            want.base = from > 15 ? 10 : 15;
        }
        assert_true(alike(&l, &want));
    }
}

static void terms_never_fall_and_votes_never_change(void **state)
{
    (void)state;
    for (uint64_t term = 3; term < 8; term++) {
        for (uint16_t vote = 0; vote < 5; vote++) {
            struct bt_log l = some, want = some;
            bool right = term > 5 || (term == 5 && vote == 2);
            assert_int_equal(bt_log_hard_state(&l, (struct bt_hard_state){.term = term, .vote = vote}), right);
            if (right) {
                want.hard = (struct bt_hard_state){.term = term, .vote = vote};
            }
            assert_true(alike(&l, &want));
        }
    }
    struct bt_log unvoted = {.hard = {.term = 5}};
    assert_true(bt_log_hard_state(&unvoted, (struct bt_hard_state){.term = 5, .vote = 3}));
    assert_int_equal(unvoted.hard.vote, 3);
}

static void snapshots_never_go_back(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 30; index++) {
        struct bt_log l = some, want = some;
        assert_int_equal(bt_log_snapshot(&l, index), index >= 15);
        if (index >= 15) {
            want.snapshot = index;
            want.base = index > 20 ? index : 10; // beyond the end nothing is left of the log
            want.last = index > 20 ? index : 20;
        }
        assert_true(alike(&l, &want));
    }
}

static void nothing_is_compacted_beyond_the_snapshot(void **state)
{
    (void)state;
    for (uint64_t to = 0; to < 30; to++) {
        struct bt_log l = some, want = some;
        assert_int_equal(bt_log_compact(&l, to), to <= 15);
        want.base = to > 10 && to <= 15 ? to : 10;
        assert_true(alike(&l, &want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_follow_the_last_one),
        cmocka_unit_test(a_log_cut_below_its_snapshot_begins_behind_it),
        cmocka_unit_test(terms_never_fall_and_votes_never_change),
        cmocka_unit_test(snapshots_never_go_back),
        cmocka_unit_test(nothing_is_compacted_beyond_the_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
