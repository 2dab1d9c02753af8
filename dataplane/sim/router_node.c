// SPDX-License-Identifier: Apache-2.0
// A simulated router: the shipped bt_router behind the same two ports the program binds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router/router.h"
#include "world.h"

static struct sim_router *at(const struct sim_world *w, uint32_t i)
{
    return &w->router[i];
}

bool sim_router_configure(struct sim_world *w, uint32_t i, uint32_t depth)
{
    const struct sim_scenario *s = w->s;
    struct bt_addr members[SIM_WORKERS_MAX];
    for (uint32_t k = 0; k < s->workers; k++) {
        members[k] = sim_addr(w, SIM_SERVER, k, 0);
    }
    struct bt_router_config cfg = {
        .policy = (enum bt_router_policy)s->policy,
        .forwarding = (enum bt_router_forwarding)s->forwarding,
        .device = (enum bt_device)s->device,
        .legacy_peers = s->legacy_workers > 0,
        .depth = depth,
        .max_payload = bt_r2p2_datagram_max(1500, true),
        .central_limit = s->central_limit,
        .max_queue_ns = s->max_queue_ns,
        .request_timeout_ns = s->request_timeout_ns,
        .hold_back_packets = s->hold_back_packets,
        .hold_back_ns = s->hold_back_ns,
        .admission = {.mode = (enum bt_admission_mode)s->admission_mode,
                      .controller = (enum bt_admission_controller)s->admission_controller,
                      .slo_ns = s->admission_slo_ns,
                      .per_100k = (uint32_t)(s->admission_percentile * 1000 + 0.5),
                      .droppable = BT_ADMISSION_DROPPABLE_DEFAULT},
        .hedging = {.mode = (enum bt_hedging_mode)s->hedging_mode,
                    .busy_percent = s->hedging_busy,
                    .budget_percent = s->hedging_budget,
                    .per_100k = (uint32_t)(s->hedging_percentile * 1000 + 0.5),
                    .probe_per_million = s->hedging_probes,
                    .cancellation = (enum bt_hedging_cancellation)s->hedging_cancellation},
        .members = members,
        .members_n = s->workers,
        .keys = s->tagged ? &w->keys : NULL,
    };
    struct bt_router_refusal why = {0};
    struct sim_router *r = at(w, i);
    r->form->settle(r);
    bool applied = bt_router_apply(r->core, sim_node_now(&r->n), &cfg, &why);
    r->n.due_ns = r->form->bursts ? 0 : bt_router_next(r->core);
    if (applied) {
        r->depth = depth;
        return true;
    }
    sim_breach(w, SIM_INV_PROGRESS, "router %u refused its configuration: %s %s", i, why.field, why.reason);
    return false;
}

static void nothing_waits(struct sim_router *r)
{
    (void)r;
}

static bool has_read_all(struct sim_router *r)
{
    (void)r;
    return true;
}

static uint64_t age(const struct sim_router *r, const struct bt_pkt *p, unsigned place)
{
    (void)place;
    return sim_node_now(&r->n) - p->t_rx_ns;
}

/* A tick may be late by as much. */
static const struct sim_router_form one_thread = {
    .settle = nothing_waits, .held = age, .catch_up = has_read_all, .hold_slack_ns = 2000000, .bursts = false};

static void build(struct sim_router *r, const struct bt_router_setup *setup)
{
    if (r->n.mem == NULL) {
        r->n.mem_n = bt_router_bytes(setup);
        r->n.mem = sim_memory(r->n.mem_n);
    }
    r->core = bt_router_init(r->n.mem, r->n.mem_n, setup, sim_node_now(&r->n));
    if (r->core == NULL) {
        fprintf(stderr, "bobtail-sim: router %u could not be built\n", r->n.index);
        abort();
    }
}

void sim_router_start(struct sim_world *w, uint32_t i)
{
    struct sim_router *r = at(w, i);
    if (r->life == 0) {
        sim_node_init(w, &r->n, SIM_ROUTER, i);
        r->depth = w->s->depth;
        if (w->s->router_packets > 0) {
            w->net.holder[r->n.node].limit = w->s->router_packets;
        }
    }
    const struct sim_scenario *s = w->s;
    struct bt_router_setup setup = {
        .threads = s->router_threads,
        .max_members = w->s->workers,
        .max_pairs = w->s->router_pairs > 0       ? w->s->router_pairs
                     : w->requests_wanted > 20000 ? 65536
                                                  : 4096,
        .max_hedges = s->hedging_mode == 0  ? 1
                      : s->router_pairs > 0 ? s->router_pairs
                                            : 1024,
        .no_histograms = true,
        .seed = bt_rng_next(&w->stream[SIM_STREAM_CHOICE]),
        .pool = sim_node_pool(&r->n),
        .request_addr = sim_addr(w, SIM_ROUTER, i, 0),
        .feedback_addr = sim_addr(w, SIM_ROUTER, i, 1),
    };
    r->life++;
    r->up = true;
    r->n.wake_ns = r->n.asked_ns = UINT64_MAX;
    r->form = &one_thread;
    if (s->router_threads == 2) {
        sim_threads_start(r, &setup);
    }
    build(r, &setup);
    sim_router_configure(w, i, r->depth);
    sim_router_run(&r->n, sim_node_now(&r->n), NULL);
}

