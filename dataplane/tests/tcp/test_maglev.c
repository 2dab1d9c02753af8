// SPDX-License-Identifier: Apache-2.0
// The consistent hash of C-41: shares, and what moves when servers come and go.
#include "unit.h"

#include "tcp/maglev.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static void build(uint16_t *slots, const struct bt_maglev_entry *e, uint32_t n)
{
    struct bt_maglev m = {slots};
    void *scratch = malloc(bt_maglev_scratch_bytes(n));
    assert_non_null(scratch);
    bt_maglev_build(&m, e, n, 7, scratch);
    free(scratch);
}

static void count(const uint16_t *slots, uint32_t *of)
{
    memset(of, 0, MOST * sizeof *of);
    for (uint32_t i = 0; i < BT_MAGLEV_SLOTS; i++) {
        assert_true(slots[i] < MOST);
        of[slots[i]]++;
    }
}

/* Balancers of one service may be of different builds: the table is the same, slot by slot. */
static void c41_the_table_is_the_same_everywhere(void **state)
{
    (void)state;
    static uint16_t slots[BT_MAGLEV_SLOTS];
    struct bt_maglev_entry e[5];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 5; i++) {
        e[i] = (struct bt_maglev_entry){.name = 0x0a000000 + i, .weight = 1 + i};
    }
    build(slots, e, 5);
    for (uint32_t i = 0; i < BT_MAGLEV_SLOTS; i++) {
        sum = sum * UINT64_C(0x100000001b3) + slots[i];
    }
    assert_int_equal(sum, UINT64_C(0x8abe0d569203659c));
}

static void c41_equal_servers_have_equal_shares(void **state)
{
    (void)state;
    static uint16_t slots[BT_MAGLEV_SLOTS];
    static uint32_t of[MOST];
    static struct bt_maglev_entry e[MOST];
    for (uint32_t n = 1; n <= MOST; n *= 4) {
        for (uint32_t i = 0; i < n; i++) {
            e[i] = (struct bt_maglev_entry){.name = 0x0a000000 + i, .weight = 3};
        }
        build(slots, e, n);
        count(slots, of);
        for (uint32_t i = 0; i < n; i++) {
            assert_in_range(of[i], BT_MAGLEV_SLOTS / n, BT_MAGLEV_SLOTS / n + 1);
        }
    }
}

static void c43_shares_follow_weights_and_none_has_none(void **state)
{
    (void)state;
    static uint16_t slots[BT_MAGLEV_SLOTS];
    static uint32_t of[MOST];
    const struct bt_maglev_entry e[] = {{1, 1}, {2, 0}, {3, 256}, {4, 64}};
    build(slots, e, 4);
    count(slots, of);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t want = (uint32_t)((uint64_t)BT_MAGLEV_SLOTS * e[i].weight / 321);
        assert_in_range(of[i], want > 2 ? want - 2 : 0, want + 2);
    }
    const struct bt_maglev_entry nobody[] = {{1, 0}};
    build(slots, nobody, 1);
    assert_int_equal(slots[0], BT_MAGLEV_NOBODY);
    build(slots, NULL, 0);
    assert_int_equal(slots[BT_MAGLEV_SLOTS - 1], BT_MAGLEV_NOBODY);
}

// Of 16 servers one leaves: its sixteenth moves, and of the others' little.
static void c41_little_moves_when_a_server_leaves(void **state)
{
    (void)state;
    static uint16_t before[BT_MAGLEV_SLOTS], after[BT_MAGLEV_SLOTS];
    struct bt_maglev_entry e[16];
    for (uint32_t i = 0; i < 16; i++) {
        e[i] = (struct bt_maglev_entry){.name = 0xc0a80001 + i, .weight = 1};
    }
    build(before, e, 16);
    e[5].weight = 0;
    build(after, e, 16);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < BT_MAGLEV_SLOTS; i++) {
        assert_true(after[i] != 5);
        moved += before[i] != 5 && before[i] != after[i];
    }
    assert_true(moved < BT_MAGLEV_SLOTS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c41_the_table_is_the_same_everywhere),
        cmocka_unit_test(c41_equal_servers_have_equal_shares),
        cmocka_unit_test(c43_shares_follow_weights_and_none_has_none),
        cmocka_unit_test(c41_little_moves_when_a_server_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
