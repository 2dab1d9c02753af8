// SPDX-License-Identifier: Apache-2.0
// The choice of a server: C-26, C-41, C-43, C-60 to C-63; each with servers of IPv4 and of IPv6.
#include "syn.h"
#include "unit.h"

#include "tcp/crab_hash.h"
#include "tcp/crab_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

#define SECOND UINT64_C(1000000000)

struct bed {
    struct bt_crab_backend servers[MOST];
    struct bt_crab_pool *pool;
    void *mem;
    struct bt_crab_chooser chooser;
    _Atomic uint64_t cursor;
};

static void build(struct bed *b, uint32_t n)
{
    size_t bytes = (bt_crab_pool_bytes(n) + 63) & ~(size_t)63;
    free(b->mem);
    b->mem = aligned_alloc(64, bytes);
    assert_non_null(b->mem);
    b->pool = bt_crab_pool_build(b->mem, b->servers, n, 1);
    b->chooser.cursor = &b->cursor;
    b->chooser.stale_ns = 3 * SECOND;
    bt_rng_seed(&b->chooser.rng, 3);
}

static void open_bed(struct bed *b, uint32_t n)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        b->servers[i] =
            (struct bt_crab_backend){.ip = syn_ip(0x0a010000 + i), .weight = 1, .capable = true, .up = true};
    }
    build(b, n);
}

static void choose_many(struct bed *b, enum bt_crab_policy policy, uint32_t times, uint64_t now, uint32_t *of)
{
    memset(of, 0, MOST * sizeof *of);
    for (uint32_t i = 0; i < times; i++) {
        uint32_t k = bt_crab_pool_choose(b->pool, policy, &b->chooser, bt_maglev_mix(i, 99), now);
        assert_true(k < b->pool->n);
        assert_true(b->servers[k].up && b->servers[k].capable);
        of[k]++;
    }
}

static void c26_c43_only_servers_that_are_up_and_capable_are_chosen(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 8);
    b.servers[2].up = b.servers[5].capable = false;
    build(&b, 8);
    for (int policy = 0; policy < BT_CRAB_POLICIES; policy++) {
        choose_many(&b, (enum bt_crab_policy)policy, 6000, SECOND, of);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(of[i] > 0, i != 2 && i != 5);
        }
    }
    for (uint32_t i = 0; i < 8; i++) {
        b.servers[i].capable = false;
    }
    build(&b, 8);
    assert_int_equal(bt_crab_pool_choose(b.pool, BT_CRAB_ROUND_ROBIN, &b.chooser, 1, 1), BT_CRAB_NOBODY);
    assert_true(bt_maglev_find(&b.pool->by_hash, UINT64_C(123) << 40) != BT_MAGLEV_NOBODY); // C-43: still by hash
    free(b.mem);
}

static void c60_round_robin_takes_turns_also_across_balancers(void **state)
{
    (void)state;
    struct bed b;
    open_bed(&b, 5);
    struct bt_crab_chooser other = b.chooser; // shares the cursor (C-61)
    for (uint32_t i = 0; i < 100; i++) {
        struct bt_crab_chooser *c = i % 3 == 0 ? &other : &b.chooser;
        assert_int_equal(bt_crab_pool_choose(b.pool, BT_CRAB_ROUND_ROBIN, c, 0, 0), i % 5);
    }
    free(b.mem);
}

// Not only the shares are right, but those of any stretch: never more than two away from the weight's.
static void c62_weights_are_kept_in_every_stretch(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST] = {0};
    const uint16_t weights[] = {1, 2, 3, 10, 256};
    open_bed(&b, 5);
    for (uint32_t i = 0; i < 5; i++) {
        b.servers[i].weight = weights[i];
    }
    build(&b, 5);
    for (uint32_t t = 1; t <= 50000; t++) { // a node's round robin honours weights, and so does this one
        enum bt_crab_policy policy = t % 2 == 0 ? BT_CRAB_ROUND_ROBIN : BT_CRAB_WEIGHTED;
        of[bt_crab_pool_choose(b.pool, policy, &b.chooser, 0, 0)]++;
        for (uint32_t i = 0; i < 5; i++) {
            assert_true(fabs((double)of[i] - (double)t * weights[i] / 272) < 3.0);
        }
    }
    free(b.mem);
}

