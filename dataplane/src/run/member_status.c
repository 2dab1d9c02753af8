// SPDX-License-Identifier: Apache-2.0
// What a member says of itself.
#include <stdio.h>
#include <string.h>

#include "run/member_internal.h"

static const uint64_t MS = 1000000;

#define WORD(name, word) [BT_MEMBER_BAD_##name] = {"replica_packets_refused_total", "reason", word},
#define BOXED(name, word)                                                                                              \
    [BT_MEMBER_BOXED_BAD_FORM + BT_GROUP_PACKET_##name - 1] = {"replica_requests_unread_total", "reason", word},
#define CORE(name, word)   [BT_REPLICA_##name##_TOTAL] = {"replica_events_total", "event", word},
#define DROP(reason, word) [BT_MEMBER_DROP_FIRST + (reason)] = {"replica_requests_refused_total", "reason", word}

const struct bt_counter_desc bt_member_counter_desc[BT_MEMBER_COUNTERS] = {
    BT_MEMBER_COUNTER_LIST(WORD)[BT_MEMBER_ACCEPTED] = {"replica_packets_accepted_total", NULL, NULL},
    [BT_MEMBER_SENT] = {"replica_packets_sent_total", NULL, NULL},
    [BT_MEMBER_NO_ADDRESS] = {"replica_packets_unsent_total", "reason", "no_address"},
    [BT_MEMBER_NO_BUFFER] = {"replica_packets_unsent_total", "reason", "no_buffer"},
    [BT_MEMBER_UNREGISTERED] = {"replica_packets_unsent_total", "reason", "unregistered"},
    [BT_MEMBER_NOTES_SENT] = {"replica_refusals_sent_total", NULL, NULL},
    [BT_MEMBER_APPLIED_WRITES] = {"replica_executed_total", "kind", "write"},
    [BT_MEMBER_APPLIED_READS] = {"replica_executed_total", "kind", "read"},
    BT_GROUP_PACKET_LIST(BOXED)[BT_MEMBER_BOXED_TAKEN] = {"replica_requests_total", "fate", "taken"},
    [BT_MEMBER_BOXED_AGAIN] = {"replica_requests_total", "fate", "again"},
    [BT_MEMBER_BOXED_TOO_LONG] = {"replica_requests_total", "fate", "too_long"},
    [BT_MEMBER_BOXED_EARLY] = {"replica_requests_total", "fate", "early"},
    [BT_MEMBER_ANSWERED] = {"replica_answers_total", "fate", "sent"},
    [BT_MEMBER_ANSWERED_BEFORE] = {"replica_answers_total", "fate", "before"},
    [BT_MEMBER_ANSWER_TOO_LATE] = {"replica_answers_total", "fate", "too_late"},
    [BT_MEMBER_FEEDBACK_SENT] = {"replica_feedback_sent_total", NULL, NULL},
    [BT_MEMBER_REPEATED] = {"replica_repeated_writes_total", NULL, NULL},
    [BT_MEMBER_SESSIONS_OPENED] = {"replica_sessions_opened_total", NULL, NULL},
    [BT_MEMBER_SNAPSHOTS] = {"replica_snapshots_taken_total", NULL, NULL},
    [BT_MEMBER_SNAPSHOT_TOO_LARGE] = {"replica_snapshots_too_large_total", NULL, NULL},
    DROP(BT_DROP_NOT_LEADER, "not_leader"),
    DROP(BT_DROP_TOO_LONG, "too_long"),
    DROP(BT_DROP_BUSY, "busy"),
    DROP(BT_DROP_FORMING, "forming"),
    DROP(BT_DROP_DISK, "disk_failed"),
    DROP(BT_DROP_MOVING, "moving"),
    DROP(BT_DROP_REFUSED, "refused"),
    DROP(BT_DROP_UNORDERED, "unordered"),
};
const struct bt_counter_desc bt_member_core_counter_desc[BT_REPLICA_COUNTERS] = {BT_REPLICA_COUNTER_LIST(CORE)};

const uint64_t *bt_member_counters(const struct bt_member *m)
{
    return m->counter;
}

const uint64_t *bt_member_core_counters(const struct bt_member *m)
{
    return m->core != NULL ? bt_replica_counters(m->core) : NULL;
}

const uint64_t *bt_member_server_counters(const struct bt_member *m)
{
    return bt_server_counters(m->server);
}

uint32_t bt_member_backlog(const struct bt_member *m)
{
    return bt_server_backlog(m->server);
}

static void describe(const struct bt_member *m, uint64_t now, const struct bt_group_member *g,
                     struct bt_member_peer *out)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    const struct bt_roster_row *row = bt_roster_find(&m->roster, g->id);
    struct bt_replica_peer peer;
    *out = (struct bt_member_peer){.id = g->id,
                                   .voter = g->role == BT_GROUP_VOTER,
                                   .registered = row != NULL && row->registered,
                                   .heard_ms_ago = -1};
    snprintf(out->name, sizeof out->name, "%s", member_name(m, g->id));
    if (g->id == m->id) {
        out->address = m->conf.members;
        out->client = m->conf.clients;
    } else {
        member_address(m, g->id, &out->address, &out->client);
    }
    if (g->id == m->id && s.role == BT_REPLICA_LEADER) {
        peer = (struct bt_replica_peer){.match = s.durable, .applied = m->applied, .heard_ns = now};
    } else if (!bt_replica_peer(m->core, g->id, &peer)) {
        return;
    }
    out->lagging_known = true;
    out->match = peer.match;
    out->applied = peer.applied;
    // Who gets its entries by way of an aggregator acknowledges them there; what it executed it has.
    uint64_t has = peer.applied > peer.match ? peer.applied : peer.match;
    out->lag = s.last > has ? s.last - has : 0;
    out->heard_ms_ago = now > peer.heard_ns ? (int64_t)((now - peer.heard_ns) / MS) : 0;
}

