// SPDX-License-Identifier: Apache-2.0
// See replica_load.h. A machine is a thread for the network and the consensus, one for the service, and a link.
// Whatever is written is durable at once: published are groups that keep nothing on a disk.
#include "replica_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "event.h"
#include "replica/aggregator.h"
#include "replica/box.h"
#include "replica/replica.h"
#include "sample.h"

enum {
    MEMBERS = 10, /* ids from 1; 0 is the aggregator */
    MESSAGE = 1452,
    SLOTS = 16384,
    QUEUE = 1 << 17, /* packets before a thread: more, and the load is beyond all bounds */
    PACKET = 1400,   /* bytes of a reply in one packet */
    FEEDBACK_BYTES = 40,
    RECENT = 65536
};
#define US           UINT64_C(1000)
#define MS           UINT64_C(1000000)
#define TICK         (500 * US)
#define BEGINS       (300 * MS) /* a leader is there, and the box is past its slow start */
#define ENDS         (200 * MS) /* after the last request */
#define CLUSTER      UINT64_C(0xb0b7a11000000002)
#define SERVICE_SEED UINT64_C(0x73657276)

enum load_event { EV_REQUEST, EV_IN, EV_NET, EV_APP, EV_FREE, EV_TICK, EV_REPLY, EV_FEEDBACK, EV_AGGREGATOR };

/* A message between members, or a request, whose bytes follow from its number. */
struct load_packet {
    uint64_t op; /* 0: a message */
    size_t n;
    uint8_t bytes[];
};

struct load_machine {
    struct bt_replica *core; /* NULL: dead, or not replicated */
    void *mem;
    uint64_t issued, stored;   /* of the store */
    uint64_t tx_free, rx_free; /* the link */
    uint64_t ahead_free;       /* of it, for the thread of the network: its own queue, which goes first */
    uint64_t net_free;
    struct load_packet **queue; /* before the thread of the network */
    uint32_t head, waiting;
    bool net_busy, app_busy;
    uint64_t applied, snapshot;
    uint64_t running; /* the entry that is being executed */
    uint64_t *line;   /* not replicated: requests before the thread of the service */
    uint32_t line_head, line_n;
};

struct load_world {
    const struct sim_load_model *m;
    struct sim_agenda agenda;
    struct bt_rng arrivals;
    struct load_machine machine[MEMBERS];
    struct bt_aggregator aggregator;
    struct bt_box *box;
    void *box_mem;
    uint16_t sending;
    uint64_t sent; /* requests */
    uint64_t *sent_at, *took;
    uint64_t dropped, dropped_late, leader_dead;
    bool beyond; /* a queue is full */
};

/* --- what a request is --- */

static bool is_read(const struct load_world *w, uint64_t op)
{
    struct bt_rng g;
    bt_rng_seed(&g, op ^ w->m->seed << 40);
    return bt_rng_unit(&g) < w->m->read_share;
}

static uint64_t service_ns(const struct load_world *w, uint64_t op)
{
    struct bt_rng g;
    bt_rng_seed(&g, op ^ w->m->seed << 40 ^ SERVICE_SEED);
    return sim_dist_draw(is_read(w, op) ? &w->m->read : &w->m->write, &g);
}

static struct bt_addr client_of(uint64_t op)
{
    return bt_addr_v4u(UINT32_C(0x0a000000) | (uint32_t)(op >> 16 & 0xffffff), 4000);
}

static const uint8_t *body_of(const struct load_world *w, uint64_t op)
{
    static uint8_t body[MESSAGE];
    memset(body, 0, w->m->request_bytes);
    bt_put64(body, op);
    return body;
}

static uint64_t op_of(const struct bt_entry *e)
{
    if (bt_group_is_request(e)) {
        return bt_get64(e->body + BT_GROUP_META);
    }
    return e->kind == BT_ENTRY_COMMAND ? bt_get64(e->body) : 0;
}

/* --- links --- */

static uint64_t past(uint64_t *free_at, uint64_t now, double takes)
{
    *free_at = (*free_at > now ? *free_at : now) + (uint64_t)takes;
    return *free_at;
}

static double wire_ns(const struct load_world *w, size_t bytes)
{
    size_t packets = (bytes + PACKET - 1) / PACKET;
    return (double)(bytes + packets * w->m->costs.header) * w->m->costs.link_bits_ns * 8;
}

