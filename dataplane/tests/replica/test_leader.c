// SPDX-License-Identifier: Apache-2.0
// A leader: what it sends, counts and commits., I-4.
#include "bed.h"

#include <string.h>

static uint64_t propose(struct bed *b)
{
    uint64_t index = 0;
    assert_int_equal(bt_replica_propose(b->r, b->now, (const uint8_t *)"command", 7, &index), BT_REPLICA_OK);
    return index;
}

static void r347_its_own_entry_counts_once_durable(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t i = propose(b);
    bed_ack(b, 2, i);
    assert_int_equal(bed_status(b).commit, i - 1);
    bed_done(b);
    assert_int_equal(bed_status(b).commit, i);
    bed_close(b);
}

static void two_followers_commit_before_the_leaders_disk(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t i = propose(b);
    bed_ack(b, 2, i);
    bed_ack(b, 3, i);
    assert_int_equal(bed_status(b).commit, i);
    bed_close(b);
}

static void r311_a_commit_is_announced_at_once(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t i = propose(b);
    bed_done(b);
    bed_forget(b);
    bed_ack(b, 2, i);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.commit, i);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 3)->append.commit, i);
    bed_close(b);
}

static void i4_entries_of_earlier_terms_are_committed_by_one_of_the_own(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 5);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){2, 2, 0});
    bed_done(b);
    // elected in term 3; its first entry is the third
    bed_wait(b, 150 * BED_MS);
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, 2, 2);
    for (uint16_t from = 2; from <= 3; from++) {
        m = bed_message(BT_GROUP_VOTE_REPLY, from, 2);
        m.vote = (struct bt_group_vote){.flags = BT_GROUP_PRE | BT_GROUP_YES, .asked = 3};
        bed_deliver(b, &m);
    }
    bed_done(b);
    for (uint16_t from = 2; from <= 3; from++) {
        m = bed_message(BT_GROUP_VOTE_REPLY, from, 3);
        m.vote = (struct bt_group_vote){.flags = BT_GROUP_YES, .asked = 3};
        bed_deliver(b, &m);
    }
    bed_done(b);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    for (uint16_t from = 2; from <= 5; from++) {
        bed_ack(b, from, 2);
    }
    assert_int_equal(bed_status(b).commit, 0);
    bed_ack(b, 2, 3);
    bed_ack(b, 3, 3);
    assert_int_equal(bed_status(b).commit, 3);
    bed_close(b);
}

static void r312_at_most_so_many_messages_are_under_way(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t first = propose(b);
    for (int i = 0; i < 9; i++) {
        propose(b);
    }
    assert_int_equal(bed_count(b, BT_GROUP_APPEND), 2 * 4);
    bed_forget(b);
    bed_ack(b, 2, first);
    assert_int_equal(bed_count(b, BT_GROUP_APPEND), 1); // one place: all that waited
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.count, 6);
    bed_close(b);
}

static void r313_a_message_carries_what_fits_and_a_longer_command_is_refused(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    static uint8_t body[BED_MESSAGE];
    uint64_t index = 0;
    bed_lead(b);
    assert_int_equal(bt_replica_propose(b->r, b->now, body, sizeof body, &index), BT_REPLICA_TOO_LONG);
    uint32_t most = BED_MESSAGE - BT_GROUP_HEADER - 28 - BT_GROUP_ENTRY;
    assert_int_equal(bt_replica_propose(b->r, b->now, body, most + 1, &index), BT_REPLICA_TOO_LONG);
    assert_int_equal(bt_replica_propose(b->r, b->now, body, most, &index), BT_REPLICA_OK);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.count, 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNSENT_TOTAL), 0);
    bed_close(b);
}

static void a_refused_member_is_asked_for_what_it_has_and_then_fed(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    for (int i = 0; i < 6; i++) {
        propose(b);
    }
    bed_done(b);
    bed_forget(b);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.index = 4, .last = 2};
    bed_deliver(b, &m);
    const struct bt_group_message *sent = bed_last(b, BT_GROUP_APPEND, 2);
    assert_non_null(sent);
    assert_int_equal(sent->append.prev_index, 2);
    assert_int_equal(sent->append.count, 5);
    bed_forget(b);
    bed_deliver(b, &m); // again: it was answered
    m.append_reply.index = 1;
    bed_deliver(b, &m); // below what it is known to hold
    assert_int_equal(bed_count(b, BT_GROUP_APPEND), 0);
    bed_ack(b, 2, 7);
    assert_int_equal(bed_status(b).commit, 7);
    bed_close(b);
}

