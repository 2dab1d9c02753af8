// SPDX-License-Identifier: Apache-2.0
// Policies against naive ones that scan: same choices, whatever happens to the queues.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router/policy.h"
#include "unit.h"

#define STEPS 20000

struct naive {
    uint32_t outstanding[1024], n[1024];
    uint32_t k;
};

struct pair_of {
    struct bt_load load;
    struct naive naive;
};

static void open_pair(struct pair_of *p, uint32_t k, bool bounded, uint64_t seed)
{
    memset(&p->naive, 0, sizeof p->naive);
    p->naive.k = k;
    bt_load_init(&p->load, seed);
    bt_load_bound(&p->load, bounded);
}

static void set_both(struct pair_of *p, uint32_t w, uint32_t outstanding, uint32_t n)
{
    p->naive.outstanding[w] = outstanding;
    p->naive.n[w] = n;
    bt_load_set(&p->load, w, outstanding, n);
}

/* Changes the policy's kind as the router does: then every worker is set again. */
static void bind_both(struct pair_of *p, bool bounded)
{
    bt_load_bound(&p->load, bounded);
    for (uint32_t w = 0; w < p->naive.k; w++) {
        set_both(p, w, p->naive.outstanding[w], p->naive.n[w]);
    }
}

static uint32_t naive_span(const struct naive *s)
{
    uint32_t span = 0;
    for (uint32_t w = 0; w < s->k; w++) {
        span = s->n[w] > 0 ? w + 1u : span;
    }
    return span;
}

/* Place of i among n on a circle of 256, from a start that turns. */
static uint32_t naive_tie(uint32_t i, uint32_t n, uint32_t turn)
{
    return (turn - 256u * i / n) % 256u;
}

/* The definition: the least loaded one. Ties: up to 16 workers stand on one circle; of more, first the
 * row of 64 with such a worker that comes first, then the group of 8 within the row, then the worker within the group;
 * each has its own byte of the turn. */
static uint32_t naive_rank(uint32_t w, uint32_t span, uint32_t turn)
{
    if (span <= 16u) {
        return naive_tie(w, span, turn);
    }
    uint32_t row = w / 64u * 64u, group = w / 8u * 8u;
    uint32_t in_row = span - row < 64u ? span - row : 64u, in_group = span - group < 8u ? span - group : 8u;
    return naive_tie(row, span, turn) << 16 | naive_tie(group - row, in_row, turn >> 8) << 8 |
           naive_tie(w - group, in_group, turn >> 16);
}

static uint32_t naive_least(const struct naive *s, bool bounded, uint32_t span, uint32_t turn)
{
    uint32_t best = BT_NO_WORKER, best_rank = UINT32_MAX, least = UINT32_MAX;
    for (uint32_t w = 0; w < s->k; w++) {
        if (s->n[w] == 0 || (bounded && s->outstanding[w] >= s->n[w])) {
            continue;
        }
        uint32_t rank = naive_rank(w, span, turn);
        if (s->outstanding[w] < least || (s->outstanding[w] == least && rank < best_rank)) {
            least = s->outstanding[w];
            best_rank = rank;
            best = w;
        }
    }
    return best;
}

static void check_choice(struct pair_of *p, bool bounded, uint64_t seed, int step)
{
    uint32_t span = naive_span(&p->naive);
    uint32_t wanted = naive_least(&p->naive, bounded, span, p->load.turn + BT_LOAD_TURN);
    uint32_t got = bounded ? bt_pick_jbsq(&p->load) : bt_pick_jsq(&p->load);
    if (got != wanted) {
        fail_msg("seed %llu step %d: chose %u, wanted %u", (unsigned long long)seed, step, got, wanted);
    }
    if (got != BT_NO_WORKER) {
        bt_load_push(&p->load, got);
        p->naive.outstanding[got]++;
        if (bt_load_outstanding(&p->load, got) != p->naive.outstanding[got]) {
            fail_msg("seed %llu step %d: worker %u has %u, wanted %u", (unsigned long long)seed, step, got,
                     bt_load_outstanding(&p->load, got), p->naive.outstanding[got]);
        }
    }
}