/* At the machine's thread of the network, after its link; the packet is the queue's. */
static void towards(struct load_world *w, uint16_t id, uint64_t at, struct load_packet *p)
{
    uint64_t arrives = past(&w->machine[id].rx_free, at, wire_ns(w, p->op != 0 ? w->m->request_bytes : p->n));
    sim_agenda_push(&w->agenda, arrives, (struct sim_event){p, id, EV_IN, 0});
}

static struct load_packet *packet(uint64_t op, const uint8_t *bytes, size_t n)
{
    struct load_packet *p = malloc(sizeof *p + n);
    if (p == NULL) {
        abort();
    }
    p->op = op;
    p->n = n;
    if (n != 0) {
        memcpy(p->bytes, bytes, n);
    }
    return p;
}

static double cost_of(const struct load_world *w, const uint8_t *message, size_t n)
{
    const struct sim_load_costs *c = &w->m->costs;
    bool entries = message[1] == BT_GROUP_APPEND || message[1] == BT_GROUP_SHARED;
    uint32_t count = entries ? bt_get32(message + BT_GROUP_HEADER) : 0;
    return c->packet_ns + (count != 0 ? count * c->entry_ns + (double)n * c->entry_byte_ns : 0);
}

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct load_world *w = ctx;
    struct load_machine *m = &w->machine[w->sending];
    struct load_packet *p = packet(0, message, n);
    uint64_t leaves = past(&m->net_free, w->agenda.now, cost_of(w, message, n));
    uint64_t out = past(&m->ahead_free, leaves, wire_ns(w, n));
    m->tx_free = (m->tx_free > out ? m->tx_free : out - (uint64_t)wire_ns(w, n)) + (uint64_t)wire_ns(w, n);
    if (to == BT_GROUP_AGGREGATOR) {
        sim_agenda_push(&w->agenda, out + w->m->costs.hop_ns / 2, (struct sim_event){p, 0, EV_AGGREGATOR, 0});
    } else {
        towards(w, to, out + w->m->costs.hop_ns, p);
    }
}

static void on_aggregator_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct load_world *w = ctx;
    towards(w, to, w->agenda.now + w->m->costs.hop_ns / 2, packet(0, message, n));
}

static void on_store(void *ctx, const struct bt_store_op *op)
{
    struct load_world *w = ctx;
    w->machine[w->sending].issued = op->generation;
}

static void on_restore(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n)
{
    struct load_world *w = ctx;
    (void)bytes;
    (void)n;
    w->machine[w->sending].applied = last_index;
}

/* --- the thread of the service --- */

/* When the thread may go on: its reply is on the link, or few wait before it. */
static uint64_t reply(struct load_world *w, uint16_t id, uint64_t op)
{
    uint64_t out = past(&w->machine[id].tx_free, w->agenda.now, wire_ns(w, w->m->reply_bytes));
    sim_agenda_push(&w->agenda, out + w->m->costs.hop_ns, (struct sim_event){(void *)(uintptr_t)op, id, EV_REPLY, 0});
    if (w->box != NULL) {
        out = past(&w->machine[id].tx_free, out, wire_ns(w, FEEDBACK_BYTES));
        sim_agenda_push(&w->agenda, out + w->m->costs.hop_ns / 2,
                        (struct sim_event){(void *)(uintptr_t)op, id, EV_FEEDBACK, 0});
    }
    return out > w->m->costs.ring_ns ? out - w->m->costs.ring_ns : 0;
}

static bool answers(const struct load_world *w, uint16_t id, const struct bt_entry *e)
{
    bool leads = bt_replica_status(w->machine[id].core).role == BT_REPLICA_LEADER;
    bool named = (bt_replica_duty(w->machine[id].core, e) & BT_REPLICA_ANSWER) != 0;
    return w->m->group == SIM_LOAD_RAFT || !w->m->balance ? leads : named;
}

static void settle(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    while (m->stored != m->issued) {
        m->stored = m->issued;
        bt_replica_stored(m->core, w->agenda.now, m->stored, BT_STORE_DURABLE);
    }
}