// Weights that are all the same, or differ only for servers that get nothing, leave round robin its strict turns.
static void c60_round_robin_of_equal_weights_is_strict(void **state)
{
    (void)state;
    struct bed b;
    open_bed(&b, 4);
    for (uint32_t i = 0; i < 4; i++) {
        b.servers[i].weight = 7;
    }
    b.servers[3].weight = 1;
    b.servers[3].up = false;
    build(&b, 4);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(bt_crab_pool_choose(b.pool, BT_CRAB_ROUND_ROBIN, &b.chooser, 0, 0), i % 3);
    }
    free(b.mem);
}

static void c60_random_is_even(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 16);
    choose_many(&b, BT_CRAB_RANDOM, 160000, 0, of);
    double chi = 0;
    for (uint32_t i = 0; i < 16; i++) {
        chi += (of[i] - 10000.0) * (of[i] - 10000.0) / 10000.0;
    }
    assert_true(chi < 37.7); // 99.9 % of chi-squared with 15 degrees of freedom; the seed is fixed
    free(b.mem);
}

static void c60_hash_sends_the_same_connection_to_the_same_server(void **state)
{
    (void)state;
    struct bed b;
    open_bed(&b, 16);
    uint32_t before[1000], moved = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        before[i] = bt_crab_pool_choose(b.pool, BT_CRAB_HASH, &b.chooser, bt_maglev_mix(i, 5), 0);
    }
    b.servers[3].capable = false;
    build(&b, 16);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t now = bt_crab_pool_choose(b.pool, BT_CRAB_HASH, &b.chooser, bt_maglev_mix(i, 5), 0);
        assert_true(now != 3);
        moved += before[i] != 3 && before[i] != now;
    }
    assert_int_equal(moved, 0);
    free(b.mem);
}

static void c62_least_follows_reports_and_what_it_chose_since(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bt_crab_pool_report(b.pool, &b.servers[i].ip, i == 2 ? 0 : 100, SECOND));
    }
    choose_many(&b, BT_CRAB_LEAST, 100, 2 * SECOND, of);
    assert_int_equal(of[2], 100);
    choose_many(&b, BT_CRAB_LEAST, 400, 2 * SECOND, of);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(of[i], 100); // all stand at the same number: they take turns
    }
    assert_true(bt_crab_pool_report(b.pool, &b.servers[2].ip, 0, 2 * SECOND)); // a new report has them in it
    choose_many(&b, BT_CRAB_LEAST, 100, 2 * SECOND, of);
    assert_int_equal(of[2], 100);
    struct bt_addr stranger = syn_ip(0x01020304);
    assert_false(bt_crab_pool_report(b.pool, &stranger, 1, SECOND));
    free(b.mem);
}

static void c62_a_server_of_weight_3_may_have_three_times_as_many(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 2);
    b.servers[1].weight = 3;
    build(&b, 2);
    assert_true(bt_crab_pool_report(b.pool, &b.servers[0].ip, 10, SECOND));
    assert_true(bt_crab_pool_report(b.pool, &b.servers[1].ip, 0, SECOND));
    choose_many(&b, BT_CRAB_LEAST, 30, 2 * SECOND, of);
    assert_in_range(of[1], 29, 30); // until it has three times the other's ten
    choose_many(&b, BT_CRAB_LEAST, 400, 2 * SECOND, of);
    assert_in_range(of[0], 99, 101);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bt_crab_pool_report(b.pool, &b.servers[i].ip, i == 0 ? 10 : 29, 2 * SECOND));
    }
    choose_many(&b, BT_CRAB_POWER_OF_TWO, 4000, 2 * SECOND, of);
    assert_in_range(of[1], 2850, 3100); // a quarter of the draws is the first one twice
    free(b.mem);
}

static void c62_old_reports_are_not_believed(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 4);
    for (uint32_t i = 0; i < 4; i++) {
        bt_crab_pool_report(b.pool, &b.servers[i].ip, i == 1 ? 0 : 1000000, SECOND);
    }
    choose_many(&b, BT_CRAB_POWER_OF_TWO, 4000, SECOND, of);
    assert_in_range(of[1], 1500, 2000); // drawn first or second: 7/16
    choose_many(&b, BT_CRAB_POWER_OF_TWO, 4000, 5 * SECOND, of);
    for (uint32_t i = 0; i < 4; i++) {
        assert_in_range(of[i], 850, 1150);
    }
    choose_many(&b, BT_CRAB_LEAST, 4000, 5 * SECOND, of);
    for (uint32_t i = 0; i < 4; i++) {
        assert_in_range(of[i], 850, 1150);
    }
    free(b.mem);
}

