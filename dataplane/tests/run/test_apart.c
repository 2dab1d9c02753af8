// SPDX-License-Identifier: Apache-2.0
// A HovercRaft group of whole members and its flow-control box: requests reach everybody, are ordered
// by their metadata, executed once on each member, and answered by one.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "run/boxed.h"
#include "replica/sessions.h"

static struct bed b;

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static uint64_t counted(uint16_t id, unsigned which)
{
    return bt_member_counters(b.member[id])[which];
}

static uint64_t boxed(unsigned which)
{
    return bt_box_front_counters(b.box, b.now)[which];
}

static void open_group(bool multicast)
{
    bed_open_hovercraft(&b, 3, multicast);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, takes_requests, id);
    }
}

static bool ask_box(uint8_t policy, uint64_t add)
{
    return bed_ask(&b, &(struct bed_ask){.to = BED_BOX, .policy = policy, .add = add});
}

// Again until it is answered, under a session, so that it is done once.
static void write_until_done(uint64_t add)
{
    static uint64_t session = 70000;
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

static void all_level(void)
{
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, level, id);
    }
}

static void all_hold(uint64_t sum, uint64_t executed)
{
    all_level();
    for (uint16_t id = 1; id <= 3; id++) {
        assert_int_equal(b.service[id].sum, sum);
        assert_int_equal(b.service[id].executed, executed);
    }
}

static enum bt_drop_reason reason(void)
{
    assert_int_equal(b.reply_type, BT_DROP);
    assert_true(b.reply_n == 4 + BT_DROP_WHY && memcmp(b.reply, "DROP", 4) == 0 && b.reply[4] == 1);
    return (enum bt_drop_reason)b.reply[5];
}

static void shares(bool multicast)
{
    enum { ASKED = 60 };
    open_group(multicast);
    for (uint64_t i = 1; i <= ASKED; i++) {
        assert_true(ask_box(BT_POLICY_REPLICATED_WRITE, 1));
        assert_int_equal(bed_sum(&b, 0), i);
        assert_true(ask_box(BT_POLICY_REPLICATED_READ, 100));
        assert_int_equal(bed_sum(&b, 0), i);
    }
    all_hold(ASKED, ASKED);
    uint64_t reads = 0, answers = 0;
    for (uint16_t id = 1; id <= 3; id++) {
        reads += counted(id, BT_MEMBER_APPLIED_READS);
        answers += counted(id, BT_MEMBER_ANSWERED);
        assert_true(counted(id, BT_MEMBER_ANSWERED) > 0);
        assert_int_equal(counted(id, BT_MEMBER_BOXED_TAKEN), 2 * ASKED);
    }
    assert_int_equal(reads, ASKED); // at the one that answers
    assert_int_equal(answers, 2 * ASKED);
    assert_int_equal(b.replies, 2 * ASKED); // one answer each
    assert_int_equal(boxed(BT_BOX_ANSWERED), 2 * ASKED);
    assert_int_equal(bt_box_front_inside(b.box, b.now), 0); // I-17
    assert_int_equal(boxed(BT_BOX_COPIES), multicast ? 2 * ASKED : 6 * ASKED);
    bed_close(&b);
}

static void r334_one_by_one_and_r329_one_of_all_answers(void **state)
{
    (void)state;
    shares(false);
}

static void r334_by_multicast_and_r328_reads_at_one(void **state)
{
    (void)state;
    shares(true);
}

static void r319_a_member_that_hears_no_request_asks_for_bodies(void **state)
{
    (void)state;
    open_group(true);
    uint16_t deaf = (uint16_t)(bed_leader(&b) % 3 + 1);
    b.deaf[deaf] = true;
    for (int i = 0; i < 30; i++) {
        write_until_done(1);
    }
    all_level();
    assert_int_equal(b.service[deaf].sum, 30);
    assert_int_equal(counted(deaf, BT_MEMBER_BOXED_TAKEN), 0);
    assert_true(bt_member_core_counters(b.member[deaf])[BT_REPLICA_RECOVERED_TOTAL] >= 30);
    assert_true(counted(deaf, BT_MEMBER_ANSWERED) > 0); // it answers what it had to ask for
    bed_close(&b);
}

