// SPDX-License-Identifier: Apache-2.0
// Elections.
#include "bed.h"

static struct bt_group_message ask(uint16_t from, uint64_t asked, uint32_t flags, uint64_t last_index,
                                   uint64_t last_term)
{
    bool pre = (flags & BT_GROUP_PRE) != 0;
    struct bt_group_message m = bed_message(BT_GROUP_VOTE, from, asked - pre);
    m.vote = (struct bt_group_vote){.flags = flags, .asked = asked, .last_index = last_index, .last_term = last_term};
    return m;
}

static bool said_yes(struct bed *b, uint16_t to)
{
    const struct bt_group_message *m = bed_last(b, BT_GROUP_VOTE_REPLY, to);
    return m != NULL && (m->vote.flags & BT_GROUP_YES) != 0;
}

static void r351_a_question_goes_before_an_election_and_changes_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_wait(b, 110 * BED_MS);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_VOTE, 2);
    assert_non_null(m);
    assert_int_equal(m->vote.flags, BT_GROUP_PRE);
    assert_int_equal(m->vote.asked, 2);
    assert_int_equal(bed_status(b).term, 1);
    assert_null(bed_last_op(b, BT_STORE_HARD_STATE));
    bed_wait(b, 1000 * BED_MS); // nobody answers: the term does not rise
    assert_int_equal(bed_status(b).term, 1);
    bed_close(b);
}

static void r351_nobody_votes_while_there_is_a_leader_unless_it_asked_for_it(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){0});
    bed_done(b);
    struct bt_group_message m = ask(3, 2, BT_GROUP_PRE, 0, 0);
    bed_deliver(b, &m);
    m = ask(3, 2, 0, 0, 0);
    bed_deliver(b, &m);
    assert_null(bed_last(b, BT_GROUP_VOTE_REPLY, 3));
    assert_int_equal(bed_status(b).term, 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_LEASE_TOTAL), 2);
    m = ask(3, 2, BT_GROUP_TRANSFER, 0, 0);
    bed_deliver(b, &m);
    bed_done(b);
    assert_true(said_yes(b, 3));
    bed_close(b);
}

static void r346_a_vote_is_told_when_it_is_durable_and_given_once(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = ask(2, 5, 0, 0, 0);
    bed_deliver(b, &m);
    assert_null(bed_last(b, BT_GROUP_VOTE_REPLY, 2));
    assert_int_equal(bed_last_op(b, BT_STORE_HARD_STATE)->hard_state.vote, 2);
    assert_int_equal(bed_last_op(b, BT_STORE_HARD_STATE)->hard_state.term, 5);
    bed_done(b);
    assert_true(said_yes(b, 2));
    m = ask(3, 5, 0, 0, 0);
    bed_deliver(b, &m);
    bed_done(b);
    assert_false(said_yes(b, 3));
    // after a restart the disk says so
    struct bt_recovery found = {.hard_state = {.term = 5, .vote = 2}, .snapshot = {.config = bed_voters(3)}};
    assert_int_equal(bed_restart(b, &found), BT_REPLICA_OK);
    m = ask(3, 5, 0, 0, 0);
    bed_deliver(b, &m);
    bed_done(b);
    assert_non_null(bed_last(b, BT_GROUP_VOTE_REPLY, 3));
    assert_false(said_yes(b, 3));
    m = ask(2, 5, 0, 0, 0);
    bed_deliver(b, &m);
    assert_true(said_yes(b, 2));
    bed_close(b);
}

static void i4_a_shorter_or_older_log_gets_no_vote(void **state)
{
    (void)state;
    static const struct {
        uint64_t index, term;
        bool yes;
    } logs[] = {{3, 3, true}, {4, 3, true}, {2, 3, false}, {9, 2, false}, {1, 4, true}};
    for (unsigned i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        for (uint32_t pre = 0; pre < 2; pre++) {
            struct bed *b = bed_open(1, 3);
            bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){1, 3, 3, 0});
            bed_done(b);
            bed_wait(b, 51 * BED_MS); // the leader is silent
            struct bt_group_message m = ask(2, 6, pre != 0 ? BT_GROUP_PRE : 0, logs[i].index, logs[i].term);
            bed_deliver(b, &m);
            bed_done(b);
            assert_int_equal(said_yes(b, 2), logs[i].yes);
            assert_int_equal(bed_status(b).term, pre != 0 ? 3 : 6);
            bed_close(b);
        }
    }
}

