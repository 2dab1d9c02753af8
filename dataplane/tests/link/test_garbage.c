// SPDX-License-Identifier: Apache-2.0
// Random stories for the fuzz target's port: raw, nearly right and honest frames, payloads to send, time. What must
// hold stands in fuzz/fuzz_link.c, which aborts on a breach; BT_SEED=n starts at another seed.
#include "stories.h"

/* One in eight is a secondary, two a balancer's port. */
static uint8_t how(uint64_t seed, struct bt_rng *rng, uint8_t drawn)
{
    (void)rng;
    (void)drawn;
    return seed % 8 == 0 ? 1 : seed % 4 == 1 ? 2 : 0;
}

static void e8_e14_e15_e17_e20_e21_e22_hold_in_random_stories(void **state)
{
    (void)state;
    play_stories(3000, how);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(e8_e14_e15_e17_e20_e21_e22_hold_in_random_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
