// SPDX-License-Identifier: Apache-2.0
// Random stories for the fuzz target's router, on one thread and on two: configurations, requests, honest, late, forged
// and malformed FEEDBACK, time. The invariants stand in fuzz/router_check.c and router_halves.c, which abort on a
// breach; BT_SEED=n starts at another seed.
#include "stories.h"

static uint8_t one_thread(uint64_t seed, struct bt_rng *rng, uint8_t drawn)
{
    (void)seed;
    (void)rng;
    return drawn & 0xfeu;
}

/* With queues between them of any length. */
static uint8_t two_threads(uint64_t seed, struct bt_rng *rng, uint8_t drawn)
{
    (void)seed;
    (void)rng;
    return drawn | 1u;
}

static void r54_r101_r105_r108_hold_in_random_stories(void **state)
{
    (void)state;
    play_stories(SEEDS(3000), one_thread);
}

static void r54_r101_r105_r118_r119_hold_on_two_threads(void **state)
{
    (void)state;
    play_stories(SEEDS(2000), two_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(r54_r101_r105_r108_hold_in_random_stories),
                                       cmocka_unit_test(r54_r101_r105_r118_r119_hold_on_two_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
