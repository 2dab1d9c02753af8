// SPDX-License-Identifier: Apache-2.0
// A follower's log, I-3, I-8.
#include "bed.h"

#include "base/bytes.h"

static const struct bt_group_append_reply *reply(struct bed *b, uint16_t to)
{
    const struct bt_group_message *m = bed_last(b, BT_GROUP_APPEND_REPLY, to);
    return m != NULL ? &m->append_reply : NULL;
}

static void r347_success_follows_the_completion(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 4, 0, 0, 0, (uint64_t[]){4, 4, 0});
    bed_append(b, 2, 4, 2, 4, 0, (uint64_t[]){4, 0});
    assert_null(reply(b, 2));
    assert_int_equal(b->op[0].kind, BT_STORE_HARD_STATE); // the term goes first
    assert_int_equal(b->op[1].kind, BT_STORE_APPEND);
    bed_done_to(b, b->op[0].generation);
    assert_int_equal(reply(b, 2)->index, 0);
    bed_done_to(b, b->op[1].generation);
    assert_int_equal(reply(b, 2)->index, 2);
    bed_done(b);
    assert_int_equal(reply(b, 2)->index, 3);
    assert_true((reply(b, 2)->flags & BT_GROUP_YES) != 0);
    bed_close(b);
}

static void r347_a_sign_of_life_is_answered_with_what_is_durable(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 0});
    bed_done(b);
    bed_append(b, 2, 1, 1, 1, 0, (uint64_t[]){1, 0});
    bed_append(b, 2, 1, 2, 1, 0, (uint64_t[]){0});
    assert_int_equal(reply(b, 2)->index, 1);
    bed_close(b);
}

static void r310_only_what_this_terms_leader_verified_is_acknowledged(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){2, 2, 2, 2, 0});
    bed_done(b);
    bed_append(b, 3, 3, 1, 2, 4, (uint64_t[]){0});
    bed_done(b);
    assert_int_equal(reply(b, 3)->index, 1);
    assert_int_equal(bed_status(b).commit, 1); // not 4: entries 2 to 4 may be replaced
    bed_close(b);
}

static void i3_entries_that_do_not_follow_are_refused_and_conflicts_replaced(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){1, 2, 2, 0});
    bed_done(b);
    bed_append(b, 3, 4, 7, 3, 0, (uint64_t[]){4, 0});
    assert_false((reply(b, 3)->flags & BT_GROUP_YES) != 0);
    assert_int_equal(reply(b, 3)->index, 7);
    assert_int_equal(reply(b, 3)->last, 3);
    bed_append(b, 3, 4, 3, 3, 0, (uint64_t[]){4, 0});
    assert_int_equal(reply(b, 3)->last, 1); // all of term 2 is another's
    bed_append(b, 3, 4, 1, 1, 0, (uint64_t[]){3, 4, 0});
    assert_int_equal(bed_last_op(b, BT_STORE_TRUNCATE)->index, 2);
    bed_done(b);
    assert_int_equal(reply(b, 3)->index, 3);
    assert_int_equal(bed_status(b).last_term, 4);
    assert_int_equal(bed_counter(b, BT_REPLICA_TRUNCATED_TOTAL), 2);
    bed_close(b);
}

// The leader that this one follows may have begun its log later: all it holds must find room here, or neither it nor
// anybody commits again.
static void r348_a_follower_takes_what_a_full_leaders_log_holds(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    uint64_t terms[33] = {0};
    for (int i = 0; i < 32; i++) {
        terms[i] = 2;
    }
    for (uint64_t prev = 0; prev < 256; prev += 32) {
        bed_append(b, 2, 2, prev, prev > 0 ? 2 : 0, 0, terms);
        bed_done(b);
    }
    assert_int_equal(bed_status(b).last, 256); // of 256 slots
    assert_int_equal(reply(b, 2)->index, 256);
    bed_append(b, 2, 2, 256, 2, 0, (uint64_t[]){2, 0});
    assert_int_equal(bed_status(b).last, 256);
    assert_false(bed_status(b).snapshot_wanted); // nothing is applied, so none can be given
    bed_close(b);
}

static void r348_a_log_nearly_full_wants_a_snapshot_and_keeps_nothing_before_it(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    uint64_t terms[33] = {0};
    for (int i = 0; i < 32; i++) {
        terms[i] = 2;
    }
    for (uint64_t prev = 0; prev < 224; prev += 32) {
        bed_append(b, 2, 2, prev, prev > 0 ? 2 : 0, 40, terms);
        bed_done(b);
    }
    bt_replica_applied(b->r, 40);
    assert_true(bed_status(b).snapshot_wanted);
    assert_int_equal(bt_replica_snapshot(b->r, b->now, 40, (const uint8_t *)"state", 5), BT_REPLICA_OK);
    bed_done(b);
    assert_int_equal(bed_status(b).first, 41); // not 4 entries more, as it keeps otherwise
    assert_false(bed_status(b).snapshot_wanted);
    bed_append(b, 2, 2, 224, 2, 40, terms);
    bed_append(b, 2, 2, 256, 2, 40, terms);
    bed_done(b);
    assert_int_equal(reply(b, 2)->index, 288);
    bed_close(b);
}

