// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim replica`: many seeds of a replication group under faults, each judged by the invariants of Raft.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "option.h"
#include "parallel.h"
#include "replica_record.h"
#include "replica_counts.h"
#include "replica_figures.h"
#include "replica_run.h"
#include "report.h"

static const char usage_text[] =
    "usage: bobtail-sim replica [options]\n"
    "       bobtail-sim replica figures [--requests=N] [--only=TEXT] [--planted] [options]\n"
    "\n"
    "A replication group of 3 to 9 members in virtual time, seed by seed: crashes, cuts, loss, late and repeated\n"
    "messages, skewed clocks, transfers, changes of membership, snapshots. Every step is judged; then faults end, and\n"
    "the group must go on.\n"
    "\n"
    "  --mode=faults|beyond|kills|counts|sessions|diverge|lacking  faults (default); more than f members go for good: "
    "safety "
    "only;\n"
    "                              leaders are killed; nothing happens, and the leader's messages for one request are\n"
    "                              counted; faults, and clients ask again under the same number: executed once;\n"
    "                              faults, and a member executes an entry wrongly: it must be found; faults, and a\n"
    "                              member reckons the hash of bodies wrongly for a while\n"
    "  --protocol=raft|hovercraft|hovercraftpp  entries carry their bodies (default); or requests reach every member\n"
    "                              by themselves, through a flow-control box, and are ordered by their metadata; or\n"
    "                              entries go by way of an aggregator besides\n"
    "  figures: the published figures 12.6 to 12.12 of HovercRaft under load, judged; --planted: also from wrong "
    "groups,\n"
    "                              which a figure must notice; --requests: of a run (default 60000); --seed (default "
    "1)\n"
    "  --seeds=N --first=N         (default 2000, 1)\n"
    "  --seed=N                    only this one\n"
    "  --stop                      stop at the first seed that is broken\n"
    "  --jobs=N                    (default 2)\n"
    "  --measurements=FILE --quiet\n";

enum {
    O_MODE = 256,
    O_PROTOCOL,
    O_SEEDS,
    O_FIRST,
    O_SEED,
    O_STOP,
    O_MEASURE,
    O_QUIET,
    O_HELP,
    O_REQUESTS,
    O_ONLY,
    O_PLANTED
};

struct ask {
    enum replica_mode mode;
    enum replica_protocol protocol;
    uint32_t seeds;
    uint64_t first;
    unsigned jobs;
    bool stop, quiet, planted;
    uint64_t requests;
    const char *only, *measurements;
    bool *stopped; /* shared between processes */
};

static const char *mode_name(uint32_t i)
{
    static const char *const names[] = {"faults", "beyond", "kills", "counts", "sessions", "diverge", "lacking"};
    return names[i];
}

static const char *protocol_name(uint32_t i)
{
    static const char *const names[REPLICA_PROTOCOLS] = {"raft", "hovercraft", "hovercraftpp"};
    return names[i];
}

static const struct option long_options[] = {
    {"mode", required_argument, NULL, O_MODE},   {"protocol", required_argument, NULL, O_PROTOCOL},
    {"seeds", required_argument, NULL, O_SEEDS}, {"first", required_argument, NULL, O_FIRST},
    {"seed", required_argument, NULL, O_SEED},   {"stop", no_argument, NULL, O_STOP},
    {"jobs", required_argument, NULL, 'j'},      {"measurements", required_argument, NULL, O_MEASURE},
    {"quiet", no_argument, NULL, O_QUIET},       {"requests", required_argument, NULL, O_REQUESTS},
    {"only", required_argument, NULL, O_ONLY},   {"planted", no_argument, NULL, O_PLANTED},
    {"help", no_argument, NULL, O_HELP},         {NULL, 0, NULL, 0},
};

