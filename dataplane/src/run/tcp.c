// SPDX-License-Identifier: Apache-2.0
// See tcp.h. A connection is read while it has fewer than so many requests that are not answered; then it waits, and
// its client's window with it. So one client cannot fill a turn, and memory has a bound.
#include "run/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/tcp_wire.h"

enum {
    PACKETS = 4096,
    JOBS = 2048,
    PIECE = BT_PKT_BUFFER - BT_PKT_HEADROOM,
    OUT_MOST = 262144, // bytes that wait for a client; then nothing more is taken of it
};

bool run_bytes_grow(struct run_bytes *b, uint32_t n)
{
    if (b->from != 0) {
        memmove(b->at, b->at + b->from, b->len - b->from);
        b->len -= b->from;
        b->from = 0;
    }
    if (b->room - b->len >= n) {
        return true;
    }
    uint32_t room = b->room * 2 > b->len + n ? b->room * 2 : b->len + n;
    uint8_t *at = realloc(b->at, room);
    if (at != NULL) {
        b->at = at;
        b->room = room;
    }
    return at != NULL;
}

void run_conn_break(struct run_tcp *t, struct run_conn *c, enum bt_run_tcp_counter why)
{
    if (!c->broken) {
        run_tcp_count(t, why);
    }
    c->broken = true;
}

/* Gone when nothing of it is left to do. */
static bool over(struct run_tcp *t, struct run_conn *c)
{
    bool done = c->dead || ((c->ended || c->broken) && c->out.from == c->out.len);
    if (!done || c->pending != 0) {
        return false;
    }
    t->wire->end(t, c);
    c->used = false;
    t->held -= c->held;
    t->open--;
    c->next = t->free;
    t->free = c;
    return true;
}

static void free_job(struct run_tcp *t, struct bobtail_request *job)
{
    bt_msg_free(&job->msg, &t->memory.pool.pool);
    free(job->heap);
    job->heap = NULL;
    job->next = t->free_jobs;
    t->free_jobs = job;
}

/* A request's bytes in packets of their own; false: there are too few. */
static bool fill(struct run_tcp *t, struct bobtail_request *job, const uint8_t *bytes, uint32_t n)
{
    struct bt_pkt *last = NULL;
    job->msg = (struct bt_msg){.len = n};
    do {
        struct bt_pkt *p = bt_pool_get(&t->memory.pool.pool);
        uint32_t take = n < PIECE ? n : PIECE;
        if (p == NULL) {
            bt_msg_free(&job->msg, &t->memory.pool.pool);
            return false;
        }
        memcpy(bt_pkt_append(p, take), bytes, take);
        *(last != NULL ? &last->next : &job->msg.head) = p;
        last = p;
        job->msg.packets++;
        bytes += take;
        n -= take;
    } while (n != 0);
    return true;
}

static bool take_request(struct run_tcp *t, struct run_conn *c, uint32_t len)
{
    struct bobtail_request *job = t->free_jobs;
    struct run_home *home = t->home;
    if (job == NULL || !fill(t, job, c->in.at + c->in.from, len)) {
        return false;
    }
    t->free_jobs = job->next;
    job->reply = NULL;
    job->one.len = 0;
    job->class_flags = 0;
    atomic_store_explicit(&job->stage, RUN_WAITING, memory_order_relaxed);
    job->event.flow = home->first_flow + c->index;
    c->in.from += len;
    c->pending++;
    run_tcp_count(t, BT_RUN_TCP_REQUESTS);
    if (t->wire->came != NULL) {
        t->wire->came(t, c);
    }
    (void)bt_sched_deliver(home->lane->sched, home->core, &job->event); // a flow that is at home here
    return true;
}

static bool may_take(const struct run_conn *c)
{
    return !c->broken && !c->dead && c->pending < RUN_TCP_PER_TURN && c->out.len - c->out.from < OUT_MOST;
}

void run_conn_came(struct run_tcp *t, struct run_conn *c)
{
    enum bt_framed r = BT_FRAMED_WHOLE;
    t->held -= c->held;
    c->held = false;
    while (r == BT_FRAMED_WHOLE && may_take(c)) {
        uint32_t len = 0;
        r = bt_framer_next(&c->framer, c->in.at + c->in.from, c->in.len - c->in.from, &len);
        if (r == BT_FRAMED_WHOLE && !take_request(t, c, len)) {
            c->held = true;
            t->held++;
            return;
        }
    }
    if (r == BT_FRAMED_MALFORMED || r == BT_FRAMED_TOO_LONG) {
        run_conn_break(t, c, r == BT_FRAMED_MALFORMED ? BT_RUN_TCP_MALFORMED : BT_RUN_TCP_TOO_LONG);
    } else if (r == BT_FRAMED_MORE && c->ended && c->in.from != c->in.len) {
        run_conn_break(t, c, BT_RUN_TCP_CUT);
    }
}

void run_conn_serve(struct run_tcp *t, struct run_conn *c)
{
    bool full = c->out.len - c->out.from >= OUT_MOST;
    if (!c->dead) {
        t->wire->write(t, c);
    }
    if (c->dead || c->out.from == c->out.len) {
        c->out.from = c->out.len = 0;
    }
    if (full && may_take(c)) {
        run_conn_came(t, c);
    }
    if (!over(t, c)) {
        t->wire->ask(t, c, !c->ended && !c->held && may_take(c));
    }
}

