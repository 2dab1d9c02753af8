// SPDX-License-Identifier: Apache-2.0
// Hashes of states, compared and acted upon.
#include "bed.h"

#include <stdlib.h>
#include <string.h>

enum { EVERY = 4 };

static struct bed *opened(uint16_t id, uint16_t voters)
{
    struct bed *b = bed_open(id, voters);
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(voters)}};
    b->c.hash_every = EVERY;
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    bed_wait(b, 0);
    return b;
}

// Applies all that is committed; the hash of the state after an entry is its index, spoiled or not.
static void apply(struct bed *b, uint64_t spoil)
{
    struct bt_entry e;
    for (uint64_t i = bed_status(b).applied + 1; i <= bed_status(b).commit; i++) {
        assert_true(bt_replica_entry(b->r, i, &e));
        bt_replica_applied(b->r, i);
        if (bt_replica_hash_wanted(b->r, &e)) {
            bt_replica_hashed(b->r, b->now, i, i ^ spoil);
        }
    }
}

static void says(struct bed *b, uint16_t from, uint32_t flags, uint64_t index, uint64_t hash)
{
    struct bt_group_message m = bed_message(BT_GROUP_STATE, from, bed_status(b).term);
    m.states = (struct bt_group_states){.flags = flags, .count = 1, .applied = index, .at = {{index, hash}}};
    bed_deliver(b, &m);
}

static struct bed *leader(uint16_t voters)
{
    struct bed *b = opened(1, voters);
    bed_lead(b);
    apply(b, 0);
    bed_forget(b);
    return b;
}

static void differs(struct bed *b, uint64_t index)
{
    struct bt_group_message m = bed_message(BT_GROUP_DIVERGED, 1, 1);
    m.states = (struct bt_group_states){.count = 1, .at = {{index, index}}};
    bed_deliver(b, &m);
}

// A follower of member 1 with entries 1 to n applied, at which its state is another one than their index says.
static struct bed *follower(uint64_t n)
{
    static const uint64_t terms[] = {1, 1, 1, 1, 1, 1, 1, 1, 0};
    struct bed *b = opened(2, 3);
    bed_append(b, 1, 1, 0, 0, 0, terms + 8 - n);
    bed_done(b);
    bed_append(b, 1, 1, n, 1, n, terms + 8);
    apply(b, 99);
    return b;
}

static void r391_a_member_tells_its_leader_what_it_had(void **state)
{
    (void)state;
    struct bed *b = follower(8);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_STATE, 1);
    assert_non_null(m);
    assert_int_equal(m->states.count, 2);
    assert_int_equal(m->states.at[0].index, EVERY);
    assert_int_equal(m->states.at[1].index, 2 * EVERY);
    assert_int_equal(m->states.at[1].hash, (2 * EVERY) ^ 99);
    assert_int_equal(m->states.flags, 0);
    bed_close(b);
}

static void r391_without_a_hash_nothing_is_said(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    apply(b, 0);
    bt_replica_hashed(b->r, b->now, 1, 7);
    says(b, 2, 0, 1, 8);
    says(b, 3, 0, 1, 8);
    assert_int_equal(bed_status(b).fenced.index, 0);
    bed_close(b);
}

static void r392_who_differs_from_a_majority_is_told(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 2, 0, 1, 5);
    assert_int_equal(bed_count(b, BT_GROUP_DIVERGED), 0); // one against one
    says(b, 3, 0, 1, 1);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_DIVERGED, 2);
    assert_non_null(m);
    assert_int_equal(m->states.at[0].index, 1);
    assert_int_equal(m->states.at[0].hash, 1);
    assert_int_equal(bed_count(b, BT_GROUP_DIVERGED), 1);
    struct bt_replica_peer p;
    assert_true(bt_replica_peer(b->r, 2, &p));
    assert_int_equal(p.diverged, 1);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 2), BT_REPLICA_DIVERGED);
    bed_close(b);
}

static void r391_other_indices_say_nothing(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 2, 0, EVERY, 5);
    says(b, 3, 0, 2 * EVERY, 6);
    assert_int_equal(bed_count(b, BT_GROUP_DIVERGED), 0);
    assert_int_equal(bed_status(b).fenced.index, 0);
    bed_close(b);
}

