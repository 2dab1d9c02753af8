// SPDX-License-Identifier: Apache-2.0
// What a member can be asked.
#include "replica/bodyless.h"
#include "replica/members.h"
#include "replica/state.h"
#include "replica/states.h"

struct bt_replica_status bt_replica_status(const struct bt_replica *r)
{
    return (struct bt_replica_status){.role = r->role,
                                      .id = r->conf.id,
                                      .leader = r->leader,
                                      .vote = r->vote,
                                      .failed = r->failed,
                                      .aggregated = r->role == BT_REPLICA_LEADER && r->share.on,
                                      .term = r->term,
                                      .commit = r->commit,
                                      .applied = r->applied,
                                      .first = r->log.base + 1,
                                      .last = r->log.last,
                                      .durable = r->log.durable,
                                      .storing = r->issued - r->done,
                                      .last_term = replica_log_term(&r->log, r->log.last),
                                      .snapshot = replica_current(r)->last_index,
                                      .config_index = r->config_index,
                                      .snapshot_wanted =
                                          r->applied > replica_current(r)->last_index && replica_log_pressed(&r->log),
                                      .mending = replica_states_mending(r) || replica_bodyless_waits(r),
                                      .fenced = r->fenced,
                                      .undecided = r->role == BT_REPLICA_LEADER ? r->undecided : 0,
                                      .config = &r->config};
}

bool bt_replica_peer(const struct bt_replica *r, uint16_t id, struct bt_replica_peer *out)
{
    int i = replica_member(r, id);
    if (r->role != BT_REPLICA_LEADER || i < 0) {
        return false;
    }
    const struct replica_peer *p = &r->peer[i];
    *out = (struct bt_replica_peer){
        .match = p->match, .applied = p->applied, .heard_ns = p->heard_ns, .diverged = replica_states_differs(p)};
    return true;
}

bool bt_replica_entry(const struct bt_replica *r, uint64_t index, struct bt_entry *out)
{
    if (index <= r->log.base || index > r->log.last) {
        return false;
    }
    *out = replica_log_entry(&r->log, index);
    return true;
}

const uint64_t *bt_replica_counters(const struct bt_replica *r)
{
    return r->counter;
}

const char *bt_replica_counter_name(enum bt_replica_counter c)
{
#define BT_REPLICA_COUNTER_WORD(name, word) word,
    static const char *const names[BT_REPLICA_COUNTERS] = {BT_REPLICA_COUNTER_LIST(BT_REPLICA_COUNTER_WORD)};
    return c < BT_REPLICA_COUNTERS ? names[c] : "unknown";
}

const char *bt_replica_result_name(enum bt_replica_result r)
{
    static const char *const names[BT_REPLICA_RESULTS] = {"ok",
                                                          "not the leader",
                                                          "full",
                                                          "too long",
                                                          "leadership is being handed over",
                                                          "nothing of the own term is committed yet",
                                                          "the one before is not done yet",
                                                          "no such member",
                                                          "is so already",
                                                          "the last voter",
                                                          "has not caught up",
                                                          "the store failed",
                                                          "the disk is damaged",
                                                          "memory or records that contradict one another",
                                                          "its state differs from a majority's"};
    return r < BT_REPLICA_RESULTS ? names[r] : "unknown";
}
