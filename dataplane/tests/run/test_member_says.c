// SPDX-License-Identifier: Apache-2.0
// What a member says of itself and of the others: why it is not ready, who is heard, whose states differ, whom it
// brings in and takes out as its document wants; sessions that it opens, and snapshots that it can and cannot take.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "replica/sessions.h"

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
    b.sayings = 0;
    return bed_leader(&b);
}

static uint64_t counted(uint16_t id, enum bt_member_counter c)
{
    return bt_member_counters(b.member[id])[c];
}

static void reconfigure_all(void)
{
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b.member[id] != NULL) {
            bt_member_reconfigure(b.member[id], &b.document, &b.keys);
        }
    }
}

// Steps until somebody says exactly this.
static void until_said(const char *text, bool bad)
{
    for (int ms = 0; strcmp(b.said, text) != 0; ms++) {
        assert_true(ms < 60000);
        bed_step(&b);
    }
    assert_int_equal(b.said_bad, bad);
}

/* --- of itself --- */

static struct bt_member_status status_at(uint16_t id, uint64_t now)
{
    struct bt_member_status s;
    bt_member_status(b.member[id], now, &s);
    return s;
}

// Whoever was heard within two elections' time counts; a leader that hears less than half is not ready.
static void r386_a_leader_that_hears_too_few_says_so(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3), one = (uint16_t)(l % 3 + 1), two = (uint16_t)(one % 3 + 1);
    for (int ms = 0; ms < 30; ms++) {
        b.cut[two] = ms >= 5; // so that they were heard at different times
        bed_step(&b);
    }
    struct bt_member_status s = bed_status(&b, l);
    assert_true(s.ready && s.heard == 3 && s.needed == 2 && s.voters == 3);
    const uint64_t MS = 1000000, lately = 200;
    uint64_t ago_one = (uint64_t)s.peer[one - 1].heard_ms_ago, ago_two = (uint64_t)s.peer[two - 1].heard_ms_ago;
    assert_true(s.peer[l - 1].heard_ms_ago == 0 && ago_one < ago_two && ago_two < lately);
    s = status_at(l, b.now + (lately - ago_two) * MS);
    assert_true(s.heard == 3 && s.peer[two - 1].heard_ms_ago == (int64_t)lately);
    s = status_at(l, b.now + (lately - ago_two + 1) * MS);
    assert_true(s.heard == 2 && s.ready);
    s = status_at(l, b.now + (lately - ago_one + 1) * MS);
    assert_true(s.heard == 1 && !s.ready);
    assert_string_equal(s.reason, "NoQuorum");
    bed_close(&b);
}

static bool is_level_learner(struct bed *bed, uint16_t id)
{
    return level(bed, id) && bed_status(bed, id).leader != 0;
}

static void r375_one_without_a_vote_says_that_it_learns(void **state)
{
    uint64_t index;
    (void)state;
    uint16_t l = formed(1, 2);
    bed_start(&b, 2);
    assert_string_equal(bed_status(&b, 2).reason, "Learner"); // of no group yet
    struct bt_member_order add = {.change = BT_REPLICA_ADD_LEARNER, .id = 2, .name = "m2"};
    add.address = b.document.member[1].address;
    add.client = b.document.member[1].client;
    assert_int_equal(bt_member_change(b.member[l], b.now, &add, &index), BT_REPLICA_OK);
    bed_until(&b, is_level_learner, 2);
    bed_step(&b); // which its leader hears of
    bed_step(&b);
    struct bt_member_status s = bed_status(&b, 2);
    assert_true(s.learner && !s.ready && s.formed && s.leader == l && s.peers == 2 && s.voters == 1);
    assert_string_equal(s.reason, "Learner");
    assert_string_equal(s.leader_name, "m1");
    assert_true(bt_addr_eq(&s.leader_client, &b.document.member[0].client));
    s = bed_status(&b, l);
    assert_true(s.ready && !s.learner && s.needed == 1 && s.heard == 1);
    assert_true(s.peer[0].voter && !s.peer[1].voter && s.peer[1].lag == 0);
    assert_true(bt_addr_eq(&s.leader_client, &b.document.member[0].client));
    bed_close(&b);
}

static bool refused(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).phase == BT_MEMBER_REFUSED;
}

static void r351_a_leader_that_takes_itself_out_ends(void **state)
{
    uint64_t index = 0;
    char text[200];
    (void)state;
    uint16_t l = formed(3, 3);
    struct bt_member_order out = {.change = BT_REPLICA_REMOVE, .id = l};
    assert_int_equal(bt_member_change(b.member[l], b.now, &out, &index), BT_REPLICA_OK);
    assert_int_equal(index, bed_status(&b, l).core.config_index);
    bed_until(&b, refused, l);
    snprintf(text, sizeof text,
             "member %u was removed from the group: it comes back only with an empty disk and a new id", l);
    assert_string_equal(bed_status(&b, l).reason, "Removed");
    assert_string_equal(bed_status(&b, l).message, text);
    assert_string_equal(b.said, text);
    assert_true(b.sayings == 1 && b.said_bad);
    bed_until(&b, ready, (uint16_t)(l % 3 + 1));
    struct bt_member_status s = bed_status(&b, (uint16_t)(l % 3 + 1));
    assert_true(s.peers == 2 && s.n_removed == 1 && s.removed[0] == l);
    bed_close(&b);
}

/* --- of the others --- */

