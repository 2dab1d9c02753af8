// SPDX-License-Identifier: Apache-2.0
// Snapshots and starts.
#include "bed.h"

#include <string.h>

static uint8_t bytes[4000];

static void write_some(struct bed *b, uint32_t n)
{
    uint64_t index;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(bt_replica_propose(b->r, b->now, (const uint8_t *)"command", 7, &index), BT_REPLICA_OK);
    }
    bed_done(b);
    bed_ack(b, 2, index);
    assert_int_equal(bed_status(b).commit, index);
    bt_replica_applied(b->r, index);
}

static struct bt_group_message chunk(uint64_t term, uint64_t last_index, uint64_t total, uint64_t offset, uint32_t n)
{
    struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT, 2, term);
    m.snapshot = (struct bt_group_snapshot){.last_index = last_index,
                                            .last_term = 2,
                                            .total = total,
                                            .offset = offset,
                                            .config = bed_voters(5),
                                            .length = n,
                                            .bytes = bytes + offset};
    return m;
}

static void r349_the_log_goes_when_the_snapshot_is_durable(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    write_some(b, 20);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 22, bytes, 10), BT_REPLICA_NOT_YET);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 21, bytes, 4001), BT_REPLICA_TOO_LONG);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 21, bytes, 10), BT_REPLICA_OK);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 21, bytes, 10), BT_REPLICA_PENDING);
    assert_int_equal(bed_status(b).first, 1);
    assert_null(bed_last_op(b, BT_STORE_COMPACT));
    bed_done(b);
    assert_int_equal(bed_status(b).snapshot, 21);
    assert_int_equal(bed_last_op(b, BT_STORE_COMPACT)->index, 17); // some are kept
    assert_int_equal(bed_status(b).first, 18);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 21, bytes, 10), BT_REPLICA_ALREADY);
    bed_close(b);
}

static void r349_its_configuration_is_the_one_at_its_last_entry(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    write_some(b, 10);
    bed_ack(b, 3, 11);
    assert_int_equal(bt_replica_change(b->r, b->now, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_OK);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 11, bytes, 10), BT_REPLICA_OK);
    assert_int_equal(bed_last_op(b, BT_STORE_SNAPSHOT)->config.count, 3);
    bed_done(b);
    bed_ack(b, 2, 12);
    bt_replica_applied(b->r, 12);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 12, bytes, 10), BT_REPLICA_OK);
    assert_int_equal(bed_last_op(b, BT_STORE_SNAPSHOT)->config.count, 4);
    bed_close(b);
}

// Member 3 says that it lacks what goes before an entry.
static void lacks_what_goes_before(struct bed *b, uint64_t index)
{
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 3, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.index = index, .last = 1};
    bed_deliver(b, &m);
}

// A leader of three with entries up to 41, all of them in its snapshot.
static struct bed *leader_with_a_snapshot(void)
{
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    write_some(b, 40);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 41, bytes, 4000), BT_REPLICA_OK);
    bed_done(b);
    return b;
}

static void r349_a_member_too_far_behind_is_given_the_snapshot_in_chunks(void **state)
{
    (void)state;
    struct bed *b = leader_with_a_snapshot();
    struct bt_group_message m;
    bed_forget(b);
    lacks_what_goes_before(b, 41);
    uint64_t offset = 0;
    while (offset < 4000) {
        const struct bt_group_message *s = bed_last(b, BT_GROUP_SNAPSHOT, 3);
        assert_non_null(s);
        assert_int_equal(s->snapshot.offset, offset);
        assert_int_equal(s->snapshot.last_index, 41);
        offset += s->snapshot.length;
        bed_forget(b);
        m = bed_message(BT_GROUP_SNAPSHOT_REPLY, 3, bed_status(b).term);
        m.snapshot_reply = (struct bt_group_snapshot_reply){.last_index = 41, .offset = offset};
        if (offset < 4000) {
            bed_deliver(b, &m);
        }
    }
    m.snapshot_reply = (struct bt_group_snapshot_reply){.flags = BT_GROUP_YES, .last_index = 41};
    bed_deliver(b, &m);
    write_some(b, 1);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 3)->append.prev_index, 42);
    bed_close(b);
}

// Member 3 speaks for so many elections, and takes no chunk.
static void hears_no_chunks(struct bed *b, unsigned elections)
{
    uint64_t until = b->now + elections * b->c.election_ns;
    for (uint64_t index = bed_status(b).last; b->now < until;) {
        bed_wait(b, BED_MS);
        bed_ack(b, 2, index);
        lacks_what_goes_before(b, index);
        bed_done(b);
        bed_forget(b);
    }
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
}

