// SPDX-License-Identifier: Apache-2.0
// One server whose cores run the product's scheduler (src/sched): every request its own flow (D-4), its home drawn by
// the network. Unlike policy_steal.c, which says what stealing would give, this is what ships.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "sched_server.h"

enum { FLOWS = 1 << 16, GROUPS = BT_SCHED_GROUPS_MAX };

struct play {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    const struct sim_sched_request *request;
    uint64_t *sojourn;
    struct sim_policy_counts *counts;
    bool lost; /* patience has ended */
};

static void replied(void *arg, const struct sim_sched_request *r, uint64_t now)
{
    struct play *p = arg;
    size_t i = (size_t)(r - p->request);
    p->sojourn[i] = now + p->m->path.reply_ns - p->job[i].arrival_ns;
    p->lost = p->lost || sim_policy_impatient(p->m, p->counts, i, p->sojourn[i]);
}

static struct sim_sched_setup setup_of(const struct sim_policy_model *m, struct play *p)
{
    bool steals = m->kind == SIM_POLICY_WORK_STEALING;
    return (struct sim_sched_setup){
        .sched = {.mode = steals ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION,
                  .cores = m->workers,
                  .flows = FLOWS,
                  .groups = GROUPS - GROUPS % m->workers, /* as many at each core */
                  .keep_stack = !m->interrupts},
        .costs = {.request_ns = m->overhead_ns, .network_ns = m->look_ns},
        .batch = m->batch,
        .together = m->together,
        .flow_each = true,
        .seed = m->seed,
        .arg = p,
        .replied = replied,
    };
}

static void run(struct play *p, struct sim_sched_server *sv, struct sim_sched_request *r, size_t n)
{
    struct bt_rng choice;
    uint32_t groups = GROUPS - GROUPS % p->m->workers;
    sim_stream_seed(&choice, p->m->seed, SIM_STREAM_CHOICE);
    for (size_t i = 0; i < n && !p->lost; i++) {
        uint64_t now = p->job[i].arrival_ns + p->m->path.client_server_ns;
        while (sim_sched_due(sv) <= now) {
            sim_sched_step(sv);
        }
        r[i].group = bt_rng_below(&choice, groups);
        r[i].service_ns = p->job[i].service_ns;
        p->counts->dropped += !sim_sched_arrive(sv, &r[i], now);
    }
    while (sim_sched_due(sv) != SIM_NOTICE_NEVER && !p->lost) {
        sim_sched_step(sv);
    }
}

static void count(const struct sim_policy_model *m, struct sim_sched_server *sv, struct sim_policy_counts *counts)
{
    for (uint32_t c = 0; c < m->workers; c++) {
        struct bt_sched_counts own;
        bt_sched_read_counts(sim_sched_of(sv), c, &own);
        counts->stolen += own.stolen;
    }
}

void sim_policy_sched(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                      struct sim_policy_counts *counts)
{
    struct sim_sched_request *r = sim_zeroed(n * sizeof *r);
    struct play p = {m, job, r, sojourn_ns, counts, false};
    struct sim_sched_setup setup = setup_of(m, &p);
    struct sim_sched_server *sv = sim_sched_open(&setup);
    for (size_t i = 0; i < n; i++) {
        sojourn_ns[i] = SIM_POLICY_DROPPED;
    }
    run(&p, sv, r, n);
    count(m, sv, counts);
    sim_sched_close(sv);
    free(r);
}
