// SPDX-License-Identifier: Apache-2.0
// What members tell one another beside the core's messages: where somebody is, whose disk speaks, who is
// told that it is refused and how often, and what is counted where nothing can be sent.
#include "bed.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "run/cluster.h"
#include "store/block.h"

enum { PACKETS = 4096, ELSEWHERE = 77 }; // an end of an address that no document names

static struct bed b;

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

// Member 1 alone leads a group; its document knows `places` members.
static void open_alone(unsigned places)
{
    bed_open(&b, 1, places);
    bed_until(&b, ready, 1);
    b.sayings = 0;
}

static void close_it(void)
{
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b.txq)) != NULL;) {
        bt_pool_put(&b.pool.pool, pkt);
    }
    assert_int_equal(b.pool.left, PACKETS); // every packet came back
    bed_close(&b);
}

static uint64_t counted(enum bt_member_counter c)
{
    return bt_member_counters(b.member[1])[c];
}

// The disk of member 1, as others know it.
static uint64_t own_disk(void)
{
    struct bt_store_ids ids;
    memcpy(ids.cluster, b.document.cluster, 16);
    memcpy(ids.member, bed_status(&b, 1).disk_id, 16);
    return bt_store_owner(&ids);
}

static struct bt_group_note note(enum bt_group_note_why why, uint16_t id, uint64_t disk)
{
    return (struct bt_group_note){.why = (uint8_t)why,
                                  .id = id,
                                  .group = (uint32_t)b.document.number,
                                  .cluster = bt_member_wire_cluster(b.document.cluster),
                                  .disk = disk};
}

// To member 1, from this host, whose disk this is.
static void tell(uint16_t host, const struct bt_group_note *n, uint64_t disk)
{
    uint8_t p[BT_GROUP_NOTE];
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    pkt->src = bed_address(host, 8100);
    pkt->dst = bed_address(1, 8100);
    bt_group_note_write(p, n);
    assert_true(bt_group_packet_write(pkt, p, sizeof p, disk, &b.keys.key[0]));
    bed_give(&b, 1, pkt);
}

static void hello(uint16_t host, uint16_t id, uint64_t disk)
{
    struct bt_group_note n = note(BT_NOTE_HELLO, id, disk);
    tell(host, &n, disk);
}

// The leader takes this order once those before are done.
static void ordered(enum bt_replica_change change, uint16_t id)
{
    uint64_t index;
    struct bt_member_order o = {.change = change, .id = id, .name = "by-order"};
    o.address = bed_address((uint16_t)(200 + id), 8111);
    o.client = bed_address((uint16_t)(200 + id), 8011);
    for (int i = 0; bt_member_change(b.member[1], b.now, &o, &index) != BT_REPLICA_OK; i++) {
        assert_true(i < 1000);
        bed_step(&b);
    }
    bed_step(&b);
    bed_step(&b);
}

static struct bt_member_peer peer(uint16_t id)
{
    struct bt_member_status s = bed_status(&b, 1);
    for (uint32_t i = 0; i < s.peers; i++) {
        if (s.peer[i].id == id) {
            return s.peer[i];
        }
    }
    fail_msg("no member %u", id);
    return (struct bt_member_peer){.id = 0};
}

static void is_at(uint16_t id, uint16_t host, uint16_t member_port, uint16_t client_port, const char *name)
{
    struct bt_addr member = bed_address(host, member_port), client = bed_address(host, client_port);
    struct bt_member_peer p = peer(id);
    assert_true(bt_addr_eq(&p.address, &member) && bt_addr_eq(&p.client, &client));
    assert_string_equal(p.name, name);
}

