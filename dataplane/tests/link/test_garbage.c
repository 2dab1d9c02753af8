// SPDX-License-Identifier: Apache-2.0
// Random stories for the fuzz target's port: raw, nearly right and honest frames, payloads to send, time. What must
// hold stands in fuzz/fuzz_link.c, which aborts on a breach; BT_SEED=n starts at another seed.
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

#define STORIES 3000
#define BYTES   2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void e8_e14_e15_e17_e20_e21_hold_in_random_stories(void **state)
{
    (void)state;
    const char *text = getenv("BT_SEED");
    uint64_t first = text != NULL ? strtoull(text, NULL, 10) : 1;
    print_message("seeds %llu..+%d\n", (unsigned long long)first, STORIES - 1);
    for (uint64_t seed = first; seed < first + STORIES; seed++) {
        uint8_t story[BYTES];
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        for (size_t i = 0; i < sizeof story; i++)
            story[i] = (uint8_t)bt_rng_next(&rng);
        story[0] = seed % 8 == 0; // one in eight is a secondary
        fflush(stdout);
        LLVMFuzzerTestOneInput(story, sizeof story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(e8_e14_e15_e17_e20_e21_hold_in_random_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
