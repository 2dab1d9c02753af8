// SPDX-License-Identifier: Apache-2.0
// Clients' requests at a member, and what it waits for: each refusal has its own reason, what is in the log is
// answered or forgotten and never refused, a service answers once and in as many parts as it likes, and a member
// sleeps no longer than until its next timer.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "run/command.h"
#include "wire/tag.h"

static struct bed b;

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static uint16_t formed(unsigned voters, unsigned places)
{
    bed_open(&b, voters, places);
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, ready, id);
    }
    return bed_leader(&b);
}

static bool write_to(uint16_t id)
{
    return bed_ask(&b, &(struct bed_ask){.to = id, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
}

// Nothing reaches the others, and nothing comes from them.
static void cut_off_all_but(uint16_t id, bool cut)
{
    for (uint16_t other = 1; other <= 3; other++) {
        b.cut[other] = other != id && cut;
    }
}

static uint64_t counted(uint16_t id, enum bt_drop_reason reason)
{
    return bt_member_counters(b.member[id])[BT_MEMBER_DROP_FIRST + reason];
}

static uint64_t forgotten(uint16_t id)
{
    return bt_member_server_counters(b.member[id])[BT_SERVER_FORGOTTEN];
}

// The last request was refused for this reason, and only that one was counted, `times` so far.
static void is_refused(uint16_t id, enum bt_drop_reason reason, uint64_t times)
{
    assert_int_equal(b.reply_type, BT_DROP);
    assert_int_equal(b.reply[5], reason);
    for (int r = BT_DROP_NOT_LEADER; r < BT_DROP_REASONS; r++) {
        assert_int_equal(counted(id, (enum bt_drop_reason)r), r == (int)reason ? times : 0);
    }
}

/* --- refused --- */

static struct bt_pkt *request_of(uint16_t to, uint32_t bytes)
{
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_CLIENT, 5000);
    pkt->dst = bed_address(to, 8000);
    memset(bt_pkt_append(pkt, bytes), 0, bytes);
    bt_r2p2_start(&h, BT_REQUEST, BT_POLICY_REPLICATED_WRITE, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = ++b.rid;
    assert_true(bt_r2p2_push_header(pkt, &h));
    b.reply_type = 0xff;
    return pkt;
}

static void r386_more_than_one_message_between_members_carries_is_too_long(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    uint32_t most = bt_replica_request_most(bt_group_packet_most(1500)) + BT_GROUP_META - BT_COMMAND_HEAD;
    uint64_t last = bed_status(&b, l).core.last;
    bed_give(&b, l, request_of(l, most + 1));
    bed_step(&b);
    is_refused(l, BT_DROP_TOO_LONG, 1);
    assert_int_equal(bed_status(&b, l).core.last, last);
    cut_off_all_but(l, true); // the service, which wants eight bytes, is not to see the longest one
    bed_give(&b, l, request_of(l, most));
    bed_step(&b);
    assert_int_equal(b.reply_type, 0xff);
    assert_int_equal(bed_status(&b, l).core.last, last + 1);
    bed_close(&b);
}

static void r386_while_the_leadership_moves_nothing_is_taken(void **state)
{
    uint16_t to;
    (void)state;
    uint16_t l = formed(3, 3), slow = (uint16_t)(l % 3 + 1);
    b.cut[slow] = true;
    assert_true(write_to(l)); // which the one that is to lead does not have
    assert_int_equal(bt_member_transfer(b.member[l], b.now, slow, &to), BT_REPLICA_OK);
    assert_int_equal(to, slow);
    uint64_t last = bed_status(&b, l).core.last;
    assert_false(write_to(l));
    is_refused(l, BT_DROP_MOVING, 1);
    assert_int_equal(bed_status(&b, l).core.last, last);
    for (int i = 0; i < 250; i++) { // it was given up after two elections' time
        bed_step(&b);
    }
    assert_int_equal(bed_leader(&b), l);
    assert_true(write_to(l));
    bed_close(&b);
}

// A write that a router sends for a client, with a tag of that key; true when it is answered.
static bool write_through_a_router(uint16_t to, const struct bt_key *key)
{
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_CLIENT, 6000);
    pkt->dst = bed_address(to, 8000);
    bt_put64(bt_pkt_append(pkt, 8), 1);
    bt_r2p2_start(&h, BT_REQUEST, BT_POLICY_REPLICATED_WRITE, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = ++b.rid;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_TAG;
    h.opt.forwarded = bed_address(BED_CLIENT, 5000);
    h.opt.key_id = key->id;
    assert_true(bt_r2p2_push_header(pkt, &h));
    assert_true(bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst));
    b.reply_type = 0xff;
    bed_give(&b, to, pkt);
    for (int ms = 0; ms < 1000 && b.reply_type == 0xff; ms++) {
        bed_step(&b);
    }
    return b.reply_type == BT_REPLY;
}

// R-57 of a member: routers are known by the keys that it has now.
static void r57_a_member_takes_new_keys(void **state)
{
    (void)state;
    const struct bt_key fresh = {.id = 7, .bytes = {1, 2, 3}};
    uint16_t l = formed(3, 3);
    const struct bt_key old = b.keys.key[0];
    assert_true(write_through_a_router(l, &old));
    assert_false(write_through_a_router(l, &fresh));
    b.keys.key[0] = fresh;
    for (uint16_t id = 1; id <= 3; id++) {
        bt_member_reconfigure(b.member[id], &b.document, &b.keys);
    }
    assert_true(write_through_a_router(l, &fresh));
    assert_false(write_through_a_router(l, &old));
    bed_close(&b);
}

static void r386_as_many_wait_as_the_document_says(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    b.document.in_flight = 3;
    bt_member_reconfigure(b.member[l], &b.document, &b.keys);
    cut_off_all_but(l, true);
    for (uint32_t i = 1; i <= 3; i++) {
        bed_send(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        assert_int_equal(bed_status(&b, l).in_flight, i);
    }
    uint64_t last = bed_status(&b, l).core.last;
    bed_send(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
    bed_step(&b);
    is_refused(l, BT_DROP_BUSY, 1);
    assert_int_equal(bed_status(&b, l).in_flight, 3);
    assert_int_equal(bed_status(&b, l).core.last, last);
    bed_close(&b);
}

static void r386_who_does_not_lead_counts_it_as_that(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3), other = (uint16_t)(l % 3 + 1);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_false(write_to(other));
        is_refused(other, BT_DROP_NOT_LEADER, i);
    }
    assert_int_equal(counted(l, BT_DROP_NOT_LEADER), 0);
    bed_close(&b);
}

// A disk of another cluster: it takes no part, and says so to whoever asks.
static void r383_who_takes_no_part_has_no_vote_and_no_core(void **state)
{
    (void)state;
    uint64_t index;
    uint16_t l = formed(3, 3), f = (uint16_t)(l % 3 + 1), to;
    assert_false(bed_status(&b, f).learner);
    bed_stop(&b, f);
    b.document.cluster[0] ^= 1;
    bed_start(&b, f);
    struct bt_member_status s = bed_status(&b, f);
    assert_int_equal(s.phase, BT_MEMBER_FAILED);
    assert_true(s.learner && !s.ready && !s.formed && !s.takes_requests);
    assert_true(s.peers == 0 && s.voters == 0 && s.leader == 0 && s.core.term == 0);
    assert_null(bt_member_core_counters(b.member[f]));
    assert_int_equal(bt_member_transfer(b.member[f], b.now, l, &to), BT_REPLICA_FAILED);
    assert_int_equal(bt_member_snapshot(b.member[f], b.now, &index), BT_REPLICA_FAILED);
    assert_int_equal(
        bt_member_change(b.member[f], b.now, &(struct bt_member_order){.change = BT_REPLICA_REMOVE, .id = l}, &index),
        BT_REPLICA_FAILED);
    bed_close(&b);
}

static void r351_who_does_not_lead_is_ordered_nothing(void **state)
{
    (void)state;
    uint64_t index = 0;
    uint16_t l = formed(3, 4), f = (uint16_t)(l % 3 + 1), third = (uint16_t)(f % 3 + 1), to = 0;
    const struct bt_member_order add = {.change = BT_REPLICA_ADD_LEARNER,
                                        .id = 4,
                                        .address = b.document.member[3].address,
                                        .client = b.document.member[3].client,
                                        .name = "m4"};
    const struct bt_member_order promote = {.change = BT_REPLICA_PROMOTE, .id = 4};
    const struct bt_member_order out = {.change = BT_REPLICA_REMOVE, .id = third};
    assert_int_equal(bt_member_transfer(b.member[f], b.now, third, &to), BT_REPLICA_NOT_LEADER);
    assert_int_equal(bt_member_change(b.member[f], b.now, &out, &index), BT_REPLICA_NOT_LEADER);
    assert_int_equal(bt_member_change(b.member[l], b.now, &add, &index), BT_REPLICA_OK); // it never comes up
    assert_true(write_to(l));
    bed_until(&b, level, f);
    assert_int_equal(bt_member_change(b.member[l], b.now, &promote, &index), BT_REPLICA_BEHIND);
    assert_int_equal(bt_member_change(b.member[f], b.now, &promote, &index), BT_REPLICA_NOT_LEADER);
    assert_int_equal(bt_member_snapshot(b.member[f], b.now, &index), BT_REPLICA_OK); // each for itself
    assert_int_equal(index, bed_status(&b, f).core.applied);
    b.cut[third] = true;
    assert_true(write_to(l));
    assert_int_equal(bt_member_transfer(b.member[l], b.now, 0, &to), BT_REPLICA_OK);
    assert_int_equal(to, f); // who has most
    bed_close(&b);
}

/* --- waited for --- */

// It stays for ten seconds where nobody leads, in case that it is committed by who leads next.
static void r30_a_request_is_given_up_after_a_time(void **state)
{
    const uint64_t patience = UINT64_C(10000000000);
    (void)state;
    uint16_t l = formed(3, 3);
    cut_off_all_but(l, true);
    uint64_t since = b.now;
    bed_send(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
    while (b.now < since + patience) {
        assert_int_equal(bed_status(&b, l).in_flight, 1);
        bed_step(&b);
    }
    assert_int_not_equal(bed_status(&b, l).core.role, BT_REPLICA_LEADER);
    assert_int_equal(bed_status(&b, l).in_flight, 1);
    assert_int_equal(forgotten(l), 0);
    bed_step(&b);
    assert_int_equal(bed_status(&b, l).in_flight, 0);
    assert_int_equal(forgotten(l), 1);
    assert_int_equal(b.reply_type, 0xff);
    bed_close(&b);
}

static void r30_a_request_whose_place_another_entry_took_is_forgotten_at_once(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    assert_true(write_to(l));
    uint64_t since = b.now;
    cut_off_all_but(l, true);
    bed_send(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 100});
    cut_off_all_but(l, false);
    b.cut[l] = true; // the others go on without it
    bed_until(&b, leads, 0);
    uint16_t next = bed_leader(&b);
    assert_true(write_to(next));
    assert_int_equal(bed_status(&b, l).in_flight, 1);
    b.cut[l] = false;
    bed_until(&b, level, l);
    assert_int_equal(bed_status(&b, l).in_flight, 0);
    assert_int_equal(forgotten(l), 1);
    assert_int_equal(forgotten(next), 0);
    assert_true(b.now - since < UINT64_C(10000000000)); // it was not its patience
    assert_int_equal(b.service[l].sum, 2);
    bed_close(&b);
}

/* --- answered --- */

static struct bt_member *asked; // by the recv below
static enum { IN_PARTS, NOT_AT_ALL, TOO_LARGE } manner;

static void on_recv(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    static uint8_t large[65536];
    struct iovec parts[4] = {{"ab", 2}, {NULL, 0}, {"c", 1}, {"def", 3}};
    struct iovec much[2] = {{large, sizeof large}, {large, 1}};
    (void)arg;
    (void)iov;
    assert_int_equal(iovcnt, 1);
    assert_true(bt_member_read_only(asked, handle));
    assert_false(bt_member_read_only(asked, handle + 1) || bt_member_read_only(asked, 0));
    assert_false(bt_member_read_only(NULL, handle));
    assert_int_equal(bt_member_respond(NULL, handle, parts, 4), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(bt_member_respond(asked, handle + 1, parts, 4), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(bt_member_respond(asked, 0, parts, 4), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(bt_member_respond(asked, handle, parts, -1), R2P2_ERR_BAD_ARGUMENT);
    assert_int_equal(bt_member_respond(asked, handle, much, 2), R2P2_ERR_TOO_LARGE);
    if (manner == TOO_LARGE) { // for one packet to this client, not for the room
        assert_int_equal(bt_member_respond(asked, handle, much, 1), 0);
        assert_int_equal(bt_member_respond(asked, handle, parts, 4), R2P2_ERR_BAD_ARGUMENT);
    } else if (manner == IN_PARTS) {
        assert_int_equal(bt_member_respond(asked, handle, parts, 4), 0);
        assert_int_equal(bt_member_respond(asked, handle, parts, 4), R2P2_ERR_BAD_ARGUMENT);
    }
}

static void a_service_answers_once_in_as_many_parts_as_it_likes(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    asked = b.member[l];
    b.calls[l].recv = on_recv;
    const struct bed_ask read = {.to = l, .policy = BT_POLICY_UNRESTRICTED};
    manner = IN_PARTS;
    assert_true(bed_ask(&b, &read));
    assert_int_equal(b.reply_n, 6);
    assert_memory_equal(b.reply, "abcdef", 6);
    manner = NOT_AT_ALL;
    assert_true(bed_ask(&b, &read));
    assert_int_equal(b.reply_n, 0); // and not what was answered before
    manner = TOO_LARGE;
    assert_true(bed_ask(&b, &read)); // the first of its packets
    assert_int_equal(b.reply_n, BED_REPLY);
    assert_int_equal(bt_member_respond(asked, 1, NULL, 0), R2P2_ERR_BAD_ARGUMENT); // not within recv
    assert_false(bt_member_read_only(asked, 1));
    bed_close(&b);
}

/* --- its timers --- */

static bool silent(void)
{
    struct bt_pkt *pkt = bt_txq_pop(&b.txq);
    if (pkt != NULL) {
        bt_pool_put(&b.pool.pool, pkt);
    }
    return pkt == NULL;
}

static void a_turn_without_timers_lets_none_run(void **state)
{
    (void)state;
    uint16_t f = (uint16_t)(formed(3, 3) % 3 + 1);
    struct bt_replica_status before = bed_status(&b, f).core;
    while (!silent()) {
    }
    b.now += UINT64_C(1000000000); // nobody was heard for long
    assert_true(bt_member_next(b.member[f]) < b.now);
    bt_member_turn(b.member[f], b.now, false);
    assert_int_equal(bed_status(&b, f).core.role, BT_REPLICA_FOLLOWER);
    assert_int_equal(bed_status(&b, f).core.term, before.term);
    assert_true(silent());
    bt_member_turn(b.member[f], b.now, true);
    assert_false(silent()); // it asks for votes
    assert_true(bt_member_next(b.member[f]) > b.now);
    while (!silent()) {
    }
    bed_close(&b);
}

// One that has no vote and hears nobody says that it is there each 0.3 s, and sleeps in between.
static void a_member_that_is_not_called_before_its_time_says_that_it_is_there(void **state)
{
    enum { PAUSES = 30 };
    (void)state;
    formed(3, 4);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
    }
    while (!silent()) {
    }
    bed_start(&b, 4);
    bt_member_turn(b.member[4], b.now, false);
    assert_false(silent()); // its first word
    while (!silent()) {
    }
    uint64_t until = b.now + PAUSES * UINT64_C(300000000) + 1;
    b.now += 50000000; // the other timers begin here: none of them is due when it is to speak
    unsigned said[BED_MEMBERS + 1] = {0};
    for (uint64_t at = b.now; at < until; at = bt_member_next(b.member[4])) {
        assert_true(at >= b.now);
        b.now = at;
        bt_member_turn(b.member[4], at, true);
        for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b.txq)) != NULL;) {
            assert_int_equal(pkt->dst.port, 8100);
            said[pkt->dst.ip[15]]++;
            bt_pool_put(&b.pool.pool, pkt);
        }
        assert_true(bt_member_next(b.member[4]) > at);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        assert_int_equal(said[id], PAUSES);
    }
    assert_int_equal(said[4], 0);
    bed_close(&b);
}

