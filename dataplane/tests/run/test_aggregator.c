// SPDX-License-Identifier: Apache-2.0
// A HovercRaft++ group of whole members, its box and its aggregator: entries go by way of the
// aggregator and are committed by its word, and on any doubt the leader sends them itself, in the same term.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "replica/sessions.h"

static struct bed b;

static uint64_t core(uint16_t id, enum bt_replica_counter c)
{
    return bt_member_core_counters(b.member[id])[c];
}

static uint64_t event(enum bt_aggregator_counter c)
{
    return bt_aggregator_front_core_counters(b.aggregator)[c];
}

static uint64_t counted(enum bt_aggregator_front_counter c)
{
    return bt_aggregator_front_counters(b.aggregator)[c];
}

static void unchanged(const struct bt_aggregator_status *before)
{
    struct bt_aggregator_status now = bt_aggregator_front_status(b.aggregator);
    assert_true(now.known == before->known && now.leader == before->leader);
    assert_int_equal(now.term, before->term);
    assert_int_equal(now.epoch, before->epoch);
}

static void open_group(unsigned voters, bool as_switch)
{
    bed_open_hovercraftpp(&b, voters, as_switch);
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, takes_requests, id);
    }
    bed_until(&b, aggregated, 0);
}

// Again until it is answered, under a session, so that it is done once.
static void write_until_done(uint64_t add)
{
    static uint64_t session = 80000;
    session++;
    for (int i = 0; i < 200; i++) {
        bed_until(&b, leads, 0);
        if (bed_ask(&b, &(struct bed_ask){BED_BOX, BT_POLICY_REPLICATED_WRITE, add, session, 1})) {
            assert_true(b.reply_n == 9 && b.reply[0] == BT_SESSION_DONE);
            return;
        }
    }
    fail();
}

static void all_hold(unsigned voters, uint64_t sum)
{
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, level, id);
    }
    for (uint16_t id = 1; id <= voters; id++) {
        assert_int_equal(b.service[id].sum, sum);
    }
}

