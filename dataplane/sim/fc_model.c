// SPDX-License-Identifier: Apache-2.0
// See fc_model.h.
#include "fc_model.h"

#include <stdlib.h>

#include "buffers.h"
#include "policy_heap.h"
#include "rpc/fc_sender.h"
#include "sample.h"
#include "sched/fc_receiver.h"

enum { NOBODY = UINT32_MAX, LANES_MAX = 16 };

/* What happens next to a request; slot g below `groups` stands for group g's next one. */
enum stage { ASK, AT_SERVER, DONE, AT_CLIENT };

struct request {
    enum stage stage;
    uint32_t connection, next; /* next: in the lane's queue, or of the free ones */
    uint64_t asked, arrived, began;
    uint16_t signal;
    bool refused;
};

struct connection {
    struct bt_fc_sender sender;
    struct bt_fc_conn conn;
    uint32_t group, server, lane;
};

struct lane {
    struct bt_fc_receiver receiver;
    uint32_t first, last, busy;
};

struct world {
    const struct sim_fc_model *m;
    struct sim_heap heap;
    struct request *request;
    uint32_t requests, spare; /* made; first of the free ones */
    struct connection *connection;
    struct lane lane[SIM_FC_SERVERS][LANES_MAX];
    struct bt_rng arrival, service, client;
    struct sim_samples latency[SIM_FC_GROUPS], wait[SIM_FC_SERVERS];
    uint64_t asked, measured_from, now;
    uint64_t served[SIM_FC_SERVERS];
    bool measuring;
    struct sim_fc_result *out;
};

static void at(struct world *w, uint64_t when, uint32_t i, enum stage stage)
{
    w->request[i].stage = stage;
    sim_heap_push(&w->heap, when, i);
}

static uint32_t take_request(struct world *w)
{
    uint32_t i = w->spare;
    if (i != NOBODY) {
        w->spare = w->request[i].next;
        return i;
    }
    return w->requests++;
}

static void give_back(struct world *w, uint32_t i)
{
    w->request[i].next = w->spare;
    w->spare = i;
}

static struct connection *connection(const struct world *w, uint32_t group, uint32_t server, uint32_t i)
{
    return &w->connection[(group * SIM_FC_SERVERS + server) * w->m->connections + i];
}

/* --- the client --- */

/* On which of its connections a request of the group can be sent now; NULL: on none that was tried. */
static struct connection *choose(struct world *w, uint32_t group)
{
    const struct sim_fc_group *g = &w->m->group[group];
    struct connection *any[SIM_FC_SERVERS];
    struct bt_fc_sender *senders[SIM_FC_SERVERS];
    uint32_t i = sim_below(&w->client, w->m->connections), first = sim_below(&w->client, g->servers);
    uint64_t wait;
    for (uint32_t s = 0; s < g->servers; s++) {
        any[s] = connection(w, group, g->first + s, i);
        senders[s] = &any[s]->sender;
    }
    if (!w->m->controlled) {
        return any[first];
    }
    uint32_t taken = bt_fc_take_any(senders, g->servers, first, w->now, &wait);
    return taken < g->servers ? any[taken] : NULL;
}

static void ask(struct world *w, uint32_t group)
{
    const struct sim_fc_model *m = w->m;
    if (w->asked >= m->requests) {
        return;
    }
    w->asked++;
    if (!w->measuring && w->asked > m->requests / 4) {
        w->measuring = true;
        w->measured_from = w->now;
    }
    w->out->group[group].asked += w->measuring;
    struct connection *c = choose(w, group);
    if (c == NULL) {
        w->out->group[group].dropped += w->measuring;
    } else {
        uint32_t i = take_request(w);
        w->request[i] = (struct request){.connection = (uint32_t)(c - w->connection), .asked = w->now};
        at(w, w->now + (uint64_t)m->path_ns, i, AT_SERVER);
    }
    at(w, w->now + sim_exponential(1e9 / m->group[group].rps, &w->arrival), group, ASK);
}

static void answered(struct world *w, uint32_t i)
{
    const struct request *q = &w->request[i];
    struct connection *c = &w->connection[q->connection];
    bt_fc_ended(&c->sender);
    bt_fc_signalled(&c->sender, w->now, q->signal);
    if (w->measuring && q->asked >= w->measured_from) {
        if (q->refused) {
            w->out->group[c->group].dropped++;
        } else {
            sim_samples_add(&w->latency[c->group], w->now - q->asked);
        }
    }
    give_back(w, i);
}

/* --- the server --- */

static void begin(struct world *w, struct lane *l, uint32_t i)
{
    struct request *q = &w->request[i];
    l->busy++;
    q->began = w->now;
    if (w->measuring && q->asked >= w->measured_from) {
        sim_samples_add(&w->wait[w->connection[q->connection].server], q->began - q->arrived);
    }
    at(w, w->now + (uint64_t)w->m->overhead_ns + sim_dist_draw(&w->m->service, &w->service), i, DONE);
}

static void reply(struct world *w, struct lane *l, uint32_t i)
{
    struct request *q = &w->request[i];
    struct connection *c = &w->connection[q->connection];
    q->signal = bt_fc_advertise(&l->receiver, &c->conn, w->now);
    at(w, w->now + (uint64_t)w->m->path_ns, i, AT_CLIENT);
}

static struct lane *lane_of(struct world *w, uint32_t i)
{
    const struct connection *c = &w->connection[w->request[i].connection];
    return &w->lane[c->server][c->lane];
}

