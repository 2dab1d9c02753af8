// SPDX-License-Identifier: Apache-2.0
// A member of a group with an aggregator.
#include "bed.h"

#include <stdlib.h>
#include <string.h>

static struct bed *opened(uint16_t id, uint16_t voters)
{
    struct bed *b = bed_open(id, voters);
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(voters)}};
    b->c.apart = (struct bt_replica_apart){.kept_requests = 8,
                                           .recent_pairs = 64,
                                           .bound = 8,
                                           .keep_ns = 1000 * BED_MS,
                                           .quarantine_ns = 200 * BED_MS,
                                           .recover_ns = BED_MS,
                                           .aggregator = true,
                                           .key = "0123456789abcde"};
    free(b->mem);
    b->mem = malloc(bt_replica_bytes(&b->c));
    assert_non_null(b->mem);
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    bed_wait(b, 0);
    return b;
}

static void request(struct bed *b, uint16_t req_id)
{
    struct bt_replica_request q = {
        .client = bt_addr_v4u(0x0a000001, 4000), .req_id = req_id, .body = (const uint8_t *)"w", .length = 1};
    assert_int_equal(bt_replica_request(b->r, b->now, &q), BT_REPLICA_OK);
}

static void committed(struct bed *b, uint64_t term, uint64_t epoch, uint64_t commit)
{
    struct bt_group_message m = bed_message(BT_GROUP_COMMITTED, BT_GROUP_AGGREGATOR, term);
    m.committed = (struct bt_group_committed){.epoch = epoch, .commit = commit, .count = 1, .done = {{3, commit - 1}}};
    bed_deliver(b, &m);
}

static void probe_answered(struct bed *b)
{
    struct bt_group_message m = bed_message(BT_GROUP_PROBE_REPLY, BT_GROUP_AGGREGATOR, bed_status(b).term);
    m.probe = (struct bt_group_probe){.epoch = bed_status(b).config_index, .floor = bed_status(b).commit};
    bed_deliver(b, &m);
}

// A leader that sends by way of the aggregator.
static struct bed *aggregated(uint16_t voters)
{
    struct bed *b = opened(1, voters);
    bed_lead(b);
    bed_wait(b, 10 * BED_MS);
    const struct bt_group_message *p = bed_last(b, BT_GROUP_PROBE, BT_GROUP_AGGREGATOR);
    assert_non_null(p);
    assert_int_equal(p->probe.floor, bed_status(b).commit);
    assert_int_equal(p->probe.config.count, voters);
    assert_false(bed_status(b).aggregated);
    probe_answered(b);
    assert_true(bed_status(b).aggregated);
    bed_forget(b);
    return b;
}

static void r335_an_entry_goes_to_the_aggregator_alone_once_it_is_durable_here(void **state)
{
    (void)state;
    struct bed *b = aggregated(5);
    request(b, 1);
    assert_int_equal(b->sent_n, 0);
    bed_done(b);
    assert_int_equal(b->sent_n, 1);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_SHARED, BT_GROUP_AGGREGATOR);
    assert_int_equal(m->append.count, 1);
    assert_int_equal(m->append.prev_index, bed_status(b).last - 1);
    bed_close(b);
}

static void r336_no_probe_before_an_entry_of_the_own_term_is_committed(void **state)
{
    (void)state;
    struct bed *b = opened(1, 1);
    b->c.id = 1;
    bed_wait(b, 300 * BED_MS); // alone it leads; its first entry waits for the disk
    bed_done_to(b, b->op[b->ops_n - 1].generation);
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_forget(b);
    bed_wait(b, 40 * BED_MS);
    assert_int_equal(bed_status(b).commit, 0);
    assert_int_equal(bed_count(b, BT_GROUP_PROBE), 0);
    bed_close(b);
}