static void r317_what_followers_keep_is_ordered_by_the_next_leader(void **state)
{
    (void)state;
    open_group(true);
    uint16_t l = bed_leader(&b);
    b.deaf[l] = true;
    bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 7});
    bed_step(&b);
    bed_stop(&b, l); // before the request is as old as a group forgets it
    for (int ms = 0; ms < 60000 && b.reply_type == 0xff; ms++) {
        bed_step(&b);
    }
    assert_int_equal(b.reply_type, BT_REPLY);
    assert_int_equal(bed_sum(&b, 0), 7);
    bed_close(&b);
}

static void r330_at_the_limit_the_box_refuses_and_what_it_refused_is_not_executed(void **state)
{
    (void)state;
    open_group(false);
    struct bt_group_document less = b.document;
    less.in_flight = 16;
    assert_true(bt_box_front_reconfigure(b.box, b.now, &less, &b.keys));
    b.now += 500000000; // not so long that members think that they stood still
    for (int ms = 0; ms < 501; ms++) {
        bed_step(&b);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, true);
    }
    for (int i = 0; i < 16; i++) {
        bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        assert_int_equal(b.reply_type, 0xff);
    }
    assert_int_equal(bt_box_front_inside(b.box, b.now), 16);
    assert_false(ask_box(BT_POLICY_REPLICATED_WRITE, 1000));
    assert_int_equal(reason(), BT_DROP_BUSY);
    assert_int_equal(boxed(BT_BOX_BAD_BUSY), 1);
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, false);
    }
    for (int ms = 0; ms < 60000 && (b.service[1].executed < 16 || bt_box_front_inside(b.box, b.now) != 0); ms++) {
        bed_step(&b);
    }
    all_hold(16, 16);
    assert_int_equal(bt_box_front_inside(b.box, b.now), 0);
    bed_close(&b);
}

