// SPDX-License-Identifier: Apache-2.0
// See tcp_stack.h. What lwIP tells is noted and acted upon when it has returned, for nothing of it may be called from
// inside it.
#include "run/tcp_stack.h"

#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/tcp_wire.h"
#include "sched/fc_receiver.h"
#include "tcp/lwip/sizes.h"
#include "wire/fc_signal.h"

struct stacked {
    const struct bt_tcp_stack *stack; // NULL: not open
    struct run_tcp *tcp;
    struct bt_io *io;
    struct bt_txq out;
    struct run_conn *touched;
    bool flow; // clients that ask are told how much they may send (F-34)
    struct bt_fc_receiver lane;
    struct bt_fc_conn others, conn[];
};

static void touch(struct run_conn *c)
{
    struct stacked *s = c->carrier;
    if (!c->touched) {
        c->touched = true;
        c->next_touched = s->touched;
        s->touched = c;
    }
}

static void *on_accepted(void *arg, struct bt_tcp_conn *stacks, const struct bt_addr *peer)
{
    struct stacked *s = arg;
    struct run_conn *c = run_conn_begin(s->tcp);
    (void)peer;
    if (c != NULL) {
        c->carrier = s;
        c->stacks = stacks;
        c->reads = true;
    }
    return c;
}

static void on_received(void *own, const uint8_t *bytes, uint32_t n)
{
    struct run_conn *c = own;
    struct stacked *s = c->carrier;
    touch(c);
    if (c->broken) {
        return; // nobody looks at it any more
    }
    if (!run_bytes_grow(&c->in, n)) {
        run_conn_break(s->tcp, c, BT_RUN_TCP_MEMORY);
        return;
    }
    memcpy(c->in.at + c->in.len, bytes, n);
    c->in.len += n;
    c->unread += n;
}

static void on_room(void *own)
{
    const struct run_conn *c = own;
    if (c->out.from != c->out.len) {
        touch(own);
    }
}

static void on_ended(void *own)
{
    ((struct run_conn *)own)->ended = true;
    touch(own);
}

static void on_gone(void *own)
{
    struct run_conn *c = own;
    struct stacked *s = c->carrier;
    c->stacks = NULL;
    c->dead = true;
    run_tcp_count(s->tcp, BT_RUN_TCP_RESET);
    touch(c);
}

/* What a segment says instead of a window. A connection that is not read gets silence, not tokens. */
static uint16_t signal_of(void *arg, void *own)
{
    struct stacked *s = arg;
    const struct run_conn *c = own;
    uint64_t now = run_clock_ns();
    if (c == NULL) {
        return bt_fc_advertise_any(&s->lane, now);
    }
    return c->reads ? bt_fc_advertise(&s->lane, &s->conn[c->index], now) : bt_fc_write_idle(BT_FC_PERIOD_US);
}

static struct bt_fc_conn *flow_of(struct stacked *s, const struct run_conn *c)
{
    return c->stacks != NULL && s->stack->tokens(c->stacks) ? &s->conn[c->index] : &s->others;
}

static void came(struct run_tcp *t, struct run_conn *c)
{
    struct stacked *s = t->of_wire;
    if (!s->flow) {
        return;
    }
    uint64_t now = run_clock_ns();
    c->flow = flow_of(s, c);
    if (c->flow == &s->others) {
        bt_fc_passed(&s->lane, c->flow, now);
    } else if (!bt_fc_arrived(&s->lane, c->flow, now)) {
        bt_fc_kept(&s->lane, c->flow); // learned once
    }
}

static void served(struct run_tcp *t, struct run_conn *c, const struct bobtail_request *job)
{
    struct stacked *s = t->of_wire;
    if (s->flow) {
        bt_fc_served(&s->lane, c->flow, job->began_ns, job->began_ns + job->took_ns);
    }
}

static void settle(struct stacked *s)
{
    while (s->touched != NULL) {
        struct run_conn *c = s->touched;
        s->touched = c->next_touched;
        c->touched = false;
        run_conn_came(s->tcp, c);
        run_conn_serve(s->tcp, c);
    }
}

static bool poll_port(struct run_tcp *t)
{
    struct stacked *s = t->of_wire;
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned bound = bt_sched_batch(t->home->run->setup.batch, BT_IO_BATCH);
    unsigned n = bt_io_rx(s->io, BT_IO_ANY, pkts, bound);
    uint64_t now = bt_io_now(s->io);
    for (unsigned i = 0; i < n; i++) {
        if (pkts[i]->local == BT_RUN_TCP_LOCAL) {
            s->stack->rx(pkts[i], now);
        } else {
            run_tcp_count(t, BT_RUN_TCP_NOT_TCP);
            bt_pool_put(t->setup.pool, pkts[i]);
        }
    }
    settle(s);
    if (now >= s->stack->next()) {
        s->stack->tick(now);
        settle(s);
    }
    return n == bound;
}

static void flush(struct run_tcp *t)
{
    struct stacked *s = t->of_wire;
    s->stack->flush(bt_io_now(s->io));
    bt_io_tx(s->io, &s->out);
}

static void write_out(struct run_tcp *t, struct run_conn *c)
{
    const struct stacked *s = t->of_wire;
    if (c->out.from != c->out.len) {
        c->out.from += s->stack->write(c->stacks, c->out.at + c->out.from, c->out.len - c->out.from);
    }
}

