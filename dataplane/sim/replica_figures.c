// SPDX-License-Identifier: Apache-2.0
// See replica_figures.h. What a packet, an entry and a byte cost are inputs: the first two are found again from two
// published points of VanillaRaft (43 % less with nine members, 48 % less with requests of 512 bytes), and so are no
// proof of those. All others follow from them, from the link of 10 Gbit/s, the service times and the shipped core.
#include "replica_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "parallel.h"
#include "replica_load.h"
#include "report.h"

#define SLO_NS 500e3
enum { FIGURES_MAX = 96 };

/* INPUTS. */
static const struct sim_load_costs costs = {
    .packet_ns = 140,     /* one in or one out */
    .entry_ns = 95,       /* into a message to one member */
    .entry_byte_ns = 0.9, /* of it */
    .link_bits_ns = 0.1,  /* 10 Gbit/s */
    .header = 74,         /* Ethernet with its gap, IPv4, UDP, R2P2 */
    .hop_ns = 2000,       /* one way between two machines */
    .ring_ns = 265000,    /* a ring of 256 packets of 1,274 bytes */
    .pipeline = 4         /* */
};
/* How an insert compares with a scan was measured here (docs/lab/replication.md): 2.2 and 2.88 us in Redis. That one
 * server does 35,000 a second within 500 us is derived from what is published, and an input. */
static const double redis_insert_ns = 19900, redis_scan_ns = 26000;
/* By R-357 the published factor with seven members says of the published server: an eighth of its work are inserts, so
 * one would cost 2.7 scans there. That factor is found again, and so is no proof. */
static const double published_insert_ns = 64200, published_scan_ns = 23700;

static struct sim_load_model fixed(enum sim_load_group g, uint32_t members)
{
    return (struct sim_load_model){.group = g,
                                   .members = members,
                                   .request_bytes = 24,
                                   .reply_bytes = 8,
                                   .write = {.kind = SIM_DIST_DETERMINISTIC, .mean_ns = 1000},
                                   .read = {.kind = SIM_DIST_DETERMINISTIC, .mean_ns = 1000},
                                   .bound = 128,
                                   .limit = 60000,
                                   .costs = costs};
}

/* Figure 12.10: 10 us bimodal, three quarters of it reads, B = 32. */
static struct sim_load_model bimodal(enum sim_load_group g, uint32_t members)
{
    struct sim_load_model m = fixed(g, members);
    m.write = m.read = (struct sim_dist){.kind = SIM_DIST_BIMODAL10, .mean_ns = 10000};
    m.read_share = 0.75;
    m.bound = 32;
    m.balance = true;
    return m;
}

/* Figure 12.9: replies of 6 kB, all of it writes. */
static struct sim_load_model large(enum sim_load_group g, uint32_t members)
{
    struct sim_load_model m = fixed(g, members);
    m.reply_bytes = 6000;
    m.balance = true;
    return m;
}

/* Figure 12.12, by what an insert and a scan cost here. */
static struct sim_load_model ycsb(enum sim_load_group g, uint32_t members)
{
    struct sim_load_model m = fixed(g, members);
    m.request_bytes = 64;
    m.reply_bytes = 5500;
    m.write.mean_ns = redis_insert_ns;
    m.read.mean_ns = redis_scan_ns;
    m.read_share = 0.95;
    m.bound = 32;
    m.balance = true;
    return m;
}

struct asked {
    uint64_t requests, seed;
};

static double capacity(struct sim_load_model m, const struct asked *a, double most)
{
    m.requests = a->requests;
    m.seed = a->seed;
    return sim_load_within(&m, SLO_NS, most / 16, most);
}

/* --- 12.6 to 12.8: what is left of a million --- */

static double share(const struct asked *a, enum sim_load_group g, uint32_t members, uint32_t bytes)
{
    struct sim_load_model m = fixed(g, members), alone = fixed(SIM_LOAD_UNREPLICATED, 1);
    m.request_bytes = alone.request_bytes = bytes;
    return capacity(m, a, 1.1e6) / capacity(alone, a, 1.1e6);
}

#define SHARE(name, group, members, bytes)                                                                             \
    static double name(const struct asked *a)                                                                          \
    {                                                                                                                  \
        return share(a, group, members, bytes);                                                                        \
    }
