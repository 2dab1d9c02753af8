// SPDX-License-Identifier: Apache-2.0
// Changes of the membership, one member at a time: R-350.
#include "bed.h"

static enum bt_replica_result change(struct bed *b, enum bt_replica_change c, uint16_t id)
{
    return bt_replica_change(b->r, b->now, c, id);
}

static void commit_all(struct bed *b, uint16_t voters)
{
    bed_done(b);
    for (uint16_t id = 2; id <= voters; id++) {
        bed_ack(b, id, bed_status(b).last);
    }
    assert_int_equal(bed_status(b).commit, bed_status(b).last);
}

static void r350_nothing_changes_before_the_own_term_is_committed(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_append(b, 2, 1, 0, 0, 1, (uint64_t[]){1, 0});
    bed_done(b);
    struct bt_group_message m = bed_message(BT_GROUP_TAKE_OVER, 2, 1);
    bed_deliver(b, &m);
    bed_done(b);
    m = bed_message(BT_GROUP_VOTE_REPLY, 2, 2);
    m.vote = (struct bt_group_vote){.flags = BT_GROUP_YES, .asked = 2};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_NOT_YET);
    commit_all(b, 3);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_OK);
    bed_close(b);
}

static void r350_one_change_at_a_time_in_force_once_appended(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_OK);
    assert_int_equal(bed_status(b).config->count, 4);
    assert_non_null(bed_last(b, BT_GROUP_APPEND, 4)); // it is fed at once
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 5), BT_REPLICA_PENDING);
    assert_int_equal(change(b, BT_REPLICA_REMOVE, 3), BT_REPLICA_PENDING);
    commit_all(b, 3);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_ALREADY);
    assert_int_equal(change(b, BT_REPLICA_PROMOTE, 4), BT_REPLICA_BEHIND);
    assert_int_equal(change(b, BT_REPLICA_PROMOTE, 6), BT_REPLICA_NO_MEMBER);
    bed_ack(b, 4, bed_status(b).last);
    assert_int_equal(change(b, BT_REPLICA_PROMOTE, 4), BT_REPLICA_OK);
    // four voters: three of them decide, the leader and one are not enough
    uint64_t last = bed_status(b).last;
    bed_done(b);
    bed_ack(b, 2, last);
    assert_int_equal(bed_status(b).commit, last - 1);
    bed_ack(b, 4, last);
    assert_int_equal(bed_status(b).commit, last);
    bed_close(b);
}

static void r350_a_learner_is_no_part_of_a_majority(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_OK);
    uint64_t last = bed_status(b).last;
    bed_done(b);
    bed_ack(b, 4, last);
    assert_int_equal(bed_status(b).commit, last - 1);
    bed_ack(b, 3, last);
    assert_int_equal(bed_status(b).commit, last);
    bed_close(b);
}

static void r350_a_removed_leader_counts_without_itself_and_leaves(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    assert_int_equal(change(b, BT_REPLICA_REMOVE, 1), BT_REPLICA_OK);
    uint64_t last = bed_status(b).last;
    bed_done(b);
    bed_ack(b, 2, last);
    assert_int_equal(bed_status(b).commit, last - 1); // two voters are left, and both decide
    bed_ack(b, 3, last);
    assert_int_equal(bed_status(b).commit, last);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    assert_int_equal(bed_count(b, BT_GROUP_TAKE_OVER), 1);
    bed_forget(b);
    bed_wait(b, 1000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

static void grant(struct bed *b, uint16_t from, uint32_t flags)
{
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, from, bed_status(b).term);
    uint64_t asked = bed_status(b).term + ((flags & BT_GROUP_PRE) != 0);
    m.vote = (struct bt_group_vote){.flags = flags | BT_GROUP_YES, .asked = asked};
    bed_deliver(b, &m);
}

static void until(struct bed *b, enum bt_replica_role role)
{
    for (int i = 0; i < 400 && bed_status(b).role != role; i++) {
        bed_wait(b, BED_MS);
    }
    assert_int_equal(bed_status(b).role, role);
}

// Whoever lacks the change needs votes of those who have it, and does not get them. Of those only the removed member
// may be left: it leads until the change is committed.
static void r350_who_is_removed_leads_until_that_is_committed(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    assert_int_equal(change(b, BT_REPLICA_REMOVE, 1), BT_REPLICA_OK);
    bed_done(b);
    until(b, BT_REPLICA_FOLLOWER); // nobody answers
    bed_forget(b);
    until(b, BT_REPLICA_ASKING);
    assert_non_null(bed_last(b, BT_GROUP_VOTE, 2));
    grant(b, 2, BT_GROUP_PRE);
    assert_int_equal(bed_status(b).role, BT_REPLICA_ASKING); // its own vote counts nothing
    grant(b, 3, BT_GROUP_PRE);
    bed_done(b);
    grant(b, 2, 0);
    assert_int_equal(bed_status(b).role, BT_REPLICA_CANDIDATE);
    grant(b, 3, 0);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_done(b);
    uint64_t last = bed_status(b).last;
    bed_ack(b, 2, last);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_ack(b, 3, last);
    assert_int_equal(bed_status(b).commit, last);
    assert_int_equal(bed_status(b).role, BT_REPLICA_FOLLOWER);
    bed_forget(b);
    bed_wait(b, 1000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

static void configured(struct bed *b, uint64_t prev, const struct bt_group_config *c)
{
    uint8_t body[BT_GROUP_CONFIG_MAX];
    uint32_t n = (uint32_t)bt_group_config_encode(body, sizeof body, c);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, 2, 1);
    m.append = (struct bt_group_append){.prev_index = prev, .prev_term = prev > 0, .count = 1};
    m.append.entry[0] = (struct bt_entry){.term = 1, .kind = BT_ENTRY_CONFIG, .body = body, .length = n};
    bed_deliver(b, &m);
    bed_done(b);
}

static void r350_a_learner_that_is_removed_never_leads(void **state)
{
    (void)state;
    struct bed *b = bed_open(4, 3);
    struct bt_group_config with = bed_voters(4), without = bed_voters(3);
    with.member[3].role = BT_GROUP_LEARNER;
    configured(b, 0, &with);
    configured(b, 1, &without);
    assert_int_equal(bed_status(b).config_index, 2);
    assert_int_equal(bed_status(b).commit, 0);
    bed_wait(b, 1000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

static void r350_a_change_is_taken_back_with_its_entry(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_group_config four = bed_voters(4);
    uint8_t body[BT_GROUP_CONFIG_MAX];
    uint32_t n = (uint32_t)bt_group_config_encode(body, sizeof body, &four);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, 2, 2);
    m.append.count = 1;
    m.append.entry[0] = (struct bt_entry){.term = 2, .kind = BT_ENTRY_CONFIG, .body = body, .length = n};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).config->count, 4);
    assert_int_equal(bed_status(b).config_index, 1);
    bed_append(b, 3, 3, 0, 0, 0, (uint64_t[]){3, 0});
    assert_int_equal(bed_status(b).config->count, 3);
    assert_int_equal(bed_status(b).config_index, 0);
    bed_close(b);
}

static void r350_the_last_voter_stays(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 1);
    bed_lead(b);
    assert_int_equal(change(b, BT_REPLICA_REMOVE, 1), BT_REPLICA_LAST_VOTER);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 2), BT_REPLICA_OK);
    bed_done(b);
    assert_int_equal(change(b, BT_REPLICA_REMOVE, 1), BT_REPLICA_LAST_VOTER);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 0), BT_REPLICA_NO_MEMBER);
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, BT_GROUP_AGGREGATOR),
                     BT_REPLICA_NO_MEMBER); // nobody could read it
    bed_close(b);
}