static int take(struct ask *a, int c)
{
    switch (c) {
    case O_MODE:
        a->mode = (enum replica_mode)sim_option_named("--mode", optarg, mode_name, 7);
        return 0;
    case O_PROTOCOL:
        a->protocol = (enum replica_protocol)sim_option_named("--protocol", optarg, protocol_name, REPLICA_PROTOCOLS);
        return 0;
    case O_SEEDS:
        a->seeds = (uint32_t)sim_option_whole("--seeds", optarg, 1, 1e8);
        return 0;
    case O_FIRST:
        a->first = sim_option_whole("--first", optarg, 1, 9e15);
        return 0;
    case O_SEED:
        a->first = sim_option_whole("--seed", optarg, 1, 9e15);
        a->seeds = 1;
        return 0;
    case O_STOP:
        a->stop = true;
        return 0;
    case 'j':
        a->jobs = (unsigned)sim_option_whole("--jobs", optarg, 1, 64);
        return 0;
    case O_MEASURE:
        a->measurements = optarg;
        return 0;
    case O_QUIET:
        a->quiet = true;
        return 0;
    case O_REQUESTS:
        a->requests = sim_option_whole("--requests", optarg, 1000, 1e7);
        return 0;
    case O_ONLY:
        a->only = optarg;
        return 0;
    case O_PLANTED:
        a->planted = true;
        return 0;
    case O_HELP:
        fputs(usage_text, stdout);
        exit(0);
    default:
        return -1;
    }
}

static void one_seed(const void *ctx, uint32_t i, void *result)
{
    const struct ask *a = ctx;
    struct replica_result *r = result;
    if (__atomic_load_n(a->stopped, __ATOMIC_RELAXED)) {
        return;
    }
    replica_run(a->first + i, a->mode, a->protocol, r);
    if (a->stop && r->breach != REPLICA_HELD) {
        __atomic_store_n(a->stopped, true, __ATOMIC_RELAXED);
    }
}

struct sum {
    struct replica_counts count;
    uint64_t clean, failed, lost, dropped_executed, executed_twice, lost_replies_most;
    double virtual_s;
    uint64_t *failover; /* sorted */
    uint32_t failovers;
};