static void r392_a_leader_in_the_minority_hands_over_and_does_not_come_back(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 2, 0, 1, 5);
    says(b, 3, 0, 1, 5);
    assert_int_equal(bed_status(b).fenced.index, 1);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    assert_int_equal(bed_count(b, BT_GROUP_TAKE_OVER), 1);
    bed_forget(b);
    bed_wait(b, 1000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

static void r394_without_a_majority_nobody_is_fenced_and_it_is_said(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 2, 0, 1, 5);
    assert_int_equal(bed_status(b).undecided, 0); // the third may agree with either
    says(b, 3, 0, 1, 6);
    assert_int_equal(bed_status(b).undecided, 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_STATES_UNDECIDED_TOTAL), 1);
    assert_int_equal(bed_count(b, BT_GROUP_DIVERGED), 0);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_close(b);
}

static void r392_a_fenced_member_acknowledges_and_votes_but_takes_no_snapshot(void **state)
{
    (void)state;
    static const uint64_t one[] = {1, 0};
    struct bed *b = follower(4);
    differs(b, 4);
    assert_int_equal(bed_status(b).fenced.index, 4);
    assert_int_equal(bed_last(b, BT_GROUP_STATE, 1)->states.flags, BT_GROUP_FENCED);
    bt_replica_applied(b->r, 5);
    assert_int_equal(bed_status(b).applied, 4);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 4, (const uint8_t *)"s", 1), BT_REPLICA_DIVERGED);
    bed_append(b, 1, 1, 4, 1, 4, one);
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 1)->append_reply.index, 5);
    struct bt_group_message m = bed_message(BT_GROUP_VOTE, 3, 2);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_TRANSFER, .asked = 2, .last_index = 5, .last_term = 1};
    bed_deliver(b, &m);
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_VOTE_REPLY, 3)->vote.flags, BT_GROUP_YES);
    bed_close(b);
}

static void r392_the_word_of_another_state_than_the_own_one_changes_nothing(void **state)
{
    (void)state;
    struct bed *b = follower(4);
    differs(b, 8); // it has not come there
    assert_int_equal(bed_status(b).fenced.index, 0);
    bed_close(b);
}

static void r393_a_fenced_member_takes_a_snapshot_of_entries_that_it_has(void **state)
{
    (void)state;
    static const uint64_t four[] = {1, 1, 1, 1, 0};
    struct bed *b = follower(4);
    differs(b, 4);
    bed_append(b, 1, 1, 4, 1, 8, four);
    bed_done(b);
    struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT, 1, 1);
    m.snapshot = (struct bt_group_snapshot){.last_index = 6, .last_term = 1, .total = 2, .config = bed_voters(3)};
    m.snapshot.length = 2;
    m.snapshot.bytes = (const uint8_t *)"ok";
    bed_deliver(b, &m);
    bed_done(b);
    assert_int_equal(b->restored, 6);
    assert_int_equal(bed_status(b).fenced.index, 0);
    assert_int_equal(bed_status(b).applied, 6);
    assert_int_equal(bed_status(b).last, 8); // what it acknowledged stays
    assert_int_equal(bed_last(b, BT_GROUP_STATE, 1)->states.count, 0);
    bed_close(b);
}

static void r393_the_leader_gives_a_later_state_also_in_a_group_at_rest(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 2, 0, 1, 5);
    says(b, 3, 0, 1, 1);
    says(b, 2, BT_GROUP_FENCED, 1, 5);
    uint64_t last = bed_status(b).last;
    bed_wait(b, 20 * BED_MS);
    assert_int_equal(bed_status(b).last, last + 1); // an entry that does nothing
    bed_done(b);
    bed_ack(b, 3, last + 1);
    apply(b, 0);
    assert_true(bed_status(b).mending);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, last + 1, (const uint8_t *)"ok", 2), BT_REPLICA_OK);
    bed_done(b);
    bed_wait(b, 20 * BED_MS);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_SNAPSHOT, 2);
    assert_non_null(m);
    assert_int_equal(m->snapshot.last_index, last + 1);
    assert_null(bed_last(b, BT_GROUP_SNAPSHOT, 3));
    bed_close(b);
}

