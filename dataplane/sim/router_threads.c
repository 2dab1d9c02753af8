// SPDX-License-Identifier: Apache-2.0
// A simulated router on two threads: the shipped halves, each with the port it serves in the program. A thread
// that is wanted has its turn at once or, by chance, later; what arrives meanwhile waits at its port. Turns are whole,
// with one exception: behind a FEEDBACK of a burst, where the packet goes back to its pool, the REQ0 thread may have
// turns before the FEEDBACK thread goes on. So notes are old and `sent` is new, as when a thread is descheduled.
#include <stdio.h>
#include <stdlib.h>

#include "io/io.h"
#include "router/router.h"
#include "world.h"

/* As apps/bobtail-router/threads.c. */
enum { FEEDBACK_ROUNDS = 8 };
#define LATEST_NS UINT64_C(10000000)

/* --- when a thread runs ------------------------------------------------------------------------------------------ */

static uint64_t draw_lag(struct sim_world *w)
{
    struct bt_rng *g = &w->stream[SIM_STREAM_LAG];
    if (w->s->thread_lag_ns == 0 || sim_chance(g, 0.5)) {
        return 0;
    }
    w->net.seen.threads_late++;
    return (uint64_t)(sim_uniform(g) * (double)w->s->thread_lag_ns);
}

static void push_turn(struct sim_router *r, uint32_t which, uint64_t at)
{
    r->thread[which].turn_ns = at;
    sim_agenda_push(&r->n.world->agenda, at,
                    (struct sim_event){.node = r->n.node, .kind = SIM_EVENT_TURN, .arg = (uint16_t)which});
}

/* There is something to do for a thread. */
static void want(struct sim_router *r, uint32_t which)
{
    struct sim_thread *t = &r->thread[which];
    uint64_t now = r->n.world->agenda.now;
    if (t->turn_ns != UINT64_MAX) {
        return;
    }
    t->wanted_ns = now;
    push_turn(r, which, now + draw_lag(r->n.world));
}

/* When a thread wakes by itself, on its own clock: the program looks at notes every so often. */
static uint64_t wakes(const struct sim_router *r, uint32_t which)
{
    if (which == SIM_THREAD_REQ0) {
        return bt_router_next(r->core);
    }
    uint64_t next = bt_router_feedback_next(r->core), latest = r->thread[which].last_ns + LATEST_NS;
    return latest < next ? latest : next;
}

/* Wants the threads that are due, and asks to be woken for the others. */
static void look_ahead(struct sim_router *r)
{
    uint64_t next = UINT64_MAX;
    struct bt_txq none;
    for (uint32_t which = 0; which < SIM_THREADS; which++) {
        uint64_t at = wakes(r, which);
        if (at <= sim_node_now(&r->n)) {
            want(r, which);
        } else if (r->thread[which].turn_ns == UINT64_MAX && at < next) {
            next = at;
        }
    }
    bt_txq_init(&none);
    sim_node_after(&r->n, &none, next);
    r->n.due_ns = 0; /* see router_node.c */
}

/* --- turns ------------------------------------------------------------------------------------------------------- */

/* What was true so late may have been learnt too late. */
static void begin_turn(struct sim_router *r, uint32_t which)
{
    struct sim_world *w = r->n.world;
    struct sim_thread *t = &r->thread[which];
    if (t->turn_ns != UINT64_MAX && w->agenda.now - t->wanted_ns >= w->net.late_ns) {
        sim_check_disturbed(w, r->n.node, w->agenda.now);
    }
    t->turn_ns = UINT64_MAX;
    t->last_ns = sim_node_now(&r->n);
}

/* A burst ends before a packet that nobody may accept. */
static unsigned take(struct sim_thread *t, struct bt_pkt *pkts[BT_IO_BATCH])
{
    unsigned n = 0;
    while (n < BT_IO_BATCH && t->inbox.n > 0 && t->inbox.head->mark == 0) {
        pkts[n++] = bt_txq_pop(&t->inbox);
    }
    return n;
}

/* Such packets are read one by one between two turns of their thread, so that it can be told what each changes. A
 * thread that has more to read then wants its next turn. */
