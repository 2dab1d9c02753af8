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
    struct progress *progress; /* shared between processes */
};

struct progress {
    bool stop;             /* a failing seed was found */
    uint32_t begun, ended; /* seeds; one whose process was killed never ends */
};

/* Seed number → the file it belongs to. */
static uint32_t file_of(const struct plan *p, uint64_t seed)
{
    uint32_t file = (uint32_t)(seed % p->o->files);
    return p->one_in[file] > 1 && seed / p->o->files % p->one_in[file] != 0 ? 0 : file;
}

/* With --stop: is there nothing more to do, because a seed failed or took its process with it? */
static bool begin_seed(const struct plan *p)
{
    struct progress *g = p->progress;
    uint32_t under_way =
        __atomic_fetch_add(&g->begun, 1, __ATOMIC_SEQ_CST) - __atomic_load_n(&g->ended, __ATOMIC_SEQ_CST);
    if (p->o->stop && under_way >= p->o->jobs) {
        __atomic_store_n(&g->stop, true, __ATOMIC_RELAXED);
    }
    return !__atomic_load_n(&g->stop, __ATOMIC_RELAXED);
}

static void one_seed(const void *ctx, uint32_t i, void *out)
{
    const struct plan *p = ctx;
    struct slot *slot = out;
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL) {
        abort();
    }
    if (begin_seed(p) && sim_prepare(p->o, p->t[file_of(p, p->o->first + i)], p->o->first + i, s) == 0) {
        sim_run(s, r, NULL);
        sim_judge_expectations(s, r);
        memcpy(slot->outcome, r->outcome, sizeof slot->outcome);
        slot->packets = r->packets;
        slot->virtual_s = (double)r->virtual_ns / 1e9;
        slot->seen = r->seen;
        slot->verdict = r->verdict;
        slot->ran = true;
        if (p->o->stop && sim_broken(&r->verdict) > 0) {
            __atomic_store_n(&p->progress->stop, true, __ATOMIC_RELAXED);
        }
    }
    __atomic_fetch_add(&p->progress->ended, 1, __ATOMIC_SEQ_CST);
    free(s);
    free(r);
}

/* Does this seed still break the same invariant under other options? */
static bool fails(const struct plan *p, const struct sim_options *o, uint64_t seed, struct sim_scenario *s,
                  struct sim_result *r, uint32_t invariant)
{
    if (sim_prepare(o, p->t[file_of(p, seed)], seed, s) != 0) {
        return false;
    }
    sim_run(s, r, NULL);
    sim_judge_expectations(s, r);
    return r->verdict.broken[invariant] > 0;
}

enum { NAMES_MAX = SIM_FAULTS_MAX + SIM_EVENTS_MAX + 1, SHRINK_SECONDS = 20 };

/* A failing case that is being made smaller: which of its faults and events are still in it. */
struct smaller {
    const struct plan *p;
    struct sim_options o;
    struct sim_scenario *s;
    struct sim_result *r;
    uint64_t seed;
    uint32_t invariant;
    double until;
    char name[NAMES_MAX][SIM_NAME];
    bool kept[NAMES_MAX];
    uint32_t names;
    char only[NAMES_MAX * SIM_NAME];
};

static void write_only(struct smaller *m)
{
    size_t used = 0;
    m->only[0] = '\0';
    for (uint32_t i = 0; i < m->names; i++) {
        if (m->kept[i]) {
            used += (size_t)snprintf(m->only + used, sizeof m->only - used, "%s%s", used > 0 ? "," : "", m->name[i]);
        }
    }
    if (used == 0) {
        snprintf(m->only, sizeof m->only, "none");
    }
    m->o.only_faults = m->only;
}

static bool still_fails(struct smaller *m)
{
    write_only(m);
    return sim_wall_seconds() < m->until && fails(m->p, &m->o, m->seed, m->s, m->r, m->invariant);
}

/* Without names [from, to), if it fails without them too. */
static bool leave_out(struct smaller *m, uint32_t from, uint32_t to)
{
    bool before[NAMES_MAX], any = false;
    memcpy(before, m->kept, sizeof before);
    for (uint32_t i = from; i < to && i < m->names; i++) {
        any = any || m->kept[i];
        m->kept[i] = false;
    }
    if (any && still_fails(m)) {
        return true;
    }
    memcpy(m->kept, before, sizeof before);
    return false;
}