static void c62_who_said_nothing_is_not_preferred(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 2);
    bt_crab_pool_report(b.pool, &b.servers[0].ip, 1000000, SECOND);
    choose_many(&b, BT_CRAB_POWER_OF_TWO, 4000, SECOND, of);
    assert_in_range(of[1], 1850, 2150);
    free(b.mem);
}

/* A change of servers is a new pool: it knows what those that stay have said. */
static void c63_a_new_pool_knows_what_the_old_one_was_told(void **state)
{
    (void)state;
    struct bed b;
    uint32_t of[MOST];
    open_bed(&b, 4);
    for (uint32_t i = 0; i < 4; i++) {
        bt_crab_pool_report(b.pool, &b.servers[i].ip, i == 2 ? 0 : 1000, SECOND);
    }
    struct bt_crab_pool *old = b.pool;
    void *old_mem = b.mem;
    b.mem = NULL;
    b.servers[0] = b.servers[2]; // one went, and another stands in its place
    build(&b, 2);
    bt_crab_pool_inherit(b.pool, old);
    free(old_mem);
    choose_many(&b, BT_CRAB_LEAST, 100, 2 * SECOND, of);
    assert_int_equal(of[0], 100);
    free(b.mem);
}

static void c63_a_pool_of_4096(void **state)
{
    (void)state;
    const uint32_t n = BT_CRAB_MAX_BACKENDS;
    struct bt_crab_backend *servers = calloc(n, sizeof *servers);
    size_t bytes = (bt_crab_pool_bytes(n) + 63) & ~(size_t)63;
    void *mem = aligned_alloc(64, bytes);
    struct bed b = {.cursor = 0};
    assert_true(servers != NULL && mem != NULL);
    for (uint32_t i = 0; i < n; i++) {
        servers[i] = (struct bt_crab_backend){.ip = syn_ip(i + 1), .weight = 1, .capable = true, .up = true};
    }
    struct bt_crab_pool *pool = bt_crab_pool_build(mem, servers, n, 1);
    b.chooser.cursor = &b.cursor;
    for (uint32_t i = 0; i < 2 * n; i++) {
        assert_int_equal(bt_crab_pool_choose(pool, BT_CRAB_ROUND_ROBIN, &b.chooser, 0, 0), i % n);
    }
    struct bt_addr last = syn_ip(n), nobody = syn_ip(n + 1);
    assert_int_equal(bt_crab_pool_find_ready(pool, &last), n - 1);
    assert_int_equal(bt_crab_pool_find_ready(pool, &nobody), BT_CRAB_NOBODY);
    free(mem);
    free(servers);
}

// C-41: balancers of one VIP may be of different builds and machines. IPv4's numbers are those of the first release.
static void c41_every_balancer_hashes_alike(void **state)
{
    (void)state;
    struct bt_addr server = syn_ip(0x0a010203), client = syn_ip(0x0a000001);
    client.port = 40000;
    server.port = 80;
    assert_int_equal(bt_crab_hash_addr(&server), syn_six ? UINT64_C(0x3e09d3236851309e) : UINT64_C(0x0a010203));
    assert_int_equal(bt_crab_hash_flow(&client, &server),
                     syn_six ? UINT64_C(0x43382c90e218f5c2) : UINT64_C(0xa945edb6a0833b42));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c26_c43_only_servers_that_are_up_and_capable_are_chosen),
        cmocka_unit_test(c60_round_robin_takes_turns_also_across_balancers),
        cmocka_unit_test(c62_weights_are_kept_in_every_stretch),
        cmocka_unit_test(c60_round_robin_of_equal_weights_is_strict),
        cmocka_unit_test(c60_random_is_even),
        cmocka_unit_test(c60_hash_sends_the_same_connection_to_the_same_server),
        cmocka_unit_test(c62_least_follows_reports_and_what_it_chose_since),
        cmocka_unit_test(c62_a_server_of_weight_3_may_have_three_times_as_many),
        cmocka_unit_test(c62_old_reports_are_not_believed),
        cmocka_unit_test(c62_who_said_nothing_is_not_preferred),
        cmocka_unit_test(c63_a_new_pool_knows_what_the_old_one_was_told),
        cmocka_unit_test(c63_a_pool_of_4096),
        cmocka_unit_test(c41_every_balancer_hashes_alike),
    };
    int four = cmocka_run_group_tests_name("IPv4", tests, syn_four_group, NULL);
    return four + cmocka_run_group_tests_name("IPv6", tests, syn_six_group, NULL);
}
