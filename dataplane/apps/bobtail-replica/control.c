// SPDX-License-Identifier: Apache-2.0
// A member's answers to the control protocol; all of them run in the loop.
#include "replica_app.h"

#include "shell/start.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { HEX = 33 };

static uint64_t now_of(const struct replica_app *app)
{
    return bt_io_now(atomic_load(&app->io));
}

static const char *hex_of(const uint8_t id[16], char out[HEX])
{
    return sodium_bin2hex(out, HEX, id, 16);
}

/* --- what every program answers --- */

static void replica_state(void *arg, struct bt_ctl_state *out)
{
    struct replica_app *app = arg;
    out->is_router = false;
    out->draining = app->leaving;
    out->uptime_ns = bt_monotonic_ns() - app->started_ns;
    out->backlog = app->member != NULL ? bt_member_backlog(app->member) : 0;
    if (app->member != NULL) {
        out->workers[out->n_workers++] = (struct bt_ctl_worker){app->bound_clients.port, (uint32_t)out->backlog};
    }
}

static void add_gauges(struct replica_app *app, struct bt_ctl_samples *out)
{
    static struct bt_member_status s; // large; of the loop only
    bt_member_status(app->member, now_of(app), &s);
    bt_ctl_add_gauge(out, "replica_ready", s.ready);
    bt_ctl_add_gauge(out, "replica_leader", s.core.role == BT_REPLICA_LEADER);
    bt_ctl_add_gauge(out, "replica_aggregated", s.core.aggregated);
    bt_ctl_add_gauge(out, "replica_term", s.core.term);
    bt_ctl_add_gauge(out, "replica_commit_index", s.core.commit);
    bt_ctl_add_gauge(out, "replica_applied_index", s.core.applied);
    bt_ctl_add_gauge(out, "replica_last_index", s.core.last);
    bt_ctl_add_gauge(out, "replica_snapshot_index", s.core.snapshot);
    bt_ctl_add_gauge(out, "replica_disk_failed", s.phase == BT_MEMBER_FAILED);
    bt_ctl_add_gauge(out, "replica_states_undecided_index", s.core.undecided);
    bt_ctl_add_gauge(out, "replica_voters", s.voters);
    bt_ctl_add_gauge(out, "replica_requests_waiting", s.in_flight);
}

static void replica_counters(void *arg, struct bt_ctl_samples *out)
{
    struct replica_app *app = arg;
    const struct bt_counter_desc *descs;
    unsigned n;
    struct bt_io *io = atomic_load(&app->io);
    const uint64_t *of_io = io->ops->counters(io, &descs, &n);
    if (app->member != NULL) {
        const uint64_t *core = bt_member_core_counters(app->member);
        bt_ctl_add_counters(out, bt_member_counter_desc, bt_member_counters(app->member), BT_MEMBER_COUNTERS);
        if (core != NULL) {
            bt_ctl_add_counters(out, bt_member_core_counter_desc, core, BT_REPLICA_COUNTERS);
        }
        bt_ctl_add_counters(out, bt_server_counter_desc, bt_member_server_counters(app->member), BT_SERVER_COUNTERS);
        add_gauges(app, out);
    }
    bt_ctl_add_counters(out, descs, of_io, n);
    bt_ctl_add_gauge(out, "server_buffers_in_use", app->pool.in_use);
}

static void leave(void *arg)
{
    replica_leave(arg);
}

static const struct bt_hist_slices *replica_slices(void *arg, const char *name)
{
    const struct replica_app *app = arg;
    return strcmp(name, "latency") == 0 ? app->latency : NULL;
}

/* --- the group --- */

static const char *phase_of(const struct bt_member_status *s)
{
    static const char *const words[] = {
        [BT_MEMBER_RUNNING] = "Running", [BT_MEMBER_REFUSED] = "Refused", [BT_MEMBER_FAILED] = "Failed"};
    return words[s->phase];
}