static void r337_a_follower_commits_what_this_terms_leader_vouched_for(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3);
    bed_append(b, 2, 1, 0, 0, 0, (uint64_t[]){1, 1, 1, 0});
    bed_done(b);
    bed_append(b, 3, 2, 1, 1, 0, (uint64_t[]){0}); // the next leader vouches for the first entry alone
    committed(b, 1, 0, 3);
    committed(b, 3, 0, 3);
    assert_int_equal(bed_status(b).commit, 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_STALE_TOTAL), 2);
    assert_int_equal(bed_status(b).term, 2); // the aggregator begins no term
    committed(b, 2, 0, 3);
    assert_int_equal(bed_status(b).commit, 1);
    bed_close(b);
}

static void r338_a_leader_commits_what_is_of_its_term_its_membership_and_its_disk(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    uint64_t before = bed_status(b).commit, term = bed_status(b).term;
    request(b, 1);
    committed(b, term, 0, before + 1);
    assert_int_equal(bed_status(b).commit, before); // not durable here yet
    assert_int_equal(bed_counter(b, BT_REPLICA_CONFLICT_TOTAL), 1);
    bed_done(b);
    committed(b, term - 1, 0, before + 1);
    committed(b, term, 1, before + 1);
    committed(b, term, 0, before + 2);
    assert_int_equal(bed_status(b).commit, before);
    bed_forget(b);
    committed(b, term, 0, before + 1);
    assert_int_equal(bed_status(b).commit, before + 1);
    assert_int_equal(b->sent_n, 0); // all heard it from the aggregator
    struct bt_replica_peer p;
    assert_true(bt_replica_peer(b->r, 3, &p));
    assert_int_equal(p.applied, before);
    committed(b, term, 0, before);
    assert_int_equal(bed_status(b).commit, before + 1);
    request(b, 2);
    bed_done(b);
    committed(b, term, 0, before + 2);
    assert_true(bt_replica_peer(b->r, 3, &p));
    assert_int_equal(p.applied, before + 1);
    bed_close(b);
}

static void shared(struct bed *b, uint64_t prev, uint32_t count)
{
    struct bt_group_message m = bed_message(BT_GROUP_SHARED, 2, 1);
    m.append = (struct bt_group_append){.prev_index = prev, .prev_term = prev > 0, .epoch = 0, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        m.append.entry[i] =
            (struct bt_entry){.term = 1, .kind = BT_ENTRY_COMMAND, .body = (const uint8_t *)"write", .length = 5};
    }
    bed_deliver(b, &m);
}

static void r339_success_goes_to_the_aggregator_and_a_gap_to_the_leader(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3);
    shared(b, 0, 2);
    assert_int_equal(bed_count(b, BT_GROUP_SHARED_REPLY), 0); // not durable yet
    bed_done(b);
    const struct bt_group_message *m = bed_last(b, BT_GROUP_SHARED_REPLY, BT_GROUP_AGGREGATOR);
    assert_non_null(m);
    assert_int_equal(m->append_reply.index, 2);
    bed_append(b, 2, 1, 2, 1, 0, (uint64_t[]){1, 1, 0}); // from the leader itself
    bed_done(b);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND_REPLY, 2)->append_reply.index, 4);
    bed_forget(b);
    shared(b, 2, 0);
    assert_int_equal(bed_last(b, BT_GROUP_SHARED_REPLY, BT_GROUP_AGGREGATOR)->append_reply.index, 2); // and not 4
    bed_forget(b);
    shared(b, 6, 1);
    assert_int_equal(bed_count(b, BT_GROUP_SHARED_REPLY), 0);
    m = bed_last(b, BT_GROUP_APPEND_REPLY, 2);
    assert_int_equal(m->append_reply.flags, 0);
    assert_int_equal(m->append_reply.last, 4);
    bed_close(b);
}

static void r339_a_member_whose_disk_failed_acknowledges_nothing(void **state)
{
    (void)state;
    struct bed *b = opened(1, 3);
    shared(b, 0, 1);
    bt_replica_stored(b->r, b->now, b->op[b->ops_n - 1].generation, BT_STORE_FAILED);
    uint64_t before = bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL);
    bed_forget(b);
    shared(b, 1, 0);
    assert_int_equal(bed_counter(b, BT_REPLICA_STORE_FAILED_TOTAL), before + 1);
    assert_int_equal(b->sent_n, 0);
    bed_close(b);
}