static void r388_what_a_leader_changes_for_its_document_it_says(void **state)
{
    char text[100];
    (void)state;
    uint16_t l = formed(3, 4), gone = (uint16_t)(l % 3 + 1);
    bed_start(&b, 4);
    b.document.wanted_given = true;
    for (int64_t id = 1; id <= 4; id++) {
        if (id != gone) {
            b.document.wanted[b.document.n_wanted++] = id;
        }
    }
    reconfigure_all();
    until_said("member 4 (m4) is added, as the document wants", false);
    until_said("member 4 (m4) gets its vote, as the document wants", false);
    snprintf(text, sizeof text, "member %u (m%u) is removed, as the document wants", gone, gone);
    until_said(text, false);
    for (int ms = 0; ms < 300; ms++) {
        bed_step(&b);
    }
    struct bt_member_status s = bed_status(&b, bed_leader(&b));
    assert_true(s.peers == 3 && s.voters == 3);
    bed_close(&b);
}

// The next leader begins with an entry after which states are compared.
static void another_leader(uint16_t from, uint16_t to)
{
    uint16_t who;
    assert_int_equal(bt_member_transfer(b.member[from], b.now, to, &who), BT_REPLICA_OK);
}

static void r394_states_of_which_no_majority_is_the_same_are_said_once(void **state)
{
    char text[160];
    (void)state;
    uint16_t l = formed(3, 3), next = (uint16_t)(l % 3 + 1);
    for (uint16_t id = 1; id <= 3; id++) {
        b.service[id].sum += id;
    }
    another_leader(l, next);
    while (b.sayings == 0 || bed_leader(&b) == 0) {
        bed_step(&b);
    }
    uint64_t at = bed_status(&b, bed_leader(&b)).core.undecided;
    assert_true(at != 0);
    snprintf(text, sizeof text, "the members' states after entry %u differ, and no majority has the same",
             (unsigned)at);
    assert_string_equal(b.said, text);
    assert_true(b.said_bad);
    unsigned said = b.sayings;
    for (int ms = 0; ms < 200; ms++) {
        bed_step(&b);
    }
    assert_int_equal(b.sayings, said);
    assert_int_equal(said, 1);
    for (uint16_t id = 1; id <= 3; id++) { // nobody is fenced for it
        assert_int_equal(bed_status(&b, id).core.fenced.index, 0);
        assert_string_equal(bed_status(&b, id).message, "");
    }
    bed_close(&b);
}

static void r392_whose_state_differs_says_so_and_when_it_has_the_leaders(void **state)
{
    char text[200];
    (void)state;
    uint16_t l = formed(3, 3), wrong = (uint16_t)(l % 3 + 1), other = (uint16_t)(wrong % 3 + 1);
    b.service[wrong].sum++;
    another_leader(l, other);
    while (bed_status(&b, wrong).core.fenced.index == 0) {
        bed_step(&b);
    }
    while (b.sayings == 0) {
        bed_step(&b);
    }
    struct bt_member_status s = bed_status(&b, wrong);
    snprintf(text, sizeof text,
             "the state after entry %u is another one than a majority's: this member answers nobody until it has the "
             "leader's",
             (unsigned)s.core.fenced.index);
    assert_string_equal(b.said, text);
    assert_true(b.said_bad);
    assert_string_equal(s.message, text);
    assert_string_equal(s.reason, "Diverged");
    until_said("this member has the leader's state, and takes part in full again", false);
    assert_int_equal(b.sayings, 2);
    assert_string_equal(bed_status(&b, wrong).message, "");
    bed_close(&b);
}

/* --- sessions --- */

static void r387_sessions_that_are_opened_and_writes_that_come_again_are_counted(void **state)
{
    (void)state;
    uint16_t l = formed(3, 3);
    struct bed_ask ask = {.to = l, .policy = BT_POLICY_REPLICATED_WRITE, .add = 3, .session = 77};
    assert_true(bed_ask(&b, &ask)); // number 0 opens it
    assert_true(b.reply[0] == BT_SESSION_DONE && b.reply_n == 1 + BT_SESSIONS_OPEN);
    ask.seq = bt_get64(b.reply + 1) + 1;
    assert_int_equal(b.service[l].executed, 0);
    for (int again = 0; again < 3; again++) {
        assert_true(bed_ask(&b, &ask));
        assert_int_equal(bed_sum(&b, 1), 3);
    }
    ask.seq--;
    assert_true(bed_ask(&b, &ask)); // older than the last one: no answer but that word
    assert_true(b.reply[0] == BT_SESSION_OLD && b.reply_n == 1);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
        assert_int_equal(counted(id, BT_MEMBER_SESSIONS_OPENED), 1);
        assert_int_equal(counted(id, BT_MEMBER_APPLIED_WRITES), 1);
        assert_int_equal(counted(id, BT_MEMBER_REPEATED), 3);
        assert_int_equal(counted(id, BT_MEMBER_APPLIED_READS), 0);
    }
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r386_a_leader_that_hears_too_few_says_so),
        cmocka_unit_test(r375_one_without_a_vote_says_that_it_learns),
        cmocka_unit_test(r351_a_leader_that_takes_itself_out_ends),
        cmocka_unit_test(r388_what_a_leader_changes_for_its_document_it_says),
        cmocka_unit_test(r394_states_of_which_no_majority_is_the_same_are_said_once),
        cmocka_unit_test(r392_whose_state_differs_says_so_and_when_it_has_the_leaders),
        cmocka_unit_test(r387_sessions_that_are_opened_and_writes_that_come_again_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
