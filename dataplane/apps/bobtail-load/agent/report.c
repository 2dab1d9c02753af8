// SPDX-License-Identifier: Apache-2.0
// The answer to "poll": counters now, histograms when a measurement is complete.
#include "agent/session.h"

#include "ctl/ctl_internal.h" // the one spelling of a histogram

#include <string.h>

// A tally as plain numbers, of all workers.
struct sum {
    uint64_t sent, answered, misses, stamped, unstamped;
    uint64_t failed[AGENT_OUTCOMES];
};

static void add(struct sum *to, const struct agent_tally *t)
{
    to->answered += atomic_load(&t->answered);
    to->misses += atomic_load(&t->misses);
    to->stamped += atomic_load(&t->stamped);
    to->unstamped += atomic_load(&t->unstamped);
    for (unsigned i = AGENT_ANSWERED + 1; i < AGENT_OUTCOMES; i++) {
        to->failed[i] += atomic_load(&t->failed[i]);
    }
    to->sent += atomic_load(&t->sent); // last: never less than what ended
}

static void put_counts(struct bt_json_out *o, const struct sum *s)
{
    bt_json_out_u64(o, "sent", s->sent);
    bt_json_out_u64(o, "answered", s->answered);
    bt_json_out_u64(o, "misses", s->misses);
    bt_json_out_open(o, "failed", '{');
    for (unsigned i = AGENT_ANSWERED + 1; i < AGENT_OUTCOMES; i++) {
        bt_json_out_u64(o, agent_outcome_name[i], s->failed[i]);
    }
    bt_json_out_close(o, '}');
}

static void put_histogram(struct agent *a, struct bt_json_out *o, const char *key, bool response)
{
    static struct bt_hist merged;
    bt_hist_clear(&merged);
    for (uint32_t i = 0; i < a->config.threads; i++) {
        bt_hist_merge(&merged, response ? &a->worker[i].response : &a->worker[i].service);
    }
    bt_ctl_reply_histogram(o, key, &merged);
}

static void put_window(struct agent *a, struct bt_json_out *o)
{
    struct agent_window *w = &a->window;
    struct sum s = {0};
    uint64_t discarded = 0;
    bool complete = agent_window_complete(a); // before the counters are read
    uint64_t closed = atomic_load(&w->closed_ns);
    for (uint32_t i = 0; i < a->config.threads; i++) {
        add(&s, &a->worker[i].window);
        discarded += atomic_load(&a->worker[i].stamps_discarded);
    }
    uint32_t claimed = atomic_load(&w->claimed);
    bt_json_out_open(o, "window", '{');
    bt_json_out_bool(o, "complete", complete);
    bt_json_out_u64(o, "openedNanoseconds", w->opened_ns);
    bt_json_out_u64(o, "elapsedNanoseconds", (closed != 0 ? closed : agent_now(a)) - w->opened_ns);
    put_counts(o, &s);
    bt_json_out_u64(o, "sampled", claimed < w->wanted ? claimed : w->wanted);
    bt_json_out_u64(o, "stamped", s.stamped);
    bt_json_out_u64(o, "unstamped", s.unstamped);
    bt_json_out_u64(o, "stampsDiscarded", discarded);
    if (complete && a->config.role != AGENT_THROUGHPUT) { // L-1: a client under full load measures itself
        put_histogram(a, o, "responseTime", true);
        put_histogram(a, o, "serviceTime", false);
    }
    bt_json_out_close(o, '}');
}

const char *session_state_name(const struct agent *a)
{
    static const char *const names[] = {"Idle", "Ready", "Loading"};
    bool measuring = a->state == AGENT_LOADING && atomic_load(&a->window.number) != 0;
    return measuring ? "Measuring" : names[a->state];
}

void session_report(struct agent *a, struct bt_json_out *o)
{
    struct sum since = {0};
    uint64_t reconnects = 0;
    double rate;
    uint64_t bits = atomic_load(&a->rate_bits);
    memcpy(&rate, &bits, sizeof rate);
    agent_window_check(a);
    for (uint32_t i = 0; i < a->config.threads; i++) {
        add(&since, &a->worker[i].since);
        reconnects += atomic_load(&a->worker[i].reconnects);
    }
    bt_json_out_open(o, NULL, '{');
    bt_json_out_bool(o, "ok", true);
    bt_json_out_string(o, "state", session_state_name(a));
    bt_json_out_string(o, "timestamps", agent_stamps_name[a->stamps]);
    bt_json_out_double(o, "rate", rate * a->config.threads);
    bt_json_out_u64(o, "nowNanoseconds", agent_now(a));
    bt_json_out_u64(o, "outstanding", agent_outstanding(a));
    bt_json_out_u64(o, "reconnects", reconnects);
    bt_json_out_open(o, "since", '{');
    put_counts(o, &since);
    bt_json_out_close(o, '}');
    if (a->window.last != 0) {
        put_window(a, o);
    }
    bt_json_out_close(o, '}');
}
