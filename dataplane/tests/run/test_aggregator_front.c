// SPDX-License-Identifier: Apache-2.0
// An aggregator by itself: whom it answers, as whose word, and what it counts where it cannot.
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "named.h"
#include "run/aggregator.h"
#include "run/cluster.h"

enum { PACKETS = 8, DISK = 0x1234, TERM = 3 };

static struct bt_pool_fixed fixed;
static struct bt_txq out;
static struct bt_group_document document;
static struct bt_keyring keys;
static struct bt_aggregator_front *it;
static uint64_t told[BT_AGGREGATOR_FRONT_COUNTERS];

static struct bt_addr at(uint32_t host, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u + host, port);
}

static int begin(void **state)
{
    static uint8_t mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER) + 4096] __attribute__((aligned(64)));
    (void)state;
    bt_pool_fixed_init(&fixed, mem, PACKETS);
    bt_txq_init(&out);
    memset(told, 0, sizeof told);
    keys = (struct bt_keyring){.key = {{.id = 7, .bytes = {1, 2, 3}}}};
    document = (struct bt_group_document){.number = 9, .n_members = 3};
    memset(document.cluster, 0x5a, sizeof document.cluster);
    for (uint16_t i = 0; i < 3; i++) {
        document.member[i] = (struct bt_group_document_member){.id = i + 1, .address = at(i + 1u, 8100)};
    }
    it = bt_aggregator_front_open(&(struct bt_aggregator_front_config){
        .document = &document, .address = at(60, 8300), .keys = keys, .pool = &fixed.pool, .txq = &out});
    return it == NULL;
}

static int end(void **state)
{
    (void)state;
    bt_aggregator_front_close(it);
    assert_int_equal(out.n, 0);
    assert_int_equal(fixed.left, PACKETS); // whatever came was given back
    return 0;
}

// A message of member 1, the leader.
static struct bt_group_message message(enum bt_group_type type)
{
    struct bt_group_message m = {.header = {.version = BT_GROUP_VERSION,
                                            .type = (uint8_t)type,
                                            .from = 1,
                                            .group = (uint32_t)document.number,
                                            .term = TERM,
                                            .cluster = bt_member_wire_cluster(document.cluster)}};
    return m;
}

static void give(const uint8_t *p, size_t n)
{
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    assert_non_null(pkt);
    pkt->src = at(1, 8100);
    pkt->dst = at(60, 8300);
    assert_true(bt_group_packet_write(pkt, p, n, DISK, &keys.key[0]));
    bt_aggregator_front_receive(it, pkt);
}

static void say(const struct bt_group_message *m)
{
    uint8_t p[256];
    give(p, bt_group_encode(p, sizeof p, m));
}

static void probe(void)
{
    struct bt_group_message m = message(BT_GROUP_PROBE);
    m.probe = (struct bt_group_probe){.epoch = 2, .floor = 5};
    m.probe.config =
        (struct bt_group_config){.count = 3, .member = {{1, BT_GROUP_VOTER}, {2, BT_GROUP_VOTER}, {3, BT_GROUP_VOTER}}};
    say(&m);
}

// Since this was last asked.
static void counted(uint64_t accepted, enum bt_aggregator_front_counter what, uint64_t times)
{
    const uint64_t *c = bt_aggregator_front_counters(it);
    for (unsigned i = 0; i < BT_AGGREGATOR_FRONT_COUNTERS; i++) {
        assert_int_equal(c[i] - told[i], i == what ? times : i == BT_AGGREGATOR_ACCEPTED ? accepted : 0);
        told[i] = c[i];
    }
}

static void is_sent(uint16_t to, enum bt_group_type type, uint64_t disk)
{
    struct bt_pkt *pkt = bt_txq_pop(&out);
    struct bt_group_packet p;
    struct bt_addr src = at(60, 8300), dst = at(to, 8100);
    assert_non_null(pkt);
    assert_true(bt_addr_eq(&pkt->src, &src) && bt_addr_eq(&pkt->dst, &dst) && pkt->local == BT_AGGREGATOR_PORT);
    assert_int_equal(bt_group_packet_open(pkt, &keys, &p), BT_GROUP_PACKET_OK);
    assert_true(p.message[1] == type && p.disk == disk && !p.is_note);
    bt_pool_put(&fixed.pool, pkt);
}

