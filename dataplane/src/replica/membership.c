// SPDX-License-Identifier: Apache-2.0
// Changes of the membership, one member at a time: in force once appended, taken back with the entry. Two
// majorities of configurations one step apart have a member in common; that holds only while the step before is
// committed, and only after the leader committed an entry of its own term.
#include "replica/issue.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/state.h"
#include "replica/states.h"

static enum bt_replica_result may_change(const struct bt_replica *r)
{
    if (r->role != BT_REPLICA_LEADER) {
        return BT_REPLICA_NOT_LEADER;
    }
    if (r->failed) {
        return BT_REPLICA_FAILED;
    }
    if (r->transfer_to != 0) {
        return BT_REPLICA_TRANSFERRING;
    }
    if (replica_log_term(&r->log, r->commit) != r->term) {
        return BT_REPLICA_NOT_YET;
    }
    if (r->config_index > r->commit) {
        return BT_REPLICA_PENDING;
    }
    return replica_store_busy(r) ? BT_REPLICA_FULL : BT_REPLICA_OK;
}

static enum bt_replica_result add(const struct bt_replica *r, struct bt_group_config *c, uint16_t id)
{
    if (id == 0 || id == BT_GROUP_AGGREGATOR || c->count >= BT_GROUP_MEMBERS_MAX) {
        return BT_REPLICA_NO_MEMBER;
    }
    if (replica_member(r, id) >= 0) {
        return BT_REPLICA_ALREADY;
    }
    uint32_t at = c->count++;
    while (at > 0 && c->member[at - 1].id > id) {
        c->member[at] = c->member[at - 1];
        at--;
    }
    c->member[at] = (struct bt_group_member){.id = id, .role = BT_GROUP_LEARNER};
    return BT_REPLICA_OK;
}

static enum bt_replica_result promote(const struct bt_replica *r, struct bt_group_config *c, uint16_t id)
{
    int i = replica_member(r, id);
    if (i < 0) {
        return BT_REPLICA_NO_MEMBER;
    }
    if (c->member[i].role == BT_GROUP_VOTER) {
        return BT_REPLICA_ALREADY;
    }
    if (r->peer[i].match < r->commit && !r->peer[i].shared) {
        return BT_REPLICA_BEHIND; // it would be counted before it holds anything
    }
    if (replica_states_differs(&r->peer[i]) != 0) {
        return BT_REPLICA_DIVERGED;
    }
    c->member[i].role = BT_GROUP_VOTER;
    return BT_REPLICA_OK;
}

static enum bt_replica_result take_out(const struct bt_replica *r, struct bt_group_config *c, uint16_t id)
{
    int at = replica_member(r, id);
    if (at < 0) {
        return BT_REPLICA_NO_MEMBER;
    }
    c->count--;
    for (int i = at; i < c->count; i++) {
        c->member[i] = c->member[i + 1];
    }
    for (int i = 0; i < c->count; i++) {
        if (c->member[i].role == BT_GROUP_VOTER) {
            return BT_REPLICA_OK;
        }
    }
    return BT_REPLICA_LAST_VOTER;
}

static enum bt_replica_result changed(const struct bt_replica *r, enum bt_replica_change change, uint16_t id,
                                      struct bt_group_config *c)
{
    switch (change) {
    case BT_REPLICA_ADD_LEARNER:
        return add(r, c, id);
    case BT_REPLICA_PROMOTE:
        return promote(r, c, id);
    case BT_REPLICA_REMOVE:
        return take_out(r, c, id);
    }
    return BT_REPLICA_NO_MEMBER;
}

enum bt_replica_result bt_replica_change(struct bt_replica *r, uint64_t now, enum bt_replica_change change, uint16_t id)
{
    r->now = now;
    struct bt_group_config c = r->config;
    uint8_t body[BT_GROUP_CONFIG_MAX];
    enum bt_replica_result may = may_change(r);
    if (may == BT_REPLICA_OK) {
        may = changed(r, change, id, &c);
    }
    if (may != BT_REPLICA_OK) {
        return may;
    }
    uint32_t n = (uint32_t)bt_group_config_encode(body, sizeof body, &c);
    if (!replica_store_own(r, BT_ENTRY_CONFIG, body, n)) {
        return BT_REPLICA_FULL;
    }
    replica_config_adopt(r);
    replica_feed_all(r, true); // a new member hears of it at once
    return BT_REPLICA_OK;
}