static void a_lost_message_is_noticed_at_the_next_sign_of_life(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t i = propose(b); // lost
    bed_forget(b);
    bed_wait(b, 10 * BED_MS);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_APPEND, 2);
    assert_int_equal(m->append.prev_index, i);
    assert_int_equal(m->append.count, 0);
    bed_close(b);
}

static void answers_of_strangers_and_of_the_impossible_are_dropped(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    uint64_t i = propose(b);
    bed_done(b);
    bed_ack(b, 9, i);
    assert_int_equal(bed_counter(b, BT_REPLICA_STRANGER_TOTAL), 1);
    bed_ack(b, 2, i + 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_CONFLICT_TOTAL), 1);
    assert_int_equal(bed_status(b).commit, i - 1);
    // nor one of an earlier term
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term - 1);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = i};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).commit, i - 1);
    bed_close(b);
}

static void r348_a_full_log_or_store_takes_no_more_commands(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 1);
    uint64_t index;
    bed_lead(b);
    enum bt_replica_result r = BT_REPLICA_OK;
    int taken = 0;
    while (r == BT_REPLICA_OK && taken < 1000) {
        r = bt_replica_propose(b->r, b->now, (const uint8_t *)"command", 7, &index);
        taken += r == BT_REPLICA_OK;
    }
    assert_int_equal(r, BT_REPLICA_FULL);
    assert_int_equal(taken, b->c.log_slots - 64 - 1);
    bed_close(b);
}

static void who_does_not_lead_takes_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    uint64_t index;
    assert_int_equal(bt_replica_propose(b->r, b->now, NULL, 0, &index), BT_REPLICA_NOT_LEADER);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 2), BT_REPLICA_NOT_LEADER);
    assert_int_equal(bt_replica_change(b->r, b->now, BT_REPLICA_REMOVE, 2), BT_REPLICA_NOT_LEADER);
    bed_close(b);
}

static void r351_leadership_is_handed_to_a_member_that_has_everything(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    uint64_t index;
    bed_lead(b);
    uint64_t i = propose(b);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 1), BT_REPLICA_ALREADY);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 8), BT_REPLICA_NO_MEMBER);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 2), BT_REPLICA_OK);
    assert_int_equal(bt_replica_propose(b->r, b->now, NULL, 0, &index), BT_REPLICA_TRANSFERRING);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 3), BT_REPLICA_TRANSFERRING);
    assert_null(bed_last(b, BT_GROUP_TAKE_OVER, 2));
    bed_ack(b, 2, i);
    assert_non_null(bed_last(b, BT_GROUP_TAKE_OVER, 2));
    // it does not come: after two election times commands are taken again
    for (int k = 0; k < 11; k++) {
        bed_wait(b, 10 * BED_MS);
        bed_ack(b, 2, i);
        bed_ack(b, 3, i);
    }
    assert_int_equal(bt_replica_propose(b->r, b->now, NULL, 0, &index), BT_REPLICA_OK);
    bed_close(b);
}

static void r351_asked_to_take_over_it_elects_itself_at_once(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 0});
    bed_done(b);
    struct bt_group_message m = bed_message(BT_GROUP_TAKE_OVER, 3, 1);
    bed_deliver(b, &m); // not its leader
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    m.header.from = 2;
    bed_deliver(b, &m);
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_VOTE, 2)->vote.flags, BT_GROUP_TRANSFER);
    assert_int_equal(bed_status(b).term, 2);
    bed_close(b);
}

static void a_leader_whose_disk_failed_hands_over(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    uint64_t index;
    bed_lead(b);
    bed_ack(b, 3, propose(b));
    bt_replica_stored(b->r, b->now, 1, BT_STORE_FAILED);
    assert_non_null(bed_last(b, BT_GROUP_TAKE_OVER, 3));
    assert_int_not_equal(bed_status(b).role, BT_REPLICA_LEADER);
    assert_int_equal(bt_replica_propose(b->r, b->now, NULL, 0, &index), BT_REPLICA_NOT_LEADER);
    bed_close(b);
}

