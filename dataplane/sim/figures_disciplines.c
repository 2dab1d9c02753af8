// SPDX-License-Identifier: Apache-2.0
// Cells of servers that are not first come first served: run without packets, compared with
// simulated tables and, where there is one, with the closed form of the mean.
#include <math.h>

#include "closed.h"
#include "figures.h"
#include "policy_model.h"

/* 0: there is no closed form. */
static double mean_in_closed_form(const struct sim_policy_model *m, const char **what)
{
    double load = m->load, c2 = sim_dist_c2(&m->service), fast = sim_dist_short_work(&m->service);
    switch (m->kind) {
    case SIM_POLICY_DIRECT_PS:
        *what = "mean M/G/1/PS";
        return sim_mg1ps_mean(load, 1);
    case SIM_POLICY_PS: /* insensitive: that of exponential service, for which every fair order has the same */
        *what = "mean M/M/n";
        return 1 + sim_mmn_wait((int)m->workers, load);
    case SIM_POLICY_SJF:
        *what = "mean M/G/1/SJF";
        if (m->workers > 1) {
            return 0;
        }
        return m->service.kind == SIM_DIST_EXPONENTIAL ? 1 + sim_mm1_sjf_wait(load)
               : fast > 0 ? 1 + sim_mg1_priority_wait(load, c2, load * fast, sim_dist_short_share(&m->service))
                          : 0;
    default:
        return 0;
    }
}

void sim_cell_discipline(const struct sim_cell *c, uint64_t seed, struct sim_cell_outcome *o)
{
    struct sim_policy_model m;
    struct sim_policy_result r;
    const char *what = "";
    sim_policy_defaults(&m);
    m.kind = (enum sim_policy_kind)(SIM_POLICY_SJF + c->discipline);
    m.workers = c->workers;
    m.service = (struct sim_dist){(enum sim_dist_kind)c->dist, 1e6, 0};
    m.load = c->load;
    m.requests = c->requests;
    m.seed = seed;
    const char *why = sim_policy_refuse(&m);
    if (why != NULL) {
        sim_cell_compare(o, why, NAN, 0, 0);
        return;
    }
    sim_policy_run(&m, &r);
    o->mean = r.mean_ns / m.service.mean_ns;
    o->p99 = r.p99_ns / m.service.mean_ns;
    if (c->p99 > 0) {
        sim_cell_compare(o, "p99 table", o->p99, c->p99, c->tolerance);
    }
    double mean = mean_in_closed_form(&m, &what);
    if (mean > 0 && m.service.kind != SIM_DIST_BIMODAL2) { /* its mean needs more requests than any run has */
        sim_cell_compare(o, what, o->mean, mean, sim_mean_tolerance(m.load));
    }
}
