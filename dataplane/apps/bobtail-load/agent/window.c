// SPDX-License-Identifier: Apache-2.0
// A measurement from its opening to the end of its last request. It is complete when no worker is in a
// turn that may still add to it and everything it counted as sent has ended; a worker says `seen` before
// it looks at the window again, the control thread closes it before it looks at `seen`, so one of the two
// notices the other.
#include "agent/agent.h"

#include <stdlib.h>
#include <string.h>

static void clear_tally(struct agent_tally *t)
{
    atomic_store(&t->sent, 0);
    atomic_store(&t->answered, 0);
    atomic_store(&t->misses, 0);
    atomic_store(&t->stamped, 0);
    atomic_store(&t->unstamped, 0);
    atomic_store(&t->ended, 0);
    for (unsigned i = 0; i < AGENT_OUTCOMES; i++) {
        atomic_store(&t->failed[i], 0);
    }
}

bool agent_window_open(struct agent *a, uint32_t samples, double rate, uint64_t length_ns)
{
    struct agent_window *w = &a->window;
    free(w->records);
    w->records = calloc(samples != 0 ? samples : 1, sizeof *w->records);
    if (w->records == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < a->config.threads; i++) {
        clear_tally(&a->worker[i].window);
        bt_hist_clear(&a->worker[i].response);
        bt_hist_clear(&a->worker[i].service);
        atomic_store(&a->worker[i].stamps_discarded, 0);
    }
    w->wanted = samples;
    w->rate = rate;
    w->opened_ns = agent_now(a);
    w->ends_ns = w->opened_ns + length_ns;
    w->last++;
    atomic_store(&w->claimed, 0);
    atomic_store(&w->closed_ns, 0);
    atomic_store(&w->number, w->last);
    return true;
}

void agent_window_close(struct agent *a, uint64_t now_ns)
{
    uint64_t open = 0;
    struct agent_window *w = &a->window;
    uint64_t end = now_ns < w->ends_ns ? now_ns : w->ends_ns;
    atomic_compare_exchange_strong(&w->closed_ns, &open, end > w->opened_ns ? end : w->opened_ns + 1);
    atomic_store(&w->number, 0);
}

void agent_window_check(struct agent *a)
{
    uint64_t now = agent_now(a);
    if (atomic_load(&a->window.number) != 0 && now >= a->window.ends_ns) {
        agent_window_close(a, now);
    }
}

bool agent_window_complete(struct agent *a)
{
    if (a->window.last == 0 || atomic_load(&a->window.number) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < a->config.threads; i++) {
        struct agent_worker *w = &a->worker[i];
        if (atomic_load(&w->seen) != 0 || atomic_load(&w->window.ended) != atomic_load(&w->window.sent)) {
            return false;
        }
    }
    return true;
}

struct agent_request agent_window_take(struct agent_worker *w, uint64_t intended_ns, uint64_t now_ns)
{
    struct agent *a = w->agent;
    struct agent_window *win = &a->window;
    struct agent_request r = {.intended_ns = intended_ns, .sent_ns = now_ns, .sample = AGENT_NO_SAMPLE};
    agent_count(&w->since.sent);
    r.window = atomic_load(&w->seen) != 0 ? atomic_load(&win->number) : 0;
    if (r.window != 0 && now_ns >= win->ends_ns) {
        agent_window_close(a, now_ns);
        r.window = 0;
    }
    if (r.window == 0) {
        return r;
    }
    agent_count(&w->window.sent);
    if (win->wanted == 0 || bt_rng_unit(&w->sampling) >= win->rate) { // L-46: each one by chance
        return r;
    }
    uint32_t claim = atomic_fetch_add(&win->claimed, 1);
    if (claim < win->wanted) {
        uint64_t gap = w->last_sent_ns != AGENT_NEVER && now_ns != AGENT_NEVER ? now_ns - w->last_sent_ns : AGENT_NEVER;
        r.sample = claim;
        win->records[claim] = (struct agent_record){.intended_ns = intended_ns, .sent_ns = now_ns, .gap_ns = gap};
    }
    if (claim + 1 == win->wanted && a->config.role != AGENT_THROUGHPUT) { // L-1: its window measures no latency
        agent_window_close(a, now_ns);
    }
    return r;
}