static void arrived(struct world *w, uint32_t i)
{
    struct lane *l = lane_of(w, i);
    struct request *q = &w->request[i];
    struct connection *c = &w->connection[q->connection];
    q->arrived = w->now;
    if (w->m->controlled && !bt_fc_arrived(&l->receiver, &c->conn, w->now)) {
        q->refused = true;
        w->out->server[c->server].refused++;
        reply(w, l, i);
    } else if (l->busy < w->m->cores) {
        begin(w, l, i);
    } else {
        q->next = NOBODY;
        *(l->first == NOBODY ? &l->first : &w->request[l->last].next) = i;
        l->last = i;
    }
}

static void done(struct world *w, uint32_t i)
{
    struct lane *l = lane_of(w, i);
    struct connection *c = &w->connection[w->request[i].connection];
    l->busy--;
    w->served[c->server] += w->measuring;
    bt_fc_served(&l->receiver, &c->conn, w->request[i].began, w->now);
    reply(w, l, i);
    if (l->first != NOBODY) {
        uint32_t next = l->first;
        l->first = w->request[next].next;
        begin(w, l, next);
    }
}

/* --- a run --- */

void sim_fc_defaults(struct sim_fc_model *m)
{
    *m = (struct sim_fc_model){
        .service = {.kind = SIM_DIST_EXPONENTIAL, .mean_ns = 10e3},
        .servers = 1,
        .lanes = 16,
        .cores = 1,
        .connections = 4096,
        .group = {{.rps = 1e6, .servers = 1}},
        .groups = 1,
        .path_ns = 10e3,
        .controlled = true,
        .objective = {.wait_ns = 100e3, .percentile = 0.99, .model = BT_FC_REFINED},
        .requests = 1000000,
        .seed = 1,
    };
}

static void connect_all(struct world *w)
{
    const struct sim_fc_model *m = w->m;
    w->connection = sim_zeroed((size_t)SIM_FC_GROUPS * SIM_FC_SERVERS * m->connections * sizeof *w->connection);
    for (uint32_t g = 0; g < m->groups; g++) {
        for (uint32_t s = 0; s < m->servers; s++) {
            for (uint32_t i = 0; i < m->connections; i++) {
                struct connection *c = connection(w, g, s, i);
                *c = (struct connection){.group = g, .server = s, .lane = i % m->lanes};
                bt_fc_sender_init(&c->sender);
            }
        }
    }
}

static void start(struct world *w)
{
    const struct sim_fc_model *m = w->m;
    struct bt_fc_objective objective = m->objective;
    objective.cores = m->cores;
    w->request = sim_zeroed((m->requests + m->groups) * sizeof *w->request);
    w->requests = m->groups;
    w->spare = NOBODY;
    connect_all(w);
    for (uint32_t s = 0; s < SIM_FC_SERVERS; s++) {
        sim_samples_init(&w->wait[s], m->requests);
        for (uint32_t l = 0; l < m->lanes; l++) {
            w->lane[s][l].first = NOBODY;
            bt_fc_receiver_init(&w->lane[s][l].receiver, &objective, 0);
        }
    }
    sim_stream_seed(&w->arrival, m->seed, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&w->service, m->seed, SIM_STREAM_SERVICE);
    sim_stream_seed(&w->client, m->seed, SIM_STREAM_CLIENT);
    for (uint32_t g = 0; g < m->groups; g++) {
        sim_samples_init(&w->latency[g], m->requests);
        at(w, sim_exponential(1e9 / m->group[g].rps, &w->arrival), g, ASK);
    }
}

static void finish(struct world *w)
{
    const struct sim_fc_model *m = w->m;
    double seconds = (double)(w->now - w->measured_from) / 1e9;
    for (uint32_t s = 0; s < SIM_FC_SERVERS; s++) {
        w->out->server[s].wait_p99_ns = w->wait[s].n > 0 ? (double)sim_samples_percentile(&w->wait[s], 99) : 0;
        w->out->server[s].rps = (double)w->served[s] / seconds;
        w->out->server[s].load =
            w->out->server[s].rps * (m->service.mean_ns + m->overhead_ns) / 1e9 / (m->lanes * m->cores);
        sim_samples_free(&w->wait[s]);
    }
    for (uint32_t g = 0; g < m->groups; g++) {
        w->out->group[g].p99_ns = w->latency[g].n > 0 ? (double)sim_samples_percentile(&w->latency[g], 99) : 0;
        sim_samples_free(&w->latency[g]);
    }
    sim_heap_free(&w->heap);
    free(w->request);
    free(w->connection);
}

void sim_fc_run(const struct sim_fc_model *m, struct sim_fc_result *out)
{
    struct world *w = sim_zeroed(sizeof *w);
    *w = (struct world){.m = m, .out = out};
    *out = (struct sim_fc_result){0};
    start(w);
    while (w->heap.n > 0 && w->asked < m->requests) {
        w->now = w->heap.v[0].key;
        uint32_t i = sim_heap_pop(&w->heap);
        switch (w->request[i].stage) {
        case ASK:
            ask(w, i);
            break;
        case AT_SERVER:
            arrived(w, i);
            break;
        case DONE:
            done(w, i);
            break;
        case AT_CLIENT:
            answered(w, i);
            break;
        }
    }
    finish(w);
    free(w);
}
