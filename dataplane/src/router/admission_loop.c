// SPDX-License-Identifier: Apache-2.0
// The control loop off the data path (sven.md §3): windows of samples, and what to do when there are few of them or the
// loop itself stalls.
#include "router/admission.h"

#include <string.h>

#define LONGEST_NS UINT64_C(1000000000) /* a window is extended so far */

/* As published (Listing 11.1); ours looks more often: behind a central queue near its capacity 5 ms move the percentile
 * by a third of an objective of 300 us. */
static const uint64_t period_ns[BT_CONTROLLERS] = {[BT_CONTROL_TRACK] = 1000000, [BT_CONTROL_AIAD] = 20000000};

/* Where samples are few there is nothing to be early for, and an idle router may sleep. */
#define PATIENT_NS UINT64_C(5000000)

static void begin_window(struct bt_admission *a, uint64_t now)
{
    a->began = now;
    a->completed = 0;
    bt_hist_clear(&a->window);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        a->arrived_before[c] = atomic_load_explicit(&a->arrived[c], memory_order_relaxed);
        a->refused_before[c] = atomic_load_explicit(&a->refused[c], memory_order_relaxed);
    }
}

/* Samples within the objective. A bucket that the objective cuts counts with it: it is less than 1 % wide. */
static uint64_t samples_within(const struct bt_admission *a)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i <= bt_hist_index(a->config.slo_ns); i++) {
        n += a->window.bucket[i];
    }
    return n;
}

static void sum_up(const struct bt_admission *a, uint64_t now, struct bt_admission_report *out)
{
    memset(out, 0, sizeof *out);
    out->span_ns = now - a->began;
    uint64_t refused = 0;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        out->arrived[c] = atomic_load_explicit(&a->arrived[c], memory_order_relaxed) - a->arrived_before[c];
        out->refused[c] = atomic_load_explicit(&a->refused[c], memory_order_relaxed) - a->refused_before[c];
        out->arrivals += out->arrived[c];
        refused += out->refused[c];
    }
    /* The request side counts on meanwhile: a refusal may be seen before its request. */
    refused = a->config.mode != BT_ADMISSION_REJECT ? 0 : refused < out->arrivals ? refused : out->arrivals;
    out->admitted = out->arrivals - refused;
    out->completed = a->completed;
    out->samples = a->window.total;
    out->within = samples_within(a);
    out->percentile_ns = bt_hist_percentile(&a->window, a->config.per_100k);
    out->enough = 1000000u / (100000u - a->config.per_100k); /* ten beyond the percentile */
}

/* The request side has frozen what it does, then let go (bt_admission_level);
 * start again from there, and from a new window. */
static bool recover(struct bt_admission *a, uint64_t now)
{
    uint64_t at = atomic_load_explicit(&a->steered_at, memory_order_relaxed);
    if (now - at <= BT_ADMISSION_STALLED_NS || a->began == UINT64_MAX) {
        return false;
    }
    uint32_t level = bt_admission_level(a, now);
    if (level != atomic_load_explicit(&a->level, memory_order_relaxed)) {
        a->state.admit = level == 0 ? 1 : a->state.admit;
    }
    atomic_store_explicit(&a->level, level, memory_order_relaxed);
    a->stalls++;
    return true;
}

static void steer(struct bt_admission *a, const struct bt_admission_report *report)
{
    uint32_t level = atomic_load_explicit(&a->level, memory_order_relaxed);
    level = a->config.controller == BT_CONTROL_AIAD ? bt_control_aiad(a, report, level)
                                                    : bt_control_track(a, report, level);
    atomic_store_explicit(&a->level, level < a->top ? level : a->top, memory_order_relaxed);
    a->decisions++;
}

/* too few samples extend the window and nothing is done; but not for ever, or a service whose requests are
 * nearly all refused would never get the samples that raise its share again. */
static bool window_open(const struct bt_admission *a, const struct bt_admission_report *report, uint64_t now)
{
    return report->samples < report->enough && now - a->began < LONGEST_NS;
}

void bt_admission_tick(struct bt_admission *a, uint64_t now)
{
    if (!bt_admission_on(a) || now < a->next) {
        return;
    }
    bool stalled = recover(a, now);
    atomic_store_explicit(&a->steered_at, now, memory_order_relaxed);
    a->next = now + period_ns[a->config.controller];
    if (stalled || a->began == UINT64_MAX) {
        begin_window(a, now);
        return;
    }
    struct bt_admission_report report;
    sum_up(a, now, &report);
    if (window_open(a, &report, now)) {
        a->next = a->next > now + PATIENT_NS ? a->next : now + PATIENT_NS;
        a->extensions++;
        return;
    }
    steer(a, &report);
    begin_window(a, now);
}

uint64_t bt_admission_next(const struct bt_admission *a)
{
    return bt_admission_on(a) ? a->next : UINT64_MAX;
}
