// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim sweep`: many seeds of one scenario. A sweep in which no fault happened fails too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "parallel.h"
#include "report.h"

struct slot {
    uint64_t outcome[SIM_OUTCOMES], packets;
    double virtual_s;
    struct sim_faults_seen seen;
    struct sim_verdict verdict;
    bool ran;
};

struct plan {
    const struct sim_options *o;
    struct sim_template *t[SIM_FILES_MAX];
    uint32_t
        one_in[SIM_FILES_MAX]; /* of the seeds of a file, only every so many are its own; the rest go to the first */
    uint64_t *stop;            /* shared between processes: a failing seed was found */
};

/* Seed number → the file it belongs to. */
static uint32_t file_of(const struct plan *p, uint64_t seed)
{
    uint32_t file = (uint32_t)(seed % p->o->files);
    return p->one_in[file] > 1 && seed / p->o->files % p->one_in[file] != 0 ? 0 : file;
}

static void one_seed(const void *ctx, uint32_t i, void *out)
{
    const struct plan *p = ctx;
    struct slot *slot = out;
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL)
        abort();
    if (__atomic_load_n(p->stop, __ATOMIC_RELAXED) == 0 &&
        sim_prepare(p->o, p->t[file_of(p, p->o->first + i)], p->o->first + i, s) == 0) {
        sim_run(s, r, NULL);
        sim_judge_expectations(s, r);
        memcpy(slot->outcome, r->outcome, sizeof slot->outcome);
        slot->packets = r->packets;
        slot->virtual_s = (double)r->virtual_ns / 1e9;
        slot->seen = r->seen;
        slot->verdict = r->verdict;
        slot->ran = true;
        if (p->o->stop && sim_broken(&r->verdict) > 0)
            __atomic_store_n(p->stop, 1, __ATOMIC_RELAXED);
    }
    free(s);
    free(r);
}

/* Does this seed still break the same invariant under other options? */
static bool fails(const struct plan *p, const struct sim_options *o, uint64_t seed, struct sim_scenario *s,
                  struct sim_result *r, uint32_t invariant)
{
    if (sim_prepare(o, p->t[file_of(p, seed)], seed, s) != 0)
        return false;
    sim_run(s, r, NULL);
    sim_judge_expectations(s, r);
    return r->verdict.broken[invariant] > 0;
}

/* Leaves out faults and events one at a time, as long as the seed still fails without them. */
static void leave_out(const struct plan *p, struct sim_options *o, uint64_t seed, char *without, size_t n,
                      struct sim_scenario *s, struct sim_result *r, uint32_t invariant)
{
    char names[SIM_FAULTS_MAX + SIM_EVENTS_MAX + 1][SIM_NAME];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->faults_n; i++)
        memcpy(names[count++], s->fault[i].name, SIM_NAME);
    for (uint32_t i = 0; i < s->events_n; i++)
        snprintf(names[count++], SIM_NAME, "event%u", s->event[i].number);
    snprintf(names[count++], SIM_NAME, "garbage");
    o->without = without;
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(without);
        snprintf(without + used, n - used, "%s%.60s", used > 0 ? "," : "", names[i]);
        if (!fails(p, o, seed, s, r, invariant))
            without[used] = '\0';
    }
}

/* Finds a smaller case of the same failure and prints how to see it. */
static void shrink(const struct plan *p, uint64_t seed, uint32_t invariant)
{
    struct sim_options o = *p->o;
    char without[1400] = "";
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL)
        abort();
    if (fails(p, &o, seed, s, r, invariant)) {
        uint64_t requests = o.requests > 0 ? o.requests : s->requests;
        leave_out(p, &o, seed, without, sizeof without, s, r, invariant);
        for (o.requests = requests / 2; o.requests > 1 && fails(p, &o, seed, s, r, invariant); o.requests /= 2)
            requests = o.requests;
        printf("  smallest: bobtail-sim run %s --seed=%llu --requests=%llu%s%s\n", o.file[file_of(p, seed)],
               (unsigned long long)seed, (unsigned long long)requests, without[0] != '\0' ? " --without=" : "",
               without);
    }
    free(s);
    free(r);
}

static void print_failure(const struct plan *p, uint32_t i, const struct slot *slot, int signal_no, bool first)
{
    uint64_t seed = p->o->first + i;
    if (signal_no != 0) {
        printf("seed %llu: killed by signal %d\n", (unsigned long long)seed, signal_no);
    } else {
        printf("seed %llu: %s\n", (unsigned long long)seed, slot->verdict.first);
    }
    printf("  replay:   bobtail-sim run %s --seed=%llu\n", p->o->file[file_of(p, seed)], (unsigned long long)seed);
    if (first && signal_no == 0 && !p->o->quiet)
        shrink(p, seed, slot->verdict.first_invariant);
}

