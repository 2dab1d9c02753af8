// SPDX-License-Identifier: Apache-2.0
// The flow-control box, I-6, I-17.
#include "unit.h"

#include <stdlib.h>

#include "replica/box.h"

#define MS UINT64_C(1000000)

struct bench {
    struct bt_box *box;
    void *mem;
    struct bt_box_config c;
};

static struct bench opened(uint32_t limit)
{
    struct bench b = {.c = {.limit = limit,
                            .timeout_ns = 100 * MS,
                            .slow_start_ns = 160 * MS,
                            .quarantine_ns = 20 * MS,
                            .recent_pairs = 64,
                            .seed = 3}};
    b.mem = malloc(bt_box_bytes(&b.c));
    assert_non_null(b.mem);
    b.box = bt_box_start(b.mem, &b.c, 0);
    return b;
}

static enum bt_box_verdict ask(struct bench *b, uint64_t ms, uint16_t id)
{
    struct bt_addr client = bt_addr_v4u(0x0a000001, 4000);
    return bt_box_request(b->box, ms * MS, &client, id);
}

static bool answered(struct bench *b, uint64_t ms, uint16_t id)
{
    struct bt_addr client = bt_addr_v4u(0x0a000001, 4000);
    return bt_box_feedback(b->box, ms * MS, &client, id);
}

static void r330_at_the_limit_a_request_is_refused_until_one_is_answered(void **state)
{
    (void)state;
    struct bench b = opened(3);
    for (uint16_t id = 1; id <= 3; id++) {
        assert_int_equal(ask(&b, 1000, id), BT_BOX_PASS);
    }
    assert_int_equal(ask(&b, 1000, 4), BT_BOX_NACK);
    assert_true(answered(&b, 1001, 2));
    assert_false(answered(&b, 1001, 2)); // the second word of one answer
    assert_int_equal(bt_box_counts(b.box, 1001 * MS).inside, 2);
    assert_int_equal(ask(&b, 1001, 5), BT_BOX_PASS);
    assert_int_equal(ask(&b, 1001, 6), BT_BOX_NACK);
    free(b.mem);
}

static void i6_a_duplicate_hears_what_the_first_one_heard(void **state)
{
    (void)state;
    struct bench b = opened(1);
    assert_int_equal(ask(&b, 1000, 1), BT_BOX_PASS);
    assert_int_equal(ask(&b, 1001, 1), BT_BOX_AGAIN);
    assert_int_equal(ask(&b, 1001, 2), BT_BOX_NACK);
    assert_true(answered(&b, 1002, 1));
    assert_int_equal(ask(&b, 1003, 2), BT_BOX_NACK);  // there is room, but a client was told DROP
    assert_int_equal(ask(&b, 1003, 1), BT_BOX_AGAIN); // answered: not DROP, and not counted
    assert_int_equal(bt_box_counts(b.box, 1003 * MS).inside, 0);
    assert_int_equal(ask(&b, 1030, 2), BT_BOX_PASS); // no copy is that late: the id was taken again
    free(b.mem);
}

static void r332_i17_what_is_never_answered_leaves_after_its_time(void **state)
{
    (void)state;
    struct bench b = opened(2);
    assert_int_equal(ask(&b, 1000, 1), BT_BOX_PASS);
    assert_int_equal(ask(&b, 1050, 2), BT_BOX_PASS);
    assert_int_equal(bt_box_counts(b.box, 1099 * MS).inside, 2);
    assert_int_equal(bt_box_counts(b.box, 1100 * MS).inside, 1);
    assert_false(answered(&b, 1101, 1));
    assert_int_equal(bt_box_counts(b.box, 1150 * MS).inside, 0);
    assert_int_equal(bt_box_counts(b.box, 1150 * MS).timed_out, 2);
    free(b.mem);
}

static void r333_a_fresh_box_hushes_and_then_begins_with_few(void **state)
{
    (void)state;
    struct bench b = opened(160);
    uint32_t in = 0;
    assert_int_equal(ask(&b, 19, 1), BT_BOX_HUSH);
    for (uint16_t id = 100; id < 300; id++) {
        in += ask(&b, 20, id) == BT_BOX_PASS;
    }
    assert_int_equal(in, 20); // of 160 after 20 of 160 ms
    for (uint16_t id = 300; id < 600; id++) {
        in += ask(&b, 80, id) == BT_BOX_PASS;
    }
    assert_int_equal(in, 80);
    free(b.mem);
}

