// SPDX-License-Identifier: Apache-2.0
// See mailbox.h.
#include "ctl/mailbox.h"

#include <errno.h>
#include <time.h>

enum { EMPTY, POSTED, SEEN, RUNNING, DONE, CLOSED };

enum { PATIENCE_SECONDS = 5 };

void bt_mailbox_init(struct bt_mailbox *m, void (*wake)(void *), void *wake_arg)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->senders, NULL);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->answered, &attr);
    pthread_condattr_destroy(&attr);
    atomic_init(&m->state, EMPTY);
    m->closed = false;
    m->wake = wake;
    m->wake_arg = wake_arg;
}

void bt_mailbox_destroy(struct bt_mailbox *m)
{
    pthread_cond_destroy(&m->answered);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->senders);
}

static bool change(struct bt_mailbox *m, int from, int to)
{
    return atomic_compare_exchange_strong(&m->state, &from, to);
}

// Waits until the loop is done with the letter; takes it back if the loop never opened it.
static bool await(struct bt_mailbox *m)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_SECONDS;
    int state;
    pthread_mutex_lock(&m->lock);
    while ((state = atomic_load(&m->state)) != DONE && state != CLOSED) {
        if (state == RUNNING) {
            pthread_cond_wait(&m->answered, &m->lock);
        } else if (pthread_cond_timedwait(&m->answered, &m->lock, &until) == ETIMEDOUT &&
                   (change(m, POSTED, EMPTY) || change(m, SEEN, EMPTY))) {
            pthread_mutex_unlock(&m->lock);
            return false;
        }
    }
    if (state == DONE) {
        atomic_store(&m->state, m->closed ? CLOSED : EMPTY); // a loop that ended meanwhile stays ended
    }
    pthread_mutex_unlock(&m->lock);
    return state == DONE;
}

bool bt_mailbox_call(struct bt_mailbox *m, void (*fn)(void *), void *arg)
{
    pthread_mutex_lock(&m->senders);
    m->fn = fn;
    m->arg = arg;
    bool ok = change(m, EMPTY, POSTED);
    if (ok) {
        m->wake(m->wake_arg);
        ok = await(m);
    }
    pthread_mutex_unlock(&m->senders);
    return ok;
}

static void open_letter(struct bt_mailbox *m)
{
    m->fn(m->arg);
    pthread_mutex_lock(&m->lock);
    atomic_store(&m->state, DONE);
    pthread_cond_signal(&m->answered);
    pthread_mutex_unlock(&m->lock);
}

bool bt_mailbox_due(struct bt_mailbox *m)
{
    return atomic_load_explicit(&m->state, memory_order_relaxed) == SEEN;
}

void bt_mailbox_poll(struct bt_mailbox *m)
{
    int state = atomic_load_explicit(&m->state, memory_order_relaxed);
    if (state == POSTED && change(m, POSTED, SEEN)) {
        m->wake(m->wake_arg); // it came in the middle of this turn: the next one is whole
    } else if (state == SEEN && change(m, SEEN, RUNNING)) {
        open_letter(m);
    }
}

void bt_mailbox_close(struct bt_mailbox *m)
{
    if (change(m, POSTED, RUNNING) || change(m, SEEN, RUNNING)) {
        open_letter(m);
    }
    pthread_mutex_lock(&m->lock);
    m->closed = true;
    if (atomic_load(&m->state) != DONE) { // else the sender takes its answer first, then closes
        atomic_store(&m->state, CLOSED);
    }
    pthread_cond_signal(&m->answered);
    pthread_mutex_unlock(&m->lock);
}
