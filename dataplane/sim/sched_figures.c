// SPDX-License-Identifier: Apache-2.0
// See sched_figures.h. 16 cores, Poisson arrivals, a request its own flow; loads are shares of 16 ÷ mean, without the
// cost of a request. The costs are inputs, found again from the published efficiencies (3.2 us), not measured here; so
// are those of batches (sched_batches.h).
#include "sched_figures.h"

#include "fc_figures.h"
#include "policy_command.h"
#include "sched/ladder.h"
#include "sched_batches.h"
#include "sched_elastic.h"
#include "sched_lanes.h"
#include "sched_migration_figures.h"

static struct sim_policy_model model(const struct sim_sched_figure *f, enum sim_policy_kind kind, uint64_t requests,
                                     uint64_t seed)
{
    struct sim_policy_model m;
    sim_policy_defaults(&m);
    m.kind = kind;
    m.service = (struct sim_dist){.kind = (enum sim_dist_kind)f->distribution, .mean_ns = f->mean_us * 1e3, .sigma = 1};
    m.overhead_ns = (uint64_t)(f->overhead_us * 1e3);
    m.interrupts = true;
    m.requests = requests;
    m.seed = seed;
    return m;
}

static double highest(const struct sim_policy_model *m, const struct sim_sched_figure *f)
{
    return sim_policy_highest_load(m, f->slo_us * 1e3, 99);
}

/* The single queue that knows no cost. */
static double central(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = model(f, SIM_POLICY_CENTRAL, requests, seed);
    m.overhead_ns = 0;
    return highest(&m, f);
}

static double stealing(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = model(f, SIM_POLICY_WORK_STEALING, requests, seed);
    return highest(&m, f);
}

static double partitioned(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = model(f, SIM_POLICY_RUN_TO_COMPLETION, requests, seed);
    return highest(&m, f);
}

static double share_of_central(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    return stealing(f, requests, seed) / central(f, requests, seed);
}

static double ratio_to_partitioned(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    return stealing(f, requests, seed) / partitioned(f, requests, seed);
}

static double peak(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed, bool interrupts)
{
    static const double load[] = {0.8, 0.85, 0.9};
    double most = 0;
    for (uint32_t i = 0; i < sizeof load / sizeof load[0]; i++) {
        struct sim_policy_model m = model(f, SIM_POLICY_WORK_STEALING, requests, seed);
        struct sim_policy_result r;
        m.interrupts = interrupts;
        m.load = load[i];
        sim_policy_run(&m, &r);
        double share = (double)r.counts.stolen / (double)requests;
        most = share > most ? share : most;
    }
    return most;
}

static double cooperative_peak(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    return peak(f, requests, seed, false);
}

/* 64 cores at load 0.9 behind a router, 7.5 us to a port and as much back (D-3). */
static struct sim_policy_model rack(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = model(f, SIM_POLICY_ROUTER, requests, seed);
    m.workers = 64;
    m.depth = 5;
    m.load = 0.9;
    m.path.dispatch_ns = m.path.feedback_ns = 7500;
    return m;
}

static double lanes_of(const struct sim_policy_model *m, const uint32_t *cores, uint32_t lanes)
{
    struct sim_sched_lane lane[SIM_SCHED_LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++) {
        lane[i] = (struct sim_sched_lane){cores[i], sim_sched_lane_n(m, cores[i])};
    }
    return sim_sched_lanes_p99(m, lane, lanes);
}

static const uint32_t equal[] = {16, 16, 16, 16}, unequal[] = {16, 16, 16, 8, 8};

static double lane_ratio(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = rack(f, requests, seed);
    struct sim_policy_result ports;
    sim_policy_run(&m, &ports);
    return lanes_of(&m, equal, 4) / ports.p99_ns;
}

static double unequal_ratio(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = rack(f, requests, seed);
    return lanes_of(&m, unequal, 5) / lanes_of(&m, equal, 4);
}

/* The controller's loop: the share of all seconds that broke the objective. */
static double violations(uint64_t seed, uint32_t tick_ms, double times_the_bound)
{
    uint32_t broken = 0, seconds = 0;
    for (int p = 0; p < SIM_ELASTIC_PATTERNS; p++) {
        struct sim_elastic_model m;
        struct sim_elastic_result r;
        sim_elastic_defaults(&m, (enum sim_elastic_pattern)p, seed);
        m.tick_ms = tick_ms;
        m.delay_bound_ns *= times_the_bound;
        sim_elastic_run(&m, &r);
        broken += r.violations;
        seconds += r.seconds;
    }
    return (double)broken / seconds;
}

/* The controller as it is, following a pattern. Several figures are of the same run, which takes seconds: it is kept.
 */