/* --- its status --- */

static void a_leader_describes_each_member_as_it_hears_of_it(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3), cut = (uint16_t)(l % 3 + 1), other = (uint16_t)(cut % 3 + 1);
    assert_true(write_to(l));
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
    }
    for (int i = 0; i < 50; i++) { // and the leader has heard of it
        bed_step(&b);
    }
    struct bt_member_status s = bed_status(&b, l);
    assert_true(s.peers == 3 && s.voters == 3 && s.needed == 2 && s.heard == 3 && !s.learner);
    for (uint16_t id = 1; id <= 3; id++) {
        const struct bt_member_peer *p = &s.peer[id - 1];
        struct bt_addr address = bed_address(id, 8100), client = bed_address(id, 8000);
        char name[8];
        snprintf(name, sizeof name, "m%u", id);
        assert_true(p->id == id && p->voter && p->registered && p->lagging_known);
        assert_string_equal(p->name, name);
        assert_true(bt_addr_eq(&p->address, &address) && bt_addr_eq(&p->client, &client));
        assert_int_equal(p->match, s.core.last);
        assert_int_equal(p->applied, s.core.commit);
        assert_int_equal(p->lag, 0);
        assert_in_range(p->heard_ms_ago, 0, 25); // a sign of life is answered each 20 ms
    }
    uint64_t last = s.core.last;
    b.cut[cut] = true;
    for (int i = 0; i < 300; i++) {
        bed_step(&b);
    }
    assert_true(write_to(l));
    s = bed_status(&b, l);
    assert_true(s.heard == 2 && s.ready);
    assert_int_equal(s.peer[cut - 1].match, last);
    assert_int_equal(s.peer[cut - 1].lag, s.core.last - last);
    assert_in_range(s.peer[cut - 1].heard_ms_ago, 290, 400);
    assert_int_equal(s.peer[other - 1].match, s.core.last);
    s = bed_status(&b, other); // a follower knows where they are, and no more
    assert_true(s.leader == l && s.peers == 3 && !s.peer[cut - 1].lagging_known);
    assert_int_equal(s.peer[cut - 1].heard_ms_ago, -1);
    assert_int_equal(s.leader_name[1], '0' + l);
    struct bt_addr client = bed_address(l, 8000);
    assert_true(bt_addr_eq(&s.leader_client, &client));
    bed_close(&b);
}

