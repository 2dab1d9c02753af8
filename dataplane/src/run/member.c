// SPDX-License-Identifier: Apache-2.0
// See member.h: a member's beginning and end, and its turns.
#include "run/member.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/member_internal.h"

enum { BODY_AVERAGE = 512, BODIES_LEAST = 1 << 22, PIPELINE = 4, KEEP_SHARE = 8, PENDING_MOST = 8192 };
enum { KEPT_LEAST = 1024, RECENT_PAIRS = 1 << 17, BOUND = 128, HASH_EVERY = 1024 };
static const uint64_t MS = 1000000;

void member_stop(struct bt_member *m, enum bt_member_phase phase, const char *reason, const char *format, ...)
{
    va_list args;
    if (m->phase != BT_MEMBER_RUNNING) {
        return; // what follows from the first trouble says nothing new
    }
    va_start(args, format);
    vsnprintf(m->message, sizeof m->message, format, args);
    va_end(args);
    m->phase = phase;
    m->reason = reason;
    m->conf.say(m->conf.arg, true, m->message);
}

void member_refused(struct bt_member *m)
{
    member_stop(m, BT_MEMBER_REFUSED, "Removed",
                "member %u was removed from the group: it comes back only with an empty disk and a new id", m->id);
}

// What boxes let in at once is kept twice over; what may come again within the time a copy may be under way is known.
static void apart_config(const struct bt_member *m, struct bt_replica_apart *a)
{
    const struct bt_group_document *d = &m->document;
    if (!bt_group_document_is_apart(d)) {
        return;
    }
    uint64_t inside = 2 * (uint64_t)d->in_flight * d->n_boxes;
    *a = (struct bt_replica_apart){.kept_requests = (uint32_t)(inside > KEPT_LEAST ? inside : KEPT_LEAST),
                                   .recent_pairs = RECENT_PAIRS,
                                   .bound = d->replier_bound != 0 ? (uint32_t)d->replier_bound : BOUND,
                                   .repliers = (enum bt_replica_repliers)d->repliers,
                                   .keep_ns = 1000 * MS,
                                   .quarantine_ns = bt_rpc_timers_for(d->device).quarantine_ns,
                                   .recover_ns = MS,
                                   .aggregator = d->protocol == BT_GROUP_HOVERCRAFT_PLUS_PLUS};
}

void member_core_config(const struct bt_member *m, struct bt_replica_config *c)
{
    const struct bt_group_document *d = &m->document;
    uint64_t bodies = (uint64_t)d->log_entries * BODY_AVERAGE;
    *c = (struct bt_replica_config){.cluster = bt_member_wire_cluster(d->cluster),
                                    .group = (uint32_t)d->number,
                                    .id = m->id,
                                    .pipeline = PIPELINE,
                                    .election_ns = (uint64_t)d->election_ms * MS,
                                    .heartbeat_ns = (uint64_t)d->heartbeat_ms * MS,
                                    .seed = m->conf.seed[2],
                                    .log_slots = (uint32_t)d->log_entries,
                                    .body_bytes = (uint32_t)(bodies > BODIES_LEAST ? bodies : BODIES_LEAST),
                                    .keep_entries = (uint32_t)d->log_entries / KEEP_SHARE,
                                    .message_bytes = bt_group_packet_most(m->conf.mtu),
                                    .snapshot_bytes = (uint64_t)d->snapshot_bytes,
                                    .hash_every = m->conf.service->state_hash != NULL ? HASH_EVERY : 0};
    apart_config(m, &c->apart);
}

static void *zeroed(size_t bytes)
{
    void *p = NULL; // of 64 bytes' alignment: touched only when used
    return bytes != 0 && posix_memalign(&p, 64, bytes) == 0 ? p : NULL;
}

static bool open_server(struct bt_member *m, uint64_t now)
{
    struct bt_server_cfg cfg = {.local = m->conf.clients,
                                .local_index = BT_MEMBER_CLIENTS,
                                .mtu = m->conf.mtu,
                                .n = 64,
                                .feedback_port = 9000,
                                .max_pending = PENDING_MOST,
                                .max_assemblies = 64,
                                .max_done = 16384,
                                .max_held = 64,
                                .max_message = MEMBER_REQUEST_MAX,
                                .incarnation = m->conf.incarnation,
                                .replicated = true,
                                .timers = bt_rpc_timers_for(m->document.device),
                                .keys = m->conf.keys,
                                .seed = {m->conf.seed[0], m->conf.seed[1]},
                                .pool = m->conf.pool,
                                .ops = {.on_request = member_on_request, .arg = m},
                                .latency = m->conf.latency};
    size_t bytes = bt_server_bytes(&cfg);
    m->server_mem = zeroed(bytes);
    m->server = m->server_mem != NULL ? bt_server_init(&cfg, m->server_mem, bytes, now) : NULL;
    return m->server != NULL;
}