static const struct sim_elastic_result *followed(enum sim_elastic_pattern pattern, enum bt_objective objective,
                                                 uint64_t seed)
{
    static struct sim_elastic_result kept[2][SIM_ELASTIC_PATTERNS];
    static uint64_t of[2][SIM_ELASTIC_PATTERNS];
    struct sim_elastic_result *r = &kept[objective][pattern];
    if (r->seconds == 0 || of[objective][pattern] != seed) {
        struct sim_elastic_model m;
        sim_elastic_defaults(&m, pattern, seed);
        m.objective = objective;
        sim_elastic_run(&m, r);
        of[objective][pattern] = seed;
    }
    return r;
}

static double violation_share(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    uint32_t broken = 0, seconds = 0;
    (void)f;
    (void)requests;
    for (int p = 0; p < SIM_ELASTIC_PATTERNS; p++) {
        const struct sim_elastic_result *r = followed((enum sim_elastic_pattern)p, BT_OBJECTIVE_ENERGY, seed);
        broken += r->violations;
        seconds += r->seconds;
    }
    return (double)broken / seconds;
}

static double reaction(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    uint32_t most = 0;
    (void)f;
    (void)requests;
    for (int p = 0; p < SIM_ELASTIC_PATTERNS; p++) {
        uint32_t ticks = followed((enum sim_elastic_pattern)p, BT_OBJECTIVE_ENERGY, seed)->most_ticks;
        most = ticks > most ? ticks : most;
    }
    return most;
}

/* What the controller saves, by the model of power, or leaves to a background job. */
#define FOLLOWED(name, pattern, objective, field)                                                                      \
    static double name(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)                             \
    {                                                                                                                  \
        (void)f;                                                                                                       \
        (void)requests;                                                                                                \
        return followed(pattern, objective, seed)->field;                                                              \
    }
FOLLOWED(power_slope, SIM_ELASTIC_SLOPE, BT_OBJECTIVE_ENERGY, power_saved)
FOLLOWED(power_step, SIM_ELASTIC_STEP, BT_OBJECTIVE_ENERGY, power_saved)
FOLLOWED(power_sine, SIM_ELASTIC_SINE, BT_OBJECTIVE_ENERGY, power_saved)
FOLLOWED(background_slope, SIM_ELASTIC_SLOPE, BT_OBJECTIVE_CONSOLIDATION, background_share)
FOLLOWED(background_step, SIM_ELASTIC_STEP, BT_OBJECTIVE_CONSOLIDATION, background_share)
FOLLOWED(background_sine, SIM_ELASTIC_SINE, BT_OBJECTIVE_CONSOLIDATION, background_share)

/* The machine of the source: 8 cores of 2 threads, 1.2 to 2.4 GHz in steps of 100 MHz, turbo. */
static const struct bt_machine machine = {8, 2, 1200, 2400, 100, 3100};

static double rungs(enum bt_objective objective)
{
    struct bt_rung rung[BT_LADDER_MAX];
    return bt_ladder(&machine, objective, rung, BT_LADDER_MAX);
}

static double energy(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    (void)f;
    (void)requests;
    (void)seed;
    return rungs(BT_OBJECTIVE_ENERGY);
}

static double consolidation(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    (void)f;
    (void)requests;
    (void)seed;
    return rungs(BT_OBJECTIVE_CONSOLIDATION);
}