static void applied(struct load_world *w, uint16_t id, uint64_t index)
{
    static const uint8_t state[8];
    struct load_machine *m = &w->machine[id];
    m->applied = index;
    w->sending = id;
    bt_replica_applied(m->core, index);
    if (index >= m->snapshot + SLOTS / 4 &&
        bt_replica_snapshot(m->core, w->agenda.now, index, state, sizeof state) == BT_REPLICA_OK) {
        m->snapshot = index;
    }
    settle(w, id);
}

/* Entries that cost nothing here are passed over; the next one that does is begun. */
static void serve(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    struct bt_entry e;
    uint64_t from = m->applied;
    while (!m->app_busy && m->applied < bt_replica_status(m->core).commit &&
           bt_replica_entry(m->core, m->applied + 1, &e)) {
        bool works = op_of(&e) != 0 && (bt_replica_duty(m->core, &e) & BT_REPLICA_EXECUTE) != 0;
        if (works) {
            m->app_busy = true;
            m->running = op_of(&e);
            uint64_t done = w->agenda.now + service_ns(w, m->running);
            sim_agenda_push(&w->agenda, done, (struct sim_event){NULL, id, EV_APP, 0});
        } else {
            applied(w, id, m->applied + 1);
        }
    }
    if (m->applied != from && w->m->group >= SIM_LOAD_HOVERCRAFT) {
        w->sending = id;
        bt_replica_announce(m->core, w->agenda.now);
        settle(w, id);
    }
}

/* After every call of the core. */
static void went_on(struct load_world *w, uint16_t id)
{
    settle(w, id);
    serve(w, id);
}

/* The service is done; the thread waits for room for its reply. */
static void served(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    struct bt_entry e;
    uint64_t free_at = 0;
    if (m->core == NULL) {
        return;
    }
    if (bt_replica_entry(m->core, m->applied + 1, &e) && answers(w, id, &e)) {
        free_at = reply(w, id, m->running);
    }
    sim_agenda_push(&w->agenda, free_at, (struct sim_event){NULL, id, EV_FREE, 0});
}

static void goes_on(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    m->app_busy = false;
    if (m->core == NULL) {
        return;
    }
    applied(w, id, m->applied + 1);
    if (w->m->group >= SIM_LOAD_HOVERCRAFT) {
        bt_replica_announce(m->core, w->agenda.now);
    }
    went_on(w, id);
}

/* Not replicated: one line before the thread. */
static void serve_alone(struct load_world *w)
{
    struct load_machine *m = &w->machine[1];
    if (!m->app_busy && m->line_n > 0) {
        m->app_busy = true;
        m->running = m->line[m->line_head++ % QUEUE];
        m->line_n--;
        sim_agenda_push(&w->agenda, w->agenda.now + service_ns(w, m->running), (struct sim_event){NULL, 1, EV_APP, 0});
    }
}

/* --- the thread of the network --- */

static void take_request(struct load_world *w, uint16_t id, uint64_t op)
{
    struct load_machine *m = &w->machine[id];
    uint64_t index;
    if (w->m->group == SIM_LOAD_UNREPLICATED) {
        w->beyond = w->beyond || m->line_n == QUEUE;
        m->line[(m->line_head + m->line_n++) % QUEUE] = op;
        serve_alone(w);
    } else if (w->m->group == SIM_LOAD_RAFT) {
        bt_replica_propose(m->core, w->agenda.now, body_of(w, op), w->m->request_bytes, &index);
    } else {
        struct bt_replica_request q = {.client = client_of(op),
                                       .req_id = (uint16_t)op,
                                       .read_only = is_read(w, op),
                                       .body = body_of(w, op),
                                       .length = w->m->request_bytes};
        bt_replica_request(m->core, w->agenda.now, &q);
    }
}

static void plan_net(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    if (m->net_busy || m->waiting == 0) {
        return;
    }
    m->net_busy = true;
    uint64_t done = past(&m->net_free, w->agenda.now, w->m->costs.packet_ns);
    sim_agenda_push(&w->agenda, done, (struct sim_event){NULL, id, EV_NET, 0});
}

static void arrive(struct load_world *w, uint16_t id, struct load_packet *p)
{
    struct load_machine *m = &w->machine[id];
    bool dead = m->core == NULL && w->m->group != SIM_LOAD_UNREPLICATED;
    if (dead || m->waiting == QUEUE) {
        w->beyond = w->beyond || !dead;
        free(p);
        return;
    }
    m->queue[(m->head + m->waiting++) % QUEUE] = p;
    plan_net(w, id);
}