static int judge(const struct plan *p, const struct slot *slots, const int *signals, double wall)
{
    struct slot sum = {0};
    uint64_t clean = 0, failed = 0;
    for (uint32_t i = 0; i < p->o->seeds; i++) {
        const struct slot *s = &slots[i];
        if (!s->ran && signals[i] == 0)
            continue;
        for (int k = 0; k < SIM_OUTCOMES; k++)
            sum.outcome[k] += s->outcome[k];
        sum.packets += s->packets;
        sum.virtual_s += s->virtual_s;
        sim_faults_add(&sum.seen, &s->seen);
        sim_verdict_add(&sum.verdict, &s->verdict);
        bool bad = signals[i] != 0 || sim_broken(&s->verdict) > 0;
        if (bad && failed < 10)
            print_failure(p, i, s, signals[i], failed == 0);
        failed += bad;
        clean += !bad;
    }
    uint64_t faults = sim_faults_total(&sum.seen), rpcs = 0;
    for (int k = 0; k < SIM_OUTCOMES; k++)
        rpcs += sum.outcome[k];
    for (uint32_t i = 0; i < p->o->files; i++)
        printf("sweep of %s\n", p->o->file[i]);
    printf("  seeds %llu to %llu, %llu clean, %llu failed\n", (unsigned long long)p->o->first,
           (unsigned long long)(p->o->first + p->o->seeds - 1), (unsigned long long)clean, (unsigned long long)failed);
    printf("  %llu RPCs: %llu answered, %llu timed out, %llu dropped, %llu errors; %llu packets, %.0f virtual seconds "
           "in %.1f s\n",
           (unsigned long long)rpcs, (unsigned long long)sum.outcome[SIM_SUCCESS],
           (unsigned long long)sum.outcome[SIM_TIMEOUT], (unsigned long long)sum.outcome[SIM_DROPPED],
           (unsigned long long)sum.outcome[SIM_ERROR], (unsigned long long)sum.packets, sum.virtual_s, wall);
    sim_print_faults(stdout, &sum.seen);
    sim_print_invariants(stdout, &sum.verdict);
    if (faults == 0)
        puts("  no fault ever happened: this sweep proves nothing");
    struct sim_measures m;
    if (sim_measures_open(&m, p->o->measurements) != 0)
        return 2;
    sim_measure(&m, "seeds_clean", (double)clean, "count");
    sim_measure(&m, "seeds_failed", (double)failed, "count");
    sim_measure(&m, "sim_faults_realised", (double)faults, "count");
    sim_measure(&m, "sim_malformed_packets", (double)sum.seen.garbage, "count");
    sim_measure(&m, "sim_rpcs_swept", (double)rpcs, "count");
    sim_measure(&m, "sim_sweep_seconds", wall, "s");
    if (sim_measures_close(&m) != 0)
        return 2;
    return failed > 0 || faults == 0;
}

int sim_command_sweep(const struct sim_options *o)
{
    char err[1000];
    struct plan p = {.o = o, .stop = sim_shared(sizeof *p.stop)};
    for (uint32_t i = 0; i < o->files; i++) {
        p.t[i] = sim_template_load(o->file[i], err, sizeof err);
        if (p.t[i] != NULL) {
            struct sim_scenario s;
            sim_template_draw(p.t[i], 1, &s, err, sizeof err);
            p.one_in[i] = s.one_seed_in;
            continue;
        }
        fprintf(stderr, "bobtail-sim: %s\n", err);
        return 2;
    }
    struct slot *slots = calloc(o->seeds, sizeof *slots);
    int *signals = calloc(o->seeds, sizeof *signals);
    if (p.stop == NULL || slots == NULL || signals == NULL)
        abort();
    double from = sim_wall_seconds();
    int code = 2;
    if (sim_parallel(o->jobs, o->seeds, sizeof *slots, one_seed, &p, slots, signals) >= 0) {
        code = judge(&p, slots, signals, sim_wall_seconds() - from);
    } else {
        fprintf(stderr, "bobtail-sim: no process could be started\n");
    }
    free(slots);
    free(signals);
    for (uint32_t i = 0; i < o->files; i++)
        sim_template_free(p.t[i]);
    return code;
}