const struct sim_sched_figure sim_sched_figures[] = {
    {"sched_central_share_exponential", "ratio", 0.97, 1.0, "1: the single queue", share_of_central,
     SIM_DIST_EXPONENTIAL, 10, 0, 100},
    {"sched_central_share_bimodal1", "ratio", 0.97, 1.0, "1: the single queue", share_of_central, SIM_DIST_BIMODAL1, 10,
     0, 100},
    {"sched_partitioned_max_load", "ratio", 0.5295, 0.5495, "0.537; exact 0.5395", partitioned, SIM_DIST_EXPONENTIAL,
     10, 0, 100},
    {"sched_cooperative_steal_peak", "ratio", 0.33, 0.37, "0.35 simulated, 0.33 measured", cooperative_peak,
     SIM_DIST_EXPONENTIAL, 25, 0, 250},
    {"sched_efficiency_10us", "ratio", 0.72, 0.78, "0.75", share_of_central, SIM_DIST_EXPONENTIAL, 10, 3.2, 100},
    {"sched_efficiency_25us", "ratio", 0.85, 0.91, "0.88", share_of_central, SIM_DIST_EXPONENTIAL, 25, 3.2, 250},
    {"sched_silo_ratio", "ratio", 1.24, 1.35, "1.29", ratio_to_partitioned, SIM_DIST_LOGNORMAL, 33, 0, 1000},
    {"sched_batch_gain", "ratio", 1.24, 1.34, "1.29; the costs are inputs", sim_batch_gain, SIM_DIST_DETERMINISTIC,
     0.88, 2, 500},
    {"sched_batch_gain_beyond_16", "ratio", 0.99, 1.03, "1: any batch of 16 or more", sim_batch_beyond_16,
     SIM_DIST_DETERMINISTIC, 0.88, 2, 500},
    {"sched_batch_share_25us", "ratio", 0.87, 0.93, "0.90; the costs are inputs", sim_batch_share, SIM_DIST_EXPONENTIAL,
     25, 2, 250},
    {"sched_tight_stealing_over_batch1", "ratio", 1.0005, 2, "above 1", sim_batch_tight_stealing, SIM_DIST_EXPONENTIAL,
     10, 2, 100},
    {"sched_tight_batch1_over_batch64", "ratio", 1.0005, 2, "above 1", sim_batch_tight_batches, SIM_DIST_EXPONENTIAL,
     10, 2, 100},
    {"sched_loose_batch64_over_stealing", "ratio", 1.0005, 1.1, "a little above 1; the costs are inputs",
     sim_batch_loose, SIM_DIST_EXPONENTIAL, 10, 2, 1000},
    {"sched_lane_p99_ratio", "ratio", 0, 0.75, "not published", lane_ratio, SIM_DIST_EXPONENTIAL, 10, 0, 0},
    {"sched_unequal_lanes_p99_ratio", "ratio", 0, 1.15, "not published", unequal_ratio, SIM_DIST_EXPONENTIAL, 10, 0, 0},
    {"elastic_violation_share", "ratio", 0, 0.02, "0.019", violation_share, 0, 0, 0, 0},
    {"elastic_reaction_ticks", "count", 0, 3, "up to 3", reaction, 0, 0, 0, 0},
    {"ixcp_power_saved_slope", "ratio", 0.41, 0.61, "0.51; the power is a model", power_slope, 0, 0, 0, 0},
    {"ixcp_power_saved_step", "ratio", 0.40, 0.60, "0.50; the power is a model", power_step, 0, 0, 0, 0},
    {"ixcp_power_saved_sine", "ratio", 0.32, 0.52, "0.42; the power is a model", power_sine, 0, 0, 0, 0},
    {"ixcp_background_share_slope", "ratio", 0.34, 0.54, "0.44", background_slope, 0, 0, 0, 0},
    {"ixcp_background_share_step", "ratio", 0.31, 0.51, "0.41", background_step, 0, 0, 0, 0},
    {"ixcp_background_share_sine", "ratio", 0.21, 0.41, "0.31", background_sine, 0, 0, 0, 0},
    {"ixcp_migration_add_prepare_share", "ratio", 0.068, 0.268, "0.168 (98 of 585 us); the costs are a model",
     sim_migration_add_prepare, 0, 0, 0, 0},
    {"ixcp_migration_add_wait_share", "ratio", 0.220, 0.420, "0.32 (187 of 585 us); the costs are a model",
     sim_migration_add_wait, 0, 0, 0, 0},
    {"ixcp_migration_add_rpc_share", "ratio", 0.180, 0.380, "0.28 (164 of 585 us); the costs are a model",
     sim_migration_add_rpc, 0, 0, 0, 0},
    {"ixcp_migration_add_deferred_share", "ratio", 0.129, 0.329, "0.229 (134 of 585 us); the costs are a model",
     sim_migration_add_deferred, 0, 0, 0, 0},
    {"ixcp_migration_add_us", "us", 526.5, 643.5, "585; the costs are a model", sim_migration_add_us, 0, 0, 0, 0},
    {"ixcp_migration_remove_prepare_share", "ratio", 0.147, 0.347, "0.247 (22 of 89 us); the costs are a model",
     sim_migration_remove_prepare, 0, 0, 0, 0},
    {"ixcp_migration_remove_wait_share", "ratio", 0.304, 0.504, "0.404 (36 of 89 us); the costs are a model",
     sim_migration_remove_wait, 0, 0, 0, 0},
    {"ixcp_migration_remove_rpc_share", "ratio", 0.035, 0.235, "0.135 (12 of 89 us); the costs are a model",
     sim_migration_remove_rpc, 0, 0, 0, 0},
    {"ixcp_migration_remove_deferred_share", "ratio", 0.080, 0.280, "0.18 (16 of 89 us); the costs are a model",
     sim_migration_remove_deferred, 0, 0, 0, 0},
    {"ixcp_migration_remove_us", "us", 80.1, 97.9, "89; the costs are a model", sim_migration_remove_us, 0, 0, 0, 0},
    {"ladder_steps_energy", "count", 22, 22, "22", energy, 0, 0, 0, 0},
    {"ladder_steps_consolidation", "count", 9, 9, "9", consolidation, 0, 0, 0, 0},
    {"fc_paper_load_error", "ratio", 0, 1e-4, "loads 0.8128, 0.6847, 0.5720", sim_fc_paper_load_error, 0, 0, 0, 0},
    {"fc_refined_wait_p99_us", "us", 50, 105, "objective 100", sim_fc_refined_wait, 0, 0, 0, 0},
    {"fc_refined_load_share", "ratio", 0.97, 1.03, "1: the load that the model solves for", sim_fc_refined_load, 0, 0,
     0, 0},
    {"fc_two_replicas_p99_us", "us", 0, 160, "below 160", sim_fc_two_replicas, 0, 0, 0, 0},
    {"fc_two_replicas_plain_p99_us", "us", 200, 300, "about 230", sim_fc_two_replicas_plain, 0, 0, 0, 0},
    {"fc_two_replicas_shared_krps", "count", 950, 1050, "about 1,000", sim_fc_two_replicas_shared, 0, 0, 0, 0},
};
const uint32_t sim_sched_figures_n = sizeof sim_sched_figures / sizeof sim_sched_figures[0];

