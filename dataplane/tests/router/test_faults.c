// SPDX-License-Identifier: Apache-2.0
// Random stories for the fuzz target's router: configurations, requests, honest, late, forged and malformed FEEDBACK,
// time. The invariants stand in fuzz/fuzz_router.c, which aborts on a breach; BT_SEED=n starts at another seed.
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

#define STORIES SEEDS(3000)
#define BYTES   2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void r54_r101_r105_r108_hold_in_random_stories(void **state)
{
    (void)state;
    const char *text = getenv("BT_SEED");
    uint64_t first = text != NULL ? strtoull(text, NULL, 10) : 1;
    print_message("seeds %llu..+%d\n", (unsigned long long)first, STORIES - 1);
    for (uint64_t seed = first; seed < first + STORIES; seed++) {
        uint8_t story[BYTES];
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        for (size_t i = 0; i < sizeof story; i++) {
            story[i] = (uint8_t)bt_rng_next(&rng);
        }
        story[0] = (uint8_t)(bt_rng_below(&rng, 5) << 5 | (story[0] & 31u)); /* a policy that exists */
        fflush(stdout);
        LLVMFuzzerTestOneInput(story, sizeof story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(r54_r101_r105_r108_hold_in_random_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
