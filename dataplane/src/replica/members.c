// SPDX-License-Identifier: Apache-2.0
// See members.h.
#include "replica/members.h"

#include <string.h>

int replica_member(const struct bt_replica *r, uint16_t id)
{
    for (int i = 0; i < r->config.count; i++) {
        if (r->config.member[i].id == id) {
            return i;
        }
    }
    return -1;
}

bool replica_votes(const struct bt_replica *r, uint16_t id)
{
    int i = replica_member(r, id);
    return i >= 0 && r->config.member[i].role == BT_GROUP_VOTER;
}

static bool voted_before(const struct bt_replica *r, uint64_t index)
{
    struct bt_group_config before;
    uint64_t at;
    replica_config_at(r, index - 1, &before, &at);
    for (int i = 0; i < before.count; i++) {
        if (before.member[i].id == r->conf.id) {
            return before.member[i].role == BT_GROUP_VOTER;
        }
    }
    return false;
}

bool replica_stands(const struct bt_replica *r)
{
    bool settled = r->config_index <= r->commit;
    return replica_votes(r, r->conf.id) || (!settled && voted_before(r, r->config_index));
}

uint32_t replica_majority(const struct bt_replica *r)
{
    uint32_t voters = 0;
    for (int i = 0; i < r->config.count; i++) {
        voters += r->config.member[i].role == BT_GROUP_VOTER;
    }
    return voters / 2 + 1;
}

uint32_t replica_granted(const struct bt_replica *r)
{
    uint32_t n = 0;
    for (int i = 0; i < r->config.count; i++) {
        n += r->config.member[i].role == BT_GROUP_VOTER && r->peer[i].granted;
    }
    return n;
}

void replica_grant_none(struct bt_replica *r)
{
    for (int i = 0; i < r->config.count; i++) {
        r->peer[i].granted = false;
    }
}

bool replica_grant(struct bt_replica *r, uint16_t id)
{
    int i = replica_member(r, id);
    if (i < 0) {
        return false;
    }
    r->peer[i].granted = true;
    return true;
}

uint64_t replica_held_by_majority(const struct bt_replica *r)
{
    uint64_t best = 0;
    for (int i = 0; i < r->config.count; i++) {
        uint64_t match = r->peer[i].match;
        uint32_t holders = 0;
        for (int k = 0; k < r->config.count; k++) {
            holders += r->config.member[k].role == BT_GROUP_VOTER && r->peer[k].match >= match;
        }
        if (holders >= replica_majority(r) && match > best) {
            best = match;
        }
    }
    return best;
}

void replica_config_at(const struct bt_replica *r, uint64_t index, struct bt_group_config *out, uint64_t *at)
{
    for (uint64_t i = index; i > r->log.base; i--) {
        if (replica_log_at(&r->log, i)->kind == BT_ENTRY_CONFIG) {
            struct bt_entry e = replica_log_entry(&r->log, i);
            bt_group_config_decode(e.body, e.length, out); // was judged when it came in
            *at = i;
            return;
        }
    }
    *out = replica_current(r)->config;
    *at = replica_current(r)->last_index;
}

void replica_config_adopt(struct bt_replica *r)
{
    struct bt_group_config before = r->config;
    struct replica_peer peer[BT_GROUP_MEMBERS_MAX];
    memcpy(peer, r->peer, sizeof peer);
    replica_config_at(r, r->log.last, &r->config, &r->config_index);
    for (int i = 0; i < r->config.count; i++) {
        r->peer[i] = (struct replica_peer){.next = r->log.last + 1, .heard_ns = r->now};
        for (int k = 0; k < before.count; k++) {
            if (before.member[k].id == r->config.member[i].id) {
                r->peer[i] = peer[k];
            }
        }
    }
}
