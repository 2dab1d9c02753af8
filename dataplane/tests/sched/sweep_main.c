// SPDX-License-Identifier: Apache-2.0
// The sweep of seeds alone (sim/sched_sweep.h), for planted bugs: sweep FIRST SEEDS. Ends at the first seed that
// breaks.
#include "sched_sweep.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct sim_sched_verdict v;
        sim_sched_seed(seed, &v);
        if (sim_sched_broken(&v) != 0) {
            printf("seed %lu: lost %u, doubled %u, reordered %u, together %u, astray %u, unmoved %u\n",
                   (unsigned long)seed, v.lost, v.doubled, v.reordered, v.together, v.astray, v.unmoved);
            return 1;
        }
    }
    printf("%lu seeds, 0 failed\n", (unsigned long)seeds);
    return 0;
}
