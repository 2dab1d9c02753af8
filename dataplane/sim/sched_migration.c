// SPDX-License-Identifier: Apache-2.0
// See sched_migration.h. A core that is added takes groups of one that has more than it can do, and has taken groups of
// others a moment ago; a core that is removed gives each of the others some of its groups, and none has much to do.
#include "sched_migration.h"

#include <stdlib.h>

#include "buffers.h"
#include "sched_server.h"
#include "stream.h"

enum { GROUPS = 128, REQUESTS = 16384, BATCH = 64, LIMIT_NS = 50000000 };

struct move {
    const struct sim_migration_model *m;
    struct sim_sched_setup setup;
    struct sim_sched_server *server;
    struct sim_sched_request request[REQUESTS];
    uint32_t sent, aside; /* requests; that were put aside and are not answered */
    uint32_t adopted;     /* requests that were there when the groups were */
    uint32_t waiting;     /* requests of the set that are not answered */
    uint32_t deferred;    /* that were put aside */
    uint64_t set[BT_SCHED_GROUPS_MAX / 64];
    uint64_t next[2], asked_at, answered_at;
    enum bt_sched_phase phase;
    uint64_t entered[BT_SCHED_PHASE_HANDED + 1]; /* a phase; REST: the groups are there */
    struct bt_rng rng;
};

static bool goes(const struct move *v, uint32_t group)
{
    return (v->set[group / 64u] >> (group % 64u) & 1u) != 0;
}

static void replied(void *arg, const struct sim_sched_request *r, uint64_t now)
{
    struct move *v = arg;
    if (!goes(v, r->group)) {
        return;
    }
    v->waiting--;
    if (v->aside != 0 && r - v->request < v->adopted && --v->aside == 0) {
        v->answered_at = now;
    }
}

/* Core 0 has the even groups (bt_sched_setup), and gives the first of them away. */
static void arrive(struct move *v, uint32_t core, uint64_t now)
{
    if (v->sent == REQUESTS) {
        return;
    }
    struct sim_sched_request *r = &v->request[v->sent++];
    r->group = r->event.flow = 2u * bt_rng_below(&v->rng, GROUPS / 2u) + core;
    r->service_ns = 0;
    v->waiting += goes(v, r->group);
    sim_sched_arrive(v->server, r, now);
}

static uint64_t gap(struct move *v, uint32_t core)
{
    return 1u + sim_exponential((double)v->m->request_ns / v->m->load[core], &v->rng);
}

static uint32_t first(const uint64_t *at)
{
    return at[0] <= at[1] ? 0 : 1;
}

/* The groups are at their new core: what is not answered of them was put aside. */
static void adopt(struct move *v, uint64_t now)
{
    v->aside = v->deferred = v->waiting;
    v->adopted = v->sent;
    v->answered_at = now;
    for (uint32_t i = 0; i < v->sent && v->m->aside_ns != 0; i++) {
        v->request[i].service_ns = goes(v, v->request[i].group) ? v->m->aside_ns : 0;
    }
}

static void look(struct move *v, uint64_t now)
{
    enum bt_sched_phase phase = bt_sched_move_phase(sim_sched_of(v->server));
    if (phase == v->phase) {
        return;
    }
    v->phase = phase;
    v->entered[phase] = now;
    if (phase == BT_SCHED_PHASE_REST) {
        adopt(v, now);
    }
}

static void ask(struct move *v, uint64_t now)
{
    sim_sched_move(v->server, 0, 1, v->set, now);
    v->phase = BT_SCHED_PHASE_ASKED;
    v->asked_at = now;
}

static bool over(const struct move *v, uint64_t now)
{
    bool there = v->asked_at != 0 && v->phase == BT_SCHED_PHASE_REST;
    return now > LIMIT_NS || (there && v->aside == 0);
}

static void play(struct move *v, uint64_t ask_at)
{
    for (uint64_t now = 0; !over(v, now);) {
        uint64_t due = sim_sched_due(v->server), comes = v->next[first(v->next)];
        now = due < comes ? due : comes;
        if (v->asked_at == 0 && ask_at <= now) {
            ask(v, ask_at);
            now = ask_at;
        } else if (due <= comes) {
            sim_sched_step(v->server);
            look(v, now);
        } else {
            uint32_t core = first(v->next);
            arrive(v, core, now);
            v->next[core] = now + gap(v, core);
        }
    }
}

