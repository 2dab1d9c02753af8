// SPDX-License-Identifier: Apache-2.0
// Members as a whole: a group is founded by all of its first voters, disks are known, a write is
// executed once, whatever ends comes back, and who is refused is told.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "replica/sessions.h"

static struct bed b;

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static bool refused(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).phase == BT_MEMBER_REFUSED;
}

static uint16_t formed(unsigned voters, unsigned places)
{
    bed_open(&b, voters, places);
    for (uint16_t id = 1; id <= voters; id++) {
        bed_until(&b, ready, id);
    }
    return bed_leader(&b);
}

// To the leader, again until it is done; under a number of its own where none is given, so that it is done once however
// slow this machine's disk is.
static void write_until_done(uint64_t add, uint64_t session, uint64_t seq)
{
    static uint64_t own;
    if (session == 0) {
        session = 1000000 + ++own;
        seq = 1;
    }
    for (int i = 0; i < 200; i++) {
        bed_until(&b, leads, 0);
        if (bed_ask(&b, &(struct bed_ask){bed_leader(&b), BT_POLICY_REPLICATED_WRITE, add, session, seq})) {
            return;
        }
    }
    fail();
}

static enum bt_drop_reason reason(void)
{
    assert_int_equal(b.reply_type, BT_DROP);
    assert_true(b.reply_n == 4 + BT_DROP_WHY && memcmp(b.reply, "DROP", 4) == 0 && b.reply[4] == 1);
    return (enum bt_drop_reason)b.reply[5];
}

