// SPDX-License-Identifier: Apache-2.0
// Random stories for a fuzz target, one a seed: what must hold stands in the target, which aborts on a breach.
// BT_SEED=n starts at another seed.
#ifndef BT_TESTS_STORIES_H
#define BT_TESTS_STORIES_H

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// first: the story's first byte, of its seed and what was drawn for it.
static inline void play_stories(unsigned stories, uint8_t (*first)(uint64_t seed, struct bt_rng *rng, uint8_t drawn))
{
    enum { BYTES = 2048 };
    const char *text = getenv("BT_SEED");
    uint64_t from = text != NULL ? strtoull(text, NULL, 10) : 1;
    print_message("seeds %llu..+%u\n", (unsigned long long)from, stories - 1);
    for (uint64_t seed = from; seed < from + stories; seed++) {
        uint8_t story[BYTES];
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        for (size_t i = 0; i < sizeof story; i++) {
            story[i] = (uint8_t)bt_rng_next(&rng);
        }
        story[0] = first(seed, &rng, story[0]);
        fflush(stdout);
        LLVMFuzzerTestOneInput(story, sizeof story);
    }
}

#endif
