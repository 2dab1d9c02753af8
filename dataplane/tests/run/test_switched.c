// SPDX-License-Identifier: Apache-2.0
// A HovercRaft++ group whose aggregator is a switch (W-8, W-11, R-345): it checks no tag and writes none. Members send
// to it without one, believe it by its address and port where the document says so, and nobody else.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

#include "base/bytes.h"

static struct bed b;

static uint64_t refused(uint16_t id, enum bt_member_counter c)
{
    return bt_member_counters(b.member[id])[c];
}

static uint64_t core(uint16_t id, enum bt_replica_counter c)
{
    return bt_member_core_counters(b.member[id])[c];
}

static void open_group(unsigned voters)
{
    bed_open_switched(&b, voters);
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, takes_requests, id);
    }
    bed_until(&b, aggregated, 0);
}

// Writes until one is answered under its own session.
static void write_until_done(void)
{
    static uint64_t session = 90000;
    session++;
    for (int i = 0; i < 200; i++) {
        bed_until(&b, leads, 0);
        if (bed_ask(&b, &(struct bed_ask){BED_BOX, BT_POLICY_REPLICATED_WRITE, 1, session, 1})) {
            return;
        }
    }
    fail();
}

static void all_hold(unsigned voters, uint64_t sum)
{
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, level, id);
        assert_int_equal(b.service[id].sum, sum);
    }
}