static void r391_a_member_tells_the_latest_of_what_it_had(void **state)
{
    (void)state;
    uint64_t terms[45] = {0};
    for (int i = 0; i < 44; i++) {
        terms[i] = 1;
    }
    struct bed *b = opened(2, 3);
    bed_append(b, 1, 1, 0, 0, 0, terms);
    bed_done(b);
    bed_append(b, 1, 1, 44, 1, 44, terms + 44);
    apply(b, 0);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_STATE, 1);
    assert_non_null(m);
    assert_int_equal(m->states.applied, 44);
    assert_int_equal(m->states.count, BT_GROUP_STATES_MAX);
    for (uint64_t i = 0; i < BT_GROUP_STATES_MAX; i++) {
        assert_int_equal(m->states.at[i].index, 44 - EVERY * (BT_GROUP_STATES_MAX - 1 - i));
        assert_int_equal(m->states.at[i].hash, m->states.at[i].index);
    }
    bed_forget(b);
    bt_replica_hashed(b->r, b->now, 44, 7); // that was said
    bt_replica_hashed(b->r, b->now, 48, 7); // that is not applied
    assert_int_equal(bed_count(b, BT_GROUP_STATE), 0);
    bed_close(b);
}

static void r391_each_entry_may_be_the_one_to_compare_at(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    for (uint64_t every = 0; every < 3; every++) {
        struct bt_recovery fresh = {.snapshot = {.config = bed_voters(3)}};
        struct bt_entry command = {.index = 6, .kind = BT_ENTRY_COMMAND}, odd = command, noop = command;
        odd.index = noop.index = 7;
        noop.kind = BT_ENTRY_NOOP;
        b->c.hash_every = (uint32_t)every;
        assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
        assert_int_equal(bt_replica_hash_wanted(b->r, &command), every != 0);
        assert_int_equal(bt_replica_hash_wanted(b->r, &odd), every == 1);
        assert_int_equal(bt_replica_hash_wanted(b->r, &noop), every != 0);
    }
    bed_close(b);
}

static void r391_only_a_leader_is_told_and_only_by_members(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    says(b, 9, 0, 1, 5);
    assert_int_equal(bed_counter(b, BT_REPLICA_STRANGER_TOTAL), 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 0);
    bed_close(b);
    b = follower(4);
    says(b, 3, 0, 4, 5);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_STRANGER_TOTAL), 0);
    assert_int_equal(bed_status(b).fenced.index, 0);
    bed_close(b);
}

// Once in the time between two signs of life, however often the leader speaks.
static void r392_a_fenced_member_reminds_its_leader(void **state)
{
    (void)state;
    struct bed *b = follower(4);
    for (int fenced = 0; fenced < 2; fenced++) {
        bed_forget(b);
        for (int ms = 0; ms < 30; ms++) {
            bed_wait(b, BED_MS);
            bed_append(b, 1, 1, 4, 1, 4, (uint64_t[]){0});
        }
        assert_int_equal(bed_count(b, BT_GROUP_STATE), fenced != 0 ? 3 : 0);
        differs(b, 4);
    }
    assert_int_equal(bed_counter(b, BT_REPLICA_FENCED_TOTAL), 1); // the second time it is nothing new
    bed_close(b);
}

static void r393_a_snapshot_mends_only_who_was_fenced(void **state)
{
    (void)state;
    for (int fenced = 0; fenced < 2; fenced++) {
        struct bed *b = follower(4);
        if (fenced != 0) {
            differs(b, 4);
        }
        bed_forget(b);
        struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT, 1, 1);
        m.snapshot = (struct bt_group_snapshot){.last_index = 6, .last_term = 1, .total = 2, .config = bed_voters(3)};
        m.snapshot.length = 2;
        m.snapshot.bytes = (const uint8_t *)"ok";
        bed_deliver(b, &m);
        bed_done(b);
        assert_int_equal(b->restored, 6);
        assert_int_equal(bed_counter(b, BT_REPLICA_MENDED_TOTAL), fenced);
        assert_int_equal(bed_count(b, BT_GROUP_STATE), fenced);
        bed_close(b);
    }
}