static void completions_of_nothing_are_counted(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_done_to(b, 1);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 0});
    bed_done(b);
    bed_done_to(b, 1);
    bed_done_to(b, 99);
    assert_int_equal(bed_counter(b, BT_REPLICA_LATE_COMPLETION_TOTAL), 3);
    bed_close(b);
}

// Elected by member 2, and nobody acknowledged anything yet.
static void elected(struct bed *b)
{
    uint64_t term = bed_status(b).term;
    while (bed_status(b).role == BT_REPLICA_FOLLOWER) {
        bed_wait(b, BED_MS);
    }
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, 2, term);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_PRE | BT_GROUP_YES, .asked = term + 1};
    bed_deliver(b, &m);
    bed_done(b);
    bed_forget(b);
    m = bed_message(BT_GROUP_VOTE_REPLY, 2, term + 1);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_YES, .asked = term + 1};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
}

static void r313_what_members_had_in_an_earlier_leadership_counts_no_more(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_replica_peer p;
    bed_lead(b);
    propose(b);
    bed_done(b);
    bed_ack(b, 2, 2);
    assert_true(bt_replica_peer(b->r, 2, &p) && p.match == 2);
    bed_append(b, 2, bed_status(b).term + 1, 2, bed_status(b).term, 2, (uint64_t[]){0});
    bed_done(b);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    elected(b);
    for (uint16_t id = 2; id <= 3; id++) {
        assert_true(bt_replica_peer(b->r, id, &p) && p.match == 0);
        assert_int_equal(bed_last(b, BT_GROUP_APPEND, id)->append.prev_index, 2); // it is asked from the end on
    }
    bed_close(b);
}

// A member that was asked what it has, and has less than the log still holds: it is given the snapshot at once, and
// each part of it once.
static void r348_who_needs_a_snapshot_is_given_it_at_once_and_each_part_once(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    for (int i = 0; i < 12; i++) {
        propose(b);
        bed_done(b);
        bed_ack(b, 2, bed_status(b).last);
    }
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 3, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.index = 2, .last = 1};
    bed_deliver(b, &m); // it gets entries from 2 on, and is waited for
    bt_replica_applied(b->r, bed_status(b).commit);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, bed_status(b).commit, (const uint8_t *)"state", 5),
                     BT_REPLICA_OK);
    bed_done(b);
    assert_true(bed_status(b).first > 2);
    bed_forget(b);
    for (int i = 0; i < 3; i++) {
        propose(b);
    }
    assert_int_equal(bed_count(b, BT_GROUP_SNAPSHOT), 1);
    const struct bt_group_snapshot *s = &bed_last(b, BT_GROUP_SNAPSHOT, 3)->snapshot;
    assert_true(s->offset == 0 && s->total == 5 && s->length == 5);
    bed_forget(b);
    bed_wait(b, 10 * BED_MS); // with each sign of life it is given again
    assert_int_equal(bed_count(b, BT_GROUP_SNAPSHOT), 1);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r347_its_own_entry_counts_once_durable),
        cmocka_unit_test(two_followers_commit_before_the_leaders_disk),
        cmocka_unit_test(r311_a_commit_is_announced_at_once),
        cmocka_unit_test(i4_entries_of_earlier_terms_are_committed_by_one_of_the_own),
        cmocka_unit_test(r312_at_most_so_many_messages_are_under_way),
        cmocka_unit_test(r313_a_message_carries_what_fits_and_a_longer_command_is_refused),
        cmocka_unit_test(a_refused_member_is_asked_for_what_it_has_and_then_fed),
        cmocka_unit_test(a_lost_message_is_noticed_at_the_next_sign_of_life),
        cmocka_unit_test(answers_of_strangers_and_of_the_impossible_are_dropped),
        cmocka_unit_test(r348_a_full_log_or_store_takes_no_more_commands),
        cmocka_unit_test(who_does_not_lead_takes_nothing),
        cmocka_unit_test(r351_leadership_is_handed_to_a_member_that_has_everything),
        cmocka_unit_test(r351_asked_to_take_over_it_elects_itself_at_once),
        cmocka_unit_test(a_leader_whose_disk_failed_hands_over),
        cmocka_unit_test(completions_of_nothing_are_counted),
        cmocka_unit_test(r313_what_members_had_in_an_earlier_leadership_counts_no_more),
        cmocka_unit_test(r348_who_needs_a_snapshot_is_given_it_at_once_and_each_part_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