// A path may lose what is long, or the leader may be heard by way of an aggregator only.
static void r349_a_member_that_takes_no_chunk_holds_up_no_snapshot(void **state)
{
    (void)state;
    struct bed *b = leader_with_a_snapshot();
    hears_no_chunks(b, 1);
    write_some(b, 5);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 46, bytes, 4000), BT_REPLICA_PENDING); // it may yet take one
    hears_no_chunks(b, 6);
    struct bt_group_message m = bed_message(BT_GROUP_SNAPSHOT_REPLY, 3, bed_status(b).term);
    m.snapshot_reply = (struct bt_group_snapshot_reply){.last_index = 41, .offset = 1000};
    bed_deliver(b, &m);
    hears_no_chunks(b, 6);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 46, bytes, 4000), BT_REPLICA_PENDING); // it took one
    hears_no_chunks(b, 4);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 46, bytes, 4000), BT_REPLICA_OK);
    bed_done(b);
    hears_no_chunks(b, 1);
    write_some(b, 5);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 51, bytes, 4000), BT_REPLICA_OK); // not each one anew
    bed_close(b);
}

static void r349_a_received_snapshot_counts_when_it_is_durable(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = chunk(4, 30, 2000, 0, 1000);
    bed_deliver(b, &m);
    bed_deliver(b, &m); // repeated
    assert_int_equal(bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2)->snapshot_reply.offset, 1000);
    assert_int_equal(bed_counter(b, BT_REPLICA_SNAPSHOT_ORDER_TOTAL), 1);
    m = chunk(4, 30, 2000, 1000, 1000);
    bed_deliver(b, &m);
    assert_int_equal(b->restored, 0);
    bed_forget(b);
    bed_deliver(b, &m); // being stored
    assert_int_equal(b->sent_n, 0);
    b->ops_n = 2;
    bed_done_to(b, 2);
    assert_int_equal(b->restored, 30);
    assert_int_equal(b->restored_n, 2000);
    assert_true((bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2)->snapshot_reply.flags & BT_GROUP_YES) != 0);
    struct bt_replica_status s = bed_status(b);
    assert_int_equal(s.commit, 30);
    assert_int_equal(s.applied, 30);
    assert_int_equal(s.first, 31);
    assert_int_equal(s.config->count, 5);
    bed_append(b, 2, 4, 30, 2, 31, (uint64_t[]){4, 0});
    assert_int_equal(bed_status(b).last, 31);
    bed_close(b);
}

static void r349_what_follows_another_entry_than_its_last_goes(void **state)
{
    (void)state;
    for (uint64_t term = 1; term <= 2; term++) { // of the log's entries; the snapshot's last is of term 2
        struct bed *b = bed_open(1, 3);
        bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){term, term, term, term, 0});
        bed_done(b);
        struct bt_group_message m = chunk(4, 3, 100, 0, 100);
        bed_deliver(b, &m);
        bed_done(b);
        bool stays = term == 2;
        assert_int_equal(bed_status(b).last, stays ? 4 : 3);
        assert_int_equal(bed_last_op(b, BT_STORE_TRUNCATE) != NULL, !stays);
        assert_int_equal(bed_last_op(b, BT_STORE_COMPACT)->index, 3);
        bed_close(b);
    }
}

static void r349_a_snapshot_above_the_bound_is_dropped(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = chunk(4, 30, 4001, 0, 1000);
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_SNAPSHOT_LARGE_TOTAL), 1);
    bed_close(b);
}

static void r350_a_configuration_in_the_log_is_in_force_after_a_restart(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_config four = bed_voters(4);
    uint8_t body[BT_GROUP_CONFIG_MAX];
    struct bt_entry e[] = {{.index = 8, .term = 2, .kind = BT_ENTRY_NOOP},
                           {.index = 9, .term = 3, .kind = BT_ENTRY_CONFIG, .body = body}};
    e[1].length = (uint32_t)bt_group_config_encode(body, sizeof body, &four);
    struct bt_recovery found = {
        .hard_state = {.term = 3, .vote = 2},
        .snapshot = {.last_index = 7, .last_term = 2, .config = bed_voters(3), .bytes = bytes, .length = 9},
        .entry = e,
        .count = 2};
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_OK);
    struct bt_replica_status s = bed_status(b);
    assert_int_equal(s.config->count, 4);
    assert_int_equal(s.config_index, 9);
    assert_int_equal(s.commit, 7);
    assert_int_equal(s.durable, 9);
    assert_int_equal(b->restored, 7);
    bed_close(b);
}