static void r385_clients_wait_until_all_founders_were_here(void **state)
{
    (void)state;
    bed_open(&b, 3, 3);
    bed_stop(&b, 3);
    bed_lose_disk(&b, 3);
    bed_until(&b, leads, 0);
    for (int i = 0; i < 300; i++) {
        bed_step(&b);
    }
    assert_false(bed_ask(&b, &(struct bed_ask){.to = bed_leader(&b), .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(reason(), BT_DROP_FORMING);
    assert_string_equal(bed_status(&b, bed_leader(&b)).reason, "Forming");
    bed_start(&b, 3);
    bed_until(&b, ready, 3);
    write_until_done(5, 0, 0);
    assert_int_equal(bed_sum(&b, 1), 5);
    bed_close(&b);
}

static void r385_one_founded_with_another_list_stops(void **state)
{
    (void)state;
    bed_open(&b, 3, 5);
    bed_stop(&b, 3);
    bed_lose_disk(&b, 3);
    struct bt_group_document right = b.document;
    b.document.n_founders = 5; // member 3 was told of five
    memcpy(b.document.founder[3], "m4", 3);
    memcpy(b.document.founder[4], "m5", 3);
    bed_start(&b, 3);
    b.document = right;
    for (int i = 0; i < 60000 && bed_status(&b, 3).phase == BT_MEMBER_RUNNING; i++) {
        bed_step(&b);
    }
    assert_string_equal(bed_status(&b, 3).reason, "FoundedOtherwise");
    assert_int_equal(b.service[3].executed, 0);
    bed_close(&b);
}

static void r386_who_does_not_lead_names_who_does(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3), other = (uint16_t)(l % 3 + 1);
    assert_false(bed_ask(&b, &(struct bed_ask){.to = other, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(reason(), BT_DROP_NOT_LEADER);
    assert_int_equal(bt_get16(b.reply + 6), l);
    assert_int_equal(b.reply[8 + 15], l); // 10.0.0.l
    assert_int_equal(bt_get16(b.reply + 24), 8000);
    assert_int_equal(b.service[other].executed, 0);
    bed_close(&b);
}

static void r328_reads_see_what_was_written_and_are_executed_at_one(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    write_until_done(7, 0, 0);
    assert_true(bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_READ, .add = 100}));
    assert_int_equal(bed_sum(&b, 0), 7);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        assert_true(b.service[id].executed == 1 && b.service[id].sum == 7);
    }
    assert_true(
        bed_ask(&b, &(struct bed_ask){.to = (uint16_t)(l % 3 + 1), .policy = BT_POLICY_UNRESTRICTED, .add = 100}));
    assert_int_equal(bed_sum(&b, 0), 7); // unordered, at a follower
    bed_close(&b);
}

static void r387_a_write_with_a_session_is_executed_once(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    for (int i = 0; i < 3; i++) {
        write_until_done(3, 77, 1);
        assert_int_equal(b.reply[0], 0);
        assert_int_equal(bed_sum(&b, 1), 3);
    }
    write_until_done(4, 77, 2);
    assert_int_equal(bed_sum(&b, 1), 7);
    bed_stop(&b, l); // and by the next leader, too
    write_until_done(4, 77, 2);
    assert_int_equal(bed_sum(&b, 1), 7);
    assert_int_equal(b.service[bed_leader(&b)].executed, 2);
    bed_close(&b);
}

// Of as many writers as the document says: the one that was silent for longest is told that it is forgotten.
static void r354_a_group_knows_as_many_sessions_as_its_document_says(void **state)
{
    (void)state;
    formed(3, 3);
    b.document.sessions = 2;
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    for (uint64_t session = 71; session <= 73; session++) {
        write_until_done(1, session, 1);
        assert_int_equal(b.reply[0], BT_SESSION_DONE);
    }
    write_until_done(1, 73, 2);
    assert_int_equal(b.reply[0], BT_SESSION_DONE);
    write_until_done(1, 72, 2);
    assert_int_equal(b.reply[0], BT_SESSION_DONE);
    write_until_done(1, 71, 2);
    assert_int_equal(b.reply[0], BT_SESSION_UNKNOWN);
    bed_close(&b);
}

static void r347_all_that_was_acknowledged_is_there_after_all_ended(void **state)
{
    (void)state;
    formed(3, 3);
    for (int i = 0; i < 300; i++) { // more than two snapshots
        write_until_done(1, 0, 0);
    }
    assert_int_equal(bed_sum(&b, 1), 300);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        assert_true(bed_status(&b, id).core.snapshot > 0);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    write_until_done(1, 0, 0);
    assert_int_equal(bed_sum(&b, 1), 301);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        assert_true(b.service[id].sum == 301 && b.service[id].executed == 301);
    }
    bed_close(&b);
}

static void r395_a_snapshot_in_the_background_is_of_its_beginning(void **state)
{
    (void)state;
    formed(3, 3);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_in_background(&b, id, 40);
    }
    for (int i = 0; i < 300; i++) { // it is executed on meanwhile
        write_until_done(1, 0, 0);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        struct bt_member_status s = bed_status(&b, id);
        assert_true(s.core.snapshot > 0 && s.core.snapshot < s.core.applied);
        bed_stop(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    write_until_done(1, 0, 0);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        assert_true(b.service[id].sum == 301 && b.service[id].executed == 301);
    }
    bed_close(&b);
}

static bool saving(struct bed *bed, uint16_t id)
{
    return bed->service[id].saving;
}

static bool restored(struct bed *bed, uint16_t id)
{
    return !bed->service[id].saving && bed->service[id].sum >= 1200;
}

static void r395_what_was_written_in_the_background_is_void_after_a_restore(void **state)
{
    (void)state;
    uint16_t slow = (uint16_t)(formed(3, 3) % 3 + 1);
    bed_in_background(&b, slow, UINT32_MAX); // its end never comes
    while (!saving(&b, slow)) {
        write_until_done(1, 0, 0);
    }
    b.cut[slow] = true;
    while (b.service[bed_leader(&b)].sum < 1200) { // the log of the others does not reach back any more
        write_until_done(1, 0, 0);
    }
    b.cut[slow] = false;
    bed_until(&b, restored, slow); // by their snapshot, and nobody waits for its own (the bed looks)
    write_until_done(1, 0, 0);
    bed_until(&b, level, slow);
    bed_close(&b);
}

static void r349_a_full_log_is_emptied_once_a_snapshot_is_possible(void **state)
{
    (void)state;
    formed(3, 3);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_in_background(&b, id, 0);
        b.service[id].refusals = UINT32_MAX; // not now
    }
    do { // until it says that it is full, and not that somebody else leads, or nothing
        bed_until(&b, leads, 0);
    } while (bed_ask(&b, &(struct bed_ask){.to = bed_leader(&b), .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}) ||
             b.reply_type != BT_DROP || reason() != BT_DROP_BUSY);
    for (uint16_t id = 1; id <= 3; id++) {
        b.service[id].refusals = 0;
    }
    write_until_done(1, 0, 0);
    bed_close(&b);
}