SHARE(raft_3, SIM_LOAD_RAFT, 3, 24)
SHARE(hovercraft_3, SIM_LOAD_HOVERCRAFT, 3, 24)
SHARE(hovercraftpp_3, SIM_LOAD_HOVERCRAFTPP, 3, 24)
SHARE(raft_64, SIM_LOAD_RAFT, 3, 64)
SHARE(raft_512, SIM_LOAD_RAFT, 3, 512)
SHARE(hovercraft_512, SIM_LOAD_HOVERCRAFT, 3, 512)
SHARE(hovercraftpp_512, SIM_LOAD_HOVERCRAFTPP, 3, 512)
SHARE(raft_9, SIM_LOAD_RAFT, 9, 24)
SHARE(hovercraft_5, SIM_LOAD_HOVERCRAFT, 5, 24)
SHARE(hovercraft_9, SIM_LOAD_HOVERCRAFT, 9, 24)
SHARE(hovercraftpp_9, SIM_LOAD_HOVERCRAFTPP, 9, 24)

static double alone_rps(const struct asked *a)
{
    return capacity(fixed(SIM_LOAD_UNREPLICATED, 1), a, 1.1e6);
}

/* What replication adds at p99, at 950,000 requests/s. */
static double offset_us(const struct asked *a)
{
    double most = 0;
    for (enum sim_load_group g = SIM_LOAD_RAFT; g <= SIM_LOAD_HOVERCRAFTPP; g++) {
        struct sim_load_model m = fixed(g, 3), alone = fixed(SIM_LOAD_UNREPLICATED, 1);
        struct sim_load_result r, r0;
        m.rps = alone.rps = 950e3;
        m.requests = alone.requests = a->requests;
        m.seed = alone.seed = a->seed;
        if (!sim_load_run(&m, &r) || !sim_load_run(&alone, &r0)) {
            return INFINITY;
        }
        most = fmax(most, (r.p99_ns - r0.p99_ns) / 1e3);
    }
    return most;
}

/* --- 12.9 --- */

static double large_alone(const struct asked *a)
{
    return capacity(large(SIM_LOAD_UNREPLICATED, 1), a, 300e3);
}

static double large_factor(const struct asked *a, uint32_t members)
{
    return capacity(large(SIM_LOAD_HOVERCRAFTPP, members), a, 1.1e6) / large_alone(a);
}

static double large_3(const struct asked *a)
{
    return large_factor(a, 3);
}

static double large_5(const struct asked *a)
{
    return large_factor(a, 5);
}

/* --- 12.10 and 12.11 --- */

static double bimodal_alone(const struct asked *a)
{
    return capacity(bimodal(SIM_LOAD_UNREPLICATED, 1), a, 120e3);
}

static double bimodal_within(const struct asked *a)
{
    return capacity(bimodal(SIM_LOAD_HOVERCRAFTPP, 3), a, 220e3);
}

static double bimodal_gain(const struct asked *a)
{
    return bimodal_within(a) / bimodal_alone(a) - 1;
}

static double random_within(const struct asked *a, uint32_t bound)
{
    struct sim_load_model m = bimodal(SIM_LOAD_HOVERCRAFTPP, 3);
    m.random = true;
    m.bound = bound;
    return capacity(m, a, 220e3);
}

static double jbsq_over_random(const struct asked *a)
{
    return bimodal_within(a) / random_within(a, 32);
}

/* Each member is then the queue of one server alone at half its load, whatever time is asked for. */
static double random_law(const struct asked *a)
{
    return random_within(a, 4096) / bimodal_alone(a);
}

/* What it carries without any bound of time: offered above it, with the box's limit. */
static double carried(const struct asked *a, struct sim_load_model m, double rps, struct sim_load_result *r)
{
    m.requests = a->requests;
    m.seed = a->seed;
    m.rps = rps;
    m.limit = 1000;
    return sim_load_run(&m, r) ? r->answered_rps : 0;
}

static double bimodal_alone_most(const struct asked *a)
{
    struct sim_load_result r;
    return carried(a, bimodal(SIM_LOAD_UNREPLICATED, 1), 130e3, &r);
}

static double bimodal_most(const struct asked *a)
{
    struct sim_load_result r;
    return carried(a, bimodal(SIM_LOAD_HOVERCRAFTPP, 3), 260e3, &r);
}

static bool failed_leader(const struct asked *a, struct sim_load_result *r)
{
    struct sim_load_model m = bimodal(SIM_LOAD_HOVERCRAFTPP, 3);
    m.kill_at = 0.3;
    return carried(&(struct asked){6 * a->requests, a->seed}, m, 165e3, r) > 0;
}

static double after_rps(const struct asked *a)
{
    struct sim_load_result r;
    return failed_leader(a, &r) ? r.after_answered_rps : 0;
}