static void net_done(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    struct load_packet *p = m->queue[m->head++ % QUEUE];
    m->waiting--;
    m->net_busy = false;
    w->sending = id;
    bool alive = m->core != NULL || w->m->group == SIM_LOAD_UNREPLICATED;
    if (alive && p->op != 0) {
        take_request(w, id, p->op);
    } else if (alive) {
        bt_replica_receive(m->core, w->agenda.now, p->bytes, p->n);
    }
    free(p);
    if (m->core != NULL) {
        went_on(w, id);
    }
    plan_net(w, id);
}

static void tick(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    if (m->core == NULL) {
        return;
    }
    w->sending = id;
    if (bt_replica_due(m->core) <= w->agenda.now) {
        bt_replica_tick(m->core, w->agenda.now);
        went_on(w, id);
    }
    sim_agenda_push(&w->agenda, w->agenda.now + TICK, (struct sim_event){NULL, id, EV_TICK, 0});
}

/* --- clients and the box --- */

static uint16_t leader(const struct load_world *w)
{
    uint64_t term = 0;
    uint16_t best = 0;
    for (uint16_t id = 1; id <= w->m->members; id++) {
        if (w->machine[id].core != NULL) {
            struct bt_replica_status s = bt_replica_status(w->machine[id].core);
            bool leads = s.role == BT_REPLICA_LEADER && s.term > term;
            best = leads ? id : best;
            term = leads ? s.term : term;
        }
    }
    return best;
}

static void kill_leader(struct load_world *w)
{
    uint16_t id = leader(w);
    if (id != 0 && !w->leader_dead) {
        w->machine[id].core = NULL;
        w->leader_dead = w->agenda.now;
    }
}

static bool late(const struct load_world *w, uint64_t op)
{
    return op > w->m->requests - w->m->requests / 3;
}

static void by_box(struct load_world *w, uint64_t op)
{
    struct bt_addr client = client_of(op);
    uint64_t half = w->m->costs.hop_ns / 2;
    if (bt_box_request(w->box, w->agenda.now, &client, (uint16_t)op) != BT_BOX_PASS) {
        w->dropped++;
        w->dropped_late += late(w, op);
        w->took[op] = UINT64_MAX; /* answered: no */
        return;
    }
    for (uint16_t id = 1; id <= w->m->members; id++) {
        towards(w, id, w->agenda.now + half, packet(op, NULL, 0));
    }
}

static void request(struct load_world *w)
{
    uint64_t op = ++w->sent;
    w->sent_at[op] = w->agenda.now - w->m->costs.hop_ns / 2;
    if (w->m->kill_at > 0 && (double)op >= w->m->kill_at * (double)w->m->requests) {
        kill_leader(w);
    }
    if (w->box != NULL) {
        by_box(w, op);
    } else {
        uint16_t to = w->m->group == SIM_LOAD_RAFT ? leader(w) : 1;
        if (to != 0) {
            towards(w, to, w->agenda.now + w->m->costs.hop_ns / 2, packet(op, NULL, 0));
        }
    }
    if (op < w->m->requests) {
        uint64_t next = w->agenda.now + sim_exponential(1e9 / w->m->rps, &w->arrivals);
        sim_agenda_push(&w->agenda, next, (struct sim_event){NULL, 0, EV_REQUEST, 0});
    }
}

static void happen(struct load_world *w, const struct sim_event *ev)
{
    uint16_t id = (uint16_t)ev->node;
    uint64_t op = (uint64_t)(uintptr_t)ev->ptr;
    struct load_packet *p = ev->ptr;
    switch ((enum load_event)ev->kind) {
    case EV_REQUEST:
        request(w);
        break;
    case EV_IN:
        arrive(w, id, p);
        break;
    case EV_NET:
        net_done(w, id);
        break;
    case EV_APP:
        if (w->m->group == SIM_LOAD_UNREPLICATED) {
            sim_agenda_push(&w->agenda, reply(w, 1, w->machine[1].running), (struct sim_event){NULL, 1, EV_FREE, 0});
        } else {
            served(w, id);
        }
        break;
    case EV_FREE:
        if (w->m->group == SIM_LOAD_UNREPLICATED) {
            w->machine[1].app_busy = false;
            serve_alone(w);
        } else {
            goes_on(w, id);
        }
        break;
    case EV_TICK:
        tick(w, id);
        break;
    case EV_REPLY:
        w->took[op] = w->took[op] == 0 ? w->agenda.now - w->sent_at[op] : w->took[op];
        break;
    case EV_FEEDBACK: {
        struct bt_addr client = client_of(op);
        bt_box_feedback(w->box, w->agenda.now, &client, (uint16_t)op);
        break;
    }
    case EV_AGGREGATOR:
        bt_aggregator_receive(&w->aggregator, p->bytes, p->n);
        free(p);
        break;
    }
}