/* --- its snapshots --- */

static size_t too_large(void *arg, uint8_t *out, size_t room)
{
    (void)arg;
    (void)out;
    return room + 1;
}

static void write_up_to(uint16_t id, uint64_t applied)
{
    while (bed_status(&b, id).core.applied < applied) {
        assert_true(write_to(id));
    }
    bed_step(&b);
    assert_int_equal(bed_status(&b, id).core.applied, applied);
}

// One that was not possible is tried again after an eighth of the entries that lie between two, and not at each.
static void r349_a_snapshot_that_was_not_possible_is_tried_again_later(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    const uint64_t *counter = bt_member_counters(b.member[l]);
    b.calls[l].snapshot = too_large;
    write_up_to(l, 127);
    assert_int_equal(counter[BT_MEMBER_SNAPSHOT_TOO_LARGE], 0);
    for (uint64_t tries = 1; tries <= 2; tries++) {
        write_up_to(l, 128 + 17 * (tries - 1));
        assert_int_equal(counter[BT_MEMBER_SNAPSHOT_TOO_LARGE], tries);
        write_up_to(l, 128 + 17 * tries - 1);
        assert_int_equal(counter[BT_MEMBER_SNAPSHOT_TOO_LARGE], tries);
    }
    assert_int_equal(counter[BT_MEMBER_SNAPSHOTS], 0);
    assert_int_equal(bed_leader(&b), l);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r386_more_than_one_message_between_members_carries_is_too_long),
        cmocka_unit_test(r386_while_the_leadership_moves_nothing_is_taken),
        cmocka_unit_test(r57_a_member_takes_new_keys),
        cmocka_unit_test(r386_as_many_wait_as_the_document_says),
        cmocka_unit_test(r386_who_does_not_lead_counts_it_as_that),
        cmocka_unit_test(r383_who_takes_no_part_has_no_vote_and_no_core),
        cmocka_unit_test(r351_who_does_not_lead_is_ordered_nothing),
        cmocka_unit_test(r30_a_request_is_given_up_after_a_time),
        cmocka_unit_test(r30_a_request_whose_place_another_entry_took_is_forgotten_at_once),
        cmocka_unit_test(a_service_answers_once_in_as_many_parts_as_it_likes),
        cmocka_unit_test(a_turn_without_timers_lets_none_run),
        cmocka_unit_test(a_member_that_is_not_called_before_its_time_says_that_it_is_there),
        cmocka_unit_test(a_leader_describes_each_member_as_it_hears_of_it),
        cmocka_unit_test(r349_a_snapshot_that_was_not_possible_is_tried_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
