// SPDX-License-Identifier: Apache-2.0
// See sched_lanes.h. Requests are held in the order they came, so they leave in it; both delays are constant, so what
// is under way arrives in the order it left.
#include "sched_lanes.h"

#include <stdlib.h>

#include "buffers.h"
#include "router/policy.h"
#include "sample.h"
#include "sched_server.h"

enum { FLOWS = 4096 };

struct told {
    uint64_t at; /* when the router hears of it */
    uint32_t lane;
};

struct lanes;

struct lane {
    struct lanes *all;
    struct sim_sched_setup setup;
    struct sim_sched_server *server;
    uint32_t number, groups, outstanding; /* as the router counts */
};

struct lanes {
    const struct sim_policy_model *m;
    struct sim_job *job;
    struct sim_sched_request *request;
    uint64_t *sent_at; /* by the router */
    uint8_t *to;       /* lane */
    uint64_t *sojourn;
    struct told *told;
    size_t n, arrived, sent, delivered, replied, heard;
    struct lane lane[SIM_SCHED_LANES_MAX];
    uint32_t lanes;
    struct bt_load load;
    struct bt_rng choice;
};

static void replied(void *arg, const struct sim_sched_request *r, uint64_t now)
{
    struct lane *l = arg;
    struct lanes *a = l->all;
    size_t i = (size_t)(r - a->request);
    a->sojourn[i] = now + a->m->path.reply_ns - a->job[i].arrival_ns;
    a->told[a->replied++] = (struct told){now + a->m->path.feedback_ns, l->number};
}

static void open_lane(struct lanes *a, uint32_t i, const struct sim_sched_lane *of)
{
    struct lane *l = &a->lane[i];
    l->all = a;
    l->number = i;
    l->groups = BT_SCHED_GROUPS_MAX - BT_SCHED_GROUPS_MAX % of->cores;
    l->setup = (struct sim_sched_setup){
        .sched = {.mode = BT_SCHED_WORK_STEALING, .cores = of->cores, .flows = FLOWS, .groups = l->groups},
        .costs = {.request_ns = a->m->overhead_ns},
        .batch = a->m->batch,
        .flow_each = true,
        .seed = a->m->seed + i,
        .arg = l,
        .replied = replied,
    };
    l->server = sim_sched_open(&l->setup);
    bt_load_set(&a->load, i, 0, of->n);
}

static void send_what_may(struct lanes *a, uint64_t now)
{
    while (a->sent < a->arrived) {
        uint32_t to = bt_balancers[BT_ROUTER_JBSQ].pick(&a->load);
        if (to == BT_NO_WORKER) {
            return;
        }
        a->lane[to].outstanding++;
        bt_load_push(&a->load, to);
        a->sent_at[a->sent] = now;
        a->to[a->sent++] = (uint8_t)to;
    }
}

static void deliver(struct lanes *a, uint64_t now)
{
    size_t i = a->delivered++;
    struct lane *l = &a->lane[a->to[i]];
    a->request[i].service_ns = a->job[i].service_ns;
    a->request[i].group = bt_rng_below(&a->choice, l->groups);
    sim_sched_arrive(l->server, &a->request[i], now);
}

static void hear(struct lanes *a, uint64_t now)
{
    struct lane *l = &a->lane[a->told[a->heard++].lane];
    bt_load_move(&a->load, l->number, --l->outstanding);
    send_what_may(a, now);
}

static uint32_t first_lane(const struct lanes *a)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < a->lanes; i++) {
        first = sim_sched_due(a->lane[i].server) < sim_sched_due(a->lane[first].server) ? i : first;
    }
    return first;
}

static void arrive(struct lanes *a, uint64_t now)
{
    a->arrived++;
    if (a->sent + 1u == a->arrived) { /* nobody overtakes */
        send_what_may(a, now);
    }
}

/* What may be next; of two at one time the one that stands first here. */
enum { CORE, TOLD, PACKET, ARRIVAL, KINDS };

/* False: all is over. */
static bool step(struct lanes *a)
{
    const struct sim_policy_path *path = &a->m->path;
    uint32_t lane = first_lane(a), next = CORE;
    const uint64_t at[KINDS] = {
        [CORE] = sim_sched_due(a->lane[lane].server),
        [TOLD] = a->heard < a->replied ? a->told[a->heard].at : SIM_NOTICE_NEVER,
        [PACKET] = a->delivered < a->sent ? a->sent_at[a->delivered] + path->dispatch_ns : SIM_NOTICE_NEVER,
        [ARRIVAL] = a->arrived < a->n ? a->job[a->arrived].arrival_ns : SIM_NOTICE_NEVER,
    };
    for (uint32_t i = 1; i < KINDS; i++) {
        next = at[i] < at[next] ? i : next;
    }
    if (at[next] >= SIM_NOTICE_NEVER) {
        return false;
    }
    if (next == CORE) {
        sim_sched_step(a->lane[lane].server);
    } else if (next == TOLD) {
        hear(a, at[next]);
    } else if (next == PACKET) {
        deliver(a, at[next]);
    } else {
        arrive(a, at[next]);
    }
    return true;
}

static double p99(struct lanes *a)
{
    struct sim_samples s;
    size_t first = (size_t)((double)a->n * a->m->warmup);
    sim_samples_init(&s, a->n - first);
    for (size_t i = first; i < a->n; i++) {
        s.v[s.n++] = a->sojourn[i];
    }
    double found = (double)sim_samples_percentile(&s, 99);
    sim_samples_free(&s);
    return found;
}

uint32_t sim_sched_lane_n(const struct sim_policy_model *m, uint32_t cores)
{
    double loop = (double)(m->path.dispatch_ns + m->path.feedback_ns);
    uint32_t n = (uint32_t)(cores * (1.0 + loop / m->service.mean_ns)) + 8u;
    return n < SIM_POLICY_DEPTH_MAX ? n : SIM_POLICY_DEPTH_MAX;
}

double sim_sched_lanes_p99(const struct sim_policy_model *m, const struct sim_sched_lane *lane, uint32_t lanes)
{
    struct lanes *a = sim_zeroed(sizeof *a);
    a->m = m;
    a->n = m->requests;
    a->lanes = lanes;
    a->job = sim_zeroed(a->n * sizeof *a->job);
    a->request = sim_zeroed(a->n * sizeof *a->request);
    a->sent_at = sim_zeroed(a->n * sizeof *a->sent_at);
    a->to = sim_zeroed(a->n);
    a->sojourn = sim_zeroed(a->n * sizeof *a->sojourn);
    a->told = sim_zeroed(a->n * sizeof *a->told);
    sim_stream_seed(&a->choice, m->seed, SIM_STREAM_CHOICE);
    bt_load_init(&a->load, bt_rng_next(&a->choice));
    bt_load_bound(&a->load, true);
    for (uint32_t i = 0; i < lanes; i++) {
        open_lane(a, i, &lane[i]);
    }
    sim_policy_jobs(m, a->job);
    while (step(a)) {
    }
    double found = p99(a);
    for (uint32_t i = 0; i < lanes; i++) {
        sim_sched_close(a->lane[i].server);
    }
    free(a->job);
    free(a->request);
    free(a->sent_at);
    free(a->to);
    free(a->sojourn);
    free(a->told);
    free(a);
    return found;
}
