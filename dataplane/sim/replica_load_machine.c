// SPDX-License-Identifier: Apache-2.0
// See replica_load_machine.h.
#include "replica_load_machine.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "replica_load_wire.h"

enum { SLOTS = 16384, FEEDBACK_BYTES = 40 };
#define TICK (500 * LOAD_US)

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
    struct load_packet *p = sim_load_packet(0, message, n);
    uint64_t leaves = sim_load_past(&m->net_free, w->agenda.now, cost_of(w, message, n));
    uint64_t out = sim_load_past(&m->ahead_free, leaves, sim_load_wire_ns(w, n));
    m->tx_free =
        (m->tx_free > out ? m->tx_free : out - (uint64_t)sim_load_wire_ns(w, n)) + (uint64_t)sim_load_wire_ns(w, n);
    if (to == BT_GROUP_AGGREGATOR) {
        sim_agenda_push(&w->agenda, out + w->m->costs.hop_ns / 2, (struct sim_event){p, 0, EV_AGGREGATOR, 0});
    } else {
        sim_load_towards(w, to, out + w->m->costs.hop_ns, p);
    }
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
    uint64_t out = sim_load_past(&w->machine[id].tx_free, w->agenda.now, sim_load_wire_ns(w, w->m->reply_bytes));
    sim_agenda_push(&w->agenda, out + w->m->costs.hop_ns, (struct sim_event){(void *)(uintptr_t)op, id, EV_REPLY, 0});
    if (w->box != NULL) {
        out = sim_load_past(&w->machine[id].tx_free, out, sim_load_wire_ns(w, FEEDBACK_BYTES));
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
        bool works = sim_load_op_of(&e) != 0 && (bt_replica_duty(m->core, &e) & BT_REPLICA_EXECUTE) != 0;
        if (works) {
            m->app_busy = true;
            m->running = sim_load_op_of(&e);
            uint64_t done = w->agenda.now + sim_load_service_ns(w, m->running);
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
        m->running = m->line[m->line_head++ % LOAD_QUEUE];
        m->line_n--;
        sim_agenda_push(&w->agenda, w->agenda.now + sim_load_service_ns(w, m->running),
                        (struct sim_event){NULL, 1, EV_APP, 0});
    }
}

void sim_load_app_done(struct load_world *w, uint16_t id)
{
    if (w->m->group == SIM_LOAD_UNREPLICATED) {
        sim_agenda_push(&w->agenda, reply(w, id, w->machine[id].running), (struct sim_event){NULL, id, EV_FREE, 0});
    } else {
        served(w, id);
    }
}

void sim_load_app_free(struct load_world *w, uint16_t id)
{
    if (w->m->group == SIM_LOAD_UNREPLICATED) {
        w->machine[id].app_busy = false;
        serve_alone(w);
    } else {
        goes_on(w, id);
    }
}

/* --- the thread of the network --- */

static void take_request(struct load_world *w, uint16_t id, uint64_t op)
{
    struct load_machine *m = &w->machine[id];
    uint64_t index;
    if (w->m->group == SIM_LOAD_UNREPLICATED) {
        w->beyond = w->beyond || m->line_n == LOAD_QUEUE;
        m->line[(m->line_head + m->line_n++) % LOAD_QUEUE] = op;
        serve_alone(w);
    } else if (w->m->group == SIM_LOAD_RAFT) {
        bt_replica_propose(m->core, w->agenda.now, sim_load_body_of(w, op), w->m->request_bytes, &index);
    } else {
        struct bt_replica_request q = {.client = sim_load_client_of(op),
                                       .req_id = (uint16_t)op,
                                       .read_only = sim_load_is_read(w, op),
                                       .body = sim_load_body_of(w, op),
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
    uint64_t done = sim_load_past(&m->net_free, w->agenda.now, w->m->costs.packet_ns);
    sim_agenda_push(&w->agenda, done, (struct sim_event){NULL, id, EV_NET, 0});
}

void sim_load_arrive(struct load_world *w, uint16_t id, struct load_packet *p)
{
    struct load_machine *m = &w->machine[id];
    bool dead = m->core == NULL && w->m->group != SIM_LOAD_UNREPLICATED;
    if (dead || m->waiting == LOAD_QUEUE) {
        w->beyond = w->beyond || !dead;
        free(p);
        return;
    }
    m->queue[(m->head + m->waiting++) % LOAD_QUEUE] = p;
    plan_net(w, id);
}

void sim_load_net_done(struct load_world *w, uint16_t id)
{
    struct load_machine *m = &w->machine[id];
    struct load_packet *p = m->queue[m->head++ % LOAD_QUEUE];
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

void sim_load_tick(struct load_world *w, uint16_t id)
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

void sim_load_member_start(struct load_world *w, uint16_t id, const struct bt_group_config *first)
{
    static const struct bt_replica_ops ops = {.send = on_send, .store = on_store, .restore = on_restore};
    const struct sim_load_model *m = w->m;
    struct bt_replica_config c = {.cluster = LOAD_CLUSTER,
                                  .group = 1,
                                  .id = id,
                                  .pipeline = m->costs.pipeline,
                                  .election_ns = 10 * LOAD_MS,
                                  .heartbeat_ns = 2 * LOAD_MS,
                                  .seed = m->seed * 16 + id,
                                  .log_slots = SLOTS,
                                  .body_bytes = SLOTS * (m->request_bytes + 64),
                                  .keep_entries = SLOTS / 4,
                                  .message_bytes = LOAD_MESSAGE,
                                  .snapshot_bytes = 64};
    if (m->group >= SIM_LOAD_HOVERCRAFT) {
        c.apart = (struct bt_replica_apart){.kept_requests = 8192,
                                            .recent_pairs = LOAD_RECENT,
                                            .bound = m->bound,
                                            .repliers = m->random ? BT_REPLICA_RANDOM : BT_REPLICA_JBSQ,
                                            .keep_ns = 1000 * LOAD_MS,
                                            .quarantine_ns = 20 * LOAD_MS,
                                            .recover_ns = 1 * LOAD_MS,
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
    sim_agenda_push(&w->agenda, id * 10 * LOAD_US, (struct sim_event){NULL, id, EV_TICK, 0});
}
