// SPDX-License-Identifier: Apache-2.0
// See replica_counts.h.
#include "replica_counts.h"

#include <math.h>
#include <stdio.h>

#include "replica_run.h"
#include "report.h"

enum { OPS = 3000 };
#define WITHIN_PERCENT 2.0

struct figure {
    double tx, rx, apart;
};

/* What table 12.1 says. */
static struct figure expected(enum replica_protocol protocol, uint32_t n)
{
    double reply = protocol == REPLICA_RAFT ? 1 : 1.0 / n;
    if (protocol == REPLICA_HOVERCRAFTPP) {
        return (struct figure){.tx = 1 + reply, .rx = 2};
    }
    return (struct figure){.tx = n - 1 + reply, .rx = n};
}

static double off_percent(struct figure a, struct figure b)
{
    return 100 * fmax(fabs(a.tx / b.tx - 1), fabs(a.rx / b.rx - 1));
}

static void put(struct sim_measures *m, const char *protocol, uint32_t n, struct figure f)
{
    char name[64];
    snprintf(name, sizeof name, "leader_tx_per_op_%s_n%u", protocol, n);
    sim_measure(m, name, f.tx, "count");
    snprintf(name, sizeof name, "leader_rx_per_op_%s_n%u", protocol, n);
    sim_measure(m, name, f.rx, "count");
}

/* Returns how far from the table, in percent. */
static double one(struct sim_measures *m, enum replica_protocol protocol, uint32_t n)
{
    static const char *const names[REPLICA_PROTOCOLS] = {"raft", "hovercraft", "hovercraftpp"};
    struct replica_tally t;
    if (!replica_run_counts(protocol, n, OPS, &t)) {
        printf("  %-12s n=%u: the group was not quiet\n", names[protocol], n);
        return INFINITY;
    }
    struct figure f = {.tx = (double)(t.tx_entries + t.tx_replies) / OPS,
                       .rx = (double)(t.rx_requests + t.rx_acks) / OPS,
                       .apart = (double)t.apart / OPS};
    struct figure want = expected(protocol, n);
    printf("  %-12s n=%u: tx %.3f (%.3f), rx %.3f (%.3f); %.2f apart\n", names[protocol], n, f.tx, want.tx, f.rx,
           want.rx, f.apart);
    put(m, names[protocol], n, f);
    return off_percent(f, want);
}

int replica_counts(const char *measurements)
{
    struct sim_measures m;
    double worst = 0;
    if (sim_measures_open(&m, measurements) != 0) {
        return 2;
    }
    printf("messages of the leader for one request, %d requests one after the other (table 12.1 in brackets); apart: "
           "signs "
           "of life, announcements of a commit, their answers, questions for bodies\n",
           OPS);
    for (uint32_t protocol = 0; protocol < REPLICA_PROTOCOLS; protocol++) {
        for (uint32_t n = 3; n <= 9; n += 2) {
            worst = fmax(worst, one(&m, (enum replica_protocol)protocol, n));
        }
    }
    sim_measure(&m, "table_12_1_off_percent", worst, "%");
    return sim_measures_close(&m) != 0 ? 2 : worst > WITHIN_PERCENT;
}