static void shares(bool as_switch)
{
    enum { ASKED = 40, VOTERS = 5 };
    open_group(VOTERS, as_switch);
    uint16_t l = bed_leader(&b);
    uint64_t passed = event(BT_AGGREGATOR_PASSED_TOTAL), announced = event(BT_AGGREGATOR_ANNOUNCED_TOTAL);
    for (uint64_t i = 1; i <= ASKED; i++) {
        assert_true(bed_ask(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
        assert_int_equal(bed_sum(&b, 0), i);
    }
    all_hold(VOTERS, ASKED);
    assert_true(event(BT_AGGREGATOR_PASSED_TOTAL) >= passed + ASKED);
    assert_true(event(BT_AGGREGATOR_ANNOUNCED_TOTAL) >= announced + ASKED);
    for (uint16_t id = 1; id <= VOTERS; id++) {
        assert_true(core(id, BT_REPLICA_AGG_COMMITS_TOTAL) >= ASKED);
        assert_int_equal(core(id, BT_REPLICA_FALLBACKS_TOTAL), 0);
        // By way of the aggregator: it is the aggregator that the packets come from, and nobody takes it for the
        // leader.
        assert_int_equal(bed_status(&b, id).leader, l);
        struct bt_member_status s = bed_status(&b, id);
        assert_true(bt_addr_ip_eq(&s.leader_client, &b.document.member[l - 1].client));
    }
    assert_int_equal(bt_box_front_inside(b.box, b.now), 0);
    bed_close(&b);
}

static void r339_entries_and_answers_go_by_way_of_the_aggregator(void **state)
{
    (void)state;
    shares(false);
}

static void w11_a_switch_as_aggregator(void **state)
{
    (void)state;
    shares(true);
}

static void r341_without_it_the_leader_goes_on_in_the_same_term(void **state)
{
    (void)state;
    open_group(3, false);
    uint16_t l = bed_leader(&b);
    uint64_t term = bed_status(&b, l).core.term;
    for (uint64_t i = 1; i <= 3; i++) {
        bed_aggregator_stop(&b);
        write_until_done(1); // entries of before are under way to nobody
        bed_until(&b, by_itself, 0);
        write_until_done(1);
        bed_aggregator_start(&b, false); // empty
        bed_until(&b, aggregated, 0);
        write_until_done(1);
        assert_int_equal(core(l, BT_REPLICA_FALLBACKS_TOTAL), i);
    }
    all_hold(3, 9);
    assert_int_equal(bed_leader(&b), l);
    assert_int_equal(bed_status(&b, l).core.term, term);
    bed_close(&b);
}

static void r340_the_next_leader_probes_for_itself(void **state)
{
    (void)state;
    open_group(5, false);
    for (uint64_t i = 1; i <= 2; i++) {
        write_until_done(1);
        bed_stop(&b, bed_leader(&b));
        bed_until(&b, leads, 0);
        bed_until(&b, aggregated, 0);
        write_until_done(1);
        assert_int_equal(bt_aggregator_front_status(b.aggregator).leader, bed_leader(&b));
    }
    assert_int_equal(b.service[bed_leader(&b)].sum, 4);
    bed_close(&b);
}

static void r339_a_follower_with_a_gap_is_served_by_the_leader(void **state)
{
    (void)state;
    open_group(3, false);
    uint16_t away = (uint16_t)(bed_leader(&b) % 3 + 1);
    uint64_t fallbacks = core(bed_leader(&b), BT_REPLICA_FALLBACKS_TOTAL);
    b.cut[away] = true;
    for (int i = 0; i < 20; i++) {
        write_until_done(1); // one follower is a quorum with the leader
    }
    b.cut[away] = false;
    all_hold(3, 20);
    assert_true(aggregated(&b, 0));
    assert_int_equal(core(bed_leader(&b), BT_REPLICA_FALLBACKS_TOTAL), fallbacks);
    bed_close(&b);
}

/* --- the tag first --- */

static struct bt_pkt *packet(const struct bt_group_message *m, const struct bt_addr *src, const struct bt_addr *dst,
                             uint64_t disk, const struct bt_key *key)
{
    uint8_t p[256];
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    size_t n = bt_group_encode(p, sizeof p, m);
    assert_true(n > 0);
    pkt->src = *src;
    pkt->dst = *dst;
    pkt->local = BT_AGGREGATOR_PORT;
    assert_true(bt_group_packet_write(pkt, p, n, disk, key));
    return pkt;
}

static struct bt_group_message message(enum bt_group_type type, uint16_t from, uint64_t term)
{
    return (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                                .type = (uint8_t)type,
                                                .from = from,
                                                .group = (uint32_t)b.document.number,
                                                .term = term,
                                                .cluster = bt_member_wire_cluster(b.document.cluster)}};
}

// A leader's empty message to the aggregator.
static struct bt_pkt *entries(uint64_t term, const struct bt_key *key)
{
    struct bt_addr from = bed_address(1, 8100);
    struct bt_group_message m = message(BT_GROUP_SHARED, 1, term);
    return packet(&m, &from, &b.document.aggregator.address, 5, key);
}

static void r345_what_no_member_signed_changes_nothing(void **state)
{
    (void)state;
    const struct bt_key other = {.id = 2, .bytes = {1}}, wrong = {.id = 1, .bytes = {1}};
    const struct bt_key *right = &b.keys.key[0];
    open_group(3, false);
    struct bt_aggregator_status before = bt_aggregator_front_status(b.aggregator);
    uint64_t later = before.term + 100; // that of a true leader would flush it
    bt_aggregator_front_receive(b.aggregator, entries(later, &other));
    bt_aggregator_front_receive(b.aggregator, entries(later, &wrong));
    struct bt_pkt *moved = entries(later, right);
    moved->src = bed_address(2, 8100); // signed for another way
    bt_aggregator_front_receive(b.aggregator, moved);
    struct bt_pkt *cut = entries(later, right);
    cut->len -= 4;
    bt_aggregator_front_receive(b.aggregator, cut);
    struct bt_pkt *raw = bt_pool_get(&b.pool.pool);
    memset(bt_pkt_append(raw, 40), 0xcc, 40);
    bt_aggregator_front_receive(b.aggregator, raw);
    assert_int_equal(counted(BT_AGGREGATOR_BAD_UNKNOWN_KEY), 1);
    assert_int_equal(counted(BT_AGGREGATOR_BAD_WRONG_TAG), 3);
    assert_int_equal(counted(BT_AGGREGATOR_BAD_FORM), 1);
    unchanged(&before);
    write_until_done(1);
    all_hold(3, 1);
    // With the tag it is a leader's: it steps aside, and the group goes on.
    bt_aggregator_front_receive(b.aggregator, entries(later, right));
    assert_false(bt_aggregator_front_status(b.aggregator).known);
    write_until_done(1);
    all_hold(3, 2);
    bed_close(&b);
}

static void r345_of_another_group_or_to_nobody_there(void **state)
{
    (void)state;
    open_group(3, false);
    struct bt_aggregator_status before = bt_aggregator_front_status(b.aggregator);
    b.document.number++;
    struct bt_pkt *foreign = entries(before.term + 1, &b.keys.key[0]);
    b.document.number--;
    bt_aggregator_front_receive(b.aggregator, foreign);
    assert_int_equal(event(BT_AGGREGATOR_FOREIGN_TOTAL), 1);
    unchanged(&before);
    struct bt_group_document fewer = b.document;
    fewer.n_members = 2; // a member that the document does not name gets nothing this way
    bt_aggregator_front_reconfigure(b.aggregator, &fewer, &b.keys);
    write_until_done(1);
    assert_true(counted(BT_AGGREGATOR_NO_ADDRESS) > 0);
    all_hold(3, 1); // its leader serves it
    bed_close(&b);
}

static void r382_a_disk_that_the_log_does_not_know_is_not_counted(void **state)
{
    (void)state;
    bed_open_hovercraftpp(&b, 3, false);
    bed_stop(&b, 3); // so the group is not formed, and nobody is asked to count
    bed_until(&b, leads, 0);
    for (int ms = 0; ms < 500; ms++) {
        bed_step(&b);
    }
    assert_int_equal(b.to_aggregator, 0);
    bed_start(&b, 3);
    bed_until(&b, takes_requests, 3);
    bed_until(&b, aggregated, 0);
    uint16_t f = (uint16_t)(bed_leader(&b) % 3 + 1);
    bed_stop(&b, f);
    bed_lose_disk(&b, f);
    bed_start(&b, f); // with another one, under its number
    uint16_t l = bed_leader(&b);
    struct bt_addr own = bed_address(f, 8100);
    struct bt_member_status lead = bed_status(&b, l);
    struct bt_group_message m = message(BT_GROUP_SHARED, l, lead.core.term);
    m.append = (struct bt_group_append){.epoch = 1, .count = 1, .entry = {{.term = 1, .kind = BT_ENTRY_NOOP}}};
    b.cut[l] = true; // or it says what follows
    bed_give(&b, f, packet(&m, &b.document.aggregator.address, &own, bt_get64(lead.disk_id + 8), &b.keys.key[0]));
    for (int ms = 0; ms < 20; ms++) {
        bed_step(&b);
    }
    assert_int_equal(bed_status(&b, f).core.durable, 1);
    assert_true(bt_member_counters(b.member[f])[BT_MEMBER_UNREGISTERED] > 0);
    bed_close(&b);
}

static void r345_the_aggregator_has_no_disk(void **state)
{
    (void)state;
    open_group(3, false);
    uint16_t f = (uint16_t)(bed_leader(&b) % 3 + 1);
    uint64_t wrong = bt_member_counters(b.member[f])[BT_MEMBER_BAD_WRONG_DISK];
    uint64_t told = core(f, BT_REPLICA_AGG_COMMITS_TOTAL);
    struct bt_addr from = bed_address(2, 8100), to = bed_address(f, 8100);
    struct bt_group_message m = message(BT_GROUP_COMMITTED, BT_GROUP_AGGREGATOR, bed_status(&b, f).core.term);
    bed_give(&b, f, packet(&m, &from, &to, 5, &b.keys.key[0]));
    assert_int_equal(bt_member_counters(b.member[f])[BT_MEMBER_BAD_WRONG_DISK], wrong + 1);
    assert_int_equal(core(f, BT_REPLICA_AGG_COMMITS_TOTAL), told);
    bed_close(&b);
}

static bool holds_more(struct bed *bed, uint16_t id)
{
    struct bt_member_status s = bed_status(bed, id);
    return s.core.last >= s.core.commit + 20;
}

static void i13_what_the_aggregator_commits_late_is_not_answered(void **state)
{
    (void)state;
    open_group(3, false);
    uint16_t f = (uint16_t)(bed_leader(&b) % 3 + 1), other = (uint16_t)(f % 3 + 1);
    other = other == bed_leader(&b) ? (uint16_t)(other % 3 + 1) : other;
    write_until_done(1);
    all_hold(3, 1);
    b.cut[other] = true; // so that nothing more is committed while one disk waits
    atomic_store(&b.disk[f].stalled, true);
    for (int i = 0; i < 60; i++) { // some of them this follower is to answer
        bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        bed_step(&b);
    }
    bed_until(&b, holds_more, f);
    b.cut[f] = true;
    atomic_store(&b.disk[f].stalled, false);
    struct bt_member_status s = bed_status(&b, f);
    for (int ms = 0; ms < 3000; ms++) {
        bed_step(&b);
    }
    uint64_t before = bt_member_counters(b.member[f])[BT_MEMBER_ANSWERED];
    struct bt_addr to = bed_address(f, 8100);
    struct bt_group_message m = message(BT_GROUP_COMMITTED, BT_GROUP_AGGREGATOR, bed_status(&b, f).core.term);
    m.committed = (struct bt_group_committed){.epoch = 1, .commit = s.core.last};
    b.cut[f] = false;
    bed_give(&b, f, packet(&m, &b.document.aggregator.address, &to, 0, &b.keys.key[0]));
    bt_member_turn(b.member[f], b.now, false);
    assert_true(bed_status(&b, f).core.applied >= s.core.commit + 20);
    assert_int_equal(bt_member_counters(b.member[f])[BT_MEMBER_ANSWERED], before);
    assert_true(bt_member_counters(b.member[f])[BT_MEMBER_ANSWER_TOO_LATE] > 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r339_entries_and_answers_go_by_way_of_the_aggregator),
        cmocka_unit_test(w11_a_switch_as_aggregator),
        cmocka_unit_test(r341_without_it_the_leader_goes_on_in_the_same_term),
        cmocka_unit_test(r340_the_next_leader_probes_for_itself),
        cmocka_unit_test(r339_a_follower_with_a_gap_is_served_by_the_leader),
        cmocka_unit_test(r345_what_no_member_signed_changes_nothing),
        cmocka_unit_test(r345_of_another_group_or_to_nobody_there),
        cmocka_unit_test(r382_a_disk_that_the_log_does_not_know_is_not_counted),
        cmocka_unit_test(r345_the_aggregator_has_no_disk),
        cmocka_unit_test(i13_what_the_aggregator_commits_late_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