static void r347_nothing_is_acknowledged_before_a_majority_of_disks(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    write_until_done(1, 0, 0);
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, id != l); // the leader's alone works
    }
    uint64_t commit = bed_status(&b, l).core.commit;
    assert_false(bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(b.reply_type, 0xff); // no answer: neither done nor refused
    assert_int_equal(bed_status(&b, l).core.commit, commit);
    assert_int_equal(b.service[l].executed, 1);
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, id == l); // all but the leader's
    }
    for (int i = 0; i < 60000 && b.service[l].executed != 2; i++) {
        bed_step(&b);
    }
    assert_int_equal(b.service[l].executed, 2);
    atomic_store(&b.disk[l].stalled, false);
    bed_close(&b);
}

static bool failed(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).phase == BT_MEMBER_FAILED;
}

static void r372_a_leader_whose_disk_fails_hands_over_and_says_so(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    write_until_done(1, 0, 0);
    atomic_store(&b.disk[l].fails, 28); // ENOSPC
    bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1, .session = 5, .seq = 1});
    bed_until(&b, failed, l);
    assert_string_equal(bed_status(&b, l).reason, "DiskFull");
    assert_true(strstr(bed_status(&b, l).message, "No space left on device") != NULL);
    write_until_done(1, 5, 1); // the others serve, and it is done once
    assert_int_equal(bed_sum(&b, 1), 2);
    assert_int_not_equal(bed_leader(&b), l);
    assert_false(bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(reason(), BT_DROP_DISK);
    bed_close(&b);
}

static void r328_a_leader_that_is_cut_off_answers_no_read(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    write_until_done(1, 0, 0);
    for (uint16_t id = 1; id <= 3; id++) {
        b.cut[id] = id != l;
    }
    assert_false(bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_READ, .add = 1}));
    assert_int_equal(b.reply_type, 0xff);
    bed_close(&b);
}

