// SPDX-License-Identifier: Apache-2.0
// The log in memory.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "replica/log.h"

enum { SLOTS = 128, ROOM = 4096 };

static struct replica_slot slots[SLOTS];
static uint8_t bytes[ROOM];

static struct replica_log empty(void)
{
    struct replica_log l;
    replica_log_init(&l, slots, SLOTS, bytes, ROOM);
    replica_log_reset(&l, 0, 0);
    return l;
}

static bool put(struct replica_log *l, uint64_t term, uint8_t kind, uint32_t n, uint64_t generation)
{
    static uint8_t body[ROOM];
    memset(body, (int)((l->last + 1) & 0xff), n);
    struct bt_entry e = {.index = l->last + 1, .term = term, .kind = kind, .length = n, .body = body};
    return replica_log_fits(l, kind, n) && replica_log_append(l, &e, generation);
}

static void r348_a_full_log_takes_no_command_and_keeps_room_for_elections(void **state)
{
    (void)state;
    struct replica_log l = empty();
    uint32_t n = 0;
    while (put(&l, 1, BT_ENTRY_COMMAND, 8, 1)) {
        n++;
    }
    assert_int_equal(n, SLOTS - REPLICA_LOG_RESERVED);
    for (uint32_t i = 0; i < REPLICA_LOG_RESERVED; i++) {
        assert_true(put(&l, 2, BT_ENTRY_NOOP, 0, 1));
    }
    assert_false(put(&l, 2, BT_ENTRY_NOOP, 0, 1));
    assert_int_equal(l.last, SLOTS);
    replica_log_compact(&l, 70);
    assert_true(put(&l, 2, BT_ENTRY_COMMAND, 8, 1));
}

static void r348_requests_leave_the_reserve_alone_as_commands_do(void **state)
{
    (void)state;
    struct replica_log l = empty();
    for (uint32_t n = 0; n < SLOTS - REPLICA_LOG_RESERVED; n++) {
        assert_true(put(&l, 1, n % 2 ? BT_ENTRY_READ : BT_ENTRY_WRITE, 8, 1));
    }
    assert_false(put(&l, 1, BT_ENTRY_WRITE, 8, 1));
    assert_false(put(&l, 1, BT_ENTRY_READ, 8, 1));
    assert_true(put(&l, 2, BT_ENTRY_NOOP, 0, 1)); // a new leader's
}

static void r348_bodies_are_bounded_and_stay_whole_whatever_is_taken_away(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS(200); seed++) {
        struct replica_log l = empty();
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        for (int i = 0; i < 2000; i++) {
            uint32_t what = bt_rng_below(&rng, 10);
            if (what == 0 && l.last > l.base) {
                replica_log_truncate(&l, l.base + 1 + bt_rng_below(&rng, (uint32_t)(l.last - l.base)));
            } else if (what == 1 && l.last > l.base) {
                replica_log_compact(&l, l.base + 1 + bt_rng_below(&rng, (uint32_t)(l.last - l.base)));
            } else {
                put(&l, 1, BT_ENTRY_COMMAND, bt_rng_below(&rng, 400), 1);
            }
            for (uint64_t k = l.base + 1; k <= l.last; k++) {
                struct bt_entry e = replica_log_entry(&l, k);
                bool whole = e.length == 0 || (e.body[0] == (k & 0xff) && e.body[e.length - 1] == (k & 0xff));
                if (!whole) {
                    fail_msg("seed %llu, step %d: the body of entry %llu is another's", (unsigned long long)seed, i,
                             (unsigned long long)k);
                }
            }
        }
    }
}

static void r347_a_completion_of_what_was_truncated_says_nothing_about_its_successor(void **state)
{
    (void)state;
    struct replica_log l = empty();
    put(&l, 1, BT_ENTRY_COMMAND, 8, 1);
    put(&l, 1, BT_ENTRY_COMMAND, 8, 2);
    put(&l, 1, BT_ENTRY_COMMAND, 8, 3);
    assert_true(replica_log_settle(&l, 1));
    replica_log_truncate(&l, 2);
    put(&l, 2, BT_ENTRY_COMMAND, 8, 5); // 4 was the truncation
    assert_false(replica_log_settle(&l, 3));
    assert_false(replica_log_settle(&l, 4));
    assert_int_equal(l.durable, 1);
    assert_true(replica_log_settle(&l, 5));
    assert_int_equal(l.durable, 2);
    replica_log_truncate(&l, 1);
    assert_int_equal(l.durable, 0);
}

static void terms_are_known_from_the_base_to_the_last(void **state)
{
    (void)state;
    struct replica_log l = empty();
    replica_log_reset(&l, 10, 3);
    put(&l, 4, BT_ENTRY_NOOP, 0, 1);
    assert_int_equal(replica_log_term(&l, 9), 0);
    assert_int_equal(replica_log_term(&l, 10), 3);
    assert_int_equal(replica_log_term(&l, 11), 4);
    assert_int_equal(replica_log_term(&l, 12), 0);
    replica_log_compact(&l, 11);
    assert_int_equal(replica_log_term(&l, 11), 4);
    assert_int_equal(replica_log_term(&l, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r348_a_full_log_takes_no_command_and_keeps_room_for_elections),
        cmocka_unit_test(r348_requests_leave_the_reserve_alone_as_commands_do),
        cmocka_unit_test(r348_bodies_are_bounded_and_stay_whole_whatever_is_taken_away),
        cmocka_unit_test(r347_a_completion_of_what_was_truncated_says_nothing_about_its_successor),
        cmocka_unit_test(terms_are_known_from_the_base_to_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