static void r346_votes_are_asked_for_when_the_own_one_is_durable(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_wait(b, 110 * BED_MS);
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, 2, 1);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_PRE | BT_GROUP_YES, .asked = 2};
    bed_forget(b);
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_CANDIDATE);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_done(b);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 2);
    // an answer to the question is no vote, nor one of another term
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_CANDIDATE);
    m = bed_message(BT_GROUP_VOTE_REPLY, 2, 2);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_YES, .asked = 2};
    m.header.from = 7;
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_STRANGER_TOTAL), 1);
    assert_int_equal(bed_status(b).role, BT_REPLICA_CANDIDATE);
    m.header.from = 2;
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_close(b);
}

static void r353_a_term_begins_with_an_entry_that_does_nothing(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    struct bt_entry e;
    assert_true(bt_replica_entry(b->r, 1, &e));
    assert_int_equal(e.kind, BT_ENTRY_NOOP);
    assert_int_equal(e.term, bed_status(b).term);
    bed_close(b);
}

static void r351_a_leader_that_no_majority_answers_steps_down(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 5);
    bed_lead(b);
    for (int i = 0; i < 20; i++) {
        bed_wait(b, 10 * BED_MS);
        bed_ack(b, 2, 1);
        bed_ack(b, 3, 1);
    }
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    for (int i = 0; i < 12; i++) {
        bed_wait(b, 10 * BED_MS);
        bed_forget(b);
        if (bed_status(b).role == BT_REPLICA_LEADER) {
            bed_ack(b, 2, 1);
        }
    }
    assert_int_not_equal(bed_status(b).role, BT_REPLICA_LEADER);
    assert_int_equal(bed_counter(b, BT_REPLICA_NO_QUORUM_TOTAL), 1);
    bed_close(b);
}

static void a_group_of_one_elects_itself(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 1);
    bed_lead(b);
    assert_int_equal(bed_status(b).commit, 1);
    bed_close(b);
}

static void r350_who_has_no_vote_begins_no_election(void **state)
{
    (void)state;
    struct bed *b = bed_open(4, 3);
    bed_wait(b, 2000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    struct bt_group_message m = bed_message(BT_GROUP_TAKE_OVER, 1, 1);
    bed_append(b, 1, 1, 0, 0, 0, (uint64_t[]){0});
    bed_deliver(b, &m);
    assert_int_equal(bed_counter(b, BT_REPLICA_NOT_VOTER_TOTAL), 1);
    bed_close(b);
}

// Each question is one of its own: what was said to the one before it is not counted.
static void r351_a_question_that_is_put_again_is_answered_again(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 5);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){0});
    bed_done(b);
    assert_int_equal(bed_status(b).leader, 2);
    while (bed_status(b).role == BT_REPLICA_FOLLOWER) {
        bed_wait(b, BED_MS);
    }
    assert_int_equal(bed_status(b).leader, 0);
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, 2, 1);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_PRE | BT_GROUP_YES, .asked = 2};
    bed_deliver(b, &m); // two of five
    bed_forget(b);
    for (int i = 0; i < 100 && bed_count(b, BT_GROUP_VOTE) == 0; i++) {
        bed_wait(b, BED_MS);
    }
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 4);
    m.header.from = 3;
    bed_deliver(b, &m);
    bed_deliver(b, &m); // twice the same
    assert_int_equal(bed_status(b).role, BT_REPLICA_ASKING);
    m.header.from = 2;
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_CANDIDATE);
    bed_close(b);
}

