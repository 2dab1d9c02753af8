// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim store`: many seeds of a member's storage over disks that lose, tear, reorder, fill, fail and rot.
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "option.h"
#include "options.h"
#include "parallel.h"
#include "report.h"
#include "store_model.h"

static const char usage_text[] = "usage: bobtail-sim store [options]\n"
                                 "\n"
                                 "The write-ahead log of a replication group's member on a disk in virtual time: lives "
                                 "that end in a crash, and what\n"
                                 "the next one finds.\n"
                                 "\n"
                                 "  --seeds=N --first=S   (default 2000 from 1)\n"
                                 "  --every-kind          fail when a kind of fault never happened\n"
                                 "  --stop                stop at the first failing seed\n"
                                 "  --quiet               print the failing seeds only\n"
                                 "  -j N, --jobs=N        processes (default 2)\n"
                                 "  --measurements=FILE\n";

struct ask {
    uint32_t seeds;
    uint64_t first;
    unsigned jobs;
    bool every_kind, stop, quiet;
    const char *measurements;
    bool *stopped; /* shared between processes */
};

struct slot {
    struct sim_store_result result;
    char broken[40];
    bool ran;
};

static void one_seed(const void *ctx, uint32_t i, void *out)
{
    const struct ask *a = ctx;
    struct slot *slot = out;
    if (a->stop && __atomic_load_n(a->stopped, __ATOMIC_RELAXED)) {
        return;
    }
    sim_store_run(a->first + i, &slot->result);
    slot->ran = true;
    if (slot->result.broken != NULL) {
        snprintf(slot->broken, sizeof slot->broken, "%s", slot->result.broken);
        __atomic_store_n(a->stopped, true, __ATOMIC_RELAXED);
    }
}

struct sums {
    uint32_t clean, failed, never;
    uint64_t count[SIM_STORE_COUNTS], seen[SIM_DISK_SEEN];
};

static void add(const struct ask *a, const struct slot *slots, const int *signals, struct sums *sums)
{
    for (uint32_t i = 0; i < a->seeds; i++) {
        const struct slot *s = &slots[i];
        unsigned long long seed = a->first + i;
        if (signals[i] > 0) {
            printf("seed %llu: killed by signal %d\n", seed, signals[i]);
        } else if (s->broken[0] != '\0') {
            printf("seed %llu: %s: %s; again: bobtail-sim store --first=%llu --seeds=1\n", seed, s->broken,
                   s->result.text, seed);
        }
        sums->failed += signals[i] > 0 || s->broken[0] != '\0';
        sums->clean += s->ran && s->broken[0] == '\0';
        for (uint32_t k = 0; k < SIM_STORE_COUNTS; k++) {
            sums->count[k] += s->result.count[k];
        }
        for (uint32_t k = 0; k < SIM_DISK_SEEN; k++) {
            sums->seen[k] += s->result.seen[k];
        }
    }
}

static void print_sums(const struct ask *a, struct sums *sums)
{
    for (uint32_t k = 0; k < SIM_STORE_COUNTS; k++) {
        sums->never += sums->count[k] == 0;
        if (!a->quiet) {
            printf("%-24s %12llu\n", sim_store_count_name(k), (unsigned long long)sums->count[k]);
        }
    }
    for (uint32_t k = 0; k < SIM_DISK_SEEN; k++) {
        sums->never += sums->seen[k] == 0;
        if (!a->quiet) {
            printf("%-24s %12llu\n", sim_disk_seen_name(k), (unsigned long long)sums->seen[k]);
        }
    }
    printf("%u seeds clean, %u failed; kinds of fault that never happened: %u\n", sums->clean, sums->failed,
           sums->never);
}

static int command(struct ask *a)
{
    struct sim_measures measures;
    struct sums sums = {0};
    struct slot *slots = calloc(a->seeds, sizeof *slots);
    int *signals = calloc(a->seeds, sizeof *signals);
    a->stopped = sim_shared(sizeof *a->stopped);
    if (slots == NULL || signals == NULL || a->stopped == NULL || sim_measures_open(&measures, a->measurements) != 0) {
        return 2;
    }
    struct sim_items items = {.n = a->seeds, .size = sizeof *slots, .fn = one_seed, .ctx = a};
    int lost = sim_parallel(a->jobs, &items, slots, signals);
    add(a, slots, signals, &sums);
    print_sums(a, &sums);
    sim_measure(&measures, "seeds_clean", sums.clean, "count");
    sim_measure(&measures, "seeds_failed", sums.failed, "count");
    sim_measure(&measures, "store_kinds_never", sums.never, "count");
    sim_measure(&measures, "store_acknowledged", (double)sums.count[SIM_STORE_ACKNOWLEDGED], "count");
    sim_measure(&measures, "store_power_losses", (double)sums.count[SIM_STORE_POWER_LOSSES], "count");
    bool bad = sums.failed > 0 || lost != 0 || (a->every_kind && sums.never > 0);
    free(slots);
    free(signals);
    return sim_measures_close(&measures) != 0 ? 2 : bad;
}

int sim_command_store(int argc, char **argv)
{
    struct ask a = {.seeds = 2000, .first = 1, .jobs = 2};
    const struct sim_option rows[] = {
        {"seeds", SIM_OPTION_U32, &a.seeds, .least = 1, .most = 1e7},
        {"first", SIM_OPTION_U64, &a.first, .least = 1, .most = 9e15},
        {"jobs", SIM_OPTION_U32, &a.jobs, .least = 1, .most = 64},
        SIM_TEXT("measurements", &a.measurements),
        SIM_FLAG("every-kind", &a.every_kind),
        SIM_FLAG("stop", &a.stop),
        SIM_FLAG("quiet", &a.quiet),
    };
    int code = sim_options_only(SIM_OPTIONS("store", usage_text, rows), argc, argv);
    return code >= 0 ? code : command(&a);
}
