// SPDX-License-Identifier: Apache-2.0
// Who answers a request. How much a member has to execute follows from indices alone: a new leader
// counts afresh, and a member that is not heard of keeps what it had.
//
// The bound is on what a member has to execute. Who has least is judged by that and by the answers it owes: writes are
// executed by all, so by execution alone members would differ only by the age of their last word, and whoever spoke
// last would be given all that comes until somebody else speaks.
#include "replica/apart.h"
#include "replica/states.h"

enum { ANSWER = 4 }; // what an answer counts, where an execution counts 1

// What an entry is for a member: to be executed, to be answered.
struct duty {
    uint32_t executes, answers;
};

static struct duty duty_of(const struct bt_replica *r, uint64_t index, uint16_t id)
{
    struct bt_entry e = replica_log_entry(&r->log, index);
    bool answers = bt_group_is_request(&e) && bt_group_meta_get(e.body).replier == id;
    return (struct duty){e.kind == BT_ENTRY_WRITE || answers, answers};
}

// Brings what member i has before it up to what it applied and what the log holds.
static void weigh(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    uint16_t id = r->config.member[i].id;
    uint64_t applied = id == r->conf.id ? r->applied : p->applied;
    uint64_t from = applied > r->log.base ? applied : r->log.base;
    if (from < p->depth_from || r->log.base > p->depth_from || r->log.last < p->depth_to || from > p->depth_to) {
        p->depth = p->owed = 0;
        p->depth_from = p->depth_to = from;
    }
    while (p->depth_to < r->log.last) {
        struct duty d = duty_of(r, ++p->depth_to, id);
        p->depth += d.executes;
        p->owed += d.answers;
    }
    while (p->depth_from < from) {
        struct duty d = duty_of(r, ++p->depth_from, id);
        p->depth -= d.executes;
        p->owed -= d.answers;
    }
}

static uint32_t before(const struct replica_peer *p)
{
    return p->depth + ANSWER * p->owed;
}

// Does this member take the place of the best so far?
static bool better(struct bt_replica *r, uint32_t d, uint32_t least, uint32_t able)
{
    return r->conf.apart.repliers == BT_REPLICA_RANDOM ? bt_rng_below(&r->rng, able) == 0 : d < least;
}

uint16_t replica_replier(struct bt_replica *r)
{
    uint32_t least = UINT32_MAX, able = 0;
    int best = -1, n = r->config.count;
    for (int k = 1; k <= n; k++) {
        int i = (r->replied_last + k) % n; // ties rotate
        const struct replica_peer *p = &r->peer[i];
        weigh(r, i);
        bool may = r->config.member[i].role == BT_GROUP_VOTER && replica_states_differs(p) == 0 &&
                   !replica_by_states(p) && p->depth < r->conf.apart.bound;
        if (may && better(r, before(p), least, ++able)) {
            best = i;
            least = before(p);
        }
    }
    if (best < 0) {
        return 0;
    }
    r->replied_last = best;
    return r->config.member[best].id;
}