static void many_pairs_come_and_go_and_the_count_is_theirs(void **state)
{
    (void)state;
    struct bench b = opened(16);
    uint32_t inside = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t ms = 1000 + i / 10;
        inside += ask(&b, ms, (uint16_t)i) == BT_BOX_PASS;
        inside -= i >= 7 && answered(&b, ms, (uint16_t)(i - 7));
        assert_int_equal(bt_box_counts(b.box, ms * MS).inside, inside);
    }
    assert_true(bt_box_counts(b.box, 0).answered > 19000);
    free(b.mem);
}

static struct bench as_switch(uint32_t limit)
{
    struct bench b = opened(limit);
    b.c.as_switch = true;
    b.box = bt_box_start(b.mem, &b.c, 0);
    return b;
}

static void as_a_switch_slots_are_offered_in_turn(void **state)
{
    (void)state;
    struct bench b = as_switch(3);
    for (uint16_t id = 1; id <= 3; id++) { // at once: a switch takes longer to start than copies take
        assert_int_equal(ask(&b, 0, id), BT_BOX_PASS);
    }
    assert_true(answered(&b, 1, 2));
    assert_int_equal(ask(&b, 1, 4), BT_BOX_NACK); // the first slot, though the second one is free
    assert_int_equal(ask(&b, 1, 5), BT_BOX_PASS);
    assert_int_equal(ask(&b, 1, 5), BT_BOX_AGAIN);
    assert_int_equal(ask(&b, 2, 4), BT_BOX_NACK); // copies take their turn, too
    assert_int_equal(ask(&b, 2, 4), BT_BOX_NACK);
    assert_int_equal(ask(&b, 100, 6), BT_BOX_PASS); // the third slot: its holder's time is over, and the first one's
    assert_int_equal(bt_box_counts(b.box, 100 * MS).inside, 2);
    assert_int_equal(bt_box_counts(b.box, 100 * MS).timed_out, 2);
    free(b.mem);
}

static void as_a_switch_who_answers_in_order_refuses_as_any_box(void **state)
{
    (void)state;
    struct bench b = opened(16), s = as_switch(16);
    uint32_t next = 0; // to be answered
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t ms = 1000 + i / 10;
        for (; next + 16 <= i && i % 64 != 63; next++) { // now and then an answer is late, and one request too many
            assert_int_equal(answered(&b, ms, (uint16_t)next), answered(&s, ms, (uint16_t)next));
        }
        assert_int_equal(ask(&b, ms, (uint16_t)i), ask(&s, ms, (uint16_t)i));
    }
    assert_int_equal(bt_box_counts(b.box, 3000 * MS).passed, bt_box_counts(s.box, 3000 * MS).passed);
    assert_true(bt_box_counts(b.box, 3000 * MS).nacked > 100);
    free(b.mem);
    free(s.mem);
}

static void out_of_bounds_takes_no_memory(void **state)
{
    (void)state;
    assert_int_equal(bt_box_bytes(&(struct bt_box_config){.limit = 0, .timeout_ns = 1, .recent_pairs = 1}), 0);
    assert_int_equal(bt_box_bytes(&(struct bt_box_config){.limit = 1, .timeout_ns = 0, .recent_pairs = 1}), 0);
    assert_int_equal(bt_box_bytes(&(struct bt_box_config){.limit = 1, .timeout_ns = 1, .recent_pairs = 0}), 0);
}

static void i6_a_duplicate_of_one_that_is_inside_hears_nothing_however_late(void **state)
{
    (void)state;
    struct bench b = opened(3);
    assert_int_equal(ask(&b, 1000, 1), BT_BOX_PASS);
    assert_int_equal(ask(&b, 1050, 1), BT_BOX_AGAIN); // past what is known of verdicts
    assert_int_equal(bt_box_counts(b.box, 1050 * MS).inside, 1);
    assert_true(answered(&b, 1051, 1));
    assert_int_equal(bt_box_counts(b.box, 1051 * MS).inside, 0);
    free(b.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r330_at_the_limit_a_request_is_refused_until_one_is_answered),
        cmocka_unit_test(i6_a_duplicate_hears_what_the_first_one_heard),
        cmocka_unit_test(r332_i17_what_is_never_answered_leaves_after_its_time),
        cmocka_unit_test(r333_a_fresh_box_hushes_and_then_begins_with_few),
        cmocka_unit_test(many_pairs_come_and_go_and_the_count_is_theirs),
        cmocka_unit_test(as_a_switch_slots_are_offered_in_turn),
        cmocka_unit_test(as_a_switch_who_answers_in_order_refuses_as_any_box),
        cmocka_unit_test(out_of_bounds_takes_no_memory),
        cmocka_unit_test(i6_a_duplicate_of_one_that_is_inside_hears_nothing_however_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
