// SPDX-License-Identifier: Apache-2.0
// SLO-aware admission (spec/sven.md): which requests to refuse, or to mark, so that a percentile of the latency stays
// at an objective. Pure, and independent of the router: it is told of arrivals, completions and the time, and answers
// yes or no. The request side owns what bt_admission_refuse writes, the FEEDBACK side everything else; between them
// stand the counters of arrivals and one word, the level, which says what share of each class is refused.
#ifndef BOBTAIL_ROUTER_ADMISSION_H
#define BOBTAIL_ROUTER_ADMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/rng.h"
#include "router/admission_config.h"

/* The level: shares of the droppable classes, added up in the order of refusal, in units of 2^-28. A class is refused
 * at most 99 %, so that it stays measured, then the next one is touched. */
#define BT_ADMISSION_ONE  (UINT32_C(1) << 28)
#define BT_ADMISSION_MOST (BT_ADMISSION_ONE / 100u * 99u)

#define BT_ADMISSION_STALLED_NS UINT64_C(200000000) /* nobody looked for ten periods as published */

/* What a control period saw: differences of counters. */
struct bt_admission_report {
    uint64_t arrived[BT_ADMISSION_CLASSES], arrivals; /* requests, by class and together */
    uint64_t refused[BT_ADMISSION_CLASSES];           /* of them, refused or marked */
    uint64_t admitted;                                /* of them, not refused; marked ones are admitted */
    uint64_t completed;                               /* served, dropped, or unknown what became of it */
    uint64_t samples, within;                         /* measured or overdue; of them, within the objective */
    uint64_t percentile_ns;                           /* of the samples; BT_HIST_INF: an overdue one; 0: none */
    uint64_t enough;                                  /* samples that allow to speak of the percentile */
    uint64_t span_ns;                                 /* its length */
};

/* Counts since the start, by class. */
struct bt_admission_class_stats {
    uint64_t arrived, refused; /* refused: in mode Degrade, marked */
    uint64_t within, exceeded; /* completions by the objective; overdue ones exceed it */
    uint32_t share;            /* refused now, in units of 2^-28 */
};

/* What the controllers keep. */
struct bt_admission_state {
    double admit;       /* track: share of all arrivals to admit, 0.01…1 */
    double debt;        /* track: requests beyond the budget, by which the target is lowered: |log| */
    double share;       /* aiad: smoothed share of samples within the objective; < 0: none yet */
    uint64_t strain_ns; /* track: how long refusing all it may refuse has not been enough */
};

struct bt_admission {
    struct bt_admission_config config;
    uint32_t offset[BT_ADMISSION_CLASSES]; /* level at which refusing a class begins; UINT32_MAX: never */
    uint32_t top;                          /* level at which every droppable class is refused 99 % */

    /* published by the FEEDBACK side */
    _Atomic uint32_t level;
    _Atomic uint64_t steered_at; /* when the loop last looked */
    _Atomic bool keeps_busy;     /* requests that find an idle worker are spared */

    /* request side */
    struct bt_rng rng;
    _Atomic uint64_t arrived[BT_ADMISSION_CLASSES], refused[BT_ADMISSION_CLASSES];

    /* FEEDBACK side */
    uint64_t next, began; /* next look; begin of the window */
    struct bt_admission_state state;
    struct bt_hist window; /* samples since began; inf: overdue */
    uint64_t completed;    /* in the window */
    uint64_t arrived_before[BT_ADMISSION_CLASSES], refused_before[BT_ADMISSION_CLASSES];
    uint64_t within[BT_ADMISSION_CLASSES], exceeded[BT_ADMISSION_CLASSES];
    uint64_t unknown, dropped, decisions, extensions, stalls;
    struct bt_hist *by_class; /* [CLASSES + 1] since the start, the last one of marked requests; or NULL */
};

/* Seeds the dice and switches off. by_class: memory for CLASSES + 1 zeroed histograms, or NULL to do without. */
void bt_admission_init(struct bt_admission *a, uint64_t seed, struct bt_hist *by_class);

/* NULL, or why a configuration cannot be; *field: which of mode, controller, slo_ns, per_100k (0…3). */
const char *bt_admission_judge(const struct bt_admission_config *config, unsigned *field);

/* Puts a judged configuration in force. What was learned survives unless mode, controller, objective, percentile or
 * the droppable classes changed. */
void bt_admission_apply(struct bt_admission *a, const struct bt_admission_config *config, uint64_t now);

static inline bool bt_admission_on(const struct bt_admission *a)
{
    return a->config.mode != BT_ADMISSION_OBSERVE;
}

/* in mode Degrade nobody goes away, and whoever comes next waits for whom an idle worker was left to. */
static inline bool bt_admission_may_spare(const struct bt_admission *a)
{
    return a->config.mode == BT_ADMISSION_REJECT && a->config.controller == BT_CONTROL_TRACK;
}

/* R-260, request side: whoever finds an idle worker is to be spared. */
static inline bool bt_admission_keeps_busy(const struct bt_admission *a)
{
    return atomic_load_explicit(&a->keeps_busy, memory_order_relaxed);
}

/* R-205, request side: a request of the class arrived; true: refuse or mark it. spared: this one must not be (R-58,
 * */
bool bt_admission_refuse(struct bt_admission *a, uint64_t now, unsigned class, bool spared);

/* Share of the class refused at a level, in units of 2^-28. */
uint32_t bt_admission_share(const struct bt_admission *a, uint32_t level, unsigned class);

/* The level in force at now: as published, or less when the loop has stalled. */
uint32_t bt_admission_level(const struct bt_admission *a, uint64_t now);

/* FEEDBACK side. A request was served in so long; dropped by its worker (no sample, R-211); did not come back within
 * T_max and its worker has not finished it; cannot be told, because its FEEDBACK was lost, its pair was used
 * again, or it was never watched: no sample either. */
void bt_admission_served(struct bt_admission *a, unsigned class, bool marked, uint64_t latency_ns);
void bt_admission_dropped(struct bt_admission *a);
void bt_admission_unknown(struct bt_admission *a);
void bt_admission_overdue(struct bt_admission *a, unsigned class, bool marked);

/* T_max: how long a request may be on its way before it is overdue. */
static inline uint64_t bt_admission_patience(const struct bt_admission *a)
{
    return 10u * a->config.slo_ns;
}

/* Runs the loop when it is due; bt_admission_next says when that is (UINT64_MAX: never). */
void bt_admission_tick(struct bt_admission *a, uint64_t now);
uint64_t bt_admission_next(const struct bt_admission *a);

void bt_admission_class_stats(const struct bt_admission *a, uint64_t now, unsigned class,
                              struct bt_admission_class_stats *out);

/* --- controllers, one file each: the new level ------------------------------------------------------------------ */

uint32_t bt_control_aiad(struct bt_admission *a, const struct bt_admission_report *report, uint32_t level);
uint32_t bt_control_track(struct bt_admission *a, const struct bt_admission_report *report, uint32_t level);

/* Level that refuses `wanted` requests of those in the report, lowest classes first; *left: more than can be. */
uint32_t bt_admission_level_for(const struct bt_admission *a, const struct bt_admission_report *report, double wanted,
                                double *left);

#endif
