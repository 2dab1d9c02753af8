// SPDX-License-Identifier: Apache-2.0
// Worker threads of --occupy=spin: each takes jobs in order, spends the drawn time on them and hands them back. The
// queues are those of all workers.
#include "serve_app.h"

#include "shell/log.h"
#include "shell/start.h"

#include <errno.h>
#include <string.h>

// Leaves the core's other hardware thread some room while we spin.
static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Until the time is over, or nobody waits for the answer any more: the program ends, or the request was taken back.
static void spend(struct serve_app *app, const struct serve_job *job, uint64_t ns)
{
    uint64_t until = bt_monotonic_ns() + ns;
    while (bt_monotonic_ns() < until && !atomic_load_explicit(&app->stop, memory_order_relaxed) &&
           !atomic_load_explicit(&job->cancelled, memory_order_relaxed)) {
        relax();
    }
}

static void *work(void *arg)
{
    struct serve_worker *w = arg;
    struct serve_app *app = w->app;
    for (;;) {
        while (sem_wait(&w->work) != 0) {
        }
        struct serve_job *job = bt_spsc_pop(&w->todo);
        if (job == NULL) {
            if (atomic_load(&app->stop)) {
                return NULL;
            }
            continue;
        }
        atomic_store(&job->begun, true);
        spend(app, job, serve_time_of(w, job));
        bt_spsc_push(&w->done, job); // as long as `todo`, so never full
        bt_io_wake(app->io);
    }
}

static bool open_one(struct serve_app *app, unsigned i)
{
    struct serve_worker *w = &app->worker[i];
    w->jobs = calloc(SERVE_PENDING, sizeof *w->jobs);
    if (w->jobs == NULL || !bt_spsc_open(&w->todo, SERVE_PENDING) || !bt_spsc_open(&w->done, SERVE_PENDING) ||
        sem_init(&w->work, 0, 0) != 0) {
        bt_log_error("out of memory for worker %u", i);
        return false;
    }
    for (unsigned k = 0; k < SERVE_PENDING; k++) {
        w->jobs[k].next = w->free_jobs;
        w->free_jobs = &w->jobs[k];
    }
    bt_rng_seed(&w->rng, app->opt.seed + i);
    return true;
}

static bool start_thread(struct serve_worker *w)
{
    int failed = pthread_create(&w->thread, NULL, work, w);
    if (failed != 0) {
        bt_log_error("cannot start worker thread %u: %s", w->index, strerror(failed));
        return false;
    }
    w->running = true;
    return true;
}

bool serve_workers_start(struct serve_app *app)
{
    for (unsigned i = 0; i < app->opt.workers; i++) {
        if (!open_one(app, i) || (app->opt.occupy == OCCUPY_SPIN && !start_thread(&app->worker[i]))) {
            return false;
        }
    }
    return true;
}

bool serve_workers_pin(const struct serve_app *app)
{
    const struct bt_cpus *cpus = &app->opt.network.cpus;
    bool pinned = bt_cpus_pin(cpus, 0, pthread_self());
    for (unsigned i = 0; i < app->opt.workers && pinned; i++) {
        pinned = !app->worker[i].running || bt_cpus_pin(cpus, i + 1, app->worker[i].thread);
    }
    return pinned;
}

void serve_workers_stop(struct serve_app *app)
{
    atomic_store(&app->stop, true);
    for (unsigned i = 0; i < app->opt.workers; i++) {
        if (app->worker[i].running) {
            sem_post(&app->worker[i].work);
        }
    }
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct serve_worker *w = &app->worker[i];
        if (w->running) {
            pthread_join(w->thread, NULL);
            sem_destroy(&w->work);
        }
        bt_spsc_close(&w->todo);
        bt_spsc_close(&w->done);
        free(w->jobs);
    }
}
