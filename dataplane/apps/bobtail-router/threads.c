// SPDX-License-Identifier: Apache-2.0
// See threads.h.
#include "threads.h"

enum { FEEDBACK_ROUNDS = 8 };

// Health and latencies may be looked at so much later than they are due, and notes may wait so long.
#define LATEST_NS UINT64_C(10000000)

// Both sides write, then read what the other wrote: one of them sees the other in any case.
static void say_asleep(atomic_bool *asleep)
{
    atomic_store(asleep, true);
    atomic_thread_fence(memory_order_seq_cst);
}

static void wake_if_asleep(atomic_bool *asleep, struct bt_io *io)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(asleep, memory_order_relaxed)) {
        atomic_store_explicit(asleep, false, memory_order_relaxed);
        bt_io_wake(io);
    }
}

static void sleep_for_feedback(struct router_threads *t, uint64_t now)
{
    uint64_t until = bt_router_feedback_next(t->router), latest = now + LATEST_NS;
    atomic_store_explicit(&t->feedback_asleep, true, memory_order_relaxed);
    bt_io_wait(t->feedback_io, until < latest ? until : latest);
    atomic_store_explicit(&t->feedback_asleep, false, memory_order_relaxed);
}

static void take_feedback(struct router_threads *t)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    for (unsigned round = 0; round < FEEDBACK_ROUNDS; round++) {
        unsigned n = bt_io_rx(t->feedback_io, BT_IO_ANY, pkts, BT_IO_BATCH);
        bt_router_feedbacks(t->router, pkts, n, NULL);
        wake_if_asleep(&t->requests_asleep, t->request_io);
        if (n < BT_IO_BATCH) {
            return;
        }
    }
}

// Stands still while somebody asks for it, who then sees every FEEDBACK that had arrived before (ctl/mailbox.h). False:
// the thread ends.
__attribute__((noinline, cold)) static bool rest(struct router_threads *t)
{
    take_feedback(t);
    pthread_mutex_lock(&t->lock);
    t->resting = true;
    pthread_cond_broadcast(&t->changed);
    while (atomic_load(&t->asked) && !t->ending) {
        pthread_cond_wait(&t->changed, &t->lock);
    }
    t->resting = false;
    bool ending = t->ending;
    pthread_mutex_unlock(&t->lock);
    return !ending;
}

static void *feedback_loop(void *arg)
{
    struct router_threads *t = arg;
    uint64_t now = bt_io_now(t->feedback_io);
    while (!atomic_load_explicit(&t->asked, memory_order_relaxed) || rest(t)) {
        sleep_for_feedback(t, now);
        take_feedback(t);
        now = bt_io_now(t->feedback_io);
        bt_router_feedback_tick(t->router, now);
        wake_if_asleep(&t->requests_asleep, t->request_io);
    }
    return NULL;
}

int router_threads_start(struct router_threads *t)
{
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    int error = pthread_create(&t->feedback, NULL, feedback_loop, t);
    t->running = error == 0;
    return error;
}

void router_threads_pause(struct router_threads *t)
{
    if (!t->running) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->asked, true);
    bt_io_wake(t->feedback_io);
    while (!t->resting) {
        pthread_cond_wait(&t->changed, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
}

static void let_go(struct router_threads *t, bool ending)
{
    pthread_mutex_lock(&t->lock);
    t->ending = ending;
    atomic_store(&t->asked, false);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void router_threads_resume(struct router_threads *t)
{
    if (t->running) {
        let_go(t, false);
    }
}

void router_threads_stop(struct router_threads *t)
{
    if (t->running) {
        router_threads_pause(t);
        let_go(t, true);
        pthread_join(t->feedback, NULL);
        t->running = false;
    }
}

// Credit is of use at once only to a request that waits for it: without one the thread sleeps on, and takes what was
// published when the next request comes.
void router_threads_wait(struct router_threads *t, uint64_t until_ns)
{
    bool wanted = bt_router_holds(t->router);
    if (wanted) {
        say_asleep(&t->requests_asleep);
        until_ns = bt_router_credit_waits(t->router) ? 0 : until_ns;
    }
    bt_io_wait(t->request_io, until_ns);
    if (wanted) {
        atomic_store_explicit(&t->requests_asleep, false, memory_order_relaxed);
    }
}

void router_threads_requests(struct router_threads *t, struct bt_txq *txq)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(t->request_io, BT_ROUTER_PORT_REQUEST, pkts, BT_IO_BATCH);
    bt_router_requests(t->router, pkts, n, txq);
    if (bt_router_notes_pile_up(t->router)) {
        wake_if_asleep(&t->feedback_asleep, t->feedback_io);
    }
}