static void r349_a_crash_between_a_snapshot_and_what_follows_is_tidied(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_entry e[] = {{.index = 6, .term = 2}, {.index = 7, .term = 2}, {.index = 8, .term = 2}};
    struct bt_recovery found = {.hard_state = {.term = 4},
                                .snapshot = {.last_index = 7, .last_term = 3, .config = bed_voters(3)},
                                .entry = e,
                                .count = 3};
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_OK);
    assert_int_equal(bed_status(b).last, 7); // entry 8 followed another one
    assert_int_equal(b->op[0].kind, BT_STORE_TRUNCATE);
    assert_int_equal(b->op[0].index, 8);
    assert_int_equal(b->op[1].kind, BT_STORE_COMPACT);
    found.snapshot.last_term = 2;
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_OK);
    assert_int_equal(bed_status(b).last, 8);
    bed_close(b);
}

static void r346_records_that_contradict_one_another_are_not_believed(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_entry e[] = {{.index = 1, .term = 2}, {.index = 2, .term = 2}};
    struct bt_recovery found = {
        .hard_state = {.term = 2}, .snapshot = {.config = bed_voters(3)}, .entry = e, .count = 2};
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_OK);
    found.hard_state.term = 1; // below an entry's
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_FOREIGN);
    found.hard_state.term = 2;
    e[1].index = 3; // a gap
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_FOREIGN);
    e[1] = (struct bt_entry){.index = 2, .term = 1}; // a falling term
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_FOREIGN);
    found.fenced = "damaged at segment 1, byte 512";
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_FENCED);
    struct bt_replica_config c = b->c;
    c.log_slots = 100;
    assert_int_equal(bt_replica_bytes(&c), 0);
    bed_close(b);
}

static void r349_a_new_member_takes_no_snapshot_before_it_knows_the_members(void **state)
{
    (void)state;
    struct bed *b = bed_open(4, 0);
    bed_append(b, 2, 2, 0, 0, 2, (uint64_t[]){1, 2, 0});
    bed_done(b);
    bt_replica_applied(b->r, 2);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 2, bytes, 10), BT_REPLICA_NOT_YET);
    bed_close(b);
}

// Its own disk took one that reaches as far, or all of it is committed here: the leader need not go on.
static void r349_who_has_what_a_snapshot_holds_says_so_at_once(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){2, 2, 2, 0});
    bed_append(b, 2, 2, 3, 2, 3, (uint64_t[]){0});
    struct bt_group_message m = chunk(2, 3, 100, 0, 100);
    bed_forget(b);
    bed_deliver(b, &m);
    const struct bt_group_message *said = bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2);
    assert_true(said == NULL || said->snapshot_reply.flags == 0); // nothing of it is durable yet
    bed_close(b);
    b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){2, 2, 2, 0});
    bed_done(b);
    bed_append(b, 2, 2, 3, 2, 3, (uint64_t[]){0});
    assert_int_equal(bed_status(b).commit, 3);
    bed_forget(b);
    bed_deliver(b, &m);
    said = bed_last(b, BT_GROUP_SNAPSHOT_REPLY, 2);
    assert_non_null(said);
    assert_int_equal(said->snapshot_reply.flags, BT_GROUP_YES);
    assert_int_equal(said->snapshot_reply.last_index, 3);
    assert_int_equal(b->ops_n, 0);
    assert_int_equal(b->restored, 0);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r349_the_log_goes_when_the_snapshot_is_durable),
        cmocka_unit_test(r349_its_configuration_is_the_one_at_its_last_entry),
        cmocka_unit_test(r349_a_member_too_far_behind_is_given_the_snapshot_in_chunks),
        cmocka_unit_test(r349_a_member_that_takes_no_chunk_holds_up_no_snapshot),
        cmocka_unit_test(r349_a_received_snapshot_counts_when_it_is_durable),
        cmocka_unit_test(r349_what_follows_another_entry_than_its_last_goes),
        cmocka_unit_test(r349_a_snapshot_above_the_bound_is_dropped),
        cmocka_unit_test(r350_a_configuration_in_the_log_is_in_force_after_a_restart),
        cmocka_unit_test(r349_a_crash_between_a_snapshot_and_what_follows_is_tidied),
        cmocka_unit_test(r346_records_that_contradict_one_another_are_not_believed),
        cmocka_unit_test(r349_a_new_member_takes_no_snapshot_before_it_knows_the_members),
        cmocka_unit_test(r349_who_has_what_a_snapshot_holds_says_so_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
