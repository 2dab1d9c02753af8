// SPDX-License-Identifier: Apache-2.0
// The state of the service against the others': its hash for the core, and what follows from the
// core's judgement.
#include <stdio.h>

#include "run/member_internal.h"

void member_states_applied(struct bt_member *m, const struct bt_entry *e)
{
    const struct r2p2_replica_service *s = m->conf.service;
    if (s->state_hash != NULL && bt_replica_hash_wanted(m->core, e)) {
        bt_replica_hashed(m->core, m->now, e->index, s->state_hash(s->arg));
    }
}

bool member_diverged(const struct bt_member *m)
{
    return bt_replica_status(m->core).fenced.index != 0;
}

void member_states_turn(struct bt_member *m)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    char text[160];
    if (m->phase != BT_MEMBER_RUNNING) {
        return;
    }
    if (s.fenced.index != m->diverged_at) {
        m->diverged_at = s.fenced.index;
        if (m->diverged_at != 0) {
            snprintf(m->message, sizeof m->message,
                     "the state after entry %llu is another one than a majority's: this member answers nobody until it "
                     "has the leader's",
                     (unsigned long long)m->diverged_at);
            m->conf.say(m->conf.arg, true, m->message);
        } else {
            m->message[0] = '\0';
            m->conf.say(m->conf.arg, false, "this member has the leader's state, and takes part in full again");
        }
    }
    if (s.undecided != 0 && s.undecided != m->undecided_at) {
        snprintf(text, sizeof text, "the members' states after entry %llu differ, and no majority has the same",
                 (unsigned long long)s.undecided);
        m->conf.say(m->conf.arg, true, text);
    }
    m->undecided_at = s.undecided;
}