static struct sim_sched_setup setup_of(const struct sim_migration_model *m, struct move *v)
{
    return (struct sim_sched_setup){
        .sched = {.mode = BT_SCHED_RUN_TO_COMPLETION, .cores = 2, .flows = GROUPS, .groups = GROUPS},
        .costs = {.request_ns = m->request_ns - m->packet_ns, .network_ns = m->network_ns, .packet_ns = m->packet_ns},
        .batch = BATCH,
        .redirect_ns = m->redirect_ns,
        .wait_ns = m->wait_ns,
        .look_at_polls = true,
        .look_ns = m->look_ns,
        .seed = m->seed,
        .arg = v,
        .replied = replied,
    };
}

static void begin(struct move *v)
{
    v->server = sim_sched_open(&v->setup);
    for (uint32_t g = 0; g < GROUPS; g++) {
        bt_sched_open(sim_sched_of(v->server), g, g);
    }
    for (uint32_t g = 0; g < v->m->share * GROUPS; g += 2) {
        v->set[g / 64u] |= 1ull << (g % 64u);
    }
    for (uint32_t core = 0; core < 2; core++) {
        for (double n = v->m->queue[core] * (double)sim_exponential(1e6, &v->rng) / 1e6; n >= 1; n--) {
            arrive(v, core, 1);
        }
        v->next[core] = 1u + gap(v, core);
    }
}

static void add(const struct move *v, struct sim_migration_result *out, double of)
{
    uint64_t redirected = v->entered[BT_SCHED_PHASE_HOLDING] + v->m->redirect_ns;
    uint64_t closing = v->entered[BT_SCHED_PHASE_CLOSING], there = v->entered[BT_SCHED_PHASE_REST];
    out->mean_ns[SIM_MIGRATION_PREPARE] += (double)(redirected - v->asked_at) / of;
    out->mean_ns[SIM_MIGRATION_WAIT] += (double)(closing - redirected) / of;
    out->mean_ns[SIM_MIGRATION_RPC] += (double)(there - closing) / of;
    out->mean_ns[SIM_MIGRATION_DEFERRED] += (double)(v->answered_at - there) / of;
    out->total_ns += (double)(v->answered_at - v->asked_at) / of;
}

/* 5.55 M requests a second of 16 threads are 2.88 us each, and without batches 29 % more (both published); the rest is
 * fitted. A redirection of more groups takes longer. */
void sim_migration_defaults(struct sim_migration_model *m, enum sim_migration_kind kind, uint64_t seed)
{
    static const struct sim_migration_model of[SIM_MIGRATION_KINDS] = {
        [SIM_MIGRATION_ADD] =
            {.load = {0.7, 0.2}, .queue = {90, 95}, .share = 0.42, .request_ns = 2883, .redirect_ns = 30000},
        [SIM_MIGRATION_REMOVE] = {.load = {0.4, 0.8}, .share = 0.3, .request_ns = 3719, .redirect_ns = 19000},
    };
    *m = of[kind];
    m->packet_ns = 1300;
    m->network_ns = 2500;
    m->wait_ns = 10000000;
    m->seed = seed;
}

void sim_migration_run(const struct sim_migration_model *m, uint32_t migrations, struct sim_migration_result *out)
{
    *out = (struct sim_migration_result){0};
    for (uint32_t i = 0; i < migrations; i++) {
        struct move *v = sim_zeroed(sizeof *v);
        v->m = m;
        v->setup = setup_of(m, v);
        v->setup.seed += i;
        sim_stream_seed(&v->rng, v->setup.seed, SIM_STREAM_ARRIVAL);
        begin(v);
        play(v, 2u + bt_rng_below(&v->rng, (uint32_t)(BATCH * m->request_ns)));
        add(v, out, migrations);
        out->deferred += (double)v->deferred / migrations;
        sim_sched_close(v->server);
        free(v);
    }
}