static void r382_a_note_that_concerns_nobody_here_changes_nothing(void **state)
{
    (void)state;
    open_alone(2);
    uint64_t disk = own_disk();
    struct bt_group_note wrong[5];
    for (unsigned i = 0; i < 5; i++) {
        wrong[i] = note(BT_NOTE_REMOVED, 1, disk);
    }
    wrong[0].group++;
    wrong[1].cluster++;
    wrong[2].id = 2;
    wrong[3].disk++;
    wrong[4].why = BT_NOTE_HELLO + 1;
    for (unsigned i = 0; i < 5; i++) {
        tell(2, &wrong[i], 5);
        assert_int_equal(counted(BT_MEMBER_BAD_NOTE), i + 1);
        assert_int_equal(bed_status(&b, 1).phase, BT_MEMBER_RUNNING);
    }
    hello(2, 0, 5); // nor is nobody there, or we ourselves
    hello(2, 1, 5);
    struct bt_group_note other = note(BT_NOTE_HELLO, 2, 6);
    tell(ELSEWHERE, &other, 5); // or somebody with two disks
    ordered(BT_REPLICA_ADD_LEARNER, 2);
    is_at(2, 2, 8100, 8000, "m2");
    assert_int_equal(counted(BT_MEMBER_BAD_NOTE), 5);
    assert_int_equal(counted(BT_MEMBER_ACCEPTED), 0); // none of it is the core's
    assert_int_equal(b.sayings, 0);
    close_it();
}

static void r382_who_is_refused_says_so_once_and_takes_part_no_more(void **state)
{
    static const struct {
        enum bt_group_note_why why;
        const char *reason, *message;
    } rows[] = {
        {BT_NOTE_REMOVED, "Removed",
         "member 1 was removed from the group: it comes back only with an empty disk and a new id"},
        {BT_NOTE_WRONG_DISK, "WrongDisk",
         "the group knows another disk of member 1: remove this member and add one with a new id"},
    };
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_alone(2);
        struct bt_group_note n = note(rows[i].why, 1, own_disk());
        tell(2, &n, 5);
        struct bt_member_status s = bed_status(&b, 1);
        assert_int_equal(s.phase, BT_MEMBER_REFUSED);
        assert_string_equal(s.reason, rows[i].reason);
        assert_string_equal(s.message, rows[i].message);
        assert_true(b.said_bad && strcmp(b.said, rows[i].message) == 0);
        uint64_t term = s.core.term;
        tell(2, &n, 5);
        n = note(rows[1 - i].why, 1, own_disk());
        tell(2, &n, 5); // what follows says nothing new
        assert_int_equal(counted(BT_MEMBER_BAD_NOT_RUNNING), 2);
        for (int ms = 0; ms < 300; ms++) {
            bed_step(&b);
        }
        assert_string_equal(bed_status(&b, 1).reason, rows[i].reason);
        assert_true(b.sayings == 1 && bed_status(&b, 1).core.term == term);
        close_it();
    }
}

static void r381_a_member_is_where_it_spoke_from_until_a_document_says_something_new(void **state)
{
    (void)state;
    open_alone(3);
    hello(ELSEWHERE, 2, 5);
    ordered(BT_REPLICA_ADD_LEARNER, 2);
    is_at(2, ELSEWHERE, 8100, 8000, "m2");
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, ELSEWHERE, 8100, 8000, "m2"); // nothing new
    b.document.member[2].address = bed_address(93, 8100);
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, ELSEWHERE, 8100, 8000, "m2"); // of somebody else
    b.document.member[1].address = bed_address(92, 8100);
    b.document.member[1].client = bed_address(92, 8000);
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, 92, 8100, 8000, "m2");
    hello(ELSEWHERE + 1, 2, 5);
    is_at(2, ELSEWHERE + 1, 8100, 8000, "m2");
    struct bt_group_document before = b.document;
    b.document.member[1].id = 4; // the name is somebody else's now
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, ELSEWHERE + 1, 8100, 8011, "by-order");
    b.document = before;
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, 92, 8100, 8000, "m2");
    b.document.n_members = 1; // it is not named any more: the log knows it
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    is_at(2, 202, 8111, 8011, "by-order");
    hello(ELSEWHERE, 2, 5);
    is_at(2, ELSEWHERE, 8100, 8011, "by-order");
    assert_int_equal(counted(BT_MEMBER_NO_ADDRESS), 0);
    close_it();
}

// Voters that neither the document nor the log has an address of.
static void r381_what_is_for_somebody_without_an_address_is_counted(void **state)
{
    (void)state;
    bed_open(&b, 0, 2);
    b.document.n_founders = 2;
    memcpy(b.document.founder[0], "m1", 3);
    memcpy(b.document.founder[1], "m2", 3);
    bed_start(&b, 1);
    b.document.n_members = 1;
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    uint64_t sent = counted(BT_MEMBER_SENT);
    while (counted(BT_MEMBER_NO_ADDRESS) == 0) { // it asks for a vote
        bed_step(&b);
    }
    assert_int_equal(counted(BT_MEMBER_SENT), sent);
    struct bt_member_peer p = peer(2);
    assert_true(p.address.port == 0 && p.client.port == 0 && !p.registered);
    assert_string_equal(p.name, "");
    close_it();
}

