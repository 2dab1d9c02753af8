// SPDX-License-Identifier: Apache-2.0
// See fanout_cells.h. The run that decides and the run that judges the decision share no random number.
#include "fanout_cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "parallel.h"

#define HARM         1.05 /* of PSQ, at p50 or p99 */
#define MEDIAN_MOST  1.02 /* the gate leaves room for what a run of the model cannot know, */
#define TAIL_MOST    0.90 /* and a hedged request for everything must be worth its price */
#define BUSY_MOST    0.98
#define OTHER_SEED   1000003
#define POLICY(i)    (1u << (i))
#define VARIANTS_SET (POLICY(SIM_FANOUT_LAEDGE) | POLICY(SIM_FANOUT_LAEDGE_CC) | POLICY(SIM_FANOUT_LAEDGE_CC_PC))

const char *sim_fanout_verdict_name(enum sim_fanout_verdict verdict)
{
    static const char *const names[SIM_FANOUT_VERDICTS] = {"Pays", "Overloaded", "MedianWouldRise", "TailTooLittle"};
    return verdict < SIM_FANOUT_VERDICTS ? names[verdict] : "?";
}

enum sim_fanout_verdict sim_fanout_gate(const struct sim_fanout_point *psq, const struct sim_fanout_point *hedged)
{
    if (psq->busy > BUSY_MOST) {
        return SIM_FANOUT_OVERLOADED;
    }
    if (hedged->p50 > MEDIAN_MOST * psq->p50) {
        return SIM_FANOUT_MEDIAN;
    }
    return hedged->p99 > TAIL_MOST * psq->p99 ? SIM_FANOUT_TAIL : SIM_FANOUT_PAYS;
}

int sim_fanout_harms(const struct sim_fanout_point *psq, const struct sim_fanout_point *hedged)
{
    return hedged->p50 > HARM * psq->p50 || hedged->p99 > HARM * psq->p99;
}

uint32_t sim_fanout_cells_lay(struct sim_fanout_cell *cells, uint32_t probabilities)
{
    for (uint32_t i = 0; i < probabilities; i++) {
        double p = pow(10, -1 - 4.0 / (probabilities - 1) * i);
        for (uint32_t j = 0; j < SIM_FANOUT_LOADS; j++) {
            cells[i * SIM_FANOUT_LOADS + j] = (struct sim_fanout_cell){.p = p, .load = 0.05 * (j + 1)};
        }
    }
    return probabilities * SIM_FANOUT_LOADS;
}

struct work {
    const struct sim_fanout_model *m;
    const struct sim_fanout_cell *cells;
};

static void run_cell(const void *ctx, uint32_t i, void *result)
{
    const struct work *w = ctx;
    struct sim_fanout_cell *cell = result;
    struct sim_fanout_model m = *w->m;
    struct sim_fanout_point foreseen[SIM_FANOUT_POLICIES];
    *cell = w->cells[i];
    m.p = cell->p;
    m.load = cell->load;
    sim_fanout_run(&m, POLICY(SIM_FANOUT_PSQ) | VARIANTS_SET | POLICY(SIM_FANOUT_IDEALIZED), cell->point);
    m.seed += OTHER_SEED;
    sim_fanout_run(&m, POLICY(SIM_FANOUT_PSQ) | VARIANTS_SET, foreseen);
    for (uint32_t v = 0; v < SIM_FANOUT_VARIANTS; v++) {
        cell->verdict[v] = (uint8_t)sim_fanout_gate(&foreseen[SIM_FANOUT_PSQ], &foreseen[SIM_FANOUT_LAEDGE + v]);
    }
}

int sim_fanout_cells_run(const struct sim_fanout_model *m, unsigned jobs, struct sim_fanout_cell *cells, uint32_t n)
{
    static struct sim_fanout_cell results[SIM_FANOUT_CELLS_MAX];
    struct work w = {m, cells};
    int crashed = sim_parallel(jobs, &(struct sim_items){.n = n, .size = sizeof *cells, .fn = run_cell, .ctx = &w},
                               results, NULL);
    if (crashed != 0) {
        fprintf(stderr, "bobtail-sim: hedge: %d cells could not be run\n", crashed);
        return -1;
    }
    memcpy(cells, results, n * sizeof *cells);
    return 0;
}

static void tally_gate(const struct sim_fanout_cell *cell, enum sim_fanout_policy policy, int harm,
                       struct sim_fanout_tally *out)
{
    if (policy < SIM_FANOUT_LAEDGE || policy >= SIM_FANOUT_LAEDGE + SIM_FANOUT_VARIANTS) {
        return;
    }
    uint8_t verdict = cell->verdict[policy - SIM_FANOUT_LAEDGE];
    out->verdict[verdict]++;
    out->on += verdict == SIM_FANOUT_PAYS;
    out->on_harm += verdict == SIM_FANOUT_PAYS && harm;
}

void sim_fanout_cells_tally(const struct sim_fanout_cell *cells, uint32_t n, enum sim_fanout_policy policy,
                            struct sim_fanout_tally *out)
{
    *out = (struct sim_fanout_tally){.p50 = 0};
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_fanout_point *psq = &cells[i].point[SIM_FANOUT_PSQ], *it = &cells[i].point[policy];
        int harm = sim_fanout_harms(psq, it);
        for (uint32_t g = 0; g < 3; g++) {
            out->gain[g] += it->p99 < (0.8 - 0.1 * g) * psq->p99;
        }
        out->p50 += it->p50 > HARM * psq->p50;
        out->p99 += it->p99 > HARM * psq->p99;
        out->harm += harm != 0;
        tally_gate(&cells[i], policy, harm, out);
    }
}