/* The wrong servers and controllers. */

static double decides_once_a_second(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    (void)f;
    (void)requests;
    return violations(seed, 1000, 1);
}

static double waits_until_it_is_late(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    (void)f;
    (void)requests;
    return violations(seed, 100, 30);
}

/* A controller that gives back a step every 20 s. */
static double gives_back_slowly(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_elastic_model m;
    struct sim_elastic_result r;
    (void)f;
    (void)requests;
    sim_elastic_defaults(&m, SIM_ELASTIC_SLOPE, seed);
    m.hold_off = 200;
    sim_elastic_run(&m, &r);
    return r.power_saved;
}

static double nobody_steals(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    return partitioned(f, requests, seed) / central(f, requests, seed);
}

static double nobody_borrows(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_policy_model m = model(f, SIM_POLICY_WORK_STEALING, requests, seed);
    m.interrupts = false;
    return highest(&m, f) / central(f, requests, seed);
}

static double all_borrow(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    return peak(f, requests, seed, true);
}

static double half_the_cost(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)
{
    struct sim_sched_figure wrong = *f;
    wrong.overhead_us /= 2;
    return share_of_central(&wrong, requests, seed);
}

const struct sim_sched_planted sim_sched_planted[] = {
    {"nobody steals", "sched_central_share_exponential", nobody_steals},
    {"nobody does another's network", "sched_central_share_bimodal1", nobody_borrows},
    {"partitions that steal", "sched_partitioned_max_load", stealing},
    {"cooperative stealing that borrows networks", "sched_cooperative_steal_peak", all_borrow},
    {"a controller that decides once a second", "elastic_violation_share", decides_once_a_second},
    {"a controller that waits until it is late", "elastic_violation_share", waits_until_it_is_late},
    {"a controller that gives back slowly", "ixcp_power_saved_slope", gives_back_slowly},
    {"a network that redirects slowly", "ixcp_migration_add_prepare_share", sim_migration_add_prepare_wrong},
    {"a first packet that nobody notices", "ixcp_migration_add_wait_share", sim_migration_add_wait_wrong},
    {"an old core that cannot catch up", "ixcp_migration_add_rpc_share", sim_migration_add_rpc_wrong},
    {"packets put aside that cost as much as ten", "ixcp_migration_add_deferred_share",
     sim_migration_add_deferred_wrong},
    {"a core that looks at messages late", "ixcp_migration_add_us", sim_migration_add_us_wrong},
    {"a network that redirects slowly", "ixcp_migration_remove_prepare_share", sim_migration_remove_prepare_wrong},
    {"a first packet that nobody notices", "ixcp_migration_remove_wait_share", sim_migration_remove_wait_wrong},
    {"an old core that cannot catch up", "ixcp_migration_remove_rpc_share", sim_migration_remove_rpc_wrong},
    {"packets put aside that cost as much as ten", "ixcp_migration_remove_deferred_share",
     sim_migration_remove_deferred_wrong},
    {"a core that looks at messages late", "ixcp_migration_remove_us", sim_migration_remove_us_wrong},
    {"half of the cost of a request", "sched_efficiency_10us", half_the_cost},
    {"looks that cost nothing", "sched_batch_gain", sim_batch_gain_wrong},
    {"requests that cost nothing more", "sched_batch_share_25us", sim_batch_share_wrong},
    {"batches whose replies leave one by one", "sched_tight_batch1_over_batch64", sim_batch_tight_batches_wrong},
    {"batches of one", "sched_loose_batch64_over_stealing", sim_batch_loose_wrong},
    {"a load that knows no dispersion", "fc_paper_load_error", sim_fc_blind_load_error},
    {"the published load where waits are judged", "fc_refined_wait_p99_us", sim_fc_published_wait},
    {"clients that do not listen", "fc_two_replicas_p99_us", sim_fc_two_replicas_plain},
};
const uint32_t sim_sched_planted_n = sizeof sim_sched_planted / sizeof sim_sched_planted[0];