static void r331_no_member_refuses_and_r386_it_names_the_box(void **state)
{
    (void)state;
    open_group(false);
    for (uint16_t id = 1; id <= 3; id++) { // the leader among them
        assert_false(bed_ask(&b, &(struct bed_ask){.to = id, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
        assert_int_equal(reason(), BT_DROP_NOT_LEADER);
        assert_int_not_equal(bt_get16(b.reply + 6), 0);
        assert_int_equal(b.reply[8 + 15], BED_BOX);
        assert_int_equal(bt_get16(b.reply + 24), 8000);
    }
    assert_true(bed_ask(&b, &(struct bed_ask){.to = 2, .policy = BT_POLICY_UNRESTRICTED, .add = 5})); // unordered
    assert_false(ask_box(BT_POLICY_UNRESTRICTED, 5));
    assert_int_equal(reason(), BT_DROP_UNORDERED);
    all_hold(0, 0);
    bed_close(&b);
}

static void r345_what_no_box_signed_is_not_looked_into(void **state)
{
    (void)state;
    const struct bt_key other = {.id = 2, .bytes = {1}}, wrong = {.id = 1, .bytes = {1}};
    struct bt_addr group = bt_addr_v4u(0xef000001u, 8200);
    open_group(true);
    uint16_t l = bed_leader(&b);
    struct bt_addr own = bed_address(l, 8000), another = bed_address((uint16_t)(l % 3 + 1), 8000);
    bed_give(&b, l, bed_boxed(&b, &group, 900, 1, NULL));
    bed_give(&b, l, bed_boxed(&b, &group, 901, 1, &other));
    bed_give(&b, l, bed_boxed(&b, &group, 902, 1, &wrong));
    struct bt_pkt *moved = bed_boxed(&b, &another, 903, 1, &b.keys.key[0]); // signed for somebody else
    moved->dst = own;
    bed_give(&b, l, moved);
    for (int i = 0; i < 500; i++) {
        bed_step(&b);
    }
    assert_int_equal(counted(l, BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_UNTAGGED - 1), 1);
    assert_int_equal(counted(l, BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_UNKNOWN_KEY - 1), 1);
    assert_int_equal(counted(l, BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_WRONG_TAG - 1), 2);
    all_hold(0, 0);
    bed_give(&b, l, bed_boxed(&b, &group, 904, 1, &b.keys.key[0]));
    bed_give(&b, l, bed_boxed(&b, &own, 905, 1, &b.keys.key[0]));
    for (int i = 0; i < 500 && b.service[l].executed < 2; i++) {
        bed_step(&b);
    }
    all_hold(2, 2); // the others asked for the bodies
    bed_close(&b);
}

static void w8_a_switch_that_is_the_box_signs_nothing_and_is_believed_by_its_source(void **state)
{
    (void)state;
    const struct bt_key wrong = {.id = 1, .bytes = {1}};
    bed_open_boxed_by_switch(&b, 3);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, takes_requests, id);
    }
    const unsigned untagged = BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_UNTAGGED - 1;
    uint16_t l = bed_leader(&b);
    struct bt_addr own = bed_address(l, 8000);
    struct bt_pkt *forged[] = {bed_boxed(&b, &own, 900, 1, NULL), bed_boxed(&b, &own, 901, 1, NULL),
                               bed_boxed(&b, &own, 902, 1, NULL)};
    forged[0]->src = bed_address(BED_BOX, 8001);
    forged[1]->src = bed_address(BED_CLIENT, 8000);
    forged[2]->src = bed_address((uint16_t)(l % 3 + 1), 8000);
    for (size_t i = 0; i < 3; i++) {
        bed_give(&b, l, forged[i]);
        assert_int_equal(counted(l, untagged), i + 1);
    }
    bed_give(&b, l, bed_boxed(&b, &own, 903, 1, &wrong)); // where there is a tag it is right
    assert_int_equal(counted(l, BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_WRONG_TAG - 1), 1);
    assert_int_equal(counted(l, BT_MEMBER_BOXED_TAKEN), 0);
    for (uint16_t id = 1; id <= 3; id++) {
        struct bt_addr to = bed_address(id, 8000);
        bed_give(&b, id, bed_boxed(&b, &to, 904, 1, NULL));
    }
    for (int i = 0; i < 1000 && b.service[l % 3 + 1].executed < 1; i++) {
        bed_step(&b);
    }
    all_hold(1, 1);
    assert_int_equal(counted(l, untagged), 3);
    bed_close(&b);
}

static struct bt_pkt *client_packet(uint8_t policy, uint32_t n, uint32_t options)
{
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_CLIENT, 5000);
    pkt->dst = bed_address(BED_BOX, 8000);
    pkt->local = BT_BOX_CLIENTS;
    memset(bt_pkt_append(pkt, n), 0, n);
    bt_r2p2_start(&h, BT_REQUEST, policy, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = ++b.rid;
    h.opt = (struct bt_options){.present = options, .forwarded = bed_address(77, 7)};
    assert_true(bt_r2p2_push_header(pkt, &h));
    b.reply_type = 0xff;
    return pkt;
}

static void r314_longer_than_one_packet_of_a_member_is_refused_with_the_reason(void **state)
{
    (void)state;
    open_group(false);
    uint32_t most = bt_boxed_most(1500);
    bt_box_front_receive(b.box, b.now, client_packet(BT_POLICY_REPLICATED_WRITE, most + 1, 0));
    bed_step(&b);
    assert_int_equal(reason(), BT_DROP_TOO_LONG);
    struct bt_pkt *two = client_packet(BT_POLICY_REPLICATED_WRITE, 1400, 0); // the first of two
    two->data[3] = (uint8_t)(two->data[3] & ~0x40u);
    bt_put16(two->data + 6, 2);
    bt_box_front_receive(b.box, b.now, two);
    bed_step(&b);
    assert_int_equal(reason(), BT_DROP_TOO_LONG);
    assert_int_equal(boxed(BT_BOX_BAD_TOO_LONG), 2);
    assert_int_equal(boxed(BT_BOX_COPIES), 0);
    bt_box_front_receive(b.box, b.now, client_packet(BT_POLICY_REPLICATED_WRITE, 8, BT_HAS_FORWARDED));
    assert_int_equal(boxed(BT_BOX_BAD_FORGED), 1); // whose request it is, the box alone says
    assert_int_equal(boxed(BT_BOX_COPIES), 0);
    // The longest one is taken by every member, and its body can be asked for.
    bt_box_front_receive(b.box, b.now, client_packet(BT_POLICY_REPLICATED_READ, most, 0));
    bed_step(&b);
    for (uint16_t id = 1; id <= 3; id++) {
        assert_int_equal(counted(id, BT_MEMBER_BOXED_TAKEN), 1);
        assert_int_equal(counted(id, BT_MEMBER_BOXED_TOO_LONG), 0);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id); // before the service, which wants eight bytes, sees it
    }
    bed_close(&b);
}