static void are(struct bed *b, uint16_t n, const uint16_t *ids, uint16_t voters)
{
    const struct bt_group_config *c = bed_status(b).config;
    assert_int_equal(c->count, n);
    for (uint16_t i = 0; i < n; i++) {
        assert_int_equal(c->member[i].id, ids[i]);
        assert_int_equal(c->member[i].role, ids[i] <= voters ? BT_GROUP_VOTER : BT_GROUP_LEARNER);
    }
}

static void r350_ids_rise_whichever_comes_and_goes(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    static const uint16_t add[] = {9, 5, 7, 20};
    for (unsigned i = 0; i < sizeof add / sizeof add[0]; i++) {
        assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, add[i]), BT_REPLICA_OK);
        commit_all(b, 3);
    }
    are(b, 7, (const uint16_t[]){1, 2, 3, 5, 7, 9, 20}, 3);
    static const uint16_t gone[] = {7, 20, 5};
    for (unsigned i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        assert_int_equal(change(b, BT_REPLICA_REMOVE, gone[i]), BT_REPLICA_OK);
        commit_all(b, 3);
        assert_int_equal(change(b, BT_REPLICA_REMOVE, gone[i]), BT_REPLICA_NO_MEMBER);
    }
    are(b, 4, (const uint16_t[]){1, 2, 3, 9}, 3);
    for (uint16_t id = 10; bed_status(b).config->count < BT_GROUP_MEMBERS_MAX; id++) {
        assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, id), BT_REPLICA_OK);
        commit_all(b, 3);
    }
    assert_int_equal(change(b, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_NO_MEMBER); // there is no more room
    bed_close(b);
}

// Its own entry says that it is a learner, and may yet be taken back.
static void r350_a_learner_to_be_stands_for_no_election(void **state)
{
    (void)state;
    uint8_t body[BT_GROUP_CONFIG_MAX];
    struct bed *b = bed_open(4, 3);
    struct bt_group_config c = bed_voters(4);
    c.member[3].role = BT_GROUP_LEARNER;
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, 1, 1);
    m.append = (struct bt_group_append){.count = 1};
    m.append.entry[0] = (struct bt_entry){.term = 1,
                                          .kind = BT_ENTRY_CONFIG,
                                          .body = body,
                                          .length = (uint32_t)bt_group_config_encode(body, sizeof body, &c)};
    bed_deliver(b, &m);
    bed_done(b);
    assert_true(bed_status(b).config_index == 1 && bed_status(b).commit == 0);
    assert_int_equal(bed_status(b).config->count, 4);
    bed_wait(b, 1000 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_VOTE), 0);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r350_nothing_changes_before_the_own_term_is_committed),
        cmocka_unit_test(r350_one_change_at_a_time_in_force_once_appended),
        cmocka_unit_test(r350_a_learner_is_no_part_of_a_majority),
        cmocka_unit_test(r350_a_removed_leader_counts_without_itself_and_leaves),
        cmocka_unit_test(r350_who_is_removed_leads_until_that_is_committed),
        cmocka_unit_test(r350_a_learner_that_is_removed_never_leads),
        cmocka_unit_test(r350_a_change_is_taken_back_with_its_entry),
        cmocka_unit_test(r350_the_last_voter_stays),
        cmocka_unit_test(r350_ids_rise_whichever_comes_and_goes),
        cmocka_unit_test(r350_a_learner_to_be_stands_for_no_election),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