static void r340_a_probe_is_answered_in_its_own_name(void **state)
{
    (void)state;
    probe();
    counted(1, BT_AGGREGATOR_SENT, 1);
    is_sent(1, BT_GROUP_PROBE_REPLY, 0);
    struct bt_aggregator_status s = bt_aggregator_front_status(it);
    assert_true(s.known && s.leader == 1 && s.term == TERM && s.epoch == 2);
}

// What a leader says goes on as that leader's, to all others that its document names.
static void r339_entries_are_passed_on_with_their_leader_s_disk(void **state)
{
    (void)state;
    probe();
    is_sent(1, BT_GROUP_PROBE_REPLY, 0);
    counted(1, BT_AGGREGATOR_SENT, 1);
    struct bt_group_message m = message(BT_GROUP_SHARED);
    m.append = (struct bt_group_append){.prev_index = 5, .prev_term = 1, .commit = 5, .epoch = 2, .count = 1};
    m.append.entry[0] = (struct bt_entry){.index = 6, .term = TERM, .kind = BT_ENTRY_NOOP};
    say(&m);
    counted(1, BT_AGGREGATOR_SENT, 2);
    is_sent(2, BT_GROUP_SHARED, DISK);
    is_sent(3, BT_GROUP_SHARED, DISK);
    assert_int_equal(bt_aggregator_front_status(it).last, 6);
}

static void r345_a_note_is_not_for_it(void **state)
{
    uint8_t p[BT_GROUP_NOTE];
    struct bt_group_note n = {.why = BT_NOTE_HELLO, .id = 1, .group = 9, .disk = DISK};
    (void)state;
    n.cluster = bt_member_wire_cluster(document.cluster);
    bt_group_note_write(p, &n);
    give(p, sizeof p);
    counted(0, BT_AGGREGATOR_BAD_NOTE, 1);
}

static void r339_what_cannot_be_sent_is_counted(void **state)
{
    const struct bt_keyring none = {0};
    struct bt_pkt *taken[PACKETS];
    unsigned n = 0;
    (void)state;
    while (n + 1 < PACKETS) {
        taken[n++] = bt_pool_get(&fixed.pool);
    }
    probe(); // in the last buffer there is
    counted(1, BT_AGGREGATOR_NO_BUFFER, 1);
    while (n > 0) {
        bt_pool_put(&fixed.pool, taken[--n]);
    }
    struct bt_group_document fewer = document;
    fewer.member[0].id = 8;
    bt_aggregator_front_reconfigure(it, &fewer, &keys);
    probe();
    counted(1, BT_AGGREGATOR_NO_ADDRESS, 1);
    bt_aggregator_front_reconfigure(it, &document, &none);
    probe();
    counted(0, BT_AGGREGATOR_BAD_UNKNOWN_KEY, 1);
}

static void r381_its_words_are_signed_with_the_keys_it_has_now(void **state)
{
    struct bt_keyring fresh = {.key = {{.id = 8, .bytes = {9}}}};
    (void)state;
    bt_aggregator_front_reconfigure(it, &document, &fresh);
    probe();
    counted(0, BT_AGGREGATOR_BAD_UNKNOWN_KEY, 1);
    keys = fresh;
    probe();
    counted(1, BT_AGGREGATOR_SENT, 1);
    is_sent(1, BT_GROUP_PROBE_REPLY, 0);
}

static void each_counter_of_an_aggregator_has_a_name(void **state)
{
    (void)state;
    each_has_a_name(bt_aggregator_front_counter_desc, BT_AGGREGATOR_FRONT_COUNTERS, "aggregator_");
    each_has_a_name(bt_aggregator_counter_desc, BT_AGGREGATOR_COUNTERS, "aggregator_events_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(r340_a_probe_is_answered_in_its_own_name, begin, end),
        cmocka_unit_test_setup_teardown(r339_entries_are_passed_on_with_their_leader_s_disk, begin, end),
        cmocka_unit_test_setup_teardown(r345_a_note_is_not_for_it, begin, end),
        cmocka_unit_test_setup_teardown(r339_what_cannot_be_sent_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(r381_its_words_are_signed_with_the_keys_it_has_now, begin, end),
        cmocka_unit_test(each_counter_of_an_aggregator_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
