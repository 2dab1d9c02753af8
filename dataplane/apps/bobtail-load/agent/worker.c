// SPDX-License-Identifier: Apache-2.0
// A worker's turn: what is due leaves, what came is read, now and then timeouts are looked for. The
// schedule does not wait for the service: a request that finds no connection free keeps its intended
// time, and so the wait counts (L-56).
#include "agent/agent.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SENDS_PER_TURN = 64, EVENTS = 64 };

// A sleep ends late by some tens of microseconds, so the last part of the way to a send is not slept.
#define AWAKE_BEFORE_NS 100000u
#define LOOK_EVERY_NS   1000000u
#define IDLE_NS         100000000u

const char *const agent_outcome_name[AGENT_OUTCOMES] = {"answered", "timeout", "disconnected", "errorReply",
                                                        "badReply", "dropped", "notSent",      "refused"};

void agent_conn_free(struct agent_conn *c)
{
    struct agent_worker *w = c->worker;
    if (!c->listed) {
        c->listed = true;
        w->free_conn[(w->free_head + w->free_count++) % w->n_conn] = (uint32_t)(c - w->conn);
    }
}

static struct agent_conn *take_free(struct agent_worker *w)
{
    while (w->free_count > 0) {
        struct agent_conn *c = &w->conn[w->free_conn[w->free_head]];
        w->free_head = (w->free_head + 1) % w->n_conn;
        w->free_count--;
        c->listed = false;
        if (c->state == AGENT_CONN_READY) {
            return c;
        }
    }
    return NULL;
}

static double rate_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double gap(struct agent_worker *w)
{
    const struct agent_config *c = &w->agent->config;
    double mean = 1e9 / rate_of(w->rate_bits);
    if (c->arrivals == AGENT_TRACE_ARRIVALS) {
        return (double)c->trace[w->trace_at++ % c->n_trace] * mean / c->trace_mean;
    }
    return c->arrivals == AGENT_FIXED ? mean : -mean * log(1 - bt_rng_unit(&w->arrivals));
}

// The streams of fixed arrivals start at even distances from each other; those of a trace each at
// another place of it.
static double first_due(struct agent_worker *w, uint64_t now)
{
    const struct agent_config *c = &w->agent->config;
    double part = (double)w->number / c->threads;
    w->trace_at = c->n_trace != 0 ? (uint32_t)(part * c->n_trace) : 0;
    return (double)now + gap(w) + (c->arrivals == AGENT_FIXED ? part * 1e9 / rate_of(w->rate_bits) : 0);
}

// Under another rate what is left of the gap shrinks or grows with it (what is left of an exponential gap is
// exponential). What is due already stays due: a change of rate forgives no delay.
static void adopt_rate(struct agent_worker *w, uint64_t now)
{
    uint64_t bits = atomic_load(&w->agent->rate_bits);
    double before = rate_of(w->rate_bits);
    if (bits == w->rate_bits) {
        return;
    }
    w->rate_bits = bits;
    if (rate_of(bits) > 0 && before <= 0) {
        w->due_ns = first_due(w, now);
    } else if (rate_of(bits) > 0 && w->due_ns > (double)now) {
        w->due_ns = (double)now + (w->due_ns - (double)now) * before / rate_of(bits);
    }
}

static void note_histograms(struct agent_worker *w, const struct agent_request *r, bool answered, uint64_t received_ns)
{
    if (!answered) {
        bt_hist_record_inf(&w->response, 1);
        bt_hist_record_inf(&w->service, 1);
        return;
    }
    bt_hist_record(&w->response, received_ns > r->intended_ns ? received_ns - r->intended_ns : 0);
    bt_hist_record(&w->service, received_ns > r->sent_ns ? received_ns - r->sent_ns : 0);
}

static void note_sample(struct agent_worker *w, const struct agent_request *r, enum agent_outcome outcome,
                        uint64_t received_ns, uint64_t stamped_ns)
{
    struct agent_record *rec = &w->agent->window.records[r->sample];
    // L-1: a client under full load would measure itself; when its requests left is worth knowing (L-22).
    bool answered = outcome == AGENT_ANSWERED && w->agent->config.role != AGENT_THROUGHPUT;
    bool stamped = answered && stamped_ns != AGENT_NEVER;
    rec->outcome = (uint8_t)outcome;
    rec->operation = r->operation;
    rec->received_ns = answered ? received_ns : AGENT_NEVER;
    rec->stamped_ns = stamped ? stamped_ns : AGENT_NEVER;
    rec->stamps = stamped ? (uint8_t)(w->agent->stamps - AGENT_STAMPS_SOFTWARE) : 0;
    if (answered) {
        agent_count(stamped ? &w->window.stamped : &w->window.unstamped);
    }
}