// A message by way of the aggregator has a word more: an entry that fills one of the leader's own goes that way.
static void r339_what_does_not_fit_by_way_of_the_aggregator_goes_by_itself(void **state)
{
    enum { MOST = BED_MESSAGE - BT_GROUP_HEADER - 28 - BT_GROUP_ENTRY };
    static uint8_t body[MOST];
    uint64_t index;
    (void)state;
    for (uint32_t less = 0; less <= 8; less += 8) {
        struct bed *b = aggregated(3);
        assert_int_equal(bt_replica_propose(b->r, b->now, body, MOST - less, &index), BT_REPLICA_OK);
        bed_done(b);
        assert_int_equal(bed_status(b).aggregated, less == 8);
        assert_int_equal(bed_count(b, BT_GROUP_SHARED), less == 8);
        assert_int_equal(bed_counter(b, BT_REPLICA_FALLBACKS_TOTAL), less != 8);
        if (less == 0) {
            assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.count, 1);
            assert_int_equal(bed_last(b, BT_GROUP_APPEND, 3)->append.count, 1);
        }
        bed_close(b);
    }
}

static void r339_who_refuses_is_served_by_itself_until_it_has_caught_up(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    uint64_t before = bed_status(b).last;
    request(b, 1);
    bed_done(b);
    bed_forget(b);
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, 3, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.index = before, .last = before - 1};
    bed_deliver(b, &m); // an old answer: it is known to hold that
    assert_int_equal(b->sent_n, 0);
    m.append_reply = (struct bt_group_append_reply){.index = before + 1, .last = before};
    request(b, 2);
    bed_done(b);
    bed_forget(b);
    bed_deliver(b, &m);
    assert_non_null(bed_last(b, BT_GROUP_APPEND, 3));
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 3)->append.count, 2);
    assert_null(bed_last(b, BT_GROUP_APPEND, 2));
    bed_ack(b, 3, before + 2);
    bed_forget(b);
    request(b, 3);
    bed_done(b);
    assert_int_equal(b->sent_n, 1); // by way of the aggregator again
    bed_close(b);
}

static void r341_a_silent_aggregator_is_left_in_the_same_term_and_probed_again(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    uint64_t term = bed_status(b).term, first = bed_status(b).last + 1;
    request(b, 1);
    bed_done(b);
    for (int i = 0; i < 4; i++) { // signs of life go on by themselves
        bed_forget(b);
        bed_wait(b, 10 * BED_MS);
        bed_ack(b, 2, first - 1);
        bed_ack(b, 3, first - 1);
    }
    assert_false(bed_status(b).aggregated);
    assert_int_equal(bed_status(b).term, term);
    assert_int_equal(bed_counter(b, BT_REPLICA_FALLBACKS_TOTAL), 1);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.count, 1);
    assert_non_null(bed_last(b, BT_GROUP_PROBE, BT_GROUP_AGGREGATOR));
    bed_ack(b, 2, first);
    assert_int_equal(bed_status(b).commit, first);
    probe_answered(b);
    assert_true(bed_status(b).aggregated);
    bed_close(b);
}

static void r344_a_change_of_membership_or_a_hand_over_leaves_it_at_once(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    assert_int_equal(bt_replica_change(b->r, b->now, BT_REPLICA_ADD_LEARNER, 4), BT_REPLICA_OK);
    assert_false(bed_status(b).aggregated);
    assert_int_equal(bed_last(b, BT_GROUP_APPEND, 2)->append.count, 1);
    bed_forget(b);
    bed_wait(b, 10 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_PROBE), 0); // not committed yet
    bed_done(b);
    bed_ack(b, 2, bed_status(b).last);
    bed_ack(b, 3, bed_status(b).last);
    bed_wait(b, 10 * BED_MS);
    assert_int_equal(bed_last(b, BT_GROUP_PROBE, BT_GROUP_AGGREGATOR)->probe.epoch, bed_status(b).config_index);
    probe_answered(b);
    assert_true(bed_status(b).aggregated);
    assert_int_equal(bt_replica_transfer(b->r, b->now, 2), BT_REPLICA_OK);
    assert_false(bed_status(b).aggregated);
    bed_close(b);
}