static const char *role_of(const struct bt_member_status *s)
{
    static const char *const words[] = {[BT_REPLICA_FOLLOWER] = "Follower",
                                        [BT_REPLICA_ASKING] = "Candidate",
                                        [BT_REPLICA_CANDIDATE] = "Candidate",
                                        [BT_REPLICA_LEADER] = "Leader"};
    return s->learner ? "Learner" : words[s->core.role];
}

static void put_address(struct bt_json_out *o, const char *key, const struct bt_addr *a)
{
    char text[BT_ADDR_TEXT];
    bt_json_out_string(o, key, a->port != 0 ? bt_addr_format(a, text) : "");
}

static void put_peer(struct bt_json_out *o, const struct bt_member_peer *p)
{
    bt_json_out_open(o, NULL, '{');
    bt_json_out_u64(o, "id", p->id);
    bt_json_out_string(o, "name", p->name);
    bt_json_out_string(o, "role", p->voter ? "Voter" : "Learner");
    bt_json_out_bool(o, "registered", p->registered);
    put_address(o, "address", &p->address);
    put_address(o, "clientAddress", &p->client);
    bt_json_out_i64(o, "match", p->lagging_known ? (int64_t)p->match : -1);
    bt_json_out_i64(o, "applied", p->lagging_known ? (int64_t)p->applied : -1);
    bt_json_out_i64(o, "lag", p->lagging_known ? (int64_t)p->lag : -1);
    bt_json_out_i64(o, "heardMillisecondsAgo", p->heard_ms_ago);
    bt_json_out_close(o, '}');
}

static void put_indices(struct bt_json_out *o, const struct bt_member_status *s)
{
    bt_json_out_u64(o, "term", s->core.term);
    bt_json_out_open(o, "leader", '{');
    bt_json_out_u64(o, "id", s->leader);
    bt_json_out_string(o, "name", s->leader_name);
    put_address(o, "clientAddress", &s->leader_client);
    bt_json_out_close(o, '}');
    bt_json_out_bool(o, "aggregated", s->core.aggregated);
    bt_json_out_u64(o, "commit", s->core.commit);
    bt_json_out_u64(o, "applied", s->core.applied);
    bt_json_out_u64(o, "first", s->core.first);
    bt_json_out_u64(o, "last", s->core.last);
    bt_json_out_u64(o, "durable", s->core.durable);
    bt_json_out_open(o, "snapshot", '{');
    bt_json_out_u64(o, "index", s->core.snapshot);
    bt_json_out_u64(o, "bytes", s->snapshot_bytes);
    bt_json_out_close(o, '}');
    bt_json_out_u64(o, "configurationIndex", s->core.config_index);
    bt_json_out_bool(o, "changePending", s->core.config_index > s->core.commit);
    bt_json_out_u64(o, "statesUndecided", s->core.undecided);
}

static void put_members(struct bt_json_out *o, const struct bt_member_status *s)
{
    bt_json_out_bool(o, "formed", s->formed);
    bt_json_out_open(o, "quorum", '{');
    bt_json_out_u64(o, "voters", s->voters);
    bt_json_out_u64(o, "needed", s->needed);
    bt_json_out_u64(o, "heard", s->heard);
    bt_json_out_close(o, '}');
    bt_json_out_open(o, "members", '[');
    for (uint32_t i = 0; i < s->peers; i++) {
        put_peer(o, &s->peer[i]);
    }
    bt_json_out_close(o, ']');
    bt_json_out_open(o, "removed", '[');
    for (uint32_t i = 0; i < s->n_removed; i++) {
        bt_json_out_u64(o, NULL, s->removed[i]);
    }
    bt_json_out_close(o, ']');
}

static void put_who(struct bt_json_out *o, const struct replica_app *app, const struct bt_member_status *s)
{
    char hex[HEX];
    const struct bt_group_document *d = &app->document;
    const struct bt_group_document_member *own = bt_group_document_find(d, app->opt.name);
    bt_json_out_u64(o, "id", s->core.id != 0 ? s->core.id : own != NULL ? (uint64_t)own->id : 0);
    bt_json_out_string(o, "cluster", hex_of(d->cluster, hex));
    bt_json_out_i64(o, "number", d->number);
    bt_json_out_open(o, "disk", '{');
    bt_json_out_string(o, "id", hex_of(s->disk_id, hex));
    bt_json_out_string(o, "policy", bt_group_storage_words[d->storage]);
    bt_json_out_string(o, "state", s->disk);
    bt_json_out_string(o, "message", s->phase == BT_MEMBER_FAILED ? s->message : "");
    bt_json_out_close(o, '}');
}