static void i3_a_late_message_shortens_no_log(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 1, 1, 1, 0});
    bed_done(b);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 1, 0});
    assert_int_equal(bed_status(b).last, 4);
    assert_int_equal(reply(b, 2)->index, 4);
    assert_null(bed_last_op(b, BT_STORE_TRUNCATE));
    bed_close(b);
}

static void i5_what_is_committed_is_never_replaced(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 2, (uint64_t[]){2, 2, 0});
    bed_done(b);
    bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){3, 3, 0});
    assert_int_equal(bed_counter(b, BT_REPLICA_CONFLICT_TOTAL), 1);
    assert_int_equal(bed_status(b).last_term, 2);
    bed_close(b);
}

static void r347_a_completion_of_truncated_entries_acknowledges_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 2, 0, 0, 0, (uint64_t[]){2, 2, 0});
    uint64_t before = b->op[b->ops_n - 1].generation;
    bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){3, 3, 0});
    bed_done_to(b, before);
    assert_null(reply(b, 3));
    assert_int_equal(bed_status(b).durable, 0);
    bed_done(b);
    assert_int_equal(reply(b, 3)->index, 2);
    bed_close(b);
}

static void r348_a_full_log_takes_the_beginning_and_says_so(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_fill(b, 2);
    uint64_t most = b->c.log_slots; // the reserve is for who proposes
    assert_int_equal(reply(b, 2)->index, most);
    assert_int_equal(bed_status(b).last, most);
    assert_true(bed_counter(b, BT_REPLICA_NO_ROOM_TOTAL) > 0);
    bed_close(b);
}

static void r345_foreign_forged_and_damaged_messages_change_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, 2, 9);
    m.header.cluster ^= 1;
    bed_deliver(b, &m);
    m = bed_message(BT_GROUP_APPEND, 2, 9);
    m.header.group++;
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_FOREIGN_TOTAL), 2);
    m = bed_message(BT_GROUP_APPEND, 1, 9);
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_OWN_TOTAL), 1);
    bt_replica_receive(b->r, b->now, (const uint8_t *)"\1\2\3", 3);
    assert_int_equal(bed_counter(b, BT_REPLICA_MALFORMED_TOTAL), 1);
    assert_int_equal(bed_status(b).term, 1);
    assert_int_equal(b->ops_n, 0);
    assert_int_equal(b->sent_n, 0);
    bed_close(b);
}

static void i1_a_second_leader_of_a_term_is_not_followed(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 3, 0, 0, 0, (uint64_t[]){3, 0});
    bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){2, 3, 0});
    assert_int_equal(bed_counter(b, BT_REPLICA_SECOND_LEADER_TOTAL), 1);
    assert_int_equal(bed_status(b).last, 1);
    bed_close(b);
}

static void a_leader_of_an_earlier_term_learns_the_later_one(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 5, 0, 0, 0, (uint64_t[]){5, 0});
    bed_append(b, 3, 4, 0, 0, 0, (uint64_t[]){4, 0});
    assert_int_equal(bed_counter(b, BT_REPLICA_STALE_TOTAL), 1);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 3)->header.term, 5);
    assert_false((reply(b, 3)->flags & BT_GROUP_YES) != 0);
    bed_close(b);
}

static void a_member_whose_disk_failed_acknowledges_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 0});
    bt_replica_stored(b->r, b->now, b->op[b->ops_n - 1].generation, BT_STORE_FAILED);
    bed_done(b);
    bed_append(b, 2, 1, 1, 1, 0, (uint64_t[]){0});
    assert_null(reply(b, 2));
    assert_true(bed_status(b).failed);
    assert_true(bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL) > 0);
    bed_wait(b, 500 * BED_MS); // nor does it want to lead
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r347_success_follows_the_completion),
        cmocka_unit_test(r347_a_sign_of_life_is_answered_with_what_is_durable),
        cmocka_unit_test(r310_only_what_this_terms_leader_verified_is_acknowledged),
        cmocka_unit_test(i3_entries_that_do_not_follow_are_refused_and_conflicts_replaced),
        cmocka_unit_test(i3_a_late_message_shortens_no_log),
        cmocka_unit_test(r348_a_follower_takes_what_a_full_leaders_log_holds),
        cmocka_unit_test(r348_a_log_nearly_full_wants_a_snapshot_and_keeps_nothing_before_it),
        cmocka_unit_test(i5_what_is_committed_is_never_replaced),
        cmocka_unit_test(r347_a_completion_of_truncated_entries_acknowledges_nothing),
        cmocka_unit_test(r348_a_full_log_takes_the_beginning_and_says_so),
        cmocka_unit_test(r345_foreign_forged_and_damaged_messages_change_nothing),
        cmocka_unit_test(i1_a_second_leader_of_a_term_is_not_followed),
        cmocka_unit_test(a_leader_of_an_earlier_term_learns_the_later_one),
        cmocka_unit_test(a_member_whose_disk_failed_acknowledges_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