static void end_turn(struct sim_router *r, uint32_t which)
{
    struct sim_thread *t = &r->thread[which];
    while (t->inbox.n > 0 && t->inbox.head->mark != 0) {
        sim_read_bad(r->n.world, &r->n, bt_txq_pop(&t->inbox));
    }
    if (t->inbox.n > 0) {
        want(r, which);
    }
}

static void finish(struct sim_router *r, struct bt_txq *q)
{
    struct sim_world *w = r->n.world;
    if (w->watching) {
        sim_check_promises(w, r->n.index, q);
        sim_check_router_tx(w, r->n.index, q);
        sim_check_router_step(w, r->n.index);
    }
    if (q->n > 0) {
        sim_node_send(&r->n, q);
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Credit that waits was published by a clock that showed at_ns or more, and is taken by that clock. */
static void note_credit(struct sim_router *r, uint64_t at_ns)
{
    if (r->judged.credit_ns == 0 && bt_router_credit_waits(r->core)) {
        r->judged.credit_ns = at_ns;
    }
}

static void read_requests(struct sim_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *q)
{
    struct sim_judged *j = &r->judged;
    j->begun_ns = later(j->done_ns, j->credit_ns);
    j->credit_ns = 0;
    j->oldest_ns = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        j->oldest_ns = pkts[i]->t_rx_ns < j->oldest_ns ? pkts[i]->t_rx_ns : j->oldest_ns;
    }
    bt_router_requests(r->core, pkts, n, q);
    j->ticked = q->n;
}

static void tick_requests(struct sim_router *r, struct bt_txq *q)
{
    struct sim_judged *j = &r->judged;
    j->tick_ns = later(j->begun_ns, sim_node_now(&r->n));
    bt_router_tick(r->core, sim_node_now(&r->n), q);
    j->done_ns = j->tick_ns;
}

static uint64_t held(const struct sim_router *r, const struct bt_pkt *p, unsigned place)
{
    const struct sim_judged *j = &r->judged;
    uint64_t by = place >= j->ticked ? j->tick_ns : p->t_rx_ns < j->oldest_ns ? j->begun_ns : 0;
    return by > p->t_rx_ns ? by - p->t_rx_ns : 0;
}

static void request_turn(struct sim_router *r)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_txq q;
    bt_txq_init(&q);
    begin_turn(r, SIM_THREAD_REQ0);
    read_requests(r, pkts, take(&r->thread[SIM_THREAD_REQ0], pkts), &q);
    if (bt_router_notes_pile_up(r->core)) {
        want(r, SIM_THREAD_FEEDBACK);
    }
    tick_requests(r, &q);
    if (r->n.world->watching) {
        sim_check_halves(r->n.world, r->n.index);
    }
    finish(r, &q);
    end_turn(r, SIM_THREAD_REQ0);
}

/* As the program wakes it: credit is urgent to who holds requests. */
static void tell_of_credit(struct sim_router *r)
{
    if (bt_router_holds(r->core) && bt_router_credit_waits(r->core)) {
        want(r, SIM_THREAD_REQ0);
    }
}

static void feedback_turn(struct sim_router *r)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct sim_thread *t = &r->thread[SIM_THREAD_FEEDBACK];
    struct bt_txq q;
    bt_txq_init(&q);
    begin_turn(r, SIM_THREAD_FEEDBACK);
    for (unsigned round = 0, n = BT_IO_BATCH; round < FEEDBACK_ROUNDS && n == BT_IO_BATCH; round++) {
        n = take(t, pkts);
        r->between.open = true;
        bt_router_feedbacks(r->core, pkts, n, &q);
        r->between.open = false;
        tell_of_credit(r);
    }
    bt_router_feedback_tick(r->core, sim_node_now(&r->n));
    note_credit(r, sim_node_now(&r->n));
    tell_of_credit(r);
    finish(r, &q);
    end_turn(r, SIM_THREAD_FEEDBACK);
}

static void turn(struct sim_router *r, uint32_t which)
{
    which == SIM_THREAD_REQ0 ? request_turn(r) : feedback_turn(r);
}