static void w11_entries_and_commits_go_by_way_of_a_switch_without_tags(void **state)
{
    enum { ASKED = 40, VOTERS = 5 };
    (void)state;
    open_group(VOTERS);
    for (uint64_t i = 1; i <= ASKED; i++) {
        assert_true(bed_ask(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
        assert_int_equal(bed_sum(&b, 0), i);
    }
    all_hold(VOTERS, ASKED);
    for (uint16_t id = 1; id <= VOTERS; id++) {
        assert_true(core(id, BT_REPLICA_AGG_COMMITS_TOTAL) >= ASKED);
        assert_int_equal(core(id, BT_REPLICA_FALLBACKS_TOTAL), 0);
        assert_int_equal(refused(id, BT_MEMBER_BAD_UNTAGGED), 0);
    }
    bed_close(&b);
}

static void r341_without_the_switch_the_leader_goes_on_in_the_same_term(void **state)
{
    (void)state;
    open_group(3);
    uint16_t l = bed_leader(&b);
    uint64_t term = bed_status(&b, l).core.term;
    for (uint64_t i = 1; i <= 3; i++) {
        bed_aggregator_stop(&b);
        write_until_done();
        bed_until(&b, by_itself, 0);
        bed_aggregator_start(&b, true); // empty
        bed_until(&b, aggregated, 0);
        write_until_done();
        assert_int_equal(core(l, BT_REPLICA_FALLBACKS_TOTAL), i);
    }
    all_hold(3, 6);
    assert_int_equal(bed_leader(&b), l);
    assert_int_equal(bed_status(&b, l).core.term, term);
    bed_close(&b);
}

/* --- forged --- */

static struct bt_group_message message(enum bt_group_type type, uint16_t from, uint64_t term)
{
    return (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                                .type = (uint8_t)type,
                                                .from = from,
                                                .group = (uint32_t)b.document.number,
                                                .term = term,
                                                .cluster = bt_member_wire_cluster(b.document.cluster)}};
}

static struct bt_pkt *packet(const struct bt_group_message *m, const struct bt_addr *src, uint16_t to, uint64_t disk)
{
    uint8_t p[256];
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    size_t n = bt_group_encode(p, sizeof p, m);
    assert_true(n > 0);
    pkt->src = *src;
    pkt->dst = bed_address(to, 8100);
    assert_true(bt_group_packet_write(pkt, p, n, disk, NULL));
    return pkt;
}

// Everything that a message could change of a member.
static void is_as(uint16_t id, const struct bt_replica_status *before)
{
    struct bt_replica_status now = bed_status(&b, id).core;
    assert_int_equal(now.term, before->term);
    assert_int_equal(now.role, before->role);
    assert_int_equal(now.leader, before->leader);
    assert_int_equal(now.commit, before->commit);
    assert_int_equal(now.last, before->last);
    assert_int_equal(now.aggregated, before->aggregated);
}

// A follower to whom all of its entries could be said to be committed.
static uint16_t follower(struct bt_group_message *m)
{
    uint16_t f = (uint16_t)(bed_leader(&b) % 3 + 1);
    struct bt_replica_status s = bed_status(&b, f).core;
    *m = message(BT_GROUP_COMMITTED, BT_GROUP_AGGREGATOR, s.term);
    m->committed = (struct bt_group_committed){.epoch = 1, .commit = s.last};
    return f;
}

static void w8_from_elsewhere_or_another_port_is_not_the_switch(void **state)
{
    (void)state;
    open_group(3);
    write_until_done();
    struct bt_group_message m;
    uint16_t f = follower(&m);
    struct bt_replica_status before = bed_status(&b, f).core;
    uint64_t taken = core(f, BT_REPLICA_AGG_COMMITS_TOTAL), untagged = refused(f, BT_MEMBER_BAD_UNTAGGED);
    struct bt_addr elsewhere = bed_address(BED_AGGREGATOR + 1, 8300), port = bed_address(BED_AGGREGATOR, 8301);
    struct bt_addr member = bed_address((uint16_t)(f % 3 + 1), 8100);
    bed_give(&b, f, packet(&m, &elsewhere, f, 0));
    bed_give(&b, f, packet(&m, &port, f, 0));
    bed_give(&b, f, packet(&m, &member, f, 0)); // members sign
    assert_int_equal(refused(f, BT_MEMBER_BAD_UNTAGGED), untagged + 3);
    assert_int_equal(core(f, BT_REPLICA_AGG_COMMITS_TOTAL), taken);
    is_as(f, &before);
    bed_close(&b);
}

static void w8_where_the_document_does_not_say_so_nothing_comes_without_a_tag(void **state)
{
    (void)state;
    bed_open_hovercraftpp(&b, 3, true);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, takes_requests, id);
    }
    bed_until(&b, aggregated, 0);
    write_until_done();
    struct bt_group_message m;
    uint16_t f = follower(&m);
    struct bt_replica_status before = bed_status(&b, f).core;
    uint64_t taken = core(f, BT_REPLICA_AGG_COMMITS_TOTAL), untagged = refused(f, BT_MEMBER_BAD_UNTAGGED);
    bed_give(&b, f, packet(&m, &b.document.aggregator.address, f, 0));
    assert_int_equal(refused(f, BT_MEMBER_BAD_UNTAGGED), untagged + 1);
    assert_int_equal(core(f, BT_REPLICA_AGG_COMMITS_TOTAL), taken);
    is_as(f, &before);
    bed_close(&b);
}

