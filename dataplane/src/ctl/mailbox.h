// SPDX-License-Identifier: Apache-2.0
// How other threads get work done in the packet loop, so that the core stays single-threaded: a
// box for one letter. The sender waits; the loop looks into the box once per turn, which costs it
// one atomic load when the box is empty.
// A letter found is opened a turn later: the loop has then taken every packet that had arrived when
// the letter was sent, so who asks after an event sees it, also when the loop leaves packets that
// are not urgent unread for a while (io.h: quiet).
#ifndef BT_CTL_MAILBOX_H
#define BT_CTL_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct bt_mailbox {
    pthread_mutex_t senders; // one letter at a time
    pthread_mutex_t lock;
    pthread_cond_t answered;
    atomic_int state;
    bool closed; // under lock
    void (*fn)(void *arg);
    void *arg;
    void (*wake)(void *wake_arg); // makes the loop take a turn now; any thread
    void *wake_arg;
};

void bt_mailbox_init(struct bt_mailbox *m, void (*wake)(void *), void *wake_arg);
void bt_mailbox_destroy(struct bt_mailbox *m);

// Any thread but the loop's: has fn(arg) run by the loop and waits for its end. False if the loop
// did not take it within five seconds or is closed; fn will then never run.
bool bt_mailbox_call(struct bt_mailbox *m, void (*fn)(void *), void *arg);

// The loop's side: the next poll runs a function.
bool bt_mailbox_due(struct bt_mailbox *m);

// The loop's side, once per turn; may call wake.
void bt_mailbox_poll(struct bt_mailbox *m);

// The loop ends: every call from now on fails at once.
void bt_mailbox_close(struct bt_mailbox *m);

#endif