static void r30_what_is_in_the_log_is_never_refused(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3), two = (uint16_t)(l % 3 + 1), three = (uint16_t)(two % 3 + 1);
    b.cut[two] = b.cut[three] = true; // the request gets into the log, and no further
    assert_false(bed_ask(&b, &(struct bed_ask){.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    for (int i = 0; i < 30000; i++) { // the leader steps down, and gives its waiters up
        bed_step(&b);
    }
    assert_int_equal(b.reply_type, 0xff);
    b.cut[two] = b.cut[three] = false;
    bed_until(&b, level, l);
    assert_int_equal(b.reply_type, 0xff);
    bed_close(&b);
}

static void r382_a_lost_disk_is_refused_and_replaced(void **state)
{
    uint64_t index;
    (void)state;
    uint16_t l = formed(3, 4), lost = (uint16_t)(l % 3 + 1);
    write_until_done(2, 0, 0);
    bed_stop(&b, lost);
    bed_lose_disk(&b, lost);
    bed_start(&b, lost);
    bed_until(&b, refused, lost);
    assert_string_equal(bed_status(&b, lost).reason, "WrongDisk");
    bed_start(&b, 4);
    struct bt_member_order add = {.change = BT_REPLICA_ADD_LEARNER,
                                  .id = 4,
                                  .address = b.document.member[3].address,
                                  .client = b.document.member[3].client,
                                  .name = "m4"};
    l = bed_leader(&b);
    assert_int_equal(bt_member_change(b.member[l], b.now, &add, &index), BT_REPLICA_OK);
    struct bt_member_order promote = {.change = BT_REPLICA_PROMOTE, .id = 4};
    assert_int_equal(bt_member_change(b.member[l], b.now, &promote, &index), BT_REPLICA_BEHIND);
    for (int i = 0; i < 60000 && bt_member_change(b.member[l], b.now, &promote, &index) != BT_REPLICA_OK; i++) {
        bed_step(&b);
    }
    bed_until(&b, ready, 4);
    struct bt_member_order take_out = {.change = BT_REPLICA_REMOVE, .id = lost};
    for (int i = 0; i < 60000 && bt_member_change(b.member[l], b.now, &take_out, &index) != BT_REPLICA_OK; i++) {
        bed_step(&b);
    }
    write_until_done(2, 0, 0);
    bed_until(&b, level, 4);
    assert_int_equal(b.service[4].sum, 4);
    add.id = lost; // an id is not given twice
    bed_step(&b);
    assert_int_equal(bt_member_change(b.member[bed_leader(&b)], b.now, &add, &index), BT_REPLICA_NO_MEMBER);
    bed_close(&b);
}

static void r382_who_was_removed_while_it_was_down_is_told(void **state)
{
    uint64_t index;
    (void)state;
    uint16_t l = formed(3, 3), gone = (uint16_t)(l % 3 + 1);
    write_until_done(2, 0, 0);
    bed_until(&b, level, gone);
    bed_stop(&b, gone);
    struct bt_member_order take_out = {.change = BT_REPLICA_REMOVE, .id = gone};
    assert_int_equal(bt_member_change(b.member[l], b.now, &take_out, &index), BT_REPLICA_OK);
    write_until_done(2, 0, 0);
    bed_start(&b, gone);
    bed_until(&b, refused, gone);
    assert_string_equal(bed_status(&b, gone).reason, "Removed");
    assert_false(bed_ask(&b, &(struct bed_ask){.to = gone, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(reason(), BT_DROP_REFUSED);
    bed_close(&b);
}

static void r383_a_disk_knows_whose_it_is(void **state)
{
    (void)state;
    formed(3, 3);
    write_until_done(1, 0, 0);
    bed_stop(&b, 2);
    b.document.cluster[15] ^= 1;
    bed_start(&b, 2);
    assert_string_equal(bed_status(&b, 2).reason, "DiskForeign");
    assert_false(bed_ask(&b, &(struct bed_ask){.to = 2, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_int_equal(reason(), BT_DROP_DISK);
    bed_stop(&b, 2);
    b.document.cluster[15] ^= 1;
    b.document.member[1].id = 5; // the same name, another id, the old disk
    bed_start(&b, 2);
    assert_string_equal(bed_status(&b, 2).reason, "DiskForeign");
    bed_stop(&b, 2);
    b.document.member[1].id = 2;
    bed_start(&b, 2);
    bed_until(&b, ready, 2);
    bed_close(&b);
}

static void r383_clusters_differ_on_the_wire_wherever_they_differ(void **state)
{
    uint8_t a[16] = {1}, c[16];
    (void)state;
    for (int bit = 0; bit < 128; bit++) {
        memcpy(c, a, sizeof c);
        c[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(bt_member_wire_cluster(a) != bt_member_wire_cluster(c));
    }
    // SHA-256 of 16 zeros begins so.
    assert_true(bt_member_wire_cluster((const uint8_t[16]){0}) == UINT64_C(0x374708fff7719dd5));
}

static bool only_wanted(struct bed *bed, uint16_t id)
{
    uint16_t l = bed_leader(bed);
    struct bt_member_status s;
    (void)id;
    if (l == 0) {
        return false;
    }
    s = bed_status(bed, l);
    bool right = s.peers == bed->document.n_wanted && s.core.config_index <= s.core.commit;
    for (uint32_t i = 0; i < s.peers; i++) {
        right = right && s.peer[i].voter && bt_group_document_wants(&bed->document, s.peer[i].id);
    }
    return right;
}

static void r388_the_leader_walks_to_the_voters_that_are_wanted(void **state)
{
    (void)state;
    uint16_t l = formed(3, 5);
    bed_start(&b, 4);
    bed_start(&b, 5);
    b.document.wanted_given = true;
    for (int64_t id = 1; id <= 5; id++) { // all but the leader and one more
        if (id != l && id != l % 3 + 1) {
            b.document.wanted[b.document.n_wanted++] = id;
        }
    }
    for (uint16_t id = 1; id <= 5; id++) {
        bt_member_reconfigure(b.member[id], &b.document, &b.keys);
    }
    bed_until(&b, only_wanted, 0);
    bed_until(&b, refused, l);
    assert_string_equal(bed_status(&b, l).reason, "Removed");
    write_until_done(6, 0, 0);
    assert_int_equal(bed_sum(&b, 1), 6);
    bed_close(&b);
}

static void r351_a_leader_that_is_avoided_hands_over(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    b.document.avoided[0] = l;
    b.document.n_avoided = 1;
    for (uint16_t id = 1; id <= 3; id++) {
        bt_member_reconfigure(b.member[id], &b.document, &b.keys);
    }
    for (int i = 0; i < 60000 && (bed_leader(&b) == l || bed_leader(&b) == 0); i++) {
        bed_step(&b);
    }
    assert_int_not_equal(bed_leader(&b), l);
    write_until_done(1, 0, 0);
    bed_close(&b);
}

static void r375_a_volatile_member_that_starts_again_has_no_vote(void **state)
{
    (void)state;
    bed_open(&b, 3, 3);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
        bed_lose_disk(&b, id);
    }
    b.document.storage = BT_GROUP_VOLATILE;
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    uint16_t other = (uint16_t)(bed_leader(&b) % 3 + 1);
    bed_stop(&b, other);
    bed_start(&b, other);
    bed_until(&b, refused, other);
    assert_string_equal(bed_status(&b, other).reason, "WrongDisk");
    write_until_done(1, 0, 0);
    bed_close(&b);
}

static bool diverged(struct bed *bed, uint16_t id)
{
    struct bt_member_status s = bed_status(bed, id);
    return strcmp(s.reason, "Diverged") == 0 && s.message[0] != '\0';
}

static bool mended(struct bed *bed, uint16_t id)
{
    (void)id;
    for (uint16_t k = 1; k <= 3; k++) {
        if (!ready(bed, k) || bed->service[k].sum != bed->service[k % 3 + 1].sum) {
            return false;
        }
    }
    return true;
}

// The next leader begins with an entry after which states are compared.
static void another_leader(uint16_t from, uint16_t to)
{
    uint16_t who;
    assert_int_equal(bt_member_transfer(b.member[from], b.now, to, &who), BT_REPLICA_OK);
}

// Somebody who stopped holds as much as the others when nothing was written since.
static void nobody_who_is_silent_is_handed_the_leadership(void **state)
{
    (void)state;
    for (int second = 0; second <= 1; second++) { // whichever of the two it is
        uint16_t leader = formed(3, 3), next = leader % 3 + 1, after = next % 3 + 1, who;
        uint16_t gone = second ? after : next, other = second ? next : after;
        bed_until(&b, level, gone);
        bed_until(&b, level, other);
        bed_stop(&b, gone);
        for (unsigned ms = 0; ms < 90; ms++) { // the other one answered since
            bed_step(&b);
        }
        assert_int_equal(bed_leader(&b), leader);
        assert_int_equal(bt_member_transfer(b.member[leader], b.now, 0, &who), BT_REPLICA_OK);
        assert_int_equal(who, other);
        bed_close(&b);
    }
}

static void r392_a_member_whose_state_differs_answers_nobody_and_gets_the_leaders(void **state)
{
    (void)state;
    uint16_t leader = formed(3, 3), wrong = leader % 3 + 1, other = wrong % 3 + 1;
    write_until_done(5, 0, 0);
    bed_until(&b, level, wrong);
    b.service[wrong].sum++; // it executed that wrongly
    another_leader(leader, other);
    bed_until(&b, diverged, wrong);
    assert_false(bed_ask(&b, &(struct bed_ask){.to = wrong, .policy = BT_POLICY_UNRESTRICTED}));
    assert_int_equal(reason(), BT_DROP_NOT_LEADER);
    write_until_done(2, 0, 0);
    bed_until(&b, mended, 0);
    assert_int_equal(b.service[wrong].sum, 7);
    assert_string_equal(bed_status(&b, wrong).message, "");
    bed_close(&b);
}

static void r392_a_leader_whose_state_differs_leads_no_more(void **state)
{
    (void)state;
    uint16_t leader = formed(3, 3), wrong = leader % 3 + 1;
    write_until_done(5, 0, 0);
    bed_until(&b, level, wrong);
    b.service[wrong].sum++;
    another_leader(leader, wrong);
    bed_until(&b, diverged, wrong);
    assert_int_not_equal(bed_status(&b, wrong).core.role, BT_REPLICA_LEADER);
    write_until_done(2, 0, 0);
    bed_until(&b, mended, 0);
    assert_int_equal(b.service[wrong].sum, 7);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r385_clients_wait_until_all_founders_were_here),
        cmocka_unit_test(r385_one_founded_with_another_list_stops),
        cmocka_unit_test(r386_who_does_not_lead_names_who_does),
        cmocka_unit_test(r328_reads_see_what_was_written_and_are_executed_at_one),
        cmocka_unit_test(r387_a_write_with_a_session_is_executed_once),
        cmocka_unit_test(r354_a_group_knows_as_many_sessions_as_its_document_says),
        cmocka_unit_test(r347_all_that_was_acknowledged_is_there_after_all_ended),
        cmocka_unit_test(r395_a_snapshot_in_the_background_is_of_its_beginning),
        cmocka_unit_test(r395_what_was_written_in_the_background_is_void_after_a_restore),
        cmocka_unit_test(r349_a_full_log_is_emptied_once_a_snapshot_is_possible),
        cmocka_unit_test(r347_nothing_is_acknowledged_before_a_majority_of_disks),
        cmocka_unit_test(r372_a_leader_whose_disk_fails_hands_over_and_says_so),
        cmocka_unit_test(nobody_who_is_silent_is_handed_the_leadership),
        cmocka_unit_test(r392_a_member_whose_state_differs_answers_nobody_and_gets_the_leaders),
        cmocka_unit_test(r392_a_leader_whose_state_differs_leads_no_more),
        cmocka_unit_test(r328_a_leader_that_is_cut_off_answers_no_read),
        cmocka_unit_test(r30_what_is_in_the_log_is_never_refused),
        cmocka_unit_test(r382_a_lost_disk_is_refused_and_replaced),
        cmocka_unit_test(r382_who_was_removed_while_it_was_down_is_told),
        cmocka_unit_test(r383_a_disk_knows_whose_it_is),
        cmocka_unit_test(r383_clusters_differ_on_the_wire_wherever_they_differ),
        cmocka_unit_test(r388_the_leader_walks_to_the_voters_that_are_wanted),
        cmocka_unit_test(r351_a_leader_that_is_avoided_hands_over),
        cmocka_unit_test(r375_a_volatile_member_that_starts_again_has_no_vote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