static void put_group(struct replica_app *app, struct bt_json_out *o)
{
    static struct bt_member_status s; // large; of the loop only
    bool waits = app->member == NULL;
    if (waits) {
        s = (struct bt_member_status){.reason = "NoDocument", .message = "no document was applied yet", .disk = ""};
    } else {
        bt_member_status(app->member, now_of(app), &s);
    }
    bt_json_out_string(o, "phase", waits ? "Waiting" : phase_of(&s));
    bt_json_out_bool(o, "ready", s.ready && !app->leaving);
    bt_json_out_string(o, "reason", s.ready && app->leaving ? "Leaving" : s.reason);
    bt_json_out_string(o, "message", s.message);
    bt_json_out_string(o, "name", app->opt.name);
    if (waits) {
        return;
    }
    put_who(o, app, &s);
    bt_json_out_string(o, "role", role_of(&s));
    if (s.core.config != NULL) {
        put_indices(o, &s);
        put_members(o, &s);
    }
}

// The same in the answer of "state", for who reads it through a sidecar.
static void describe(void *arg, struct bt_json_out *o)
{
    bt_json_out_open(o, "group", '{');
    put_group(arg, o);
    bt_json_out_close(o, '}');
}

static bool answer_group(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct replica_app *app = arg;
    (void)ask;
    (void)e;
    bt_json_out_string(o, "hash", app->hash);
    bt_json_out_double(o, "uptimeSeconds", (double)(bt_monotonic_ns() - app->started_ns) / 1e9);
    put_group(app, o);
    return true;
}

/* --- orders --- */

static const char *const codes[BT_REPLICA_RESULTS] = {
    [BT_REPLICA_NOT_LEADER] = "NotLeader", [BT_REPLICA_FULL] = "Full",
    [BT_REPLICA_TOO_LONG] = "TooLong",     [BT_REPLICA_TRANSFERRING] = "Transferring",
    [BT_REPLICA_NOT_YET] = "NotYet",       [BT_REPLICA_PENDING] = "Pending",
    [BT_REPLICA_NO_MEMBER] = "NoMember",   [BT_REPLICA_ALREADY] = "Already",
    [BT_REPLICA_LAST_VOTER] = "LastVoter", [BT_REPLICA_BEHIND] = "Behind",
    [BT_REPLICA_DIVERGED] = "Diverged",    [BT_REPLICA_FAILED] = "Failed"};

static bool refused(struct replica_app *app, enum bt_replica_result r, struct bt_ctl_error *e)
{
    struct bt_member_status s;
    const char *code = r < BT_REPLICA_RESULTS && codes[r] != NULL ? codes[r] : BT_CTL_INTERNAL;
    if (r != BT_REPLICA_NOT_LEADER) {
        return bt_ctl_refuse(e, code, NULL, "%s", bt_replica_result_name(r));
    }
    bt_member_status(app->member, now_of(app), &s);
    return bt_ctl_refuse(e, code, s.leader_name, "%s; ask %s", bt_replica_result_name(r),
                         s.leader != 0 ? s.leader_name : "again: nobody leads");
}

static bool with_member(const struct replica_app *app, const struct bt_ctl_ask *ask, bool needs_id,
                        struct bt_ctl_error *e)
{
    if (app->member == NULL) {
        return bt_ctl_refuse(e, "NotRunning", NULL, "no document was applied yet");
    }
    bool right = ask->id >= (needs_id ? 1 : 0) && ask->id <= BT_GROUP_DOCUMENT_ID_MAX;
    return right || bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "id", "must be %d..%d; got %" PRId64, needs_id ? 1 : 0,
                                  BT_GROUP_DOCUMENT_ID_MAX, ask->id);
}

