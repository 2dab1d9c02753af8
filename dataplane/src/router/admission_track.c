// SPDX-License-Identifier: Apache-2.0
// The default controller: tracks the percentile itself, on a logarithmic scale.
//
//   admit ← admit × (completed ÷ admitted) × (1 − step(log(percentile ÷ target)))
//
// The ratio of completions to admissions is what makes it work for queues of every kind. Where requests pile up, it
// says at once what the workers can take, however far above that the load is, and it keeps a queue that merely
// integrates the excess from swinging; where they do not, it is 1. What remains is a small step towards the objective:
// faster down than up, none within the hysteresis band, and none on noise. Because a percentile of windows on target is
// not yet the percentile of all requests on target, requests beyond the budget are a debt that lowers the target until
// they are paid back (docs/decisions, "Admission control").
#include "router/admission.h"

#include <math.h>

#define TARGET       0.85 /* of the objective: the band, the noise of a window and small hiccups stay below it */
#define BAND         0.04 /* |log| without action */
#define ATTACK       0.06 /* step per unit of log while near, */
#define ATTACK_MORE  0.06 /* and per unit squared: far away it is no matter of noise */
#define ATTACK_MOST  0.30
#define RELEASE      0.03
#define ERROR_MOST   2.0
#define RATIO_LEAST  0.5
#define RATIO_MOST   1.25
#define ADMIT_LEAST  0.01
#define DEBT_GAIN    0.01 /* per budget spent in one window */
#define OVERRUN_MOST 10.0 /* budgets one window can cost: a single backlog is no reason to stay away for long */
#define EASE         0.3  /* of all requests refused: above it opening is as slow as where nobody is spared */
#define EASE_MOST    10.0
#define WEIGHTY_NS   2500000.0   /* a window so long counts in full */
#define STRAIN_NS    3000000000u /* */
#define DEBT_MOST    0.4         /* |log|: the target is at least two thirds of the first one */

static double clamp(double v, double least, double most)
{
    return v < least ? least : v > most ? most : v;
}

static double budget_of(const struct bt_admission *a)
{
    return (double)(100000u - a->config.per_100k) / 100000;
}

/* Of a window shorter than WEIGHTY_NS in what adds up over windows. The ratio needs none: it is what it is. */
static double weight_of(const struct bt_admission_report *report)
{
    return (double)report->span_ns < WEIGHTY_NS ? (double)report->span_ns / WEIGHTY_NS : 1;
}

static void settle_debt(struct bt_admission *a, const struct bt_admission_report *report)
{
    if (report->samples > 0) {
        double spent = (double)(report->samples - report->within) / (double)report->samples / budget_of(a);
        double more = DEBT_GAIN * weight_of(report) * clamp(spent - 1, -1, OVERRUN_MOST);
        a->state.debt = clamp(a->state.debt + more, 0, DEBT_MOST);
    }
}

/* log(percentile ÷ target). A lowered target keeps from opening, but nothing is refused for it: it may lie below what
 * the service itself takes. */
static double error_of(const struct bt_admission *a, const struct bt_admission_report *report)
{
    if (report->percentile_ns == BT_HIST_INF) {
        return ERROR_MOST;
    }
    double error = log((double)report->percentile_ns / (TARGET * (double)a->config.slo_ns));
    return error > 0 ? error + a->state.debt : fmin(error + a->state.debt, 0);
}

/* Few samples say too little of a percentile: they are heard when clearly too many of them exceed the
 * objective, and otherwise allow to open a little. */
static double error_of_few(const struct bt_admission *a, const struct bt_admission_report *report)
{
    double budget = (double)report->samples * budget_of(a);
    double exceeded = (double)(report->samples - report->within);
    return exceeded > budget + 3 * sqrt(budget) + 1 ? ERROR_MOST : -1;
}

static double step_of(double error)
{
    if (error > BAND) {
        error = clamp(error, 0, ERROR_MOST);
        return clamp(error * (ATTACK + ATTACK_MORE * error), 0, ATTACK_MOST);
    }
    return error < -BAND ? RELEASE * clamp(error, -1, 0) : 0;
}

static double refused_share(const struct bt_admission_report *report)
{
    return 1 - (double)report->admitted / (double)report->arrivals;
}

/* where most requests are spared, opening by one part in a hundred lets in less than one in a hundred more. */
static double eased(const struct bt_admission *a, const struct bt_admission_report *report, double step)
{
    return step < 0 && bt_admission_keeps_busy(a) ? step * clamp(EASE / fmax(refused_share(report), 1e-3), 1, EASE_MOST)
                                                  : step;
}

/* As much is refused as may be, and it is not enough. Going on from what is really admitted, with the idle
 * workers as well. */
static void settle_strain(struct bt_admission *a, const struct bt_admission_report *report, bool all)
{
    uint64_t *strain = &a->state.strain_ns;
    if (all && report->percentile_ns > a->config.slo_ns) {
        *strain += report->span_ns;
    } else {
        *strain -= *strain < report->span_ns ? *strain : report->span_ns;
    }
    if (*strain > STRAIN_NS && bt_admission_keeps_busy(a)) {
        atomic_store_explicit(&a->keeps_busy, false, memory_order_relaxed);
        a->state.admit = 1 - refused_share(report);
    }
}

uint32_t bt_control_track(struct bt_admission *a, const struct bt_admission_report *report, uint32_t level)
{
    if (report->arrivals == 0) {
        return level;
    }
    settle_debt(a, report);
    double error = report->samples >= report->enough ? error_of(a, report) : error_of_few(a, report);
    if (level == 0 && error <= BAND) {
        a->state.admit = 1;
        a->state.strain_ns = 0;
        atomic_store_explicit(&a->keeps_busy, bt_admission_may_spare(a), memory_order_relaxed);
        return 0;
    }
    double ratio = report->admitted > 0 ? (double)report->completed / (double)report->admitted : 1;
    a->state.admit *=
        clamp(ratio, RATIO_LEAST, RATIO_MOST) * (1 - weight_of(report) * eased(a, report, step_of(error)));
    a->state.admit = clamp(a->state.admit, ADMIT_LEAST, 1);
    double left, arrivals = (double)report->arrivals;
    uint32_t next = bt_admission_level_for(a, report, (1 - a->state.admit) * arrivals, &left);
    settle_strain(a, report, left > 0 || a->state.admit <= ADMIT_LEAST);
    a->state.admit += left / arrivals; /* more cannot be refused: do not wind up */
    return next;
}
