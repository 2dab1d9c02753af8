// SPDX-License-Identifier: Apache-2.0
// The aggregator of HovercRaft++ alone, W-11, I-15.
#include "unit.h"

#include <string.h>

#include "replica/aggregator.h"

#define CLUSTER UINT64_C(0x1122334455667788)

enum { GROUP = 9, ROOM = 1024, SENT = 64, LEADER = 1 };

struct sent {
    uint16_t to;
    struct bt_group_message m;
};

struct bench {
    struct bt_aggregator a;
    struct sent sent[SENT];
    uint32_t n;
};

static struct bench b;

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct bench *of = ctx;
    assert_true(of->n < SENT);
    of->sent[of->n].to = to;
    assert_int_equal(bt_group_decode(message, n, &of->sent[of->n++].m).error, BT_GROUP_OK);
}

static void start(bool as_switch)
{
    static const struct bt_aggregator_ops ops = {.send = on_send};
    b.n = 0;
    bt_aggregator_start(
        &b.a, &(struct bt_aggregator_config){.cluster = CLUSTER, .group = GROUP, .as_switch = as_switch}, &ops, &b);
}

static struct bt_group_message of(enum bt_group_type type, uint16_t from, uint64_t term)
{
    return (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                                .type = (uint8_t)type,
                                                .from = from,
                                                .group = GROUP,
                                                .term = term,
                                                .cluster = CLUSTER}};
}

static void give(const struct bt_group_message *m)
{
    static uint8_t p[ROOM];
    size_t n = bt_group_encode(p, sizeof p, m);
    assert_true(n > 0);
    b.n = 0;
    bt_aggregator_receive(&b.a, p, n);
}

// Members 1…voters vote; one more, `voters` + 1, is a learner.
static void probe(uint64_t term, uint64_t epoch, uint64_t floor, uint16_t voters, uint32_t flags)
{
    struct bt_group_message m = of(BT_GROUP_PROBE, LEADER, term);
    m.probe = (struct bt_group_probe){.flags = flags, .epoch = epoch, .floor = floor, .config = {.count = voters + 1}};
    for (uint16_t i = 0; i <= voters; i++) {
        m.probe.config.member[i] =
            (struct bt_group_member){.id = i + 1, .role = i < voters ? BT_GROUP_VOTER : BT_GROUP_LEARNER};
    }
    give(&m);
}

static void entries(uint16_t from, uint64_t term, uint64_t epoch, uint64_t prev, uint32_t count)
{
    struct bt_group_message m = of(BT_GROUP_SHARED, from, term);
    m.append = (struct bt_group_append){.prev_index = prev, .prev_term = 1, .epoch = epoch, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        m.append.entry[i] = (struct bt_entry){.term = term, .kind = BT_ENTRY_NOOP};
    }
    give(&m);
}

static struct bt_group_message reply(uint16_t from, uint64_t term, uint64_t epoch, uint64_t index)
{
    struct bt_group_message m = of(BT_GROUP_SHARED_REPLY, from, term);
    m.append_reply = (struct bt_group_append_reply){
        .flags = BT_GROUP_YES, .index = index, .last = index, .applied = index - 1, .epoch = epoch};
    return m;
}

static void answer(uint16_t from, uint64_t term, uint64_t epoch, uint64_t index)
{
    struct bt_group_message m = reply(from, term, epoch, index);
    give(&m);
}

// AGG_COMMIT of this index, to `to` members.
static void announced(uint64_t index, uint32_t to)
{
    assert_int_equal(b.n, to);
    for (uint32_t i = 0; i < to; i++) {
        assert_int_equal(b.sent[i].m.header.type, BT_GROUP_COMMITTED);
        assert_int_equal(b.sent[i].m.committed.commit, index);
    }
}

static uint64_t counter(enum bt_aggregator_counter c)
{
    return b.a.counter[c];
}

