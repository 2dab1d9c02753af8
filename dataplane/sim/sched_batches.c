// SPDX-License-Identifier: Apache-2.0
// See sched_batches.h.
#include "sched_batches.h"

#include "policy_command.h"

/* Inputs. A look costs what makes batches of 16 carry 1.29 times as much of requests that take 2.88 us in all. What a
 * request costs besides is the figure's. With stealing it is what sched_efficiency_10us has, looks among it. */
#define LOOK_NS     UINT64_C(900)
#define STEALING_NS UINT64_C(3200)

static struct sim_policy_model server(const struct sim_sched_figure *f, uint32_t batch, uint64_t requests,
                                      uint64_t seed)
{
    struct sim_policy_model m;
    sim_policy_defaults(&m);
    m.kind = SIM_POLICY_RUN_TO_COMPLETION;
    m.service = (struct sim_dist){.kind = (enum sim_dist_kind)f->distribution, .mean_ns = f->mean_us * 1e3};
    m.overhead_ns = (uint64_t)(f->overhead_us * 1e3);
    m.look_ns = LOOK_NS;
    m.together = true;
    m.batch = batch;
    m.requests = requests;
    m.seed = seed;
    return m;
}

static double highest(const struct sim_policy_model *m, const struct sim_sched_figure *f)
{
    return sim_policy_highest_load(m, f->slo_us * 1e3, 99);
}

static double batches(const struct sim_sched_figure *f, uint32_t batch, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = server(f, batch, requests, seed);
    return highest(&m, f);
}

static double stealing(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = server(f, 64, requests, seed);
    m.kind = SIM_POLICY_WORK_STEALING;
    m.overhead_ns = STEALING_NS;
    m.look_ns = 0;
    m.together = false;
    m.interrupts = true;
    return highest(&m, f);
}

SIM_BATCH_FIGURE(sim_batch_gain)
{
    return batches(f, 16, requests, seed) / batches(f, 1, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_beyond_16)
{
    return batches(f, 64, requests, seed) / batches(f, 16, requests, seed);
}

/* The same without any cost. */
static double costless(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = server(f, 1, requests, seed);
    m.overhead_ns = m.look_ns = 0;
    return highest(&m, f);
}

SIM_BATCH_FIGURE(sim_batch_share)
{
    return batches(f, 1, requests, seed) / costless(f, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_tight_stealing)
{
    return stealing(f, requests, seed) / batches(f, 1, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_tight_batches)
{
    return batches(f, 1, requests, seed) / batches(f, 64, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_loose)
{
    return batches(f, 64, requests, seed) / stealing(f, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_gain_wrong)
{
    struct sim_policy_model many = server(f, 16, requests, seed), one = server(f, 1, requests, seed);
    many.look_ns = one.look_ns = 0;
    return highest(&many, f) / highest(&one, f);
}

SIM_BATCH_FIGURE(sim_batch_share_wrong)
{
    struct sim_policy_model m = server(f, 1, requests, seed);
    m.overhead_ns = 0;
    return highest(&m, f) / costless(f, requests, seed);
}

SIM_BATCH_FIGURE(sim_batch_tight_batches_wrong)
{
    struct sim_policy_model m = server(f, 64, requests, seed);
    m.together = false;
    return batches(f, 1, requests, seed) / highest(&m, f);
}

SIM_BATCH_FIGURE(sim_batch_loose_wrong)
{
    return batches(f, 1, requests, seed) / stealing(f, requests, seed);
}