// The packets that wait to be sent, which are put away: how many of them are notes, and the last of these.
static unsigned notes(struct bt_group_note *last, struct bt_addr *to)
{
    unsigned n = 0;
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b.txq)) != NULL;) {
        struct bt_group_packet p;
        assert_int_equal(bt_group_packet_open(pkt, &b.keys, &p), BT_GROUP_PACKET_OK);
        if (p.is_note) {
            assert_true(bt_group_note_read(p.message, p.n, last) && p.disk == own_disk());
            *to = pkt->dst;
            n++;
        }
        bt_pool_put(&b.pool.pool, pkt);
    }
    return n;
}

static void is_told(uint16_t host, enum bt_group_note_why why, uint64_t disk)
{
    struct bt_group_note n;
    struct bt_addr to, want = bed_address(host, 8100);
    assert_int_equal(notes(&n, &to), 1);
    assert_true(n.why == why && n.id == 2 && n.disk == disk && n.group == b.document.number);
    assert_true(n.cluster == bt_member_wire_cluster(b.document.cluster) && bt_addr_eq(&to, &want));
}

static bool registered(struct bed *bed, uint16_t id)
{
    (void)bed;
    return peer(id).registered;
}

static void r382_another_disk_is_told_at_most_each_20_ms(void **state)
{
    struct bt_group_note n;
    struct bt_addr to;
    (void)state;
    open_alone(2);
    hello(2, 2, 5);
    hello(ELSEWHERE, 2, 6); // nobody knows yet which of them is right: the first one counts, and nobody is told
    assert_int_equal(counted(BT_MEMBER_BAD_WRONG_DISK), 1);
    assert_int_equal(notes(&n, &to), 0);
    ordered(BT_REPLICA_ADD_LEARNER, 2);
    is_at(2, 2, 8100, 8000, "m2");
    bed_until(&b, registered, 2);
    hello(ELSEWHERE, 2, 6);
    is_told(ELSEWHERE, BT_NOTE_WRONG_DISK, 6);
    uint64_t told_at = b.now;
    hello(ELSEWHERE, 2, 6);
    while (b.now + 1000000 < told_at + 20000000) {
        bed_step(&b);
        hello(ELSEWHERE, 2, 6);
        assert_int_equal(counted(BT_MEMBER_NOTES_SENT), 1);
    }
    bed_step(&b);
    bed_step(&b);
    hello(ELSEWHERE + 1, 2, 7);
    is_told(ELSEWHERE + 1, BT_NOTE_WRONG_DISK, 7);
    assert_int_equal(counted(BT_MEMBER_NOTES_SENT), 2);
    ordered(BT_REPLICA_REMOVE, 2);
    while (b.now < told_at + 60000000) {
        bed_step(&b);
    }
    uint64_t removed = counted(BT_MEMBER_BAD_REMOVED_MEMBER);
    hello(2, 2, 5); // with its own disk
    is_told(2, BT_NOTE_REMOVED, 5);
    assert_int_equal(counted(BT_MEMBER_BAD_REMOVED_MEMBER), removed + 1);
    close_it();
}

// What its log says counts from the start, before anything is committed anew: a stranger is not the first one heard.
static void r382_after_a_start_disks_are_known_from_the_log(void **state)
{
    struct bt_group_note n;
    struct bt_addr to;
    (void)state;
    bed_open(&b, 2, 2);
    bed_until(&b, ready, 1);
    bed_until(&b, ready, 2);
    struct bt_store_ids ids;
    memcpy(ids.cluster, b.document.cluster, 16);
    memcpy(ids.member, bed_status(&b, 2).disk_id, 16);
    bed_stop(&b, 1);
    bed_stop(&b, 2);
    bed_start(&b, 1);
    hello(ELSEWHERE, 2, 5);
    assert_int_equal(counted(BT_MEMBER_BAD_WRONG_DISK), 1);
    assert_int_equal(notes(&n, &to), 0); // who is right will be known when it is committed
    is_at(2, 2, 8100, 8000, "m2");
    hello(ELSEWHERE, 2, bt_store_owner(&ids));
    assert_int_equal(counted(BT_MEMBER_BAD_WRONG_DISK), 1);
    is_at(2, ELSEWHERE, 8100, 8000, "m2");
    close_it();
}