static void r335_f_followers_commit_what_the_leader_holds_durably_else_one_more(void **state)
{
    (void)state;
    start(false);
    probe(2, 3, 5, 5, BT_GROUP_DURABLE);
    entries(LEADER, 2, 3, 5, 2);
    assert_int_equal(b.n, 5); // four followers and a learner
    assert_int_equal(b.sent[0].to, 2);
    answer(6, 2, 3, 7); // a learner does not count
    assert_int_equal(b.n, 0);
    answer(2, 2, 3, 7);
    assert_int_equal(b.n, 0);
    answer(3, 2, 3, 6);
    announced(6, 6); // to all, the leader among them
    assert_int_equal(b.sent[0].to, LEADER);
    assert_int_equal(b.sent[0].m.header.from, BT_GROUP_AGGREGATOR);
    assert_int_equal(b.sent[0].m.committed.count, 3);
    assert_int_equal(b.sent[0].m.committed.done[1].id, 3);
    assert_int_equal(b.sent[0].m.committed.done[1].applied, 5);
    answer(4, 2, 3, 6);
    assert_int_equal(b.n, 0); // nothing new
    answer(3, 2, 3, 7);
    announced(7, 6);

    start(false);
    probe(2, 3, 5, 5, 0);
    entries(LEADER, 2, 3, 5, 2);
    answer(2, 2, 3, 7);
    answer(3, 2, 3, 7);
    assert_int_equal(b.n, 0);
    answer(4, 2, 3, 7);
    announced(7, 6);
}

static void r336_r344_only_the_probed_leader_term_and_membership_and_nothing_below_its_floor(void **state)
{
    (void)state;
    start(false);
    entries(LEADER, 2, 3, 5, 1); // nothing is known
    assert_int_equal(b.n, 0);
    assert_int_equal(counter(BT_AGGREGATOR_EPOCH_TOTAL), 1);
    probe(2, 3, 5, 3, BT_GROUP_DURABLE);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.sent[0].m.header.type, BT_GROUP_PROBE_REPLY);
    assert_int_equal(b.sent[0].m.probe.floor, 5);
    entries(LEADER, 2, 3, 4, 1);
    assert_int_equal(counter(BT_AGGREGATOR_LOW_TOTAL), 1);
    entries(LEADER, 2, 4, 5, 1);
    assert_int_equal(counter(BT_AGGREGATOR_EPOCH_TOTAL), 2);
    entries(2, 2, 3, 5, 1);
    assert_int_equal(counter(BT_AGGREGATOR_STRANGER_TOTAL), 1);
    assert_int_equal(b.n, 0);
    entries(LEADER, 2, 3, 5, 1);
    assert_int_equal(b.n, 3);
    probe(2, 2, 9, 5, BT_GROUP_DURABLE); // an earlier membership comes late
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).epoch, 3);
    probe(2, 6, 9, 5, BT_GROUP_DURABLE); // a later one flushes
    answer(2, 2, 3, 6);
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).commit, 9);
}

static void r342_answers_of_another_term_or_of_strangers_and_refusals_do_not_count(void **state)
{
    (void)state;
    start(false);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE);
    entries(LEADER, 3, 3, 5, 2);
    answer(2, 2, 3, 7);
    answer(2, 4, 3, 7);
    answer(9, 3, 3, 7);
    answer(LEADER, 3, 3, 7);
    struct bt_group_message m = reply(2, 3, 3, 7);
    m.append_reply.flags = 0;
    give(&m);
    assert_int_equal(bt_aggregator_status(&b.a).commit, 5);
    assert_int_equal(counter(BT_AGGREGATOR_STALE_TOTAL), 2);
    assert_int_equal(counter(BT_AGGREGATOR_STRANGER_TOTAL), 2);
    assert_int_equal(counter(BT_AGGREGATOR_REFUSALS_TOTAL), 1);
    answer(2, 3, 3, 7);
    announced(7, 4);
    answer(3, 3, 3, 6); // late and lower: registers only rise
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).commit, 7);
}

static void r342_lost_registers_fill_again_and_a_new_term_makes_it_step_aside(void **state)
{
    (void)state;
    start(false);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE);
    entries(LEADER, 3, 3, 5, 2);
    answer(2, 3, 3, 7);
    announced(7, 4);
    bt_aggregator_flush(&b.a);
    answer(2, 3, 3, 7); // of no term that is known
    assert_int_equal(b.n, 0);
    entries(LEADER, 3, 3, 7, 1);
    assert_int_equal(b.n, 3);
    answer(3, 3, 3, 8);
    announced(8, 4);
    entries(2, 4, 3, 8, 1); // of the next leader, which did not probe
    assert_int_equal(b.n, 0);
    answer(3, 4, 3, 9);
    entries(LEADER, 3, 3, 8, 1);
    assert_int_equal(b.n, 0);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE); // late
    assert_int_equal(b.n, 0);
}