/* Halves, quarters, … single ones, until nothing more can go. */
static void fewer_faults(struct smaller *m)
{
    bool again = true;
    for (uint32_t size = m->names; size > 0; size = size > 1 ? (size + 1) / 2 : again ? 1 : 0) {
        again = false;
        for (uint32_t from = 0; from < m->names; from += size) {
            again = leave_out(m, from, from + size) || again;
        }
    }
}

/* Half the load, then less and less is taken away. */
static uint64_t fewer_requests(struct smaller *m, uint64_t requests)
{
    for (uint64_t step = requests / 2; step > 0; step /= 2) {
        while (requests > step) {
            m->o.requests = requests - step;
            if (!still_fails(m)) {
                break;
            }
            requests -= step;
        }
    }
    return requests;
}

static void name_all(struct smaller *m)
{
    const struct sim_scenario *s = m->s;
    for (uint32_t i = 0; i < s->faults_n; i++) {
        memcpy(m->name[m->names++], s->fault[i].name, SIM_NAME);
    }
    for (uint32_t i = 0; i < s->events_n; i++) {
        snprintf(m->name[m->names++], SIM_NAME, "event%u", s->event[i].number);
    }
    if (s->garbage_per_second > 0) {
        snprintf(m->name[m->names++], SIM_NAME, "garbage");
    }
    if (s->half_open_sources > 0) {
        snprintf(m->name[m->names++], SIM_NAME, "halfOpen");
    }
    memset(m->kept, true, sizeof m->kept);
}

/* Finds a smaller case of the same failure, within bounded time, and prints the one command that shows it. */
static void shrink(const struct plan *p, uint64_t seed, uint32_t invariant)
{
    struct smaller *m = calloc(1, sizeof *m);
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (m == NULL || s == NULL || r == NULL) {
        abort();
    }
    *m = (struct smaller){.p = p, .o = *p->o, .s = s, .r = r, .seed = seed, .invariant = invariant};
    m->until = sim_wall_seconds() + SHRINK_SECONDS;
    if (fails(p, &m->o, seed, s, r, invariant)) {
        name_all(m);
        fewer_faults(m);
        uint64_t requests = fewer_requests(m, m->o.requests > 0 ? m->o.requests : s->requests);
        write_only(m);
        printf("  smallest: bobtail-sim run %s --seed=%llu --only-faults=%s --requests=%llu\n",
               m->o.file[file_of(p, seed)], (unsigned long long)seed, m->only, (unsigned long long)requests);
    }
    free(s);
    free(r);
    free(m);
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
    if (first && signal_no == 0 && !p->o->quiet) {
        shrink(p, seed, slot->verdict.first_invariant);
    }
}

/* Measures every kind of fault; returns how many never happened. */
static uint32_t tell_kinds(const struct plan *p, const struct sim_faults_seen *seen, struct sim_measures *m)
{
    struct sim_fault_count kind[SIM_FAULT_COUNTS_MAX];
    uint32_t n = sim_faults_by_kind(seen, kind), never = 0;
    for (uint32_t i = 0; i < n; i++) {
        char name[SIM_NAME];
        snprintf(name, sizeof name, "sim_faults_realised_%s", kind[i].name);
        sim_measure(m, name, (double)kind[i].times, "count");
        never += kind[i].times == 0;
        if (kind[i].times == 0 && p->o->every_kind) {
            printf("  %s never happened in %u seeds: this sweep proves nothing about it; give it more\n", kind[i].name,
                   p->o->seeds);
        }
    }
    sim_measure(m, "sim_fault_kinds", n, "count");
    sim_measure(m, "sim_fault_kinds_never", never, "count");
    return never;
}

/* All seeds of a sweep, taken together. */
struct tally {
    struct slot sum;
    uint64_t clean, failed, rpcs, faults;
};