/* --- making and unmaking --- */

static void start_member(struct load_world *w, uint16_t id, const struct bt_group_config *first)
{
    static const struct bt_replica_ops ops = {.send = on_send, .store = on_store, .restore = on_restore};
    const struct sim_load_model *m = w->m;
    struct bt_replica_config c = {.cluster = CLUSTER,
                                  .group = 1,
                                  .id = id,
                                  .pipeline = m->costs.pipeline,
                                  .election_ns = 10 * MS,
                                  .heartbeat_ns = 2 * MS,
                                  .seed = m->seed * 16 + id,
                                  .log_slots = SLOTS,
                                  .body_bytes = SLOTS * (m->request_bytes + 64),
                                  .keep_entries = SLOTS / 4,
                                  .message_bytes = MESSAGE,
                                  .snapshot_bytes = 64};
    if (m->group >= SIM_LOAD_HOVERCRAFT) {
        c.apart = (struct bt_replica_apart){.kept_requests = 8192,
                                            .recent_pairs = RECENT,
                                            .bound = m->bound,
                                            .repliers = m->random ? BT_REPLICA_RANDOM : BT_REPLICA_JBSQ,
                                            .keep_ns = 1000 * MS,
                                            .quarantine_ns = 20 * MS,
                                            .recover_ns = 1 * MS,
                                            .aggregator = m->group == SIM_LOAD_HOVERCRAFTPP,
                                            .key = "a key of bodies"};
    }
    struct bt_recovery fresh = {.snapshot = {.config = *first}};
    struct load_machine *k = &w->machine[id];
    k->mem = malloc(bt_replica_bytes(&c));
    w->sending = id;
    if (k->mem == NULL || bt_replica_start(k->mem, &c, &ops, w, &fresh, &k->core) != BT_REPLICA_OK) {
        abort();
    }
    settle(w, id);
    sim_agenda_push(&w->agenda, id * 10 * US, (struct sim_event){NULL, id, EV_TICK, 0});
}

static void start_group(struct load_world *w)
{
    static const struct bt_aggregator_ops ops = {.send = on_aggregator_send};
    struct bt_aggregator_config a = {.cluster = CLUSTER, .group = 1};
    struct bt_group_config first = {.count = 0};
    for (uint16_t id = 1; id <= w->m->members; id++) {
        first.member[first.count++] = (struct bt_group_member){.id = id, .role = BT_GROUP_VOTER};
    }
    bt_aggregator_start(&w->aggregator, &a, &ops, w);
    for (uint16_t id = 1; id <= w->m->members; id++) {
        start_member(w, id, &first);
    }
    if (w->m->group >= SIM_LOAD_HOVERCRAFT) {
        struct bt_box_config b = {.limit = w->m->limit,
                                  .timeout_ns = 100 * MS,
                                  .slow_start_ns = 100 * MS,
                                  .quarantine_ns = 20 * MS,
                                  .recent_pairs = RECENT,
                                  .seed = w->m->seed};
        w->box_mem = malloc(bt_box_bytes(&b));
        w->box = w->box_mem != NULL ? bt_box_start(w->box_mem, &b, 0) : NULL;
    }
}