// Whoever writes the switch's address on a packet still cannot vote, append by itself, refuse a member, or make up a
// term.
static void w8_at_the_switch_s_address_only_an_aggregator_speaks(void **state)
{
    static const enum bt_group_type others[] = {BT_GROUP_VOTE,      BT_GROUP_VOTE_REPLY,  BT_GROUP_APPEND,
                                                BT_GROUP_SNAPSHOT,  BT_GROUP_RECOVERY,    BT_GROUP_PROBE,
                                                BT_GROUP_TAKE_OVER, BT_GROUP_SHARED_REPLY};
    (void)state;
    open_group(3);
    const struct bt_addr *at = &b.document.aggregator.address;
    uint16_t l = bed_leader(&b), f = (uint16_t)(l % 3 + 1);
    struct bt_replica_status before = bed_status(&b, f).core;
    uint64_t disk = bt_get64(bed_status(&b, l).disk_id + 8), taken = refused(f, BT_MEMBER_ACCEPTED);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct bt_group_message m = message(BT_GROUP_TAKE_OVER, l, before.term);
        struct bt_pkt *pkt = packet(&m, at, f, disk);
        pkt->data[8 + 1] = (uint8_t)others[i];
        bed_give(&b, f, pkt);
        assert_int_equal(refused(f, BT_MEMBER_BAD_UNSAID), i + 1);
    }
    uint8_t note[BT_GROUP_NOTE];
    bt_group_note_write(note, &(struct bt_group_note){.why = BT_NOTE_REMOVED,
                                                      .id = f,
                                                      .group = (uint32_t)b.document.number,
                                                      .cluster = bt_member_wire_cluster(b.document.cluster),
                                                      .disk = bt_get64(bed_status(&b, f).disk_id + 8)});
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    pkt->src = *at;
    pkt->dst = bed_address(f, 8100);
    assert_true(bt_group_packet_write(pkt, note, sizeof note, 0, NULL));
    bed_give(&b, f, pkt);
    assert_int_equal(refused(f, BT_MEMBER_BAD_UNSAID), sizeof others / sizeof *others + 1);
    assert_int_equal(bed_status(&b, f).phase, BT_MEMBER_RUNNING);

    struct bt_group_message later = message(BT_GROUP_SHARED, l, before.term + 1);
    later.append = (struct bt_group_append){.epoch = 1};
    bed_give(&b, f, packet(&later, at, f, disk));
    bed_give(&b, l, packet(&later, at, l, disk));
    assert_int_equal(refused(f, BT_MEMBER_BAD_AHEAD), 1);
    assert_int_equal(refused(l, BT_MEMBER_BAD_AHEAD), 1);
    assert_int_equal(refused(f, BT_MEMBER_ACCEPTED), taken);
    is_as(f, &before);
    assert_int_equal(bed_leader(&b), l);
    write_until_done();
    all_hold(3, 1);
    bed_close(&b);
}

static void w8_what_is_cut_short_or_has_options_is_counted(void **state)
{
    (void)state;
    open_group(3);
    struct bt_group_message m;
    uint16_t f = follower(&m);
    struct bt_replica_status before = bed_status(&b, f).core;
    uint64_t shorter = refused(f, BT_MEMBER_BAD_SHORT), form = refused(f, BT_MEMBER_BAD_FORM);
    struct bt_pkt *pkt = packet(&m, &b.document.aggregator.address, f, 0);
    pkt->len = 8 + BT_GROUP_HEADER;
    bed_give(&b, f, pkt);
    assert_int_equal(refused(f, BT_MEMBER_BAD_SHORT), shorter + 1);
    pkt = packet(&m, &b.document.aggregator.address, f, 0);
    pkt->len = 4;
    bed_give(&b, f, pkt);
    assert_int_equal(refused(f, BT_MEMBER_BAD_FORM), form + 1);
    pkt = packet(&m, &b.document.aggregator.address, f, 7); // the aggregator has no disk
    uint64_t disk = refused(f, BT_MEMBER_BAD_WRONG_DISK);
    bed_give(&b, f, pkt);
    assert_int_equal(refused(f, BT_MEMBER_BAD_WRONG_DISK), disk + 1);
    is_as(f, &before);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(w11_entries_and_commits_go_by_way_of_a_switch_without_tags),
        cmocka_unit_test(r341_without_the_switch_the_leader_goes_on_in_the_same_term),
        cmocka_unit_test(w8_from_elsewhere_or_another_port_is_not_the_switch),
        cmocka_unit_test(w8_where_the_document_does_not_say_so_nothing_comes_without_a_tag),
        cmocka_unit_test(w8_at_the_switch_s_address_only_an_aggregator_speaks),
        cmocka_unit_test(w8_what_is_cut_short_or_has_options_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
