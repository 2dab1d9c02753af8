// SPDX-License-Identifier: Apache-2.0
// A member at its bounds: a store that has enough to do, a snapshot that is being stored or was begun by somebody who
// leads no more, a log that is full, and answers that nobody waits for..
#include "bed.h"

#include <string.h>

static uint8_t bytes[4000];

static struct bt_group_message chunk(uint64_t term, uint64_t last_index, uint64_t total, uint64_t offset, uint32_t n)
{
    struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT, 2, term);
    m.snapshot = (struct bt_group_snapshot){.last_index = last_index,
                                            .last_term = 1,
                                            .total = total,
                                            .offset = offset,
                                            .config = bed_voters(3),
                                            .length = n,
                                            .bytes = bytes + offset};
    return m;
}

static const uint64_t one[] = {1, 0}, five[] = {1, 1, 1, 1, 1, 0}, nothing[] = {0};

// 256 operations may be under way; entries beyond are left to the leader, and taken when there is room again.
static void r348_a_store_that_has_enough_to_do_takes_nothing_more(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, one);
    uint64_t term = 2;
    for (; bed_status(b).storing < BT_REPLICA_STORE_MAX - 1; term++) { // each term is written down
        bed_append(b, 2, term, 1, 1, 0, nothing);
    }
    term--;
    bed_append(b, 2, term, 1, 1, 0, (uint64_t[]){1, 0}); // the last one that there is room for
    assert_int_equal(bed_status(b).last, 2);
    uint64_t last = bed_status(b).last;
    assert_int_equal(bed_status(b).storing, BT_REPLICA_STORE_MAX);
    assert_int_equal(bed_counter(b, BT_REPLICA_STORE_BUSY_TOTAL), 0);
    bed_append(b, 2, term, last, 1, 0, one);
    assert_int_equal(bed_counter(b, BT_REPLICA_STORE_BUSY_TOTAL), 1);
    assert_int_equal(bed_status(b).last, last);
    bed_append(b, 2, term, last - 1, 1, 0, one); // what is here already needs no room
    assert_int_equal(bed_counter(b, BT_REPLICA_STORE_BUSY_TOTAL), 1);
    bed_done(b);
    bed_append(b, 2, term, last, 1, 0, one);
    assert_int_equal(bed_status(b).last, last + 1);
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 2)->append_reply.index, last + 1);
    bed_close(b);
}

// the log is about to follow the snapshot; what comes meanwhile is left to the leader.
static void r349_nothing_is_taken_while_a_snapshot_is_being_stored(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 2, five);
    bed_done(b);
    struct bt_group_message m = chunk(1, 5, 10, 0, 10);
    bed_deliver(b, &m);
    bed_append(b, 2, 1, 5, 1, 2, one);
    assert_int_equal(bed_counter(b, BT_REPLICA_SNAPSHOT_BUSY_TOTAL), 1);
    assert_int_equal(bed_status(b).last, 5);
    bed_done(b);
    assert_int_equal(bed_status(b).snapshot, 5);
    bed_append(b, 2, 1, 5, 1, 2, one);
    assert_int_equal(bed_status(b).last, 6);
    assert_int_equal(bed_counter(b, BT_REPLICA_SNAPSHOT_BUSY_TOTAL), 1);
    bed_close(b);
}

// Of a leader that leads no more: the next one begins at the first byte, whatever came before.
static void r350_what_came_of_a_snapshot_is_void_in_another_term(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = chunk(1, 5, 100, 0, 40);
    bed_deliver(b, &m);
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2)->snapshot_reply.offset, 40);
    m = chunk(2, 5, 100, 40, 60); // in the next term, as if nothing had happened
    bed_deliver(b, &m);
    bed_done(b);
    const struct bt_group_message *reply = bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2);
    assert_true((reply->snapshot_reply.flags & BT_GROUP_YES) == 0 && reply->snapshot_reply.offset == 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_SNAPSHOT_ORDER_TOTAL), 1);
    assert_int_equal(b->restored_n, 0);
    for (uint64_t at = 0; at < 100; at += 50) {
        m = chunk(2, 5, 100, at, 50);
        bed_deliver(b, &m);
    }
    bed_done(b);
    assert_true(b->restored == 5 && b->restored_n == 100);
    bed_close(b);
}

static void r349_a_member_whose_disk_failed_takes_no_snapshot(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, one);
    bt_replica_stored(b->r, b->now, b->op[b->ops_n - 1].generation, BT_STORE_FAILED);
    uint64_t before = bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL);
    bed_forget(b);
    struct bt_group_message m = chunk(1, 5, 10, 0, 10);
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL), before + 1);
    assert_null(bed_last_op(b, BT_STORE_SNAPSHOT));
    assert_int_equal(bed_count(b, BT_GROUP_SNAPSHOT_REPLY), 0);
    bed_close(b);
}

// Who has no room for a leader's first entry could do nothing as one.
static void r348_who_has_a_full_log_does_not_ask_for_votes(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_fill(b, 2);
    assert_int_equal(bed_status(b).last, b->c.log_slots);
    bed_forget(b);
    bed_wait(b, 500 * BED_MS);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    assert_int_equal(bed_status(b).term, 1);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_ELECTIONS_TOTAL), 0);
    bed_close(b);
}

static void propose(struct bed *b, uint32_t n)
{
    uint64_t index;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(bt_replica_propose(b->r, b->now, (const uint8_t *)"command", 7, &index), BT_REPLICA_OK);
    }
    bed_done(b);
}

