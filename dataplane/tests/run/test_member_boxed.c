// SPDX-License-Identifier: Apache-2.0
// What a member of a HovercRaft group tells clients and boxes, and what becomes of it where it cannot (R-39, R-328,
// each answer and each word to a box is counted once, and nothing is kept of what could not be sent.
#include "bed.h"
#include "conditions.h"
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "named.h"

enum { PACKETS = 4096, OTHER_BOX = 51 };

static struct bed b;
static struct bt_pkt *taken[PACKETS];
static unsigned n_taken;

static uint64_t counted(unsigned which)
{
    return bt_member_counters(b.member[1])[which];
}

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

// Member 1 alone, and two boxes, of which the second one is not there.
static void open_alone(void)
{
    bed_open_hovercraft(&b, 1, false);
    b.document.box[1] = (struct bt_group_document_box){
        .name = "other", .client = bed_address(OTHER_BOX, 8000), .feedback = bed_address(OTHER_BOX, 9000)};
    b.document.n_boxes = 2;
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    bed_until(&b, takes_requests, 1);
}

static void take_buffers_but(unsigned left)
{
    while (b.pool.left > left) {
        taken[n_taken++] = bt_pool_get(&b.pool.pool);
    }
}

static void give_buffers_back(void)
{
    while (n_taken > 0) {
        bt_pool_put(&b.pool.pool, taken[--n_taken]);
    }
}

static void close_it(void)
{
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b.txq)) != NULL;) {
        bt_pool_put(&b.pool.pool, pkt);
    }
    assert_int_equal(b.pool.left, PACKETS);
    bed_close(&b);
}

static void boxed(uint16_t rid)
{
    struct bt_addr to = bed_address(1, 8000);
    b.rid = rid;
    b.reply_type = 0xff;
    bed_give(&b, 1, bed_boxed(&b, &to, rid, 3, &b.keys.key[0]));
}

static void until_executed(uint64_t writes)
{
    for (int ms = 0; b.service[1].executed < writes; ms++) {
        assert_true(ms < 1000);
        bed_step(&b);
    }
    bed_step(&b);
}

static void r39_every_box_is_told_of_every_answer(void **state)
{
    (void)state;
    open_alone();
    for (uint16_t rid = 1; rid <= 3; rid++) {
        boxed(rid);
        until_executed(rid);
        assert_int_equal(b.reply_type, BT_REPLY);
        assert_int_equal(bed_sum(&b, 0), 3 * rid);
        assert_int_equal(counted(BT_MEMBER_BOXED_TAKEN), rid);
        assert_int_equal(counted(BT_MEMBER_ANSWERED), rid);
        assert_int_equal(counted(BT_MEMBER_FEEDBACK_SENT), 2 * rid);
    }
    boxed(3); // a late copy is not executed again, nor answered
    bed_step(&b);
    bed_step(&b);
    assert_true(counted(BT_MEMBER_BOXED_AGAIN) == 1 && counted(BT_MEMBER_BOXED_TAKEN) == 3);
    assert_true(counted(BT_MEMBER_ANSWERED) == 3 && b.service[1].executed == 3);
    assert_int_equal(counted(BT_MEMBER_NO_BUFFER), 0);
    close_it();
}

static void r386_clients_are_sent_to_one_box_after_the_other(void **state)
{
    (void)state;
    open_alone();
    for (int i = 0; i < 4; i++) {
        assert_false(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
        assert_true(b.reply_type == BT_DROP && b.reply[5] == BT_DROP_NOT_LEADER);
        assert_int_equal(bt_get16(b.reply + 6), 1);
        assert_int_equal(b.reply[8 + 15], i % 2 == 0 ? BED_BOX : OTHER_BOX);
        assert_int_equal(bt_get16(b.reply + 24), 8000);
    }
    assert_int_equal(counted(BT_MEMBER_DROP_FIRST + BT_DROP_NOT_LEADER), 4);
    assert_int_equal(b.service[1].executed, 0);
    close_it();
}

static void r39_without_a_key_no_box_is_told(void **state)
{
    const struct bt_keyring none = {0};
    (void)state;
    open_alone();
    boxed(1);
    bt_member_reconfigure(b.member[1], &b.document, &none); // between the request and its answer
    until_executed(1);
    assert_int_equal(b.reply_type, BT_REPLY);
    assert_int_equal(counted(BT_MEMBER_ANSWERED), 1);
    assert_int_equal(counted(BT_MEMBER_FEEDBACK_SENT), 0);
    assert_int_equal(counted(BT_MEMBER_NO_BUFFER), 2);
    close_it();
}

// Executed once, whether or not there was a buffer to answer in.
static void r328_what_cannot_be_answered_was_executed_all_the_same(void **state)
{
    (void)state;
    for (unsigned left = 0; left <= 3; left++) { // none; the answer's; and those of one and of two boxes
        open_alone();
        boxed(1);
        take_buffers_but(left);
        until_executed(1);
        give_buffers_back();
        bed_step(&b);
        bed_step(&b);
        uint64_t answered = counted(BT_MEMBER_ANSWERED), told = counted(BT_MEMBER_FEEDBACK_SENT);
        assert_int_equal(b.reply_type == BT_REPLY, left > 0);
        assert_int_equal(told, left > 1 ? left - 1 : 0);
        assert_int_equal(counted(BT_MEMBER_NO_BUFFER), (answered == 0 ? 1 : 2 - told));
        assert_int_equal(bt_member_backlog(b.member[1]), 0);
        boxed(2);
        until_executed(2);
        assert_int_equal(bed_sum(&b, 0), 6);
        close_it();
    }
}

// In a Raft group a client's request is here and nowhere else: it is forgotten, and the client asks again.
static void r30_an_answer_without_a_buffer_is_forgotten(void **state)
{
    (void)state;
    bed_open(&b, 1, 1);
    bed_until(&b, ready, 1);
    take_buffers_but(1);
    bed_send(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_UNRESTRICTED}); // in the last one
    give_buffers_back();
    bed_step(&b);
    assert_int_equal(b.reply_type, 0xff);
    assert_int_equal(bt_member_server_counters(b.member[1])[BT_SERVER_FORGOTTEN], 1);
    assert_int_equal(bt_member_backlog(b.member[1]), 0);
    assert_true(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_UNRESTRICTED}));
    close_it();
}

static void each_counter_of_a_member_has_a_name(void **state)
{
    (void)state;
    const unsigned drops = BT_MEMBER_DROP_FIRST + BT_DROP_NOT_LEADER; // there is no reason before that
    each_has_a_name(bt_member_counter_desc, BT_MEMBER_DROP_FIRST, "replica_");
    each_has_a_name(bt_member_counter_desc + drops, BT_MEMBER_COUNTERS - drops, "replica_requests_refused_");
    each_has_a_name(bt_member_core_counter_desc, BT_REPLICA_COUNTERS, "replica_events_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r39_every_box_is_told_of_every_answer),
        cmocka_unit_test(r386_clients_are_sent_to_one_box_after_the_other),
        cmocka_unit_test(r39_without_a_key_no_box_is_told),
        cmocka_unit_test(r328_what_cannot_be_answered_was_executed_all_the_same),
        cmocka_unit_test(r30_an_answer_without_a_buffer_is_forgotten),
        cmocka_unit_test(each_counter_of_a_member_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
