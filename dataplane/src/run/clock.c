// SPDX-License-Identifier: Apache-2.0
// Clocks of the runtime.
#include <time.h>

#include "run/run_internal.h"

#define MEASURED_NS UINT64_C(300000)

uint64_t run_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double run_measure_ticks(void)
{
    uint64_t began = run_clock_ns(), ticks = run_ticks(), now;
    do {
        now = run_clock_ns();
    } while (now - began < MEASURED_NS);
    uint64_t passed = run_ticks() - ticks;
    return (double)(now - began) / (double)(passed != 0 ? passed : 1);
}
