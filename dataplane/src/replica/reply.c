// SPDX-License-Identifier: Apache-2.0
// See reply.h.
#include "replica/reply.h"

#include "replica/apart.h"
#include "replica/bodyless.h"
#include "replica/commit.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/share.h"
#include "replica/states.h"
#include "replica/transfer.h"

// The member that answers, or -1.
static int who(struct bt_replica *r, const struct bt_group_message *m)
{
    int i = replica_member(r, m->header.from);
    if (i < 0) {
        replica_count(r, BT_REPLICA_STRANGER_TOTAL);
        return i;
    }
    r->peer[i].heard_ns = r->now;
    return i;
}

static void holds(struct bt_replica *r, int i, uint64_t match)
{
    if (match > r->log.last) {
        replica_count(r, BT_REPLICA_CONFLICT_TOTAL); // nobody can hold what the leader never had
        return;
    }
    replica_progress_match(r, i, match);
    replica_commit(r);
}

static void go_on(struct bt_replica *r, uint16_t from)
{
    int i = replica_member(r, from); // the commit may have ended the leadership
    if (r->role == BT_REPLICA_LEADER && i >= 0) {
        replica_feed(r, i, false);
        replica_announce(r); // it may have less to execute, and answer more
        replica_transfer_step(r);
    }
}

void replica_append_answered(struct bt_replica *r, const struct bt_group_message *m)
{
    int i = who(r, m);
    if (i < 0) {
        return;
    }
    r->peer[i].applied = m->append_reply.applied;
    if ((m->append_reply.flags & BT_GROUP_YES) != 0) {
        holds(r, i, m->append_reply.index);
    } else {
        if ((m->append_reply.flags & BT_GROUP_BODYLESS) != 0) {
            replica_bodyless_told(r, i, m->append_reply.last);
        }
        replica_progress_refused(r, i, m->append_reply.index, m->append_reply.last);
    }
    replica_share_back(r, m->header.from);
    go_on(r, m->header.from);
}

void replica_snapshot_answered(struct bt_replica *r, const struct bt_group_message *m)
{
    int i = who(r, m);
    if (i < 0) {
        return;
    }
    const struct bt_group_snapshot_reply *s = &m->snapshot_reply;
    if ((s->flags & BT_GROUP_YES) != 0) {
        replica_states_mended(&r->peer[i]);
        replica_progress_chunk(r, i, 0);
        holds(r, i, s->last_index);
    } else if (s->last_index == r->peer[i].chunk_index) {
        replica_progress_chunk(r, i, s->offset);
    } else {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
    }
    go_on(r, m->header.from);
}