// What a member acknowledged it has, whatever it says later that it lacks; an old answer changes nothing.
static void r312_a_member_is_not_sent_again_what_it_acknowledged(void **state)
{
    (void)state;
    for (uint64_t last = 0; last <= 9; last++) {
        for (uint64_t refused = 5; refused <= 10; refused++) {
            struct bed *b = bed_open(1, 3);
            bed_lead(b);
            propose(b, 8); // up to entry 9
            bed_ack(b, 2, 5);
            bed_forget(b);
            struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term);
            m.append_reply = (struct bt_group_append_reply){.index = refused, .last = last};
            bed_deliver(b, &m);
            const struct bt_group_message *sent = bed_last(b, BT_GROUP_APPEND, 2);
            if (refused == 5 || refused == 10) { // acknowledged since, or never sent
                assert_null(sent);
            } else {
                uint64_t from = last < refused ? last : refused - 1;
                assert_int_equal(sent->append.prev_index, from > 5 ? from : 5);
            }
            bed_close(b);
        }
    }
}

static void answers_that_nobody_waits_for_are_counted(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_BODYLESS, .index = 1, .last = 0};
    bed_deliver(b, &m); // in a group whose messages carry their bodies
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 1);
    m = bed_message(BT_GROUP_SNAPSHOT_REPLY, 2, bed_status(b).term);
    m.snapshot_reply = (struct bt_group_snapshot_reply){.last_index = 77, .offset = 5}; // none that is being sent
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 2);
    m = bed_message(BT_GROUP_APPEND_REPLY, 2, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = 50, .last = 50};
    bed_deliver(b, &m); // more than the leader ever had
    assert_int_equal(bed_counter(b, BT_REPLICA_CONFLICT_TOTAL), 1);
    m = bed_message(BT_GROUP_APPEND_REPLY, 9, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = 1, .last = 1};
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_STRANGER_TOTAL), 1);
    assert_int_equal(bed_status(b).commit, 1);
    bed_close(b);
}

static void entries_are_those_of_the_log(void **state)
{
    struct bt_entry e;
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 5, five);
    bed_done(b);
    assert_false(bt_replica_entry(b->r, 0, &e) || bt_replica_entry(b->r, 6, &e));
    for (uint64_t index = 1; index <= 5; index++) {
        assert_true(bt_replica_entry(b->r, index, &e));
        assert_true(e.index == index && e.term == 1 && e.length == 5 && memcmp(e.body, "write", 5) == 0);
    }
    bt_replica_applied(b->r, 5);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 5, bytes, 10), BT_REPLICA_OK);
    bed_done(b);
    assert_false(bt_replica_entry(b->r, bed_status(b).first - 1, &e));
    assert_true(bt_replica_entry(b->r, bed_status(b).first, &e));
    bed_close(b);
}

static void every_counter_and_result_has_a_word_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(bt_replica_counter_name(BT_REPLICA_MALFORMED_TOTAL), "malformed");
    assert_string_equal(bt_replica_counter_name(BT_REPLICA_MENDED_TOTAL), "mended");
    assert_string_equal(bt_replica_counter_name(BT_REPLICA_COUNTERS), "unknown");
    assert_string_equal(bt_replica_result_name(BT_REPLICA_RESULTS), "unknown");
    static const struct {
        enum bt_replica_result result;
        const char *word;
    } rows[] = {{BT_REPLICA_OK, "ok"},
                {BT_REPLICA_NOT_LEADER, "not the leader"},
                {BT_REPLICA_FULL, "full"},
                {BT_REPLICA_TOO_LONG, "too long"},
                {BT_REPLICA_TRANSFERRING, "leadership is being handed over"},
                {BT_REPLICA_NOT_YET, "nothing of the own term is committed yet"},
                {BT_REPLICA_PENDING, "the one before is not done yet"},
                {BT_REPLICA_NO_MEMBER, "no such member"},
                {BT_REPLICA_ALREADY, "is so already"},
                {BT_REPLICA_LAST_VOTER, "the last voter"},
                {BT_REPLICA_BEHIND, "has not caught up"},
                {BT_REPLICA_FAILED, "the store failed"},
                {BT_REPLICA_FENCED, "the disk is damaged"},
                {BT_REPLICA_FOREIGN, "memory or records that contradict one another"},
                {BT_REPLICA_DIVERGED, "its state differs from a majority's"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(bt_replica_result_name(rows[i].result), rows[i].word);
    }
    assert_int_equal(sizeof rows / sizeof *rows, BT_REPLICA_RESULTS);
    for (int i = 0; i < BT_REPLICA_COUNTERS; i++) {
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(bt_replica_counter_name((enum bt_replica_counter)i),
                                    bt_replica_counter_name((enum bt_replica_counter)k));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r348_a_store_that_has_enough_to_do_takes_nothing_more),
        cmocka_unit_test(r349_nothing_is_taken_while_a_snapshot_is_being_stored),
        cmocka_unit_test(r350_what_came_of_a_snapshot_is_void_in_another_term),
        cmocka_unit_test(r349_a_member_whose_disk_failed_takes_no_snapshot),
        cmocka_unit_test(r348_who_has_a_full_log_does_not_ask_for_votes),
        cmocka_unit_test(r312_a_member_is_not_sent_again_what_it_acknowledged),
        cmocka_unit_test(answers_that_nobody_waits_for_are_counted),
        cmocka_unit_test(entries_are_those_of_the_log),
        cmocka_unit_test(every_counter_and_result_has_a_word_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