static void r332_feedback_without_the_tag_makes_no_room(void **state)
{
    (void)state;
    open_group(false);
    for (uint16_t id = 1; id <= 3; id++) {
        b.cut[id] = true;
    }
    bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
    assert_int_equal(bt_box_front_inside(b.box, b.now), 1);
    static const uint8_t forged[] = {0xcc, 8, 0x20, 0xe0, 0, 1, 0, 1, 0, 1, 0x13, 0x88, 10, 0, 0, 100, 1, 4, 0, 1,
                                     0,    0, 0,    1,    0, 0, 0, 0, 0, 0, 0,    0,    0,  0, 0, 0,   0, 0, 0, 0};
    struct bt_pkt *pkt = bt_pool_get(&b.pool.pool);
    memcpy(bt_pkt_append(pkt, sizeof forged), forged, sizeof forged);
    bt_put16(pkt->data + 8, b.rid);
    pkt->src = bed_address(1, 8000);
    pkt->dst = bed_address(BED_BOX, 9000);
    pkt->local = BT_BOX_FEEDBACK;
    bt_box_front_receive(b.box, b.now, pkt);
    assert_int_equal(boxed(BT_BOX_BAD_FEEDBACK_TAG), 1);
    assert_int_equal(bt_box_front_inside(b.box, b.now), 1);
    b.now += 2500000000; // its time runs out
    assert_int_equal(bt_box_front_inside(b.box, b.now), 0);
    assert_int_equal(boxed(BT_BOX_TIMED_OUT), 1);
    bed_close(&b);
}

static void r308_two_bodies_of_one_pair_are_one_everywhere(void **state)
{
    (void)state;
    struct bt_addr group = bt_addr_v4u(0xef000001u, 8200);
    open_group(true);
    uint16_t l = bed_leader(&b);
    for (uint16_t id = 1; id <= 3; id++) { // the tag says nothing of the body
        bed_give(&b, id, bed_boxed(&b, &group, 950, id == l ? 3 : 5, &b.keys.key[0]));
    }
    for (int i = 0; i < 1000 && b.service[l % 3 + 1].executed < 1; i++) {
        bed_step(&b);
    }
    all_hold(3, 1); // the one whose hash the leader put into the log
    bed_close(&b);
}

