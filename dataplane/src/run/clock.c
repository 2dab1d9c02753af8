// SPDX-License-Identifier: Apache-2.0
// Clocks of the runtime.
#include <time.h>

#include "run/run_internal.h"

#define MEASURED_NS UINT64_C(300000)

enum { TRIES = 8 };

uint64_t run_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct moment {
    uint64_t ns, ticks, width;
};

/* Both clocks at once: of several tries the one in which least came between them. */
static struct moment both(void)
{
    struct moment best = {.width = UINT64_MAX};
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = run_ticks(), ns = run_clock_ns(), width = run_ticks() - before;
        if (width < best.width) {
            best = (struct moment){ns, before + width / 2, width};
        }
    }
    return best;
}

double run_measure_ticks(void)
{
    struct moment a = both(), b;
    do {
        b = both();
    } while (b.ns - a.ns < MEASURED_NS);
    return (double)(b.ns - a.ns) / (double)(b.ticks > a.ticks ? b.ticks - a.ticks : 1);
}