// From what the disk holds. Entries that say which disk belongs to whom count from the moment they are in the log.
static void start_core(struct bt_member *m, const struct bt_recovery *found)
{
    static const struct bt_replica_ops ops = {.send = member_send, .store = member_store, .restore = member_restore};
    struct bt_replica_config c;
    struct bt_command command;
    member_core_config(m, &c);
    size_t bytes = bt_replica_bytes(&c);
    m->core_mem = zeroed(bytes);
    if (m->core_mem == NULL) {
        member_stop(m, BT_MEMBER_FAILED, "NoMemory", "a member of these limits needs %zu bytes", bytes);
        return;
    }
    for (uint64_t i = 0; i < found->count; i++) {
        const struct bt_entry *e = &found->entry[i];
        if (e->kind == BT_ENTRY_COMMAND && bt_command_get(e->body, e->length, &command) &&
            command.kind == BT_COMMAND_REGISTER) {
            member_know_disk(m, command.id, command.disk);
        }
    }
    m->mute_to = found->count != 0 ? found->entry[found->count - 1].index : found->snapshot.last_index;
    m->founder = found->snapshot.last_index == 0 && found->snapshot.config.count != 0;
    if (m->founder) {
        bt_roster_config(&m->roster, 0, &found->snapshot.config);
    }
    struct bt_replica *core = NULL;
    enum bt_replica_result r = bt_replica_start(m->core_mem, &c, &ops, m, found, &core);
    if (r != BT_REPLICA_OK) {
        member_stop(m, BT_MEMBER_FAILED, "DiskDamaged", "what the disk holds cannot be started from: %s",
                    bt_replica_result_name(r));
    } else if (m->phase == BT_MEMBER_RUNNING) {
        m->core = core;
    }
}

static bool make(struct bt_member *m, const struct bt_member_config *c, uint64_t now)
{
    m->conf = *c;
    m->document = *c->document;
    m->now = now;
    m->reason = m->disk_state = "";
    snprintf(m->name, sizeof m->name, "%s", c->name);
    snprintf(m->folder, sizeof m->folder, "%s", c->folder);
    m->id = (uint16_t)bt_group_document_find(&m->document, m->name)->id;
    m->sessions.most = (uint32_t)m->document.sessions;
    m->reply = malloc(MEMBER_REPLY_MAX);
    m->scratch = malloc(MEMBER_REQUEST_MAX);
    m->snapshot_room = zeroed((size_t)m->document.snapshot_bytes);
    return m->reply != NULL && m->scratch != NULL && m->snapshot_room != NULL && open_server(m, now);
}

struct bt_member *bt_member_open(const struct bt_member_config *c, uint64_t now)
{
    struct bt_member *m = calloc(1, sizeof *m);
    struct bt_recovery found;
    if (m == NULL || !make(m, c, now)) {
        bt_member_close(m);
        return NULL;
    }
    m->starting = true;
    if (m->conf.service->restore(m->conf.service->arg, NULL, 0) != 0) {
        member_stop(m, BT_MEMBER_FAILED, "State", "the service refuses the empty state");
    }
    if (member_disk_open(m, &found)) {
        start_core(m, &found);
    }
    if (m->core != NULL && !bt_storage_start(m->storage)) {
        m->core = NULL;
        member_stop(m, BT_MEMBER_FAILED, "NoThread", "the storage thread does not start");
    }
    m->starting = false;
    return m;
}

void bt_member_close(struct bt_member *m)
{
    if (m == NULL) {
        return;
    }
    if (m->storage != NULL) {
        bt_storage_close(m->storage);
    }
    free(m->core_mem);
    free(m->server_mem);
    free(m->snapshot_room);
    free(m->reply);
    free(m->scratch);
    free(m);
}

void bt_member_receive(struct bt_member *m, uint64_t now, struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    member_stood_still(m, now);
    m->now = now;
    if (pkt->local != BT_MEMBER_MEMBERS && member_is_boxed(m, pkt, &h)) {
        member_boxed(m, pkt, &h);
        bt_pool_put(m->conf.pool, pkt);
    } else if (pkt->local == BT_MEMBER_GROUP) {
        member_count(m, BT_MEMBER_BOXED_BAD_FORM); // only boxes have anything to say there
        bt_pool_put(m->conf.pool, pkt);
    } else if (pkt->local == BT_MEMBER_CLIENTS) {
        bt_server_rx(m->server, now, pkt, m->conf.txq);
    } else {
        member_receive(m, pkt);
        bt_pool_put(m->conf.pool, pkt);
    }
}

void bt_member_turn(struct bt_member *m, uint64_t now, bool timers)
{
    member_stood_still(m, now);
    m->now = now;
    if (member_runs(m)) {
        member_disk_turn(m);
        if (timers && bt_replica_due(m->core) <= now) {
            bt_replica_tick(m->core, now);
        }
        member_apply_turn(m);
        member_states_turn(m);
        member_apart_turn(m);
        member_group_turn(m);
        member_walk_turn(m);
        member_snapshot_turn(m);
    }
    if (member_runs(m)) {
        member_hello_turn(m);
    }
    member_requests_turn(m);
    if (timers && bt_server_next(m->server) <= now) {
        bt_server_tick(m->server, now, m->conf.txq);
    }
}

uint64_t bt_member_next(const struct bt_member *m)
{
    uint64_t at = bt_server_next(m->server);
    uint64_t due = member_runs(m) ? bt_replica_due(m->core) : UINT64_MAX;
    if (member_runs(m) && m->hello_at > m->now && m->hello_at < due) {
        due = m->hello_at;
    }
    if (member_runs(m) && m->walk_at > m->now && m->walk_at < due) {
        due = m->walk_at;
    }
    return due < at ? due : at;
}

void bt_member_reconfigure(struct bt_member *m, const struct bt_group_document *d, const struct bt_keyring *keys)
{
    for (size_t i = 0; i < d->n_members; i++) { // where the document says something new, it knows better than we
        const struct bt_group_document_member *next = &d->member[i];
        const struct bt_group_document_member *now = bt_group_document_find(&m->document, next->name);
        if (now != NULL && now->id == next->id && bt_addr_eq(&now->address, &next->address)) {
            continue;
        }
        for (uint32_t k = 0; k < m->n_heard; k++) {
            if (m->heard[k].id == next->id) {
                m->heard[k].spoke = false;
            }
        }
    }
    m->document = *d;
    m->conf.keys = *keys;
    bt_server_set_keys(m->server, keys);
}
