// SPDX-License-Identifier: Apache-2.0
// See forward.h. The time in which nobody but the subject does anything is its own. What it costs to fetch the packets
// from the generator's cache is in it when the two run apart, and is not when they run together; the table of watched
// pairs and the buffers are as warm as a thousand requests in flight leave them.
#include <rte_cycles.h>
#include <rte_pause.h>
#include <stdlib.h>

#include "forward.h"

enum { WARM_UP = 200 };

static void empty_transport(struct forward_subject *s)
{
    uint64_t since = rte_rdtsc();
    while (forward_subject_turn(s)) {
    }
    s->lockstep->spent = rte_rdtsc() - since;
}

void forward_lockstep_subject(struct forward_subject *s)
{
    if (atomic_load_explicit(&s->lockstep->subjects, memory_order_acquire)) {
        empty_transport(s);
        atomic_store_explicit(&s->lockstep->subjects, false, memory_order_release);
    }
    rte_pause();
}

void forward_lockstep_turn(struct forward_subject *s, bool together)
{
    if (together) {
        empty_transport(s);
        return;
    }
    atomic_store_explicit(&s->lockstep->subjects, true, memory_order_release);
    while (atomic_load_explicit(&s->lockstep->subjects, memory_order_acquire)) {
        rte_pause();
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double forward_lockstep_run(struct forward_subject *s, struct forward_generator *g, unsigned rounds, bool together)
{
    double *each = calloc(rounds, sizeof *each);
    unsigned n = 0;
    for (unsigned i = 0; i < WARM_UP + rounds && each != NULL; i++) {
        uint64_t before = forward_generator_count(g);
        forward_lockstep_turn(s, together);
        while (forward_generator_turn(g) != 0) {
        }
        uint64_t came = forward_generator_count(g) - before;
        if (i >= WARM_UP && came != 0) {
            each[n++] = (double)s->lockstep->spent / (double)came;
        }
    }
    if (n != 0) {
        qsort(each, n, sizeof *each, compare);
    }
    double median = n != 0 ? each[n / 2] : 0;
    free(each);
    return median;
}
