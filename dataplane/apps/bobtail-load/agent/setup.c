// SPDX-License-Identifier: Apache-2.0
// Connecting to a service and storing its keys may take minutes. A thread of its own does it, so that
// the control thread sees a coordinator that went away, a signal, and who else knocks.
#include "agent/session.h"

#include <unistd.h>

static void *run(void *arg)
{
    struct session *s = arg;
    const uint64_t one = 1;
    s->setup_ok = agent_workers_start(&s->agent, &s->setup_error);
    atomic_store(&s->setup_done, true);
    ssize_t ignored = write(s->setup_fd, &one, sizeof one); // a wake-up that is lost costs one look more
    (void)ignored;
    return NULL;
}

bool session_setup_begin(struct session *s, struct bt_ctl_error *e)
{
    s->setup_ok = false;
    s->setup_error = (struct bt_ctl_error){0};
    atomic_store(&s->setup_done, false);
    atomic_store(&s->agent.cancel, false);
    return pthread_create(&s->setup, NULL, run, s) == 0 ||
           bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "no thread can be started");
}

void session_setup_end(struct session *s, bool wanted)
{
    uint64_t woken;
    if (!wanted) {
        atomic_store(&s->agent.cancel, true);
    }
    pthread_join(s->setup, NULL);
    ssize_t ignored = read(s->setup_fd, &woken, sizeof woken); // the descriptor does not block and tells nothing
    (void)ignored;
}