static double after_dropped_rps(const struct asked *a)
{
    struct sim_load_result r;
    return failed_leader(a, &r) ? r.after_dropped_rps : 0;
}

/* No collapse: what is let in is answered while at most 1,000 requests are inside, 6.25 ms at 160,000/s. */
static double after_p99_ms(const struct asked *a)
{
    struct sim_load_result r;
    return failed_leader(a, &r) ? r.after_p99_ns / 1e6 : INFINITY;
}

/* --- 12.12 --- */

/* With the inserts of the published server. */
static double ycsb_7_published(const struct asked *a)
{
    struct sim_load_model m = ycsb(SIM_LOAD_HOVERCRAFTPP, 7), alone = ycsb(SIM_LOAD_UNREPLICATED, 1);
    m.write.mean_ns = alone.write.mean_ns = published_insert_ns;
    m.read.mean_ns = alone.read.mean_ns = published_scan_ns;
    return capacity(m, a, 250e3) / capacity(alone, a, 60e3);
}

static double ycsb_factor(const struct asked *a, uint32_t members)
{
    return capacity(ycsb(SIM_LOAD_HOVERCRAFTPP, members), a, 250e3) / capacity(ycsb(SIM_LOAD_UNREPLICATED, 1), a, 60e3);
}

static double ycsb_alone(const struct asked *a)
{
    return capacity(ycsb(SIM_LOAD_UNREPLICATED, 1), a, 60e3);
}

static double ycsb_3(const struct asked *a)
{
    return ycsb_factor(a, 3);
}

static double ycsb_5(const struct asked *a)
{
    return ycsb_factor(a, 5);
}

static double ycsb_7(const struct asked *a)
{
    return ycsb_factor(a, 7);
}

struct figure {
    const char *name, *unit;
    double low, high;
    const char *published;
    double (*of)(const struct asked *a);
    /* What is published, where R-357 gives the bounds instead: less than it by 10 %, up to what the processors do at
     * all, a bound of time or not. docs/lab/replication.md says why. Else 0. */
    double told;
};