static void r316_a_late_copy_is_not_ordered_again(void **state)
{
    (void)state;
    struct bt_addr group = bt_addr_v4u(0xef000001u, 8200);
    open_group(true);
    for (int copy = 0; copy < 2; copy++) {
        for (uint16_t id = 1; id <= 3; id++) {
            bed_give(&b, id, bed_boxed(&b, &group, 960, 1, &b.keys.key[0]));
        }
        for (int i = 0; i < 100; i++) {
            bed_step(&b);
        }
    }
    bed_stop(&b, bed_leader(&b)); // nor by the next leader
    bed_until(&b, leads, 0);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_give(&b, id, bed_boxed(&b, &group, 960, 1, &b.keys.key[0]));
    }
    for (int i = 0; i < 200; i++) {
        bed_step(&b);
    }
    uint16_t l = bed_leader(&b);
    assert_int_equal(b.service[l].executed, 1);
    assert_int_equal(b.replies, 1);
    bed_close(&b);
}

static void i13_a_member_that_starts_again_answers_nothing_of_before(void **state)
{
    (void)state;
    open_group(true);
    for (int i = 0; i < 30; i++) {
        write_until_done(1);
    }
    all_level();
    unsigned before = b.replies;
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    all_hold(30, 30);
    assert_int_equal(b.replies, before);
    uint64_t late = 0;
    for (uint16_t id = 1; id <= 3; id++) {
        late += counted(id, BT_MEMBER_ANSWER_TOO_LATE);
    }
    assert_true(late > 0);
    write_until_done(1); // under the key that the log carries
    all_hold(31, 31);
    bed_close(&b);
}

static bool has_snapshot(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).core.snapshot != 0;
}

// What waits in the sockets of a member that starts again comes before its first turn. Its snapshot brought the key of
// the bodies' hash; the core must have it as well, or the request is ordered under a hash that no other member finds.
static void r308_no_request_is_taken_before_the_core_has_the_key(void **state)
{
    (void)state;
    uint64_t index;
    open_group(true);
    write_until_done(1);
    all_level();
    assert_int_equal(bt_member_snapshot(b.member[1], b.now, &index), BT_REPLICA_OK);
    bed_until(&b, has_snapshot, 1);
    bed_stop(&b, 1);
    bed_start(&b, 1);
    struct bt_addr group = bt_addr_v4u(0xef000001u, 8200);
    bed_give(&b, 1, bed_boxed(&b, &group, 900, 1, &b.keys.key[0]));
    assert_int_equal(counted(1, BT_MEMBER_BOXED_EARLY), 1);
    assert_int_equal(counted(1, BT_MEMBER_BOXED_TAKEN), 0);
    bed_until(&b, ready, 1);
    bed_give(&b, 1, bed_boxed(&b, &group, 901, 1, &b.keys.key[0]));
    assert_int_equal(counted(1, BT_MEMBER_BOXED_TAKEN), 1);
    write_until_done(1);
    bed_close(&b);
}

static void i13_a_member_that_was_away_answers_nothing_of_that_time(void **state)
{
    (void)state;
    open_group(true);
    uint16_t away = (uint16_t)(bed_leader(&b) % 3 + 1);
    write_until_done(1);
    all_level();
    b.cut[away] = true;
    for (int i = 0; i < 30; i++) {
        bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        for (int ms = 0; ms < 50; ms++) {
            bed_step(&b);
        }
    }
    unsigned before = b.replies;
    b.cut[away] = false;
    all_hold(31, 31);
    assert_int_equal(b.replies, before);
    assert_true(counted(away, BT_MEMBER_ANSWER_TOO_LATE) > 0);
    for (int i = 0; i < 30; i++) { // and it answers again
        write_until_done(1);
    }
    assert_true(counted(away, BT_MEMBER_ANSWERED) > 1);
    bed_close(&b);
}