static void r394_a_later_state_that_most_have_decides_it(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    uint64_t index = 0;
    says(b, 2, 0, 1, 5);
    says(b, 3, 0, 1, 6);
    assert_int_equal(bed_status(b).undecided, 1);
    for (uint64_t i = 2; i <= EVERY; i++) {
        assert_int_equal(bt_replica_propose(b->r, b->now, (const uint8_t *)"c", 1, &index), BT_REPLICA_OK);
    }
    assert_int_equal(index, EVERY);
    bed_done(b);
    bed_ack(b, 2, index);
    apply(b, 0);
    assert_int_equal(bed_status(b).undecided, 1);
    says(b, 2, 0, EVERY, EVERY);
    assert_int_equal(bed_status(b).undecided, 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_STATES_COMPARED_TOTAL), 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_STATES_UNDECIDED_TOTAL), 1);
    bed_close(b);
}

// The others had told theirs before the leader came to that entry.
static void r392_a_leader_that_comes_to_another_state_than_most_hands_over(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3);
    bed_lead(b);
    says(b, 2, 0, 1, 5);
    says(b, 3, 0, 1, 5);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    apply(b, 0);
    assert_int_equal(bed_status(b).fenced.index, 1);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    bed_close(b);
}

// What was undecided later stays so when an earlier entry is.
static void r394_an_earlier_state_that_most_have_decides_nothing_later(void **state)
{
    (void)state;
    struct bed *b = leader(3);
    uint64_t index = 0;
    for (uint64_t i = 2; i <= EVERY; i++) {
        assert_int_equal(bt_replica_propose(b->r, b->now, (const uint8_t *)"c", 1, &index), BT_REPLICA_OK);
    }
    bed_done(b);
    bed_ack(b, 2, index);
    apply(b, 0);
    says(b, 2, 0, EVERY, 5);
    says(b, 3, 0, EVERY, 6);
    assert_int_equal(bed_status(b).undecided, EVERY);
    says(b, 2, 0, 1, 1);
    assert_int_equal(bed_status(b).undecided, EVERY);
    assert_int_equal(bed_counter(b, BT_REPLICA_STATES_COMPARED_TOTAL), 1);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r391_a_member_tells_its_leader_what_it_had),
        cmocka_unit_test(r391_without_a_hash_nothing_is_said),
        cmocka_unit_test(r392_who_differs_from_a_majority_is_told),
        cmocka_unit_test(r391_other_indices_say_nothing),
        cmocka_unit_test(r392_a_leader_in_the_minority_hands_over_and_does_not_come_back),
        cmocka_unit_test(r394_without_a_majority_nobody_is_fenced_and_it_is_said),
        cmocka_unit_test(r392_a_fenced_member_acknowledges_and_votes_but_takes_no_snapshot),
        cmocka_unit_test(r392_the_word_of_another_state_than_the_own_one_changes_nothing),
        cmocka_unit_test(r393_a_fenced_member_takes_a_snapshot_of_entries_that_it_has),
        cmocka_unit_test(r393_the_leader_gives_a_later_state_also_in_a_group_at_rest),
        cmocka_unit_test(r391_a_member_tells_the_latest_of_what_it_had),
        cmocka_unit_test(r391_each_entry_may_be_the_one_to_compare_at),
        cmocka_unit_test(r391_only_a_leader_is_told_and_only_by_members),
        cmocka_unit_test(r392_a_fenced_member_reminds_its_leader),
        cmocka_unit_test(r393_a_snapshot_mends_only_who_was_fenced),
        cmocka_unit_test(r394_a_later_state_that_most_have_decides_it),
        cmocka_unit_test(r392_a_leader_that_comes_to_another_state_than_most_hands_over),
        cmocka_unit_test(r394_an_earlier_state_that_most_have_decides_nothing_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