static struct load_world *begin(const struct sim_load_model *m)
{
    struct load_world *w = calloc(1, sizeof *w);
    if (w == NULL) {
        abort();
    }
    w->m = m;
    sim_agenda_init(&w->agenda);
    bt_rng_seed(&w->arrivals, m->seed);
    w->sent_at = calloc(m->requests + 1, sizeof *w->sent_at);
    w->took = calloc(m->requests + 1, sizeof *w->took);
    for (uint16_t id = 1; id < MEMBERS; id++) {
        w->machine[id].queue = calloc(QUEUE, sizeof *w->machine[id].queue);
        w->machine[id].line = calloc(QUEUE, sizeof *w->machine[id].line);
    }
    if (m->group != SIM_LOAD_UNREPLICATED) {
        start_group(w);
    }
    sim_agenda_push(&w->agenda, BEGINS, (struct sim_event){NULL, 0, EV_REQUEST, 0});
    return w;
}

static void end(struct load_world *w)
{
    struct sim_event ev;
    while (sim_agenda_take(&w->agenda, UINT64_MAX / 2, &ev)) {
        if (ev.kind == EV_IN || ev.kind == EV_AGGREGATOR) {
            free(ev.ptr);
        }
    }
    for (uint16_t id = 1; id < MEMBERS; id++) {
        struct load_machine *k = &w->machine[id];
        for (; k->waiting > 0; k->waiting--) {
            free(k->queue[k->head++ % QUEUE]);
        }
        free(k->queue);
        free(k->line);
        free(k->mem);
    }
    sim_agenda_free(&w->agenda);
    free(w->sent_at);
    free(w->took);
    free(w->box_mem);
    free(w);
}

/* Of the requests after `from`, up to the last. */
static void judge(const struct load_world *w, uint64_t from, double *p50, double *p99, double *rps, uint64_t *lost)
{
    struct sim_samples s;
    uint64_t n = w->m->requests, last = 0;
    sim_samples_init(&s, n);
    *lost = 0;
    for (uint64_t op = from + 1; op <= n; op++) {
        if (w->took[op] == 0) {
            ++*lost;
        } else if (w->took[op] != UINT64_MAX) {
            sim_samples_add(&s, w->took[op]);
            last = w->sent_at[op] + w->took[op] > last ? w->sent_at[op] + w->took[op] : last;
        }
    }
    double seconds = (double)(last - w->sent_at[from + 1]) / 1e9;
    *p50 = s.n > 0 ? (double)sim_samples_percentile(&s, 50) : INFINITY;
    *p99 = s.n > 0 ? (double)sim_samples_percentile(&s, 99) : INFINITY;
    *rps = seconds > 0 ? (double)s.n / seconds : 0;
    sim_samples_free(&s);
}

static void conclude(const struct load_world *w, struct sim_load_result *out)
{
    uint64_t n = w->m->requests, lost;
    double p50;
    judge(w, n / 10, &out->p50_ns, &out->p99_ns, &out->answered_rps, &out->lost);
    judge(w, n - n / 3, &p50, &out->after_p99_ns, &out->after_answered_rps, &lost);
    double third = (double)(w->sent_at[n] - w->sent_at[n - n / 3]) / 1e9;
    out->after_dropped_rps = third > 0 ? (double)w->dropped_late / third : 0;
    out->dropped = w->dropped;
}

bool sim_load_run(const struct sim_load_model *m, struct sim_load_result *out)
{
    struct load_world *w = begin(m);
    struct sim_event ev;
    uint64_t until = UINT64_MAX / 2;
    *out = (struct sim_load_result){.p99_ns = INFINITY};
    bool led = true;
    while (led && !w->beyond && sim_agenda_take(&w->agenda, until, &ev)) {
        led = ev.kind != EV_REQUEST || m->group == SIM_LOAD_UNREPLICATED || w->sent > 0 || leader(w) != 0;
        happen(w, &ev);
        if (ev.kind == EV_REQUEST && w->sent == m->requests) {
            until = w->agenda.now + ENDS;
        }
    }
    if (led && !w->beyond) {
        conclude(w, out);
    }
    end(w);
    return led;
}

double sim_load_within(const struct sim_load_model *m, double slo_ns, double low, double high)
{
    struct sim_load_model at = *m;
    while (high - low > 0.01 * high) {
        struct sim_load_result r;
        at.rps = (low + high) / 2;
        bool within = sim_load_run(&at, &r) && r.p99_ns <= slo_ns && r.lost == 0 && r.dropped == 0;
        low = within ? at.rps : low;
        high = within ? high : at.rps;
    }
    return low;
}