static void i13_a_member_that_stood_still_answers_nothing_of_before(void **state)
{
    (void)state;
    open_group(true);
    uint16_t l = bed_leader(&b);
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, true);
    }
    for (int i = 0; i < 10; i++) {
        bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
    }
    bed_step(&b);
    b.now += 3000000000; // all of them
    for (uint16_t id = 1; id <= 3; id++) {
        atomic_store(&b.disk[id].stalled, false);
    }
    for (int ms = 0; ms < 1000; ms++) {
        bed_step(&b);
    }
    bed_until(&b, leads, 0);
    all_level(); // what no log held by then is too old for one
    assert_true(b.service[l].executed > 0);
    for (uint16_t id = 1; id <= 3; id++) {
        assert_int_equal(b.service[id].executed, b.service[l].executed);
    }
    assert_int_equal(b.replies, 0);
    bed_close(&b);
}

static void r333_a_box_that_starts_again_is_silent_and_then_serves(void **state)
{
    (void)state;
    open_group(false);
    write_until_done(1);
    bed_box_stop(&b);
    bed_box_start(&b);
    for (int ms = 0; ms < 100; ms++) {
        bed_step(&b);
    }
    bed_send(&b, &(struct bed_ask){.to = BED_BOX, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
    bed_step(&b);
    assert_int_equal(b.reply_type, 0xff);
    assert_int_equal(boxed(BT_BOX_BAD_HUSHED), 1);
    write_until_done(1);
    all_hold(2, 2);
    bed_close(&b);
}

static void a_raft_group_becomes_hovercraft_when_all_start_again(void **state)
{
    (void)state;
    bed_open(&b, 3, 3);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    for (int i = 0; i < 200 && b.service[1].executed < 200; i++) { // more than a snapshot
        bed_ask(&b, &(struct bed_ask){.to = bed_leader(&b), .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        bed_until(&b, leads, 0);
    }
    all_level();
    uint64_t executed = b.service[1].executed;
    for (uint16_t id = 1; id <= 3; id++) {
        bed_stop(&b, id);
    }
    b.document.protocol = BT_GROUP_HOVERCRAFT;
    b.document.n_boxes = 1;
    b.document.box[0] = (struct bt_group_document_box){
        .name = "box", .client = bed_address(BED_BOX, 8000), .feedback = bed_address(BED_BOX, 9000)};
    bed_box_start(&b);
    for (uint16_t id = 1; id <= 3; id++) {
        bed_start(&b, id);
    }
    for (uint16_t id = 1; id <= 3; id++) {
        bed_until(&b, ready, id);
    }
    write_until_done(1);
    all_hold(executed + 1, executed + 1);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r334_one_by_one_and_r329_one_of_all_answers),
        cmocka_unit_test(r334_by_multicast_and_r328_reads_at_one),
        cmocka_unit_test(r319_a_member_that_hears_no_request_asks_for_bodies),
        cmocka_unit_test(r317_what_followers_keep_is_ordered_by_the_next_leader),
        cmocka_unit_test(r330_at_the_limit_the_box_refuses_and_what_it_refused_is_not_executed),
        cmocka_unit_test(r331_no_member_refuses_and_r386_it_names_the_box),
        cmocka_unit_test(r345_what_no_box_signed_is_not_looked_into),
        cmocka_unit_test(r314_longer_than_one_packet_of_a_member_is_refused_with_the_reason),
        cmocka_unit_test(w8_a_switch_that_is_the_box_signs_nothing_and_is_believed_by_its_source),
        cmocka_unit_test(r332_feedback_without_the_tag_makes_no_room),
        cmocka_unit_test(r308_two_bodies_of_one_pair_are_one_everywhere),
        cmocka_unit_test(r316_a_late_copy_is_not_ordered_again),
        cmocka_unit_test(i13_a_member_that_starts_again_answers_nothing_of_before),
        cmocka_unit_test(r308_no_request_is_taken_before_the_core_has_the_key),
        cmocka_unit_test(i13_a_member_that_was_away_answers_nothing_of_that_time),
        cmocka_unit_test(i13_a_member_that_stood_still_answers_nothing_of_before),
        cmocka_unit_test(r333_a_box_that_starts_again_is_silent_and_then_serves),
        cmocka_unit_test(a_raft_group_becomes_hovercraft_when_all_start_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
