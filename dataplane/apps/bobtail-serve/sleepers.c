// SPDX-License-Identifier: Apache-2.0
// Workers of --occupy=sleep: each sleeps for one job at a time, in order; the I/O thread keeps the time. A sleep begins
// when the I/O thread comes to it, so a machine that is late makes such a worker slower, as it does a thread.
#include "serve_app.h"

static void next_job(struct serve_worker *w, uint64_t now)
{
    while ((w->asleep = bt_spsc_pop(&w->todo)) != NULL && atomic_load(&w->asleep->cancelled)) {
        bt_spsc_push(&w->done, w->asleep); // as long as `todo`, so never full
    }
    if (w->asleep != NULL) {
        atomic_store(&w->asleep->begun, true);
    }
    w->until_ns = w->asleep != NULL ? now + serve_time_of(w, w->asleep) : UINT64_MAX;
}

void serve_sleeper_begin(struct serve_worker *w, uint64_t now)
{
    if (w->asleep == NULL) {
        next_job(w, now);
    }
}

uint64_t serve_sleepers_run(struct serve_app *app, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct serve_worker *w = &app->worker[i];
        if (w->asleep == NULL) {
            continue;
        }
        if (w->until_ns <= now) {
            bt_spsc_push(&w->done, w->asleep); // as long as `todo`, so never full
            next_job(w, now);
        }
        next = w->until_ns < next ? w->until_ns : next;
    }
    return next;
}