static void quorum(const struct bt_member *m, struct bt_member_status *out)
{
    int64_t lately = 2 * m->document.election_ms;
    for (uint32_t i = 0; i < out->peers; i++) {
        const struct bt_member_peer *p = &out->peer[i];
        out->voters += p->voter;
        out->heard += p->voter && p->heard_ms_ago >= 0 && p->heard_ms_ago <= lately;
        out->learner = out->learner && !(p->id == m->id && p->voter);
    }
    out->needed = out->voters / 2 + 1;
}

// Why it is not ready, or "".
static const char *judge(const struct bt_member *m, const struct bt_member_status *out)
{
    if (m->phase != BT_MEMBER_RUNNING) {
        return m->reason;
    }
    if (out->core.fenced.index != 0) {
        return "Diverged";
    }
    if (out->learner) {
        return "Learner";
    }
    if (out->core.role == BT_REPLICA_LEADER && out->heard < out->needed) {
        return "NoQuorum";
    }
    if (out->leader == 0) {
        return "NoLeader";
    }
    return out->formed ? "" : "Forming";
}

void bt_member_status(const struct bt_member *m, uint64_t now, struct bt_member_status *out)
{
    struct bt_addr member;
    memset(out, 0, sizeof *out);
    out->phase = m->phase;
    out->reason = m->reason;
    out->message = m->message;
    out->disk = m->disk_state;
    memcpy(out->disk_id, m->disk_id, sizeof out->disk_id);
    out->formed = m->roster.formed;
    out->takes_requests = m->roster.formed && m->roster.keyed;
    out->learner = true;
    out->in_flight = m->waiters;
    if (m->core == NULL) {
        return;
    }
    out->core = bt_replica_status(m->core);
    out->snapshot_bytes = out->core.snapshot != 0 ? m->snapshot_bytes : 0;
    out->leader = out->core.leader;
    if (out->leader != 0) {
        snprintf(out->leader_name, sizeof out->leader_name, "%s", member_name(m, out->leader));
        if (out->leader == m->id) {
            out->leader_client = m->conf.clients;
        } else {
            member_address(m, out->leader, &member, &out->leader_client);
        }
    }
    for (uint16_t i = 0; i < out->core.config->count; i++) {
        describe(m, now, &out->core.config->member[i], &out->peer[out->peers++]);
    }
    for (uint32_t i = 0; i < m->roster.count && out->n_removed < 64; i++) {
        if (m->roster.row[i].removed) {
            out->removed[out->n_removed++] = m->roster.row[i].id;
        }
    }
    quorum(m, out);
    out->reason = judge(m, out);
    out->ready = out->reason[0] == '\0';
}