static void random_change(struct pair_of *p, struct bt_rng *rng, uint32_t deep)
{
    uint32_t w = bt_rng_below(rng, p->naive.k);
    uint32_t outstanding = p->naive.outstanding[w], n = p->naive.n[w];
    switch (bt_rng_below(rng, 12)) {
    case 0:
        n = bt_rng_below(rng, 3) == 0 ? 0 : 1u + bt_rng_below(rng, 64);
        break;
    case 1:
        outstanding = bt_rng_below(rng, deep);
        break;
    default:
        outstanding -= outstanding > 0 ? 1u : 0u;
        p->naive.outstanding[w] = outstanding;
        bt_load_move(&p->load, w, outstanding); /* as a FEEDBACK does */
        return;
    }
    set_both(p, w, outstanding, n);
}

static void differential(uint32_t k, bool bounded, uint32_t deep, uint64_t seed)
{
    struct pair_of *p = malloc(sizeof *p);
    assert_non_null(p);
    struct bt_rng rng;
    bt_rng_seed(&rng, seed);
    open_pair(p, k, bounded, seed);
    for (uint32_t w = 0; w < k; w++) {
        set_both(p, w, bt_rng_below(&rng, deep), 1u + bt_rng_below(&rng, 8));
    }
    int steps = k > 100 ? STEPS / 4 : STEPS;
    for (int step = 0; step < steps; step++) {
        if (bt_rng_below(&rng, 100) < 55) {
            check_choice(p, bounded, seed, step);
        } else {
            random_change(p, &rng, deep);
        }
    }
    free(p);
}

/* the policy changes now and then, far from and near to the bounds of the window. */
static void switching(uint32_t k, uint64_t seed)
{
    struct pair_of *p = malloc(sizeof *p);
    assert_non_null(p);
    struct bt_rng rng;
    bt_rng_seed(&rng, seed);
    open_pair(p, k, true, seed);
    for (uint32_t w = 0; w < k; w++) {
        set_both(p, w, bt_rng_below(&rng, 200), 1u + bt_rng_below(&rng, 64));
    }
    bool bounded = true;
    for (int step = 0; step < STEPS / 4; step++) {
        if (bt_rng_below(&rng, 50) == 0) {
            bounded = !bounded;
            bind_both(p, bounded);
        } else if (bt_rng_below(&rng, 100) < 55) {
            check_choice(p, bounded, seed, step);
        } else {
            random_change(p, &rng, 200);
        }
    }
    free(p);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("BT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void r102_jbsq_equals_a_scan_of_all_workers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 16, 63, 64, 65, 300, 1024};
    for (uint64_t s = first_seed(); s < first_seed() + 4; s++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            differential(sizes[i], true, 70, s * 100 + i);
        }
    }
    print_message("seeds %llu..+3\n", (unsigned long long)first_seed());
}

static void q30_jsq_equals_a_scan_of_all_workers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 16, 64, 65, 1024};
    static const uint32_t depths[] = {3, 70, 1000, 100000};
    for (uint64_t s = first_seed(); s < first_seed() + 2; s++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
                differential(sizes[i], false, depths[d], s * 1000 + i * 10 + d);
            }
        }
    }
    print_message("seeds %llu..+1\n", (unsigned long long)first_seed());
}

static void r107_policy_changes_keep_the_index_right(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 16, 65, 300};
    for (uint64_t s = first_seed(); s < first_seed() + 4; s++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            switching(sizes[i], s * 100 + i);
        }
    }
}

/* Queues that only grow, as when nobody answers: the window must follow. */
static void q30_jsq_window_follows_growing_queues(void **state)
{
    (void)state;
    struct pair_of p;
    open_pair(&p, 16, false, 3);
    for (uint32_t w = 0; w < 16; w++) {
        set_both(&p, w, 0, 1);
    }
    for (int step = 0; step < 16 * 5000; step++) {
        check_choice(&p, false, 3, step);
    }
    for (uint32_t w = 0; w < 16; w++) {
        assert_int_equal(p.naive.outstanding[w], 5000);
    }
    while (p.naive.outstanding[5] > 0) { /* and one falling far below the others */
        set_both(&p, 5, p.naive.outstanding[5] - 1u, 1);
    }
    for (int step = 0; step < 5000; step++) {
        assert_int_equal(bt_pick_jsq(&p.load), 5);
        set_both(&p, 5, p.naive.outstanding[5] + 1u, 1);
    }
}