static bool change(struct replica_app *app, const struct bt_member_order *order, struct bt_json_out *o,
                   struct bt_ctl_error *e)
{
    uint64_t index = 0;
    enum bt_replica_result r = bt_member_change(app->member, now_of(app), order, &index);
    if (r != BT_REPLICA_OK) {
        return refused(app, r, e);
    }
    bt_json_out_u64(o, "index", index);
    return true;
}

static bool read_port(const char *field, int64_t v, struct bt_ctl_error *e)
{
    return (v >= 1 && v <= 65535) ||
           bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, field, "must be 1..65535; got %" PRId64, v);
}

static bool read_new_member(const struct bt_ctl_ask *ask, struct bt_member_order *order, struct bt_ctl_error *e)
{
    char text[80];
    snprintf(text, sizeof text, strchr(ask->address, ':') != NULL ? "[%.60s]:1" : "%.60s:1", ask->address);
    if (ask->name[0] == '\0' || strlen(ask->name) >= BT_GROUP_DOCUMENT_NAME) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "name", "must be a name of 1..%u bytes",
                             BT_GROUP_DOCUMENT_NAME - 1);
    }
    if (bt_addr_parse(text, 0, &order->address) != 0 || bt_addr_bad_source(&order->address)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "address", "must be an IP address; got \"%s\"", ask->address);
    }
    if (!read_port("memberPort", ask->member_port, e) || !read_port("clientPort", ask->client_port, e)) {
        return false;
    }
    order->name = ask->name;
    order->client = order->address;
    bt_addr_set_port(&order->address, (uint16_t)ask->member_port);
    bt_addr_set_port(&order->client, (uint16_t)ask->client_port);
    return true;
}

static bool answer_add(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_member_order order = {.change = BT_REPLICA_ADD_LEARNER, .id = (uint16_t)ask->id};
    return with_member(arg, ask, true, e) && read_new_member(ask, &order, e) && change(arg, &order, o, e);
}

static bool answer_promote(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_member_order order = {.change = BT_REPLICA_PROMOTE, .id = (uint16_t)ask->id};
    return with_member(arg, ask, true, e) && change(arg, &order, o, e);
}

static bool answer_remove(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_member_order order = {.change = BT_REPLICA_REMOVE, .id = (uint16_t)ask->id};
    return with_member(arg, ask, true, e) && change(arg, &order, o, e);
}

static bool answer_transfer(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct replica_app *app = arg;
    uint16_t to = 0;
    if (!with_member(app, ask, false, e)) {
        return false;
    }
    enum bt_replica_result r = bt_member_transfer(app->member, now_of(app), (uint16_t)ask->id, &to);
    if (r != BT_REPLICA_OK) {
        return refused(app, r, e);
    }
    bt_json_out_u64(o, "to", to);
    return true;
}

static bool answer_snapshot(void *arg, const struct bt_ctl_ask *ask, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct replica_app *app = arg;
    uint64_t index = 0;
    if (!with_member(app, ask, false, e)) {
        return false;
    }
    enum bt_replica_result r = bt_member_snapshot(app->member, now_of(app), &index);
    if (r != BT_REPLICA_OK) {
        return refused(app, r, e);
    }
    bt_json_out_u64(o, "index", index);
    return true;
}

static const struct bt_ctl_operation operations[] = {
    {"group", answer_group},
    {"add", answer_add},
    {"promote", answer_promote},
    {"remove", answer_remove},
    {"transfer", answer_transfer},
    {"snapshot", answer_snapshot},
    {NULL, NULL},
};

const struct bt_ctl_app replica_ctl_app = {
    .role = "member",
    .histogram_source = "Server",
    .apply_text = replica_apply,
    .operations = operations,
    .state = replica_state,
    .describe = describe,
    .counters = replica_counters,
    .leave = leave,
    .slices = replica_slices,
    .histogram_names = "latency",
    .now = bt_control_now,
};