static void r343_a_message_with_nothing_new_makes_the_next_answer_announce_again(void **state)
{
    (void)state;
    start(false);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE);
    entries(LEADER, 3, 3, 5, 2);
    entries(LEADER, 3, 3, 7, 2); // two under way
    answer(2, 3, 3, 7);
    announced(7, 4);
    answer(3, 3, 3, 7);
    assert_int_equal(b.n, 0);
    entries(LEADER, 3, 3, 5, 2); // an earlier one again: its end is not above the last
    answer(3, 3, 3, 7);
    announced(7, 4);
    entries(LEADER, 3, 3, 9, 0); // a sign of life
    answer(3, 3, 3, 7);
    announced(7, 4);
    answer(3, 3, 3, 7);
    assert_int_equal(b.n, 0);
}

static void r345_foreign_cut_short_and_other_messages_change_nothing(void **state)
{
    (void)state;
    start(false);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE);
    struct bt_aggregator_status before = bt_aggregator_status(&b.a);
    struct bt_group_message m = reply(2, 3, 3, 6);
    m.header.cluster++;
    give(&m);
    m = of(BT_GROUP_SHARED, LEADER, 99);
    m.header.group++;
    m.append = (struct bt_group_append){.prev_index = 5, .prev_term = 1, .epoch = 3};
    give(&m);
    m = of(BT_GROUP_TAKE_OVER, LEADER, 99);
    give(&m);
    bt_aggregator_receive(&b.a, (const uint8_t *)"x", 1);
    assert_int_equal(counter(BT_AGGREGATOR_FOREIGN_TOTAL), 2);
    assert_int_equal(counter(BT_AGGREGATOR_UNKNOWN_TOTAL), 1);
    assert_int_equal(counter(BT_AGGREGATOR_MALFORMED_TOTAL), 1);
    struct bt_aggregator_status after = bt_aggregator_status(&b.a);
    assert_int_equal(after.term, before.term);
    assert_int_equal(after.leader, before.leader);
    assert_int_equal(after.last, before.last);
    assert_int_equal(after.commit, before.commit);
    assert_string_equal(bt_aggregator_counter_name(BT_AGGREGATOR_HIGH_TOTAL), "high");
}

static void w11_a_switch_announces_what_the_answer_says_which_may_be_one_answer_later(void **state)
{
    (void)state;
    for (int as_switch = 0; as_switch < 2; as_switch++) {
        start(as_switch != 0);
        probe(3, 3, 5, 5, BT_GROUP_DURABLE);
        entries(LEADER, 3, 3, 5, 3);
        answer(2, 3, 3, 7);
        answer(3, 3, 3, 8); // a quorum holds 7; this answer says 8
        assert_int_equal(b.n, as_switch ? 0 : 6);
        answer(4, 3, 3, 7);
        assert_int_equal(b.n, as_switch ? 6 : 0);
        assert_int_equal(bt_aggregator_status(&b.a).commit, 7);
    }
}

static void w11_low_halves_are_compared_and_high_ones_must_match(void **state)
{
    (void)state;
    uint64_t floor = (UINT64_C(7) << 32) + 0x7ffffff0, half = UINT64_C(1) << 32;
    start(true);
    probe(3, 3, floor, 3, BT_GROUP_DURABLE);
    entries(LEADER, 3, 3, floor, 32); // across the sign
    answer(2, 3, 3, floor + 32);
    announced(floor + 32, 4);
    answer(2, 3, 3, floor + 33 + half);
    assert_int_equal(counter(BT_AGGREGATOR_HIGH_TOTAL), 1);
    entries(LEADER, 3, 3, floor + half, 1);
    assert_int_equal(counter(BT_AGGREGATOR_HIGH_TOTAL), 2);
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).commit, floor + 32);
    probe(3, 3, floor + half, 3, BT_GROUP_DURABLE); // the leader left it, and comes back
    assert_int_equal(b.n, 1);
    entries(LEADER, 3, 3, floor + half, 1);
    answer(2, 3, 3, floor + half + 1);
    announced(floor + half + 1, 4);
}

// By signed difference, a follower that fell silent long ago would count as one that is ahead.
static void w11_who_is_half_a_wrap_behind_holds_nothing_newer(void **state)
{
    (void)state;
    uint64_t far = UINT64_C(0x80000010);
    start(true);
    probe(3, 3, 5, 5, BT_GROUP_DURABLE);
    entries(LEADER, 3, 3, 5, 1);
    answer(4, 3, 3, 6); // and nothing more
    entries(LEADER, 3, 3, far, 1);
    answer(2, 3, 3, far + 1);
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).commit, 5);
    answer(3, 3, 3, far + 1);
    announced(far + 1, 6);
}