static void r103_ties_are_spread_over_all_workers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {3, 16, 100};
    for (size_t i = 0; i < 3; i++) {
        struct pair_of p;
        uint32_t k = sizes[i], hits[100] = {0};
        open_pair(&p, k, true, 11);
        for (uint32_t w = 0; w < k; w++) {
            set_both(&p, w, 0, 4);
        }
        for (uint32_t step = 0; step < k * 1000; step++) {
            hits[bt_pick_jbsq(&p.load)]++;
        }
        for (uint32_t w = 0; w < k; w++) {
            assert_in_range(hits[w], 950, 1050); /* places on a circle of 256 */
        }
    }
}

static void r115_lower_n_waits_until_below_it(void **state)
{
    (void)state;
    struct pair_of p;
    open_pair(&p, 1, true, 1);
    set_both(&p, 0, 5, 8);
    assert_int_equal(bt_pick_jbsq(&p.load), 0);
    set_both(&p, 0, 5, 3);
    assert_int_equal(bt_pick_jbsq(&p.load), BT_NO_WORKER);
    set_both(&p, 0, 3, 3);
    assert_int_equal(bt_pick_jbsq(&p.load), BT_NO_WORKER);
    set_both(&p, 0, 2, 3);
    assert_int_equal(bt_pick_jbsq(&p.load), 0);
}

/* both candidates differ, every ordered pair is equally likely, the shorter wins, the first on a tie. */
static void q31_power_of_two_draws_two_distinct_workers(void **state)
{
    (void)state;
    const uint32_t draws = 60000;
    for (uint32_t order = 0; order < 2; order++) { /* the place of a worker in the table must not matter */
        struct pair_of p;
        open_pair(&p, 8, false, 5);
        for (uint32_t w = 0; w < 4; w++) {
            set_both(&p, w * 2, order == 0 ? w : 3 - w, 1); /* up: 0, 2, 4, 6 with queues 0..3 */
        }
        uint32_t hits[4] = {0};
        for (uint32_t i = 0; i < draws; i++) {
            uint32_t w = bt_pick_power_of_two(&p.load);
            assert_int_equal(w % 2, 0);
            hits[p.naive.outstanding[w]]++;
        }
        /* Of the six unordered pairs, queue j wins 3 − j. The longest could win only against itself: never. */
        assert_in_range(hits[0], draws / 2 - 700, draws / 2 + 700);
        assert_in_range(hits[1], draws / 3 - 700, draws / 3 + 700);
        assert_in_range(hits[2], draws / 6 - 700, draws / 6 + 700);
        assert_int_equal(hits[3], 0);
    }
}

static void random_is_uniform_over_the_workers_that_are_up(void **state)
{
    (void)state;
    struct pair_of p;
    open_pair(&p, 300, false, 9);
    for (uint32_t w = 0; w < 300; w++) {
        set_both(&p, w, 3, 1);
    }
    for (uint32_t w = 0; w < 300; w++) {
        set_both(&p, w, 3, w % 60 == 7 ? 1 : 0); /* five stay */
    }
    uint32_t hits[300] = {0};
    for (uint32_t i = 0; i < 50000; i++) {
        hits[bt_pick_random(&p.load)]++;
    }
    for (uint32_t w = 7; w < 300; w += 60) {
        assert_in_range(hits[w], 9600, 10400);
    }
}

static void round_robin_visits_every_worker_in_turn(void **state)
{
    (void)state;
    struct pair_of p;
    open_pair(&p, 130, false, 9);
    static const uint32_t up[] = {0, 1, 63, 64, 127, 128, 129};
    for (size_t i = 0; i < 7; i++) {
        set_both(&p, up[i], 100, 1);
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 7; i++) {
            assert_int_equal(bt_pick_round_robin(&p.load), up[i]);
        }
    }
    set_both(&p, 64, 100, 0);
    set_both(&p, 0, 100, 0);
    static const uint32_t left[] = {1, 63, 127, 128, 129, 1};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(bt_pick_round_robin(&p.load), left[i]);
    }
}