static void r381_what_cannot_be_sent_is_counted(void **state)
{
    static struct bt_pkt *taken[PACKETS];
    const struct bt_keyring none = {0};
    (void)state;
    open_alone(2);
    ordered(BT_REPLICA_ADD_LEARNER, 2); // which is spoken to from now on
    uint64_t sent = counted(BT_MEMBER_SENT);
    for (int ms = 0; ms < 50; ms++) {
        bed_step(&b);
    }
    assert_true(counted(BT_MEMBER_SENT) > sent);
    assert_int_equal(counted(BT_MEMBER_NO_BUFFER), 0);
    sent = counted(BT_MEMBER_SENT);
    unsigned n = 0;
    while ((taken[n] = bt_pool_get(&b.pool.pool)) != NULL && ++n < PACKETS) {
    }
    for (int ms = 0; ms < 50; ms++) {
        bed_step(&b);
    }
    uint64_t unsent = counted(BT_MEMBER_NO_BUFFER);
    assert_true(unsent > 0 && counted(BT_MEMBER_SENT) == sent);
    while (n > 0) {
        bt_pool_put(&b.pool.pool, taken[--n]);
    }
    bt_member_reconfigure(b.member[1], &b.document, &none); // nothing to sign with
    for (int ms = 0; ms < 50; ms++) {
        bed_step(&b);
    }
    assert_true(counted(BT_MEMBER_NO_BUFFER) > unsent && counted(BT_MEMBER_SENT) == sent);
    close_it();
}

// So many are remembered; a place is given on when its member was removed.
static void r382_of_those_heard_so_many_are_remembered(void **state)
{
    enum { REMEMBERED = 32, FIRST = 10, LATE = 100 };
    (void)state;
    open_alone(1);
    for (uint16_t i = 0; i < REMEMBERED; i++) {
        hello(ELSEWHERE, (uint16_t)(FIRST + i), 5);
    }
    hello(ELSEWHERE, LATE, 5);
    ordered(BT_REPLICA_ADD_LEARNER, LATE);
    is_at(LATE, 200 + LATE, 8111, 8011, "by-order");
    ordered(BT_REPLICA_ADD_LEARNER, FIRST + REMEMBERED - 1);
    is_at(FIRST + REMEMBERED - 1, ELSEWHERE, 8100, 8011, "by-order");
    hello(ELSEWHERE, LATE, 5); // there is still no place
    is_at(LATE, 200 + LATE, 8111, 8011, "by-order");
    ordered(BT_REPLICA_REMOVE, FIRST + REMEMBERED - 1);
    hello(ELSEWHERE, LATE, 5);
    is_at(LATE, ELSEWHERE, 8100, 8011, "by-order");
    close_it();
}

static void w8_in_a_raft_group_nobody_has_anything_to_say_to_all(void **state)
{
    (void)state;
    open_alone(1);
    struct bt_addr all = bt_addr_v4u(0xef000001u, 8200);
    bed_give(&b, 1, bed_boxed(&b, &all, 7, 1, &b.keys.key[0]));
    assert_int_equal(counted(BT_MEMBER_BOXED_BAD_FORM), 1);
    bed_step(&b);
    assert_int_equal(b.service[1].executed, 0);
    close_it();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r382_a_note_that_concerns_nobody_here_changes_nothing),
        cmocka_unit_test(r382_who_is_refused_says_so_once_and_takes_part_no_more),
        cmocka_unit_test(r381_a_member_is_where_it_spoke_from_until_a_document_says_something_new),
        cmocka_unit_test(r381_what_is_for_somebody_without_an_address_is_counted),
        cmocka_unit_test(r382_another_disk_is_told_at_most_each_20_ms),
        cmocka_unit_test(r382_after_a_start_disks_are_known_from_the_log),
        cmocka_unit_test(r381_what_cannot_be_sent_is_counted),
        cmocka_unit_test(r382_of_those_heard_so_many_are_remembered),
        cmocka_unit_test(w8_in_a_raft_group_nobody_has_anything_to_say_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