/* The pool of the FEEDBACK half: what comes back was read, and what it said is published. */
static void put_between(struct bt_pool *pool, struct bt_pkt *pkt)
{
    struct sim_gap *b = (struct sim_gap *)(void *)pool;
    struct sim_router *r = b->router;
    struct sim_world *w = r->n.world;
    if (pkt->mark == 0) {
        sim_check_feedback_in(w, r->n.index, pkt);
    }
    note_credit(r, pkt->t_rx_ns);
    bt_pool_put(sim_node_pool(&r->n), pkt);
    if (!b->open || r->thread[SIM_THREAD_REQ0].paused_until > w->agenda.now ||
        !sim_chance(&w->stream[SIM_STREAM_LAG], w->s->thread_between)) {
        return;
    }
    w->net.seen.threads_between++;
    b->open = false;
    request_turn(r);
    b->open = true;
}

static struct bt_pkt *get_nothing(struct bt_pool *pool)
{
    (void)pool;
    return NULL;
}

void sim_threads_turn(struct sim_world *w, uint32_t node, uint32_t which)
{
    struct sim_router *r = &w->router[node - w->net.first[SIM_ROUTER]];
    struct sim_thread *t = &r->thread[which];
    if (!r->up || t->turn_ns != w->agenda.now) {
        return; /* it had its turn since */
    }
    if (t->paused_until > w->agenda.now) {
        push_turn(r, which, t->paused_until);
        return;
    }
    turn(r, which);
    look_ahead(r);
}

void sim_threads_postpone(struct sim_router *r, uint32_t which, uint64_t until_ns)
{
    struct sim_thread *t = &r->thread[which];
    t->turn_ns = t->turn_ns == r->n.world->agenda.now ? until_ns : t->turn_ns;
}

void sim_threads_pause(struct sim_router *r, uint32_t which, uint64_t until_ns)
{
    r->thread[which].paused_until = until_ns;
}

/* --- the node ---------------------------------------------------------------------------------------------------- */

static uint32_t entries(uint32_t wanted)
{
    uint32_t n = wanted > 0 ? 1 : 0;
    while (n < wanted) {
        n *= 2;
    }
    return n;
}

void sim_threads_start(struct sim_router *r, struct bt_router_setup *setup)
{
    const struct sim_scenario *s = r->n.world->s;
    r->form = &sim_router_two_threads;
    r->between = (struct sim_gap){.pool = {get_nothing, put_between}, .router = r};
    setup->feedback_pool = &r->between.pool;
    setup->credits = entries(s->credits_room);
    setup->notes = entries(s->notes_room);
    r->judged = (struct sim_judged){0};
    for (uint32_t which = 0; which < SIM_THREADS; which++) {
        r->thread[which] = (struct sim_thread){.turn_ns = UINT64_MAX, .last_ns = sim_node_now(&r->n)};
        bt_txq_init(&r->thread[which].inbox);
    }
}

/* False: one of them is paused. */
static bool catch_up(struct sim_router *r)
{
    uint64_t now = r->n.world->agenda.now;
    if (r->thread[SIM_THREAD_REQ0].paused_until > now || r->thread[SIM_THREAD_FEEDBACK].paused_until > now) {
        return false;
    }
    do {
        request_turn(r);
        feedback_turn(r);
    } while (r->thread[SIM_THREAD_REQ0].inbox.n > 0 || bt_router_credit_waits(r->core));
    return true;
}

/* Nothing else is to be read, so that whatever changes, this packet changed. */
static void read_alone(struct sim_router *r, struct bt_pkt *p)
{
    struct bt_txq q;
    bt_txq_init(&q);
    if (p->local == SIM_THREAD_FEEDBACK) {
        bt_router_feedbacks(r->core, &p, 1, &q);
    } else {
        read_requests(r, &p, 1, &q);
    }
    finish(r, &q);
}

static void run(struct sim_router *r, uint64_t now, struct bt_pkt *p)
{
    (void)now;
    if (p != NULL && r->n.world->ledger.bad_packet) {
        read_alone(r, p);
    } else if (p != NULL) {
        bt_txq_push(&r->thread[p->local].inbox, p);
        want(r, p->local);
    }
    look_ahead(r);
}

const struct sim_router_form sim_router_two_threads = {
    .run = run,
    .settle = feedback_turn, /* the FEEDBACK thread comes to rest behind what had arrived, as in the program */
    .held = held,
    .catch_up = catch_up,
    .hold_slack_ns = -1,
    .bursts = true};
