// SPDX-License-Identifier: Apache-2.0
// Random stories for the fuzz target's router: configurations, requests, honest, late, forged and malformed FEEDBACK,
// time. The invariants stand in fuzz/fuzz_router.c, which aborts on a breach; BT_SEED=n starts at another seed.
#include "stories.h"

/* A policy that exists. */
static uint8_t how(uint64_t seed, struct bt_rng *rng, uint8_t drawn)
{
    (void)seed;
    return (uint8_t)(bt_rng_below(rng, 5) << 5 | (drawn & 31u));
}

static void r54_r101_r105_r108_hold_in_random_stories(void **state)
{
    (void)state;
    play_stories(SEEDS(3000), how);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(r54_r101_r105_r108_hold_in_random_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