static int by_length(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_failure(const struct ask *a, uint32_t i, const struct replica_result *r, int signal_no)
{
    unsigned long long seed = a->first + i;
    if (signal_no > 0) {
        printf("seed %llu: killed by signal %d\n", seed, signal_no);
    } else {
        printf("seed %llu: %s\n", seed, r->says);
    }
    printf("  replay:   bobtail-sim replica --protocol=%s --mode=%s --seed=%llu\n", protocol_name(a->protocol),
           mode_name(a->mode), seed);
}

static void add_up(const struct ask *a, const struct replica_result *results, const int *signals, struct sum *s)
{
    for (uint32_t i = 0; i < a->seeds; i++) {
        const struct replica_result *r = &results[i];
        if (!r->ran && signals[i] <= 0) {
            continue; /* stopped before */
        }
        bool bad = signals[i] > 0 || r->breach != REPLICA_HELD;
        if (bad && s->failed++ < 10) {
            print_failure(a, i, r, signals[i]);
        }
        s->clean += !bad;
        s->lost += r->lost;
        s->dropped_executed += r->dropped_executed;
        s->executed_twice += r->executed_twice;
        if (r->lost_replies_most > s->lost_replies_most) {
            s->lost_replies_most = r->lost_replies_most;
        }
        s->virtual_s += (double)r->virtual_ns / 1e9;
        uint64_t *to = (uint64_t *)&s->count;
        const uint64_t *from = (const uint64_t *)&r->count;
        for (size_t k = 0; k < sizeof s->count / sizeof *to; k++) {
            to[k] += from[k];
        }
        memcpy(s->failover + s->failovers, r->failover, r->failovers * sizeof *s->failover);
        s->failovers += r->failovers;
    }
    qsort(s->failover, s->failovers, sizeof *s->failover, by_length);
}

static double failover_ms(const struct sum *s, double share)
{
    uint32_t at = (uint32_t)(share * s->failovers);
    return s->failovers > 0 ? (double)s->failover[at < s->failovers ? at : s->failovers - 1] / 1e6 : 0;
}

static void print_sum(const struct ask *a, const struct sum *s, double wall)
{
    const struct replica_counts *c = &s->count;
    printf("%s, %s: seeds %llu to %llu, %llu clean, %llu failed\n", protocol_name(a->protocol), mode_name(a->mode),
           (unsigned long long)a->first, (unsigned long long)(a->first + a->seeds - 1), (unsigned long long)s->clean,
           (unsigned long long)s->failed);
    printf("  %llu writes, %llu acknowledged, %llu lost; %llu elections won; %llu messages, %.0f virtual seconds in "
           "%.1f s\n",
           (unsigned long long)c->writes, (unsigned long long)c->acked, (unsigned long long)s->lost,
           (unsigned long long)c->elections, (unsigned long long)c->messages, s->virtual_s, wall);
    printf("  faults: %llu crashes (%llu after a vote, %llu amid a truncation or snapshot), %llu cuts (%llu one way), "
           "%llu leaders isolated, %llu left with a minority, %llu pauses, "
           "%llu disk stalls, %llu disks failed, "
           "%llu lost, %llu repeated, %llu late, %llu foreign, %llu cut short\n",
           (unsigned long long)c->crashes, (unsigned long long)c->after_votes, (unsigned long long)c->amid_stores,
           (unsigned long long)c->cuts, (unsigned long long)c->one_way, (unsigned long long)c->isolations,
           (unsigned long long)c->tails, (unsigned long long)c->pauses, (unsigned long long)c->stalls,
           (unsigned long long)c->disks_failed, (unsigned long long)c->lost, (unsigned long long)c->duplicated,
           (unsigned long long)c->late, (unsigned long long)c->foreign, (unsigned long long)c->cut_short);
    printf("  %llu transfers, %llu changes of membership, %llu snapshots taken, %llu installed\n",
           (unsigned long long)c->transfers, (unsigned long long)c->changes, (unsigned long long)c->snapshots,
           (unsigned long long)c->installs);
    if (a->protocol != REPLICA_RAFT) {
        printf("  %llu reads committed, %llu requests refused by the box, which fell %llu times; %llu questions for "
               "bodies, "
               "%llu recovered; at most %llu answers went with a member\n",
               (unsigned long long)c->reads, (unsigned long long)c->nacked, (unsigned long long)c->boxes,
               (unsigned long long)c->recoveries, (unsigned long long)c->recovered,
               (unsigned long long)s->lost_replies_most);
    }
    if (a->protocol == REPLICA_HOVERCRAFTPP) {
        printf(
            "  the aggregator was lost or flushed %llu times, and told %llu commits; leaders came to it %llu times and "
            "left it %llu times\n",
            (unsigned long long)c->aggregators, (unsigned long long)c->announced, (unsigned long long)c->aggregated,
            (unsigned long long)c->fallbacks);
    }
    if (a->mode == REPLICA_SESSIONS) {
        printf("  %llu writes were answered by what was kept of them, %llu answers said that the session is forgotten; "
               "%llu "
               "were executed twice\n",
               (unsigned long long)c->repeated, (unsigned long long)c->forgotten,
               (unsigned long long)s->executed_twice);
    }
    if (a->mode == REPLICA_DIVERGE) {
        printf("  %llu entries executed wrongly by a member, %llu members fenced; in %llu seeds another member got the "
               "wrong "
               "state first\n",
               (unsigned long long)c->planted, (unsigned long long)c->fenced, (unsigned long long)c->spread);
    }
    if (a->mode == REPLICA_LACKING) {
        printf("  the key of a member was wrong %llu times; a leader was told %llu times that nobody has a body\n",
               (unsigned long long)c->planted, (unsigned long long)c->bodyless);
    }
    if (s->failovers > 0) {
        printf("  %u leaders killed: p50 %.1f ms, p99 %.1f ms, most %.1f ms until the next write is acknowledged\n",
               s->failovers, failover_ms(s, 0.5), failover_ms(s, 0.99), failover_ms(s, 1));
    }
}

static int measure(const struct ask *a, const struct sum *s, double wall)
{
    struct sim_measures m;
    if (sim_measures_open(&m, a->measurements) != 0) {
        return 2;
    }
    if (a->mode == REPLICA_KILLS) {
        sim_measure(&m, "failover_kills", s->failovers, "count");
        sim_measure(&m, "failover_ms_p50", failover_ms(s, 0.5), "ms");
        sim_measure(&m, "failover_ms_p99", failover_ms(s, 0.99), "ms");
    }
    if (a->protocol != REPLICA_RAFT && a->mode == REPLICA_KILLS) {
        sim_measure(&m, "replies_lost_per_crash_max", (double)s->lost_replies_most, "count");
    }
    sim_measure(&m, "seeds_clean", (double)s->clean, "count");
    sim_measure(&m, "seeds_failed", (double)s->failed, "count");
    sim_measure(&m, "acked_writes_lost", (double)s->lost, "count");
    sim_measure(&m, "acked_writes", (double)s->count.acked, "count");
    sim_measure(&m, "dropped_but_executed", (double)s->dropped_executed, "count");
    if (a->mode == REPLICA_SESSIONS) {
        sim_measure(&m, "writes_executed_twice", (double)s->executed_twice, "count");
        sim_measure(&m, "writes_answered_again", (double)s->count.repeated, "count");
    }
    if (a->mode == REPLICA_DIVERGE) {
        sim_measure(&m, "states_diverged", (double)s->count.planted, "count");
        sim_measure(&m, "members_fenced", (double)s->count.fenced, "count");
    }
    if (a->mode == REPLICA_LACKING) {
        sim_measure(&m, "bodies_lost_for_good", (double)s->count.bodyless, "count");
    }
    sim_measure(&m, "replica_seconds", wall, "s");
    return sim_measures_close(&m);
}

static int judge(const struct ask *a, const struct replica_result *results, const int *signals, double wall)
{
    struct sum s = {.failover = calloc((size_t)a->seeds * 64 + 1, sizeof *s.failover)};
    if (s.failover == NULL) {
        abort();
    }
    add_up(a, results, signals, &s);
    print_sum(a, &s, wall);
    int code = measure(a, &s, wall);
    free(s.failover);
    bool nothing =
        s.count.acked == 0 || s.count.crashes == 0 || (a->mode == REPLICA_SESSIONS && s.count.repeated == 0) ||
        (a->mode == REPLICA_DIVERGE && s.count.fenced == 0) || (a->mode == REPLICA_LACKING && s.count.bodyless == 0);
    if (nothing && a->seeds > 1 && !a->stop) {
        puts("  no write or no crash at all: this sweep proves nothing");
    }
    return code != 0 ? 2 : s.failed > 0 || (nothing && a->seeds > 1);
}

int sim_command_replica(int argc, char **argv)
{
    struct ask a = {.seeds = 2000, .first = 1, .jobs = 2, .requests = 60000, .stopped = sim_shared(sizeof *a.stopped)};
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, "j:", long_options, NULL)) != -1;) {
        if (take(&a, c) != 0) {
            return 2;
        }
    }
    if (optind + 1 == argc && strcmp(argv[optind], "figures") == 0) {
        return sim_replica_figures(a.only, a.requests, a.first, a.jobs, a.planted, a.measurements);
    }
    if (optind < argc) {
        fprintf(stderr, "bobtail-sim: replica takes figures, or options only; got %s\n", argv[optind]);
        return 2;
    }
    if (a.mode == REPLICA_COUNTS) {
        return replica_counts(a.measurements);
    }
    struct replica_result *results = calloc(a.seeds, sizeof *results);
    int *signals = calloc(a.seeds, sizeof *signals);
    if (results == NULL || signals == NULL || a.stopped == NULL) {
        abort();
    }
    double from = sim_wall_seconds();
    int code = 2;
    if (sim_parallel(a.jobs, &(struct sim_items){.n = a.seeds, .size = sizeof *results, .fn = one_seed, .ctx = &a},
                     results, signals) >= 0) {
        code = judge(&a, results, signals, sim_wall_seconds() - from);
    }
    free(results);
    free(signals);
    return code;
}