static void add_seed(struct tally *t, const struct slot *s)
{
    for (int k = 0; k < SIM_OUTCOMES; k++) {
        t->sum.outcome[k] += s->outcome[k];
        t->rpcs += s->outcome[k];
    }
    t->sum.packets += s->packets;
    t->sum.virtual_s += s->virtual_s;
    sim_faults_add(&t->sum.seen, &s->seen);
    sim_verdict_add(&t->sum.verdict, &s->verdict);
}

/* Prints what failed, the first ten. */
static void tally_up(const struct plan *p, const struct slot *slots, const int *signals, struct tally *t)
{
    for (uint32_t i = 0; i < p->o->seeds; i++) {
        const struct slot *s = &slots[i];
        if (!s->ran && signals[i] == 0) {
            continue;
        }
        add_seed(t, s);
        bool bad = signals[i] != 0 || sim_broken(&s->verdict) > 0;
        if (bad && t->failed < 10) {
            print_failure(p, i, s, signals[i], t->failed == 0);
        }
        t->failed += bad;
        t->clean += !bad;
    }
    t->faults = sim_faults_total(&t->sum.seen);
}

static void print_tally(const struct plan *p, const struct tally *t, double wall)
{
    const struct slot *sum = &t->sum;
    for (uint32_t i = 0; i < p->o->files; i++) {
        printf("sweep of %s\n", p->o->file[i]);
    }
    printf("  seeds %llu to %llu, %llu clean, %llu failed\n", (unsigned long long)p->o->first,
           (unsigned long long)(p->o->first + p->o->seeds - 1), (unsigned long long)t->clean,
           (unsigned long long)t->failed);
    printf("  %llu RPCs: %llu answered, %llu timed out, %llu dropped, %llu errors; %llu packets, %.0f virtual seconds "
           "in %.1f s\n",
           (unsigned long long)t->rpcs, (unsigned long long)sum->outcome[SIM_SUCCESS],
           (unsigned long long)sum->outcome[SIM_TIMEOUT], (unsigned long long)sum->outcome[SIM_DROPPED],
           (unsigned long long)sum->outcome[SIM_ERROR], (unsigned long long)sum->packets, sum->virtual_s, wall);
    sim_print_faults(stdout, &sum->seen);
    sim_print_invariants(stdout, &sum->verdict);
    if (t->faults == 0) {
        puts("  no fault ever happened: this sweep proves nothing");
    }
}

static int judge(const struct plan *p, const struct slot *slots, const int *signals, double wall)
{
    struct tally t = {0};
    tally_up(p, slots, signals, &t);
    print_tally(p, &t, wall);
    struct sim_measures m;
    if (sim_measures_open(&m, p->o->measurements) != 0) {
        return 2;
    }
    sim_measure(&m, "seeds_clean", (double)t.clean, "count");
    sim_measure(&m, "seeds_failed", (double)t.failed, "count");
    sim_measure(&m, "sim_faults_realised", (double)t.faults, "count");
    uint32_t never = tell_kinds(p, &t.sum.seen, &m);
    sim_measure(&m, "sim_malformed_packets", (double)t.sum.seen.garbage, "count");
    sim_measure(&m, "sim_rpcs_swept", (double)t.rpcs, "count");
    sim_measure(&m, "sim_sweep_seconds", wall, "s");
    if (sim_measures_close(&m) != 0) {
        return 2;
    }
    return t.failed > 0 || t.faults == 0 || (p->o->every_kind && never > 0);
}

int sim_command_sweep(const struct sim_options *o)
{
    char err[1000];
    struct plan p = {.o = o, .progress = sim_shared(sizeof *p.progress)};
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
    if (p.progress == NULL || slots == NULL || signals == NULL) {
        abort();
    }
    double from = sim_wall_seconds();
    int code = 2;
    if (sim_parallel(o->jobs, &(struct sim_items){.n = o->seeds, .size = sizeof *slots, .fn = one_seed, .ctx = &p},
                     slots, signals) >= 0) {
        code = judge(&p, slots, signals, sim_wall_seconds() - from);
    } else {
        fprintf(stderr, "bobtail-sim: no process could be started\n");
    }
    free(slots);
    free(signals);
    for (uint32_t i = 0; i < o->files; i++) {
        sim_template_free(p.t[i]);
    }
    return code;
}
