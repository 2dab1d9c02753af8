// SPDX-License-Identifier: Apache-2.0
// Worker threads: each takes jobs in order, spends the drawn time on them and hands them back.
#include "serve_app.h"

#include "shell/log.h"
#include "shell/start.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

// How long a sleeping worker may hold up the end of the program.
#define STOP_LOOK_NS UINT64_C(100000000)

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

// Leaves the core's other hardware thread some room while we spin.
static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Until the time is over or the program ends: nobody waits for the answer then.
static void spend(struct serve_app *app, uint64_t ns)
{
    uint64_t now = bt_monotonic_ns();
    uint64_t until = now + ns;
    while (now < until && !atomic_load_explicit(&app->stop, memory_order_relaxed)) {
        if (app->opt.occupy == OCCUPY_SPIN) {
            relax();
        } else {
            sleep_until(until - now < STOP_LOOK_NS ? until : now + STOP_LOOK_NS);
        }
        now = bt_monotonic_ns();
    }
}

static void *work(void *arg)
{
    struct serve_worker *w = arg;
    struct serve_app *app = w->app;
    prctl(PR_SET_TIMERSLACK, 1UL); // the default would add 50 us to every sleep
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
        spend(app, service_time_draw(job->degraded ? &app->opt.degraded : &app->opt.service, &w->rng));
        bt_spsc_push(&w->done, job); // as long as `todo`, so never full
        bt_io_wake(app->io);
    }
}

static bool start_one(struct serve_app *app, unsigned i)
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
    int failed = pthread_create(&w->thread, NULL, work, w);
    if (failed != 0) {
        bt_log_error("cannot start worker thread %u: %s", i, strerror(failed));
        return false;
    }
    w->running = true;
    return true;
}

bool serve_workers_start(struct serve_app *app)
{
    for (unsigned i = 0; i < app->opt.workers; i++) {
        if (!start_one(app, i)) {
            return false;
        }
    }
    return true;
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