static void r351_who_gave_its_vote_waits_for_that_election(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){1, 3, 0});
    bed_done(b);
    bed_wait(b, 51 * BED_MS);                       // its leader is silent
    struct bt_group_message m = ask(2, 5, 0, 1, 1); // an older log: the term is taken over, and no vote given
    bed_deliver(b, &m);
    bed_done(b);
    assert_int_equal(bed_status(b).term, 5);
    assert_false(said_yes(b, 2));
    bed_wait(b, 49 * BED_MS);
    m = ask(3, 5, 0, 2, 3);
    bed_deliver(b, &m);
    bed_done(b);
    assert_true(said_yes(b, 3));
    bed_forget(b);
    bed_wait(b, 49 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

static void r346_a_vote_that_a_later_term_overtook_is_not_told(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_message m = ask(2, 5, 0, 0, 0);
    bed_deliver(b, &m); // on its way to the disk
    bed_append(b, 3, 6, 0, 0, 0, (uint64_t[]){0});
    bed_done(b);
    assert_int_equal(bed_status(b).term, 6);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE_REPLY), 0);
    assert_int_equal(bed_count(b, BT_GROUP_APPEND_REPLY), 1);
    bed_close(b);
}

static void r346_who_asks_in_an_earlier_term_is_told_the_later_one(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 3, 6, 0, 0, 0, (uint64_t[]){0});
    bed_done(b);
    bed_wait(b, 51 * BED_MS);
    bed_forget(b);
    struct bt_group_message m = ask(2, 4, 0, 0, 0);
    bed_deliver(b, &m);
    const struct bt_group_message *said = bed_last(b, BT_GROUP_VOTE_REPLY, 2);
    assert_non_null(said);
    assert_int_equal(said->vote.flags, 0);
    assert_int_equal(said->vote.asked, 4);
    assert_int_equal(said->header.term, 6);
    assert_int_equal(bed_counter(b, BT_REPLICA_STALE_TOTAL), 1);
    m = bed_message(BT_GROUP_APPEND, 2, 5); // and so is one that led
    bed_deliver(b, &m);
    said = bed_last(b, BT_GROUP_APPEND_REPLY, 2);
    assert_non_null(said);
    assert_int_equal(said->append_reply.flags & BT_GROUP_YES, 0);
    assert_int_equal(said->header.term, 6);
    assert_int_equal(bed_counter(b, BT_REPLICA_STALE_TOTAL), 2);
    bed_close(b);
}

static void r372_a_member_whose_store_failed_votes_for_nobody(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bt_replica_stored(b->r, b->now, 0, BT_STORE_FAILED);
    for (uint32_t pre = 0; pre < 2; pre++) {
        struct bt_group_message m = ask(2, 5, pre != 0 ? BT_GROUP_PRE : 0, 0, 0);
        bed_deliver(b, &m);
        assert_int_equal(bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL), pre + 1);
    }
    assert_int_equal(bed_count(b, BT_GROUP_VOTE_REPLY), 0);
    assert_int_equal(bed_status(b).term, 1);
    bed_wait(b, 1000 * BED_MS); // nor for itself
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r351_a_question_goes_before_an_election_and_changes_nothing),
        cmocka_unit_test(r351_nobody_votes_while_there_is_a_leader_unless_it_asked_for_it),
        cmocka_unit_test(r346_a_vote_is_told_when_it_is_durable_and_given_once),
        cmocka_unit_test(i4_a_shorter_or_older_log_gets_no_vote),
        cmocka_unit_test(r346_votes_are_asked_for_when_the_own_one_is_durable),
        cmocka_unit_test(r353_a_term_begins_with_an_entry_that_does_nothing),
        cmocka_unit_test(r351_a_leader_that_no_majority_answers_steps_down),
        cmocka_unit_test(a_group_of_one_elects_itself),
        cmocka_unit_test(r350_who_has_no_vote_begins_no_election),
        cmocka_unit_test(r351_a_question_that_is_put_again_is_answered_again),
        cmocka_unit_test(r351_who_gave_its_vote_waits_for_that_election),
        cmocka_unit_test(r346_a_vote_that_a_later_term_overtook_is_not_told),
        cmocka_unit_test(r346_who_asks_in_an_earlier_term_is_told_the_later_one),
        cmocka_unit_test(r372_a_member_whose_store_failed_votes_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