static void ask(struct run_tcp *t, struct run_conn *c, bool reads)
{
    const struct stacked *s = t->of_wire;
    c->reads = reads;
    if (reads && c->unread != 0) {
        s->stack->taken(c->stacks, c->unread);
        c->unread = 0;
    }
}

static void end(struct run_tcp *t, struct run_conn *c)
{
    struct stacked *s = t->of_wire;
    bt_fc_gone(&s->lane, &s->conn[c->index]);
    if (c->stacks != NULL) {
        s->stack->end(c->stacks);
    }
}

static struct bt_tcp_setup setup_of(struct stacked *s)
{
    const struct bt_run_tcp *tcp = &s->tcp->setup;
    struct bt_tcp_setup setup = {.local = tcp->local,
                                 .mtu = tcp->mtu,
                                 .tx_local = BT_RUN_TCP_LOCAL,
                                 .pool = tcp->pool,
                                 .out = &s->out,
                                 .owner = {.accepted = on_accepted,
                                           .received = on_received,
                                           .room = on_room,
                                           .ended = on_ended,
                                           .gone = on_gone,
                                           .signal = s->flow ? signal_of : NULL,
                                           .arg = s}};
    randombytes_buf(setup.key, sizeof setup.key);
    return setup;
}

static bool open_stack(struct run_tcp *t, char *err, size_t errlen)
{
    struct stacked *s = calloc(1, sizeof *s + t->setup.connections * sizeof s->conn[0]);
    t->of_wire = s;
    if (s == NULL) {
        return false;
    }
    s->tcp = t;
    s->io = t->setup.io[t->home->lane->first + t->home->core];
    s->flow = t->setup.flow != NULL;
    t->home->clocked = s->flow;
    bt_txq_init(&s->out);
    if (s->flow) {
        bt_fc_receiver_init(&s->lane, t->setup.flow, bt_io_now(s->io));
    }
    if (t->setup.connections > BT_TCP_CONNECTIONS) {
        snprintf(err, errlen, "connections: with a TCP stack of its own a thread has at most %u", BT_TCP_CONNECTIONS);
        return false;
    }
    const struct bt_tcp_stack *stack = bt_tcp_stack_take();
    if (stack == NULL) {
        snprintf(err, errlen, "threads: at most %u can have a TCP stack of their own", BT_TCP_COPIES);
        return false;
    }
    struct bt_tcp_setup setup = setup_of(s);
    s->stack = stack;
    return stack->open(&setup, bt_io_now(s->io), err, errlen);
}

static void close_stack(struct run_tcp *t)
{
    struct stacked *s = t->of_wire;
    if (s != NULL && s->stack != NULL) {
        for (uint32_t i = 0; i < t->setup.connections; i++) {
            if (t->conn[i].used && t->conn[i].stacks != NULL) {
                s->stack->end(t->conn[i].stacks);
            }
        }
        s->stack->close();
        bt_io_tx(s->io, &s->out); // the ends of all connections
        bt_tcp_stack_give(s->stack);
    }
    free(s);
}

static void end_listening(struct run_tcp *t)
{
    const struct stacked *s = t->of_wire;
    s->stack->end_listening();
}

static unsigned watch(const struct run_tcp *t, int *fds, unsigned max)
{
    const struct stacked *s = t->of_wire;
    return s->io->ops->watch != NULL ? s->io->ops->watch(s->io, fds, max) : 0;
}

/* The stack's timers, and those of what carries it. */
static uint64_t next(const struct run_tcp *t)
{
    const struct stacked *s = t->of_wire;
    uint64_t stack = s->stack->next(), io = bt_io_next(s->io);
    return stack < io ? stack : io;
}

const struct bt_run_wire bt_run_wire_stack = {.open = open_stack,
                                              .close = close_stack,
                                              .end_listening = end_listening,
                                              .poll = poll_port,
                                              .flush = flush,
                                              .write = write_out,
                                              .ask = ask,
                                              .end = end,
                                              .served = served,
                                              .came = came,
                                              .watch = watch,
                                              .next = next};

/* Home i's stack, for who has its token now. */
static struct stacked *hold(struct bt_run *run, uint32_t i)
{
    struct run_home *home = &run->home[i];
    while (!bt_sched_take(home->lane->sched, home->core)) {
        sched_yield();
    }
    return home->tcp->of_wire;
}

static void let_go(struct bt_run *run, uint32_t i)
{
    run_home_turn(&run->home[i], NULL, false);
    run_rouse(run->home[i].lane, run, run->home[i].core);
}

void bt_run_read_stacks(struct bt_run *run, uint64_t *out)
{
    memset(out, 0, BT_TCP_COUNTERS * sizeof *out);
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        const uint64_t *c = hold(run, i)->stack->counters();
        for (unsigned k = 0; k < BT_TCP_COUNTERS; k++) {
            out[k] += c[k];
        }
        let_go(run, i);
    }
}

unsigned bt_run_read_stack_ios(struct bt_run *run, const struct bt_counter_desc **desc, uint64_t *out, unsigned max)
{
    unsigned n = 0;
    memset(out, 0, max * sizeof *out);
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        struct bt_io *io = hold(run, i)->io;
        const uint64_t *c = io->ops->counters(io, desc, &n);
        n = n < max ? n : max;
        for (unsigned k = 0; k < n; k++) {
            out[k] += c[k];
        }
        let_go(run, i);
    }
    return n;
}
