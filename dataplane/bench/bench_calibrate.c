// SPDX-License-Identifier: Apache-2.0
// How long a cache line takes from one processor to another and back: two threads on the first two processors pass a
// counter to and fro. A virtual machine's processors lie now on one core of the host, now on two, and whatever two
// threads do together runs at one of two speeds; benchmarks print this figure beside theirs.
//   bench_calibrate [MILLISECONDS]      prints one JSON object: median round trip in ns over windows of 1,000
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 1000, WINDOWS_MAX = 100000 };

static _Alignas(64) _Atomic uint64_t ball;
static _Alignas(64) atomic_bool over;

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void stay_on(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Waits for the ball to be `value`; gives the processor away now and then, in case the other thread has none.
static bool await(uint64_t value)
{
    for (unsigned turn = 1; atomic_load_explicit(&ball, memory_order_acquire) != value; turn++) {
        if (turn % 4096 == 0) {
            sched_yield();
        }
        if (atomic_load_explicit(&over, memory_order_relaxed)) {
            return false;
        }
    }
    return true;
}

static void *play_back(void *arg)
{
    (void)arg;
    stay_on(1);
    for (uint64_t i = 1; await(i); i += 2) {
        atomic_store_explicit(&ball, i + 1, memory_order_release);
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double window[WINDOWS_MAX];
    uint64_t ms = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    pthread_t other;
    unsigned n = 0;
    if (ms < 1 || sysconf(_SC_NPROCESSORS_ONLN) < 2 || pthread_create(&other, NULL, play_back, NULL) != 0) {
        fprintf(stderr, "bench_calibrate: needs two processors and a time in ms\n");
        return 2;
    }
    stay_on(0);
    uint64_t i = 0, start = nanoseconds(), end = start + ms * 1000000;
    while (start < end && n < WINDOWS_MAX) {
        for (unsigned k = 0; k < WINDOW; k++, i += 2) {
            atomic_store_explicit(&ball, i + 1, memory_order_release);
            await(i + 2);
        }
        uint64_t now = nanoseconds();
        window[n++] = (double)(now - start) / WINDOW;
        start = now;
    }
    atomic_store(&over, true);
    pthread_join(other, NULL);
    qsort(window, n, sizeof window[0], ascending);
    printf("{\"roundTripNanoseconds\": %.1f, \"fastest\": %.1f, \"slowest\": %.1f}\n", window[n / 2], window[0],
           window[n - 1]);
    return 0;
}