/* The eight-at-a-time search is the plain one. */
static void least_of_ranks_equals_the_plain_search(void **state)
{
    (void)state;
    _Alignas(16) struct bt_rank ranks[32];
    struct bt_rng rng;
    bt_rng_seed(&rng, 4);
    for (int step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < 32; i++) {
            ranks[i].major = (uint8_t)bt_rng_below(&rng, step % 2 == 0 ? 3 : 256);
            ranks[i].minor = (uint8_t)bt_rng_next(&rng);
        }
        for (uint32_t n = BT_LEAST_STEP; n <= 32; n += BT_LEAST_STEP) {
            uint32_t turn = bt_rng_below(&rng, 65536);
            assert_int_equal(bt_least16(ranks, n, turn), bt_least16_plain(ranks, n, turn));
            assert_int_equal(bt_least16_major(ranks, n), bt_least16_plain(ranks, n, turn) >> 8);
            assert_int_equal(bt_least16_place(ranks, turn, 0), bt_least16_place_plain(ranks, turn));
            assert_int_equal(bt_least16_place(ranks, turn << 8, 2), bt_least16_place_plain(ranks, turn >> 8));
        }
    }
}

/* Where there is no key counters can be forged: a queue that cannot be counted stays the longest, it does not become
 * the shortest. */
static void q30_a_queue_beyond_all_counting_stays_the_longest(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 20; k += 19) {
        struct pair_of p;
        open_pair(&p, k, false, 1);
        for (uint32_t w = 0; w < k; w++) {
            bt_load_set(&p.load, w, UINT64_MAX / 2, 1);
        }
        for (int i = 0; i < 2000; i++) {
            bt_load_push(&p.load, bt_pick_jsq(&p.load));
        }
        for (uint32_t w = 0; w < k; w++) {
            assert_true(bt_load_outstanding(&p.load, w) > UINT32_MAX - 1024u);
        }
        bt_load_move(&p.load, 0, 500);
        for (int i = 0; i < 2000; i++) {
            assert_int_equal(bt_pick_jsq(&p.load), 0);
            bt_load_push(&p.load, 0);
        }
    }
}

static void no_policy_chooses_from_an_empty_pool(void **state)
{
    (void)state;
    struct pair_of p;
    open_pair(&p, 70, true, 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BT_ROUTER_POLICIES; i++) {
            bind_both(&p, bt_balancers[i].bounded);
            assert_int_equal(bt_balancers[i].pick(&p.load), BT_NO_WORKER);
        }
        set_both(&p, 69, 1, 1); /* comes and goes */
        for (int i = 1; i < BT_ROUTER_POLICIES; i++) {
            bind_both(&p, bt_balancers[i].bounded);
            assert_int_equal(bt_balancers[i].pick(&p.load), 69);
        }
        set_both(&p, 69, 1, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r102_jbsq_equals_a_scan_of_all_workers),
        cmocka_unit_test(q30_jsq_equals_a_scan_of_all_workers),
        cmocka_unit_test(r107_policy_changes_keep_the_index_right),
        cmocka_unit_test(q30_jsq_window_follows_growing_queues),
        cmocka_unit_test(r103_ties_are_spread_over_all_workers),
        cmocka_unit_test(r115_lower_n_waits_until_below_it),
        cmocka_unit_test(q31_power_of_two_draws_two_distinct_workers),
        cmocka_unit_test(random_is_uniform_over_the_workers_that_are_up),
        cmocka_unit_test(round_robin_visits_every_worker_in_turn),
        cmocka_unit_test(least_of_ranks_equals_the_plain_search),
        cmocka_unit_test(q30_a_queue_beyond_all_counting_stays_the_longest),
        cmocka_unit_test(no_policy_chooses_from_an_empty_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