static void note_tally(struct agent_tally *t, enum agent_outcome outcome, bool miss)
{
    agent_count(outcome == AGENT_ANSWERED ? &t->answered : &t->failed[outcome]);
    if (miss) {
        agent_count(&t->misses);
    }
    agent_count(&t->ended);
}

void agent_end(struct agent_worker *w, const struct agent_request *r, enum agent_outcome outcome, bool miss,
               uint64_t received_ns, uint64_t stamped_ns)
{
    note_tally(&w->since, outcome, miss);
    if (r->window == 0) {
        return;
    }
    note_histograms(w, r, outcome == AGENT_ANSWERED, received_ns);
    if (r->sample != AGENT_NO_SAMPLE) {
        note_sample(w, r, outcome, received_ns, stamped_ns);
    }
    note_tally(&w->window, outcome, miss); // last: then the control thread may read the rest
}

static void never_sent(struct agent_worker *w, uint64_t now)
{
    struct agent_request r = agent_window_take(w, (uint64_t)w->due_ns, now);
    if (r.sample != AGENT_NO_SAMPLE) {
        w->agent->window.records[r.sample].sent_ns = AGENT_NEVER;
        w->agent->window.records[r.sample].gap_ns = AGENT_NEVER;
    }
    agent_end(w, &r, AGENT_NOT_SENT, false, AGENT_NEVER, AGENT_NEVER);
}

static void send_due(struct agent_worker *w)
{
    const struct agent_transport *t = agent_transport_of(w->agent);
    for (unsigned i = 0; i < SENDS_PER_TURN && rate_of(w->rate_bits) > 0; i++) {
        uint64_t now = agent_now(w->agent);
        if (w->due_ns > (double)now) {
            return;
        }
        struct agent_conn *c = take_free(w);
        if (c != NULL) {
            t->send(c, (uint64_t)w->due_ns);
        } else if ((double)now - w->due_ns >= (double)w->agent->config.timeout_ns) {
            never_sent(w, now);
        } else {
            return;
        }
        w->due_ns += gap(w);
    }
}

static void look(struct agent_worker *w, uint64_t now)
{
    const struct agent_transport *t = agent_transport_of(w->agent);
    if (now < w->look_ns) {
        return;
    }
    uint32_t out = 0;
    w->look_ns = now + LOOK_EVERY_NS;
    for (uint32_t i = 0; i < w->n_conn; i++) {
        t->look(&w->conn[i], now);
        out += w->conn[i].client != NULL ? bt_client_pending(w->conn[i].client) : bt_flight_count(&w->conn[i].flight);
    }
    atomic_store(&w->outstanding, out);
}

// How long there is nothing to do, in ns; 0 when we must not sleep. Replies end any pause.
static uint64_t pause_ns(const struct agent_worker *w, uint64_t now)
{
    bool loading = rate_of(w->rate_bits) > 0;
    uint64_t until = now + IDLE_NS;
    if (loading && w->agent->config.polling == AGENT_BUSY) {
        return 0;
    }
    if ((loading || atomic_load_explicit(&w->outstanding, memory_order_relaxed) != 0) && w->look_ns < until) {
        until = w->look_ns;
    }
    if (loading && w->free_count != 0 && w->due_ns - AWAKE_BEFORE_NS < (double)until) {
        until = w->due_ns > AWAKE_BEFORE_NS ? (uint64_t)(w->due_ns - AWAKE_BEFORE_NS) : 0;
    }
    return until > now ? until - now : 0;
}

static void wait_for_events(struct agent_worker *w)
{
    const struct agent_transport *t = agent_transport_of(w->agent);
    struct epoll_event ev[EVENTS];
    uint64_t ns = pause_ns(w, agent_now(w->agent));
    struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    int n = epoll_pwait2(w->epoll_fd, ev, EVENTS, &pause, NULL);
    if (n < 0 && (errno == ENOSYS || errno == EPERM)) { // Linux before 5.11, or a sandbox that does not know it
        n = epoll_wait(w->epoll_fd, ev, EVENTS, (int)(ns / 1000000u));
    }
    for (int i = 0; i < n; i++) {
        if (ev[i].data.ptr == NULL) {
            uint64_t woken;
            ssize_t ignored = read(w->wake_fd, &woken, sizeof woken);
            (void)ignored; // the descriptor does not block and tells nothing
        } else {
            t->ready(ev[i].data.ptr, ev[i].events);
        }
    }
}

void *agent_worker_run(void *arg)
{
    struct agent_worker *w = arg;
    struct agent *a = w->agent;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!atomic_load(&a->quit)) {
        uint64_t now = agent_now(a);
        atomic_store(&w->sending, true); // before it looks at the rate: see agent_idle
        adopt_rate(w, now);
        atomic_store(&w->seen, atomic_load(&a->window.number));
        send_due(w);
        atomic_store(&w->seen, 0);
        atomic_store(&w->sending, false);
        look(w, now);
        wait_for_events(w);
    }
    return NULL;
}