static inline __attribute__((always_inline)) void finish(struct sim_router *r, struct bt_txq *q)
{
    struct sim_world *w = r->n.world;
    if (__builtin_expect(w->watching, 0)) {
        sim_check_promises(w, r->n.index, q);
        sim_check_router_tx(w, r->n.index, q);
        sim_check_router_step(w, r->n.index);
    }
    sim_node_after(&r->n, q, bt_router_next(r->core));
}

/* True: that was all. A router on two threads is always due, so that others need not ask which they are. */
__attribute__((noinline)) static bool tick(struct sim_router *r, uint64_t now, struct bt_pkt *p, struct bt_txq *q)
{
    if (r->form->run != NULL) {
        r->form->run(r, now, p);
        return true;
    }
    bt_router_tick(r->core, now, q);
    finish(r, q);
    return false;
}

/* FEEDBACK first, and what it frees leaves before the next request is looked at. */
void sim_router_run(struct sim_node *n, uint64_t now, struct bt_pkt *p)
{
    struct sim_router *r = (struct sim_router *)(void *)n;
    struct bt_txq q;
    bt_txq_init(&q);
    if (n->due_ns <= now && tick(r, now, p, &q)) {
        return;
    }
    if (p == NULL) {
        finish(r, &q);
        return;
    }
    if (p->local == 1) {
        if (n->world->watching) {
            sim_check_feedback_in(n->world, n->index, p);
        }
        bt_router_feedback(r->core, now, p, &q);
    } else {
        bt_router_request(r->core, now, p, &q);
    }
    finish(r, &q);
}

void sim_router_stop(struct sim_world *w, uint32_t i)
{
    struct sim_router *r = at(w, i);
    if (!r->up) {
        return;
    }
    sim_router_harvest(w, i);
    r->up = false;
    sim_holder_drop_all(&w->net.holder[r->n.node]);
    r->core = NULL;
}

uint64_t sim_router_state(const struct sim_world *w, uint32_t i)
{
    const struct sim_router *r = at(w, i);
    struct bt_router_stats st;
    sim_router_totals(w, i, &st);
    uint64_t sum = st.held * 1000003ULL + st.pairs * 10007ULL + st.outstanding;
    for (uint32_t k = 0; k < w->s->workers; k++) {
        struct bt_router_member_stats m;
        if (!sim_router_row(w, i, k, &m)) {
            continue;
        }
        const uint64_t parts[] = {m.sent,
                                  m.done,
                                  m.lost,
                                  m.reclaimed,
                                  m.n,
                                  m.outstanding,
                                  m.incarnation,
                                  m.feedback_age_ns,
                                  (uint64_t)m.joined | (uint64_t)m.eligible << 1 | (uint64_t)m.suspect << 2 |
                                      (uint64_t)m.ejected << 3 | (uint64_t)m.leaving << 4};
        for (size_t x = 0; x < sizeof parts / sizeof parts[0]; x++) {
            sum = (sum ^ parts[x]) * 0x100000001b3ULL;
        }
    }
    uint64_t next = bt_router_next(r->core), of_feedback = bt_router_feedback_next(r->core);
    return sum ^ (next < of_feedback ? next : of_feedback) ^ (uint64_t)w->net.holder[r->n.node].count << 40;
}

void sim_router_unreachable(struct sim_world *w, uint32_t i, uint32_t server)
{
    struct sim_router *r = at(w, i);
    struct bt_addr worker = sim_addr(w, SIM_SERVER, server, 0);
    if (!r->up) {
        return;
    }
    w->net.seen.icmp_router++;
    w->ledger.credit[(size_t)i * w->s->workers + server].told_unreachable = w->agenda.now;
    bt_router_unreachable(r->core, sim_node_now(&r->n), &worker);
    sim_router_run(&r->n, sim_node_now(&r->n), NULL);
}

void sim_router_harvest(struct sim_world *w, uint32_t i)
{
    struct bt_router_stats st;
    if (!at(w, i)->up) {
        return;
    }
    sim_router_totals(w, i, &st);
    w->net.seen.full[SIM_FULL_ROUTER_PAIRS] += st.counter[BT_RC_PAIRS_FULL];
    w->net.seen.full[SIM_FULL_ROUTER_QUEUE] += st.counter[BT_RC_DROP_QUEUE_FULL];
    w->net.seen.full[SIM_FULL_ROUTER_NOTES] += st.counter[BT_RC_PAIRS_BEHIND] + st.counter[BT_RC_UNREACHABLE_BEHIND];
    w->net.seen.full[SIM_FULL_ROUTER_CREDITS] += st.counter[BT_RC_CREDIT_RESCANS];
    w->net.seen.ejected += st.counter[BT_RC_EJECTED];
    w->net.seen.copies += st.counter[BT_RC_HEDGES_SENT];
    w->net.seen.copies_won += st.counter[BT_RC_HEDGES_WON];
    w->net.seen.cancelled += st.counter[BT_RC_CANCELS_HONOURED];
    w->net.seen.preempted += st.counter[BT_RC_PREEMPTIONS];
    w->net.seen.admission_refused += st.counter[BT_RC_DROP_ADMISSION];
    w->net.seen.degraded += st.counter[BT_RC_DEGRADED];
}