static void r340_a_raft_group_knows_no_aggregator(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    bed_lead(b);
    bed_wait(b, 20 * BED_MS);
    assert_int_equal(bed_count(b, BT_GROUP_PROBE), 0);
    probe_answered(b);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 1);
    assert_false(bed_status(b).aggregated);
    bed_close(b);
}

static void r338_only_the_aggregator_says_what_is_committed_by_way_of_it(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    uint64_t before = bed_status(b).commit, term = bed_status(b).term;
    request(b, 1);
    bed_done(b);
    struct bt_group_message m = bed_message(BT_GROUP_PROBE, 2, term); // what the aggregator alone is to get
    m.probe = (struct bt_group_probe){.floor = before + 1, .config = bed_voters(3)};
    bed_deliver(b, &m);
    assert_int_equal(bed_status(b).commit, before);
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_AGG_COMMITS_TOTAL), 0);
    committed(b, term, 1, before + 1); // of another membership
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 2);
    assert_int_equal(bed_counter(b, BT_REPLICA_AGG_COMMITS_TOTAL), 1);
    committed(b, term, 0, before + 1);
    assert_int_equal(bed_status(b).commit, before + 1);
    assert_int_equal(bed_counter(b, BT_REPLICA_AGG_COMMITS_TOTAL), 2);
    probe_answered(b); // once more
    assert_int_equal(bed_counter(b, BT_REPLICA_UNASKED_TOTAL), 3);
    assert_int_equal(bed_counter(b, BT_REPLICA_AGGREGATED_TOTAL), 1);
    bed_close(b);
}

// A sign of life of the leader itself stands after what was committed at the sign before: a follower whose entries are
// still on their longer way refuses none.
static void r341_a_leaders_own_sign_of_life_runs_behind_by_one(void **state)
{
    (void)state;
    struct bed *b = aggregated(3);
    uint64_t before = bed_status(b).commit;
    request(b, 1);
    bed_done(b);
    committed(b, bed_status(b).term, 0, before + 1);
    for (uint64_t beat = 0; beat < 2; beat++) {
        bed_forget(b);
        bed_wait(b, 10 * BED_MS);
        for (uint16_t id = 2; id <= 3; id++) {
            const struct bt_group_append *a = &bed_last(b, BT_GROUP_APPEND, id)->append;
            assert_true(a->count == 0 && a->prev_index == before + beat && a->commit == before + 1);
        }
        assert_int_equal(bed_count(b, BT_GROUP_APPEND), 2);
        assert_int_equal(bed_last(b, BT_GROUP_SHARED, BT_GROUP_AGGREGATOR)->append.count, 0);
    }
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r335_an_entry_goes_to_the_aggregator_alone_once_it_is_durable_here),
        cmocka_unit_test(r336_no_probe_before_an_entry_of_the_own_term_is_committed),
        cmocka_unit_test(r337_a_follower_commits_what_this_terms_leader_vouched_for),
        cmocka_unit_test(r338_a_leader_commits_what_is_of_its_term_its_membership_and_its_disk),
        cmocka_unit_test(r339_success_goes_to_the_aggregator_and_a_gap_to_the_leader),
        cmocka_unit_test(r339_a_member_whose_disk_failed_acknowledges_nothing),
        cmocka_unit_test(r339_what_does_not_fit_by_way_of_the_aggregator_goes_by_itself),
        cmocka_unit_test(r339_who_refuses_is_served_by_itself_until_it_has_caught_up),
        cmocka_unit_test(r341_a_silent_aggregator_is_left_in_the_same_term_and_probed_again),
        cmocka_unit_test(r344_a_change_of_membership_or_a_hand_over_leaves_it_at_once),
        cmocka_unit_test(r340_a_raft_group_knows_no_aggregator),
        cmocka_unit_test(r338_only_the_aggregator_says_what_is_committed_by_way_of_it),
        cmocka_unit_test(r341_a_leaders_own_sign_of_life_runs_behind_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