struct run_conn *run_conn_begin(struct run_tcp *t)
{
    struct run_conn *c = t->free;
    if (c == NULL) {
        run_tcp_count(t, BT_RUN_TCP_FULL);
        return NULL;
    }
    struct run_bytes in = c->in, out = c->out;
    in.from = in.len = out.from = out.len = 0;
    t->free = c->next;
    t->open++;
    *c = (struct run_conn){.used = true, .index = c->index, .fd = -1, .in = in, .out = out};
    bt_framer_init(&c->framer, t->setup.framing, t->setup.max_message);
    run_tcp_count(t, BT_RUN_TCP_ACCEPTED);
    return c;
}

/* Memory came back: those that waited for some go on. */
static void resume(struct run_tcp *t)
{
    for (uint32_t i = 0; t->held != 0 && t->free_jobs != NULL && i < t->setup.connections; i++) {
        if (t->conn[i].used && t->conn[i].held) {
            run_conn_came(t, &t->conn[i]);
            run_conn_serve(t, &t->conn[i]);
        }
    }
}

/* A handler without a reply leaves its client nothing to wait for but the end. */
static void add_reply(struct run_tcp *t, struct run_conn *c, const struct bobtail_request *job)
{
    if (c->dead || (c->broken && job->reply == NULL)) {
        return;
    }
    if (job->reply == NULL) {
        run_conn_break(t, c, BT_RUN_TCP_REFUSED);
    } else if (!run_bytes_grow(&c->out, job->reply_len)) {
        run_conn_break(t, c, BT_RUN_TCP_MEMORY);
    } else {
        memcpy(c->out.at + c->out.len, job->reply, job->reply_len);
        c->out.len += job->reply_len;
    }
}

void run_tcp_answer(struct run_home *home, uint32_t flow)
{
    struct run_tcp *t = home->tcp;
    struct run_conn *c = &t->conn[flow - home->first_flow];
    struct bobtail_request **left = &home->left[c->index], *next = NULL;
    for (struct bobtail_request *job = *left; job != NULL; job = next) {
        next = run_job_of(job->event.next);
        add_reply(t, c, job);
        if (t->wire->served != NULL) {
            t->wire->served(t, c, job);
        }
        free_job(t, job);
        c->pending--;
    }
    *left = NULL;
    bt_sched_replied(home->lane->sched, home->core, flow);
    run_conn_came(t, c);
    run_conn_serve(t, c);
    if (t->held != 0) {
        resume(t);
    }
}

bool run_tcp_open(struct run_home *home, const struct bt_run_tcp *setup, char *err, size_t errlen)
{
    struct run_tcp *t = calloc(1, sizeof *t);
    home->tcp = t;
    if (t == NULL) {
        return false;
    }
    t->home = home;
    t->setup = *setup;
    t->listener = t->set = -1;
    t->wire = setup->wire != NULL ? setup->wire : &run_tcp_kernel;
    t->conn = calloc(setup->connections, sizeof *t->conn);
    t->jobs = calloc(JOBS, sizeof *t->jobs);
    home->left = calloc(setup->connections, sizeof(struct bobtail_request *));
    uint32_t packets = PACKETS + 2 * (setup->max_message / PIECE + 1);
    if (t->conn == NULL || t->jobs == NULL || home->left == NULL || !bt_run_memory_open(&t->memory, packets)) {
        return false;
    }
    home->read_only = t->memory.read_only;
    home->max_message = setup->max_message;
    for (uint32_t i = setup->connections; i-- > 0;) {
        t->conn[i] = (struct run_conn){.index = i, .next = t->free};
        t->free = &t->conn[i];
    }
    for (uint32_t i = JOBS; i-- > 0;) {
        t->jobs[i].home = home;
        t->jobs[i].next = t->free_jobs;
        t->free_jobs = &t->jobs[i];
    }
    return t->wire->open(t, err, errlen);
}

void run_tcp_end_listening(struct run_home *home)
{
    home->tcp->wire->end_listening(home->tcp);
}

bool run_tcp_poll(struct run_home *home)
{
    return home->tcp->wire->poll(home->tcp);
}

void run_tcp_flush(struct run_home *home)
{
    if (home->tcp->wire->flush != NULL) {
        home->tcp->wire->flush(home->tcp);
    }
}

uint64_t run_tcp_next(const struct run_home *home)
{
    const struct run_tcp *t = home->tcp;
    return t->wire->next != NULL ? t->wire->next(t) : UINT64_MAX;
}

void run_tcp_close(struct run_home *home)
{
    struct run_tcp *t = home->tcp;
    t->wire->close(t);
    for (uint32_t i = 0; t->conn != NULL && i < t->setup.connections; i++) {
        free(t->conn[i].in.at);
        free(t->conn[i].out.at);
    }
    for (uint32_t i = 0; t->jobs != NULL && i < JOBS; i++) {
        free(t->jobs[i].heap);
    }
    bt_run_memory_close(&t->memory);
    free(t->conn);
    free(t->jobs);
    free(t);
}

unsigned run_tcp_watch(const struct run_home *home, int *fds, unsigned max)
{
    return home->tcp->wire->watch(home->tcp, fds, max);
}

uint32_t run_tcp_backlog(const struct run_home *home)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < home->tcp->setup.connections; i++) {
        const struct run_conn *c = &home->tcp->conn[i];
        n += c->used ? c->pending + (c->out.from != c->out.len) : 0;
    }
    return n;
}

const _Atomic uint64_t *run_tcp_counters(const struct run_home *home)
{
    return home->tcp->counters;
}