static const struct figure figures[] = {
    {"hovercraft_fig6_alone_rps", "1/s", 0.95e6, 1.05e6, "12.6: about 1 M RPS, not replicated", alone_rps},
    {"hovercraft_fig6_raft_share", "ratio", 0.95, 1.05, "12.6: the same 1 M, VanillaRaft", raft_3},
    {"hovercraft_fig6_hovercraft_share", "ratio", 0.95, 1.05, "12.6: the same, HovercRaft", hovercraft_3},
    {"hovercraft_fig6_hovercraftpp_share", "ratio", 0.95, 1.05, "12.6: the same, HovercRaft++", hovercraftpp_3},
    {"hovercraft_fig6_offset_us", "us", 0, 68, "12.6: at most 68 us at 950,000 RPS", offset_us},
    {"hovercraft_fig7_raft_64_share", "ratio", 0.93, 1.03, "12.7: -2 % with 64 bytes", raft_64},
    {"hovercraft_fig7_raft_512_share", "ratio", 0.47, 0.57, "12.7: -48 % with 512 bytes; an input", raft_512},
    {"hovercraft_fig7_hovercraft_512_share", "ratio", 0.95, 1.05, "12.7: unchanged, HovercRaft", hovercraft_512},
    {"hovercraft_fig7_hovercraftpp_512_share", "ratio", 0.95, 1.05, "12.7: unchanged, HovercRaft++", hovercraftpp_512},
    {"hovercraft_fig8_raft_9_share", "ratio", 0.52, 0.62, "12.8: -43 % with nine members; an input", raft_9},
    {"hovercraft_fig8_hovercraft_5_share", "ratio", 0.95, 1.05, "12.8: flat to five, HovercRaft", hovercraft_5},
    {"hovercraft_fig8_hovercraft_9_share", "ratio", 0, 0.95, "12.8: lower at nine; how much is not published",
     hovercraft_9},
    {"hovercraft_fig8_hovercraftpp_9_share", "ratio", 0.95, 1.05, "12.8: flat, HovercRaft++", hovercraftpp_9},
    {"hovercraft_fig9_alone_rps", "1/s", 180e3, 220e3, "12.9: about 200,000, the link is full", large_alone},
    {"hovercraft_fig9_factor_3", "ratio", 2.7, 3.3, "12.9: about 3 times", large_3},
    {"hovercraft_fig9_factor_5", "ratio", 4.5, 5.5, "12.9: about 5 times", large_5},
    {"hovercraft_fig10_alone_rps", "1/s", 90e3, 110e3, "12.10: about 100,000", bimodal_alone_most},
    {"hovercraft_fig10_most_rps", "1/s", 180e3, 220e3, "12.10: ideal 200,000", bimodal_most},
    {"hovercraft_fig10_within_rps", "1/s", 152e3, 200e3, "12.10: 57 % above about 100,000; ideal 200,000",
     bimodal_within},
    {"hovercraft_fig10_gain", "ratio", 0.8, 1.29, "12.10: +57 % within 500 us; twice by R-357", bimodal_gain,
     .told = 0.57},
    {"hovercraft_fig10_random_law", "ratio", 1.9, 2.1, "12.10: not published; twice by R-357, to 5 %", random_law},
    {"hovercraft_fig10_jbsq_over_random", "ratio", 1.0001, 2, "12.10: JBSQ is better", jbsq_over_random},
    {"hovercraft_fig11_after_rps", "1/s", 144e3, 176e3, "12.11: 160,000 with two members", after_rps},
    {"hovercraft_fig11_dropped_rps", "1/s", 0, 13250, "12.11: about 5,000/s of 165,000 (3 % +- 5 points)",
     after_dropped_rps},
    {"hovercraft_fig11_after_p99_ms", "ms", 0, 20, "12.11: p99 rises, no collapse", after_p99_ms},
    {"hovercraft_fig12_alone_rps", "1/s", 31.5e3, 38.5e3, "12.12: 35,000, derived; an input", ycsb_alone},
    {"hovercraft_fig12_factor_3", "ratio", 2.5, 3.06, "12.12: not published; w + r/N (R-357)", ycsb_3},
    {"hovercraft_fig12_factor_5", "ratio", 3.9, 4.76, "12.12: not published; w + r/N (R-357)", ycsb_5},
    {"hovercraft_fig12_factor_7", "ratio", 5.1, 6.4, "12.12: 4 times at N = 7; w + r/N (R-357) of our Redis", ycsb_7,
     .told = 4},
    {"hovercraft_fig12_factor_7_published_mix", "ratio", 3.6, 4.4,
     "12.12: 4 times at N = 7; an insert of 2.7 scans, an input", ycsb_7_published},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

/* --- mistakes that a figure must notice --- */

static double with_bodies(const struct asked *a)
{
    return share(a, SIM_LOAD_RAFT, 3, 512);
}

static double without_aggregator(const struct asked *a)
{
    return share(a, SIM_LOAD_HOVERCRAFT, 9, 24);
}

static double free_entries(const struct asked *a)
{
    struct sim_load_model m = fixed(SIM_LOAD_RAFT, 9);
    m.costs.entry_ns = m.costs.entry_byte_ns = 0;
    return capacity(m, a, 1.1e6) / alone_rps(a);
}

static double leader_answers(const struct asked *a)
{
    struct sim_load_model m = large(SIM_LOAD_HOVERCRAFTPP, 3);
    m.balance = false;
    return capacity(m, a, 1.1e6) / large_alone(a);
}

static double everybody_reads(const struct asked *a)
{
    struct sim_load_model m = bimodal(SIM_LOAD_HOVERCRAFTPP, 3);
    struct sim_load_result r;
    m.read_share = 0;
    return carried(a, m, 260e3, &r);
}

static double nobody_dies(const struct asked *a)
{
    struct sim_load_result r;
    return carried(a, bimodal(SIM_LOAD_HOVERCRAFTPP, 3), 200e3, &r) > 0 ? r.after_answered_rps : 0;
}

static double everybody_reads_within(const struct asked *a)
{
    struct sim_load_model m = bimodal(SIM_LOAD_HOVERCRAFTPP, 3);
    m.read_share = 0;
    return capacity(m, a, 220e3) / bimodal_alone(a) - 1;
}

static double two_for_three(const struct asked *a)
{
    struct sim_load_model m = bimodal(SIM_LOAD_HOVERCRAFTPP, 2);
    return capacity(m, a, 220e3);
}

static double three_for_five(const struct asked *a)
{
    return ycsb_factor(a, 3);
}

static double free_inserts(const struct asked *a)
{
    struct sim_load_model m = ycsb(SIM_LOAD_HOVERCRAFTPP, 7);
    m.write.mean_ns = 1;
    return capacity(m, a, 300e3) / ycsb_alone(a);
}

static const struct {
    const char *name, *figure;
    double (*of)(const struct asked *a);
} mistakes[] = {
    {"entries that carry their bodies", "hovercraft_fig7_hovercraft_512_share", with_bodies},
    {"a leader that sends to each follower", "hovercraft_fig8_hovercraftpp_9_share", without_aggregator},
    {"entries that cost nothing", "hovercraft_fig8_raft_9_share", free_entries},
    {"a leader that answers everything", "hovercraft_fig9_factor_3", leader_answers},
    {"reads that all members execute", "hovercraft_fig10_most_rps", everybody_reads},
    {"reads that all members execute, within 500 us", "hovercraft_fig10_gain", everybody_reads_within},
    {"two members for three", "hovercraft_fig10_within_rps", two_for_three},
    {"a leader that does not die", "hovercraft_fig11_after_rps", nobody_dies},
    {"three members for five", "hovercraft_fig12_factor_5", three_for_five},
    {"inserts that cost nothing", "hovercraft_fig12_factor_7", free_inserts},
};
enum { MISTAKES = sizeof mistakes / sizeof mistakes[0] };

struct items {
    struct asked asked;
    uint32_t item[FIGURES_MAX]; /* of figures, and behind them of mistakes */
    uint32_t n;
};

static const struct figure *figure_of(uint32_t item)
{
    for (uint32_t i = 0; item >= FIGURES && i < FIGURES; i++) {
        if (strcmp(figures[i].name, mistakes[item - FIGURES].figure) == 0) {
            return &figures[i];
        }
    }
    return &figures[item % FIGURES];
}

static void run_item(const void *ctx, uint32_t i, void *result)
{
    const struct items *all = ctx;
    uint32_t item = all->item[i];
    *(double *)result = item < FIGURES ? figures[item].of(&all->asked) : mistakes[item - FIGURES].of(&all->asked);
}

/* How far outside of its bounds, as a share of the nearer one. */
static double distance(const struct figure *f, double value)
{
    return value < f->low ? (f->low - value) / f->low : value > f->high ? (value - f->high) / f->high : 0;
}

/* True: as it must be. */
static bool print_item(uint32_t item, double value)
{
    const struct figure *f = figure_of(item);
    bool within = value >= f->low && value <= f->high;
    if (item >= FIGURES) {
        printf("%-4s planted: %s: %s %.4g\n", within ? "FAIL" : "ok", mistakes[item - FIGURES].name, f->name, value);
        return !within;
    }
    printf("%-4s %-40s %10.4g  %.4g to %.4g  published %s", within ? "ok" : "FAIL", f->name, value, f->low, f->high,
           f->published);
    if (f->told != 0) {
        printf("; %.3g times what is published", value / f->told);
    }
    if (!within) {
        printf("; %.0f %% outside", 100 * distance(f, value));
    }
    putchar('\n');
    return within;
}

int sim_replica_figures(const char *only, uint64_t requests, uint64_t seed, unsigned jobs, bool planted,
                        const char *measurements)
{
    struct items all = {.asked = {requests, seed}};
    struct sim_measures m;
    double value[FIGURES_MAX];
    uint32_t wrong = 0, unseen = 0;
    for (uint32_t i = 0; i < FIGURES + (planted ? MISTAKES : 0); i++) {
        if (only == NULL || strstr(figure_of(i)->name, only) != NULL) {
            all.item[all.n++] = i;
        }
    }
    if (all.n == 0 || sim_measures_open(&m, measurements) != 0) {
        fprintf(stderr, "bobtail-sim: replica figures: %s\n", all.n == 0 ? "no such figure" : measurements);
        return 2;
    }
    if (sim_parallel(jobs, &(struct sim_items){.n = all.n, .size = sizeof *value, .fn = run_item, .ctx = &all}, value,
                     NULL) != 0) {
        fprintf(stderr, "bobtail-sim: replica figures could not be computed; is there memory?\n");
        return 1;
    }
    for (uint32_t i = 0; i < all.n; i++) {
        bool ok = print_item(all.item[i], value[i]), of_mistake = all.item[i] >= FIGURES;
        wrong += !ok && !of_mistake;
        unseen += !ok && of_mistake;
        if (!of_mistake) {
            sim_measure(&m, figures[all.item[i]].name, value[i], figures[all.item[i]].unit);
        }
    }
    if (planted) {
        sim_measure(&m, "hovercraft_figures_planted_uncaught", unseen, "count");
    }
    return sim_measures_close(&m) != 0 ? 2 : wrong + unseen != 0;
}