static void r344_a_term_has_one_leader_and_a_switch_knows_terms_of_32_bits(void **state)
{
    (void)state;
    start(true);
    probe(3, 3, 5, 3, BT_GROUP_DURABLE);
    struct bt_group_message m = of(BT_GROUP_PROBE, 2, 3);
    m.probe = (struct bt_group_probe){.epoch = 3, .floor = 9, .config = b.a.config};
    give(&m);
    assert_int_equal(b.n, 0);
    assert_int_equal(bt_aggregator_status(&b.a).leader, LEADER);
    assert_int_equal(bt_aggregator_status(&b.a).floor, 5);
    probe((UINT64_C(1) << 32) + 4, 3, 9, 3, BT_GROUP_DURABLE);
    assert_int_equal(counter(BT_AGGREGATOR_HIGH_TOTAL), 1);
    assert_int_equal(b.n, 0);
}

static void r336_a_leader_of_a_later_term_takes_the_aggregator_over(void **state)
{
    (void)state;
    start(false);
    probe(2, 3, 5, 3, BT_GROUP_DURABLE);
    struct bt_group_message m = of(BT_GROUP_PROBE, 2, 3);
    m.probe = (struct bt_group_probe){.flags = BT_GROUP_DURABLE, .epoch = 3, .floor = 7, .config = {.count = 3}};
    for (uint16_t i = 0; i < 3; i++) {
        m.probe.config.member[i] = (struct bt_group_member){.id = i + 1, .role = BT_GROUP_VOTER};
    }
    give(&m);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.sent[0].to, 2);
    assert_int_equal(b.sent[0].m.probe.floor, 7);
    assert_int_equal(counter(BT_AGGREGATOR_EPOCH_TOTAL), 0);
    entries(2, 3, 3, 6, 1);
    assert_int_equal(b.n, 0); // below its floor
    assert_int_equal(counter(BT_AGGREGATOR_LOW_TOTAL), 1);
    entries(2, 3, 3, 7, 1);
    assert_int_equal(b.n, 2);
    entries(LEADER, 3, 3, 7, 1); // in a term that is not its own
    assert_int_equal(b.n, 0);
    assert_int_equal(counter(BT_AGGREGATOR_STRANGER_TOTAL), 1);
}

static void r342_entries_of_a_term_nobody_probed_for_go_nowhere(void **state)
{
    (void)state;
    start(false);
    probe(2, 3, 5, 3, BT_GROUP_DURABLE);
    for (uint64_t i = 1; i <= 2; i++) {
        entries(LEADER, 4, 3, 5, 1);
        assert_int_equal(b.n, 0);
        assert_int_equal(counter(BT_AGGREGATOR_EPOCH_TOTAL), i);
    }
    entries(LEADER, 2, 3, 5, 1); // nor those of the term before
    assert_int_equal(b.n, 0);
    assert_int_equal(counter(BT_AGGREGATOR_STALE_TOTAL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r335_f_followers_commit_what_the_leader_holds_durably_else_one_more),
        cmocka_unit_test(r336_r344_only_the_probed_leader_term_and_membership_and_nothing_below_its_floor),
        cmocka_unit_test(r342_answers_of_another_term_or_of_strangers_and_refusals_do_not_count),
        cmocka_unit_test(r342_lost_registers_fill_again_and_a_new_term_makes_it_step_aside),
        cmocka_unit_test(r343_a_message_with_nothing_new_makes_the_next_answer_announce_again),
        cmocka_unit_test(r345_foreign_cut_short_and_other_messages_change_nothing),
        cmocka_unit_test(w11_a_switch_announces_what_the_answer_says_which_may_be_one_answer_later),
        cmocka_unit_test(w11_low_halves_are_compared_and_high_ones_must_match),
        cmocka_unit_test(w11_who_is_half_a_wrap_behind_holds_nothing_newer),
        cmocka_unit_test(r344_a_term_has_one_leader_and_a_switch_knows_terms_of_32_bits),
        cmocka_unit_test(r336_a_leader_of_a_later_term_takes_the_aggregator_over),
        cmocka_unit_test(r342_entries_of_a_term_nobody_probed_for_go_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
