// SPDX-License-Identifier: Apache-2.0
// See replica_member.h.
#include "replica_member.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "replica_apart.h"
#include "replica_check.h"
#include "replica_check_state.h"
#include "replica_clients.h"
#include "replica_lacking.h"
#include "replica_diverge.h"
#include "replica_net.h"
#include "replica_sessions.h"

enum { STATE_BYTES = 16, SESSIONS_ROOM = 1024, BODY_MOST = 300, HASH_EVERY = 8 };

/* --- what the core asks for --- */

static void crash_after_a_vote(struct replica_world *w, const uint8_t *message)
{
    bool voter = message[1] == BT_GROUP_VOTE_REPLY && bt_get32(message + BT_GROUP_HEADER) == BT_GROUP_YES;
    bool candidate = message[1] == BT_GROUP_VOTE && bt_get32(message + BT_GROUP_HEADER) == 0;
    if ((voter || candidate) && !w->calm && replica_chance(w, w->rules.after_a_vote)) {
        w->count.after_votes++;
        sim_agenda_push(&w->agenda, w->agenda.now, (struct sim_event){NULL, w->sending, EV_CRASH, 0});
    }
}

static void crash_amid(struct replica_world *w, const struct bt_store_op *op)
{
    bool long_story = op->kind == BT_STORE_SNAPSHOT || op->kind == BT_STORE_TRUNCATE || op->kind == BT_STORE_COMPACT;
    if (long_story && !w->calm && replica_chance(w, w->rules.after_a_vote / 4)) {
        w->count.amid_stores++;
        uint64_t soon = replica_chance(w, 0.5) ? 0 : bt_rng_next(&w->rng) % (2 * w->rules.sync_ns);
        sim_agenda_push(&w->agenda, w->agenda.now + soon, (struct sim_event){NULL, w->sending, EV_CRASH, 0});
    }
}

static bool carries_entries(const uint8_t *message)
{
    bool append = message[1] == BT_GROUP_APPEND || message[1] == BT_GROUP_SHARED;
    return append && bt_get32(message + BT_GROUP_HEADER) > 0;
}

/* Up to where: a member, or with AGG_COMMIT the aggregator. */
static uint64_t acknowledged(const uint8_t *message)
{
    if (message[1] == BT_GROUP_COMMITTED) {
        return bt_get64(message + BT_GROUP_HEADER + 12);
    }
    return message[1] == BT_GROUP_APPEND_REPLY ? bt_get64(message + BT_GROUP_HEADER + 4) : 0;
}

/* A message of the leader, or to it. An answer counts when it is to entries that were sent there; the aggregator is 0.
 */
static void tally(struct replica_world *w, uint16_t leader, uint16_t to, const uint8_t *message, bool sent)
{
    struct replica_tally *t = &w->tally;
    if (w->mode != REPLICA_COUNTS || bt_replica_status(w->member[leader].core).role != BT_REPLICA_LEADER) {
        return;
    }
    uint16_t from = bt_get16(message + 2) % BT_GROUP_AGGREGATOR;
    if (sent && carries_entries(message)) {
        t->tx_entries++;
        t->asked[to] = bt_get64(message + BT_GROUP_HEADER + 4) + bt_get32(message + BT_GROUP_HEADER);
    } else if (!sent && acknowledged(message) > t->acked[from] && t->acked[from] < t->asked[from]) {
        t->rx_acks++;
        t->acked[from] = acknowledged(message);
    } else {
        t->apart++;
    }
}

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct replica_world *w = ctx;
    tally(w, w->sending, to % BT_GROUP_AGGREGATOR, message, true);
    replica_check_sent(w, w->sending, to, message, n);
    replica_net_send(w, w->sending, to, message, n);
    crash_after_a_vote(w, message);
}

static void begin_sync(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    uint64_t takes = w->rules.sync_ns / 2 + bt_rng_next(&w->rng) % (w->rules.sync_ns + 1);
    if (!w->calm && replica_chance(w, w->rules.stall)) {
        w->count.stalls++;
        takes += bt_rng_next(&w->rng) % w->rules.stall_ns;
    }
    uint64_t done = replica_disk_sync(m->disk, w->agenda.now, takes);
    if (done != 0) {
        sim_agenda_push(&w->agenda, done, (struct sim_event){NULL, id, EV_DISK, (uint16_t)m->incarnation});
    }
}

static void on_store(void *ctx, const struct bt_store_op *op)
{
    struct replica_world *w = ctx;
    if (!replica_disk_store(w->member[w->sending].disk, op)) {
        replica_breach(w, REPLICA_STORE_MISUSE, "member %u: operation %llu of kind %u does not follow the ones before",
                       w->sending, (unsigned long long)op->generation, op->kind);
        return;
    }
    if (op->kind == BT_STORE_SNAPSHOT) {
        replica_check_snapshot(w, w->sending, &op->snapshot);
    }
    begin_sync(w, w->sending);
    crash_amid(w, op);
}

/* The application's bytes are its state and some that follow from it. */
static uint64_t state_write(const struct replica_world *w, uint16_t id, uint8_t *p)
{
    const struct replica_state *s = &w->member[id].state;
    uint64_t head = STATE_BYTES + replica_sessions_write(w, w->member[id].sessions, p + STATE_BYTES, SESSIONS_ROOM);
    uint64_t room = REPLICA_SNAPSHOT - STATE_BYTES - (replica_has_sessions(w) ? (uint64_t)SESSIONS_ROOM : 0);
    uint64_t n = head + s->chain % room;
    bt_put64(p, s->applied);
    bt_put64(p + 8, s->chain);
    for (uint64_t i = head; i < n; i++) {
        p[i] = (uint8_t)(s->chain >> (i % 8 * 8));
    }
    return n;
}

static void on_restore(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n)
{
    struct replica_world *w = ctx;
    static uint8_t expected[REPLICA_SNAPSHOT];
    struct replica_state s = {0};
    bool whole = n >= STATE_BYTES && replica_sessions_restore(w, w->sending, bytes + STATE_BYTES, n - STATE_BYTES);
    if (n >= STATE_BYTES) {
        s = (struct replica_state){bt_get64(bytes), bt_get64(bytes + 8)};
    }
    w->member[w->sending].state = s;
    if (!whole || state_write(w, w->sending, expected) != n || memcmp(expected, bytes, n) != 0) {
        replica_breach(w, REPLICA_SNAPSHOTS, "member %u restores damaged bytes", w->sending);
    }
    replica_check_restored(w, w->sending, last_index);
}

/* --- a step --- */

static void plan_tick(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    double local = (double)(bt_replica_due(m->core) - m->clock_base);
    uint64_t due = (uint64_t)(local / m->rate) + 1;
    if (due <= w->agenda.now) {
        due = w->agenda.now + 1;
    }
    if (w->calm && w->rules.same_timers) {
        due += bt_rng_next(&w->rng) % (15 * SIM_MS); /* what draws alike for ever elects nobody */
    }
    if (m->tick_at <= w->agenda.now || due < m->tick_at) {
        m->tick_at = due;
        sim_agenda_push(&w->agenda, due, (struct sim_event){NULL, id, EV_TICK, (uint16_t)m->incarnation});
    }
}

static void answer_waiters(struct replica_world *w, uint16_t id, const struct bt_entry *e)
{
    struct replica_member *m = &w->member[id];
    for (uint32_t i = 0; i < m->waiters;) {
        if (m->waiter[i].index > e->index) {
            i++;
            continue;
        }
        if (m->waiter[i].index == e->index && m->waiter[i].term == e->term) {
            w->tally.tx_replies++; /* of the leader, who was asked */
            replica_client_answer(w, m->waiter[i].client, m->waiter[i].op, &m->did);
        }
        m->waiter[i] = m->waiter[--m->waiters];
    }
}

/* who executes, and who answers. */
static void do_duty(struct replica_world *w, uint16_t id, const struct bt_entry *e)
{
    unsigned duty = bt_replica_duty(w->member[id].core, e);
    w->member[id].did = replica_do(w, id, e);
    replica_check_applied(w, id, e, duty);
    bt_replica_applied(w->member[id].core, e->index);
    if (bt_replica_hash_wanted(w->member[id].core, e)) {
        w->sending = id;
        bt_replica_hashed(w->member[id].core, replica_clock(w, id), e->index, w->member[id].state.chain);
    }
    if (!bt_group_is_request(e)) {
        answer_waiters(w, id, e);
    } else if ((duty & BT_REPLICA_ANSWER) != 0) {
        replica_check_answered(w, id, e);
        w->tally.tx_replies += bt_replica_status(w->member[id].core).role == BT_REPLICA_LEADER;
        replica_box_answered(w, replica_op(e), &w->member[id].did);
    }
}

static bool is_fenced(const struct replica_member *m)
{
    return bt_replica_status(m->core).fenced.index != 0;
}

static void apply(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    struct bt_replica_status s = bt_replica_status(m->core);
    bool all = w->rules.apply_most == 0 || w->calm;
    uint64_t most = all ? s.commit : s.applied + replica_draw(w, 0, w->rules.apply_most);
    struct bt_entry e;
    for (uint64_t i = s.applied + 1; i <= s.commit && i <= most && !is_fenced(m); i++) {
        if (!bt_replica_entry(m->core, i, &e)) {
            replica_breach(w, REPLICA_STATE_MACHINE, "member %u has not applied %llu and no longer has it", id,
                           (unsigned long long)i);
            return;
        }
        do_duty(w, id, &e);
    }
    if (replica_is_apart(w) && bt_replica_status(m->core).role == BT_REPLICA_LEADER) {
        w->sending = id;
        bt_replica_announce(m->core, replica_clock(w, id));
        replica_check_step(w, id);
    }
}

static void take_snapshot(struct replica_world *w, uint16_t id)
{
    static uint8_t bytes[REPLICA_SNAPSHOT];
    struct replica_member *m = &w->member[id];
    struct bt_replica_status s = bt_replica_status(m->core);
    if (!s.snapshot_wanted && !s.mending && s.applied < s.snapshot + w->rules.snapshot_every) {
        return;
    }
    uint64_t n = state_write(w, id, bytes);
    w->sending = id;
    if (bt_replica_snapshot(m->core, replica_clock(w, id), m->state.applied, bytes, n) == BT_REPLICA_OK) {
        w->count.snapshots++;
    }
}

static void after_input(struct replica_world *w, uint16_t id)
{
    replica_check_step(w, id);
    if (w->breach == REPLICA_HELD) {
        apply(w, id);
        take_snapshot(w, id);
        plan_tick(w, id);
    }
}

/* --- its life --- */

static struct bt_replica_config config_of(struct replica_world *w, uint16_t id)
{
    return (struct bt_replica_config){.cluster = REPLICA_CLUSTER,
                                      .group = REPLICA_GROUP,
                                      .id = id,
                                      .pipeline = 4,
                                      .election_ns = w->rules.election_ns,
                                      .heartbeat_ns = w->rules.heartbeat_ns,
                                      .seed = w->rules.same_timers && id % 3 != 0 ? 1 : bt_rng_next(&w->rng),
                                      .log_slots = w->rules.log_slots,
                                      .body_bytes = REPLICA_BODIES,
                                      .keep_entries = w->rules.keep,
                                      .message_bytes = REPLICA_MESSAGE,
                                      .snapshot_bytes = REPLICA_SNAPSHOT,
                                      .hash_every = replica_diverges(w) ? HASH_EVERY : 0,
                                      .apart = w->rules.apart};
}

void replica_member_make(struct replica_world *w, uint16_t id, const struct bt_group_config *first)
{
    struct replica_member *m = &w->member[id];
    struct replica_wal_rules rules = {
        .seed = bt_rng_next(&w->rng), .sync_ns = w->rules.sync_ns, .sync_fails = w->rules.sync_fails};
    m->disk = replica_disk_new(first, w->rules.wal ? replica_wal_new(first, &rules) : NULL);
    m->exists = true;
    m->rate = w->mode == REPLICA_KILLS || w->rules.same_timers ? 1 : 0.9 + 0.2 * bt_rng_unit(&w->rng);
    m->clock_base = bt_rng_next(&w->rng) >> 20;
}

void replica_member_start(struct replica_world *w, uint16_t id)
{
    static const struct bt_replica_ops ops = {.send = on_send, .store = on_store, .restore = on_restore};
    struct replica_member *m = &w->member[id];
    struct bt_replica_config c = config_of(w, id);
    m->mem = m->mem != NULL ? m->mem : malloc(bt_replica_bytes(&c));
    if (m->mem == NULL) {
        abort();
    }
    m->incarnation = (m->incarnation + 1) & 0xffff;
    m->waiters = 0;
    m->tick_at = m->paused_until = m->answered = 0;
    m->state = (struct replica_state){0};
    m->was_astray = m->astray;
    m->astray = false;
    replica_lacking_started(w, id);
    replica_sessions_forget(w, id);
    w->sending = id;
    const struct bt_recovery *found = replica_disk_recover(m->disk, w->agenda.now);
    if (found == NULL && replica_disk_may_try_again(m->disk)) {
        replica_disk_crash(m->disk, w->agenda.now, &w->rng);
        sim_agenda_push(&w->agenda, w->agenda.now + 20 * SIM_MS, (struct sim_event){NULL, id, EV_RESTART, 0});
        return;
    }
    if (found == NULL) {
        replica_breach(w, REPLICA_NOT_DURABLE, "member %u: %s", id, replica_disk_why(m->disk));
        return;
    }
    enum bt_replica_result r = bt_replica_start(m->mem, &c, &ops, w, found, &m->core);
    if (r != BT_REPLICA_OK) {
        m->core = NULL;
        replica_breach(w, REPLICA_STORE_MISUSE, "member %u does not start: %s", id, bt_replica_result_name(r));
        return;
    }
    replica_check_started(w, id);
    bt_replica_tick(m->core, replica_clock(w, id));
    after_input(w, id);
}

/* Questions for bodies of this incarnation. */
static void add_up(struct replica_world *w, const struct bt_replica *core)
{
    w->count.recoveries += bt_replica_counters(core)[BT_REPLICA_RECOVERIES_TOTAL];
    w->count.recovered += bt_replica_counters(core)[BT_REPLICA_RECOVERED_TOTAL];
    w->count.bodyless += bt_replica_counters(core)[BT_REPLICA_BODYLESS_TOTAL];
    w->count.aggregated += bt_replica_counters(core)[BT_REPLICA_AGGREGATED_TOTAL];
    w->count.fallbacks += bt_replica_counters(core)[BT_REPLICA_FALLBACKS_TOTAL];
}

void replica_member_crash(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    replica_check_crash(w, id);
    add_up(w, m->core);
    m->core = NULL;
    m->incarnation = (m->incarnation + 1) & 0xffff;
    replica_disk_crash(m->disk, w->agenda.now, &w->rng);
    w->count.crashes++;
}

void replica_member_free(struct replica_world *w, uint16_t id)
{
    if (w->member[id].core != NULL) {
        add_up(w, w->member[id].core);
    }
    free(w->member[id].mem);
    free(w->member[id].sessions);
    replica_disk_free(w->member[id].disk);
}

static void take_completion(struct replica_world *w, uint16_t id, uint64_t now)
{
    struct replica_member *m = &w->member[id];
    uint64_t generation;
    enum bt_store_result r = replica_disk_synced(m->disk, &generation);
    bt_replica_stored(m->core, now, generation, r);
    if (r == BT_STORE_DURABLE) {
        begin_sync(w, id);
        return;
    }
    w->count.disks_failed++; /* somebody starts it again, later */
    sim_agenda_push(&w->agenda, w->agenda.now + replica_draw(w, 20, 300) * SIM_MS,
                    (struct sim_event){NULL, id, EV_CRASH, 0});
}

static void input(struct replica_world *w, uint16_t id, const struct sim_event *ev)
{
    struct replica_member *m = &w->member[id];
    uint64_t now = replica_clock(w, id);
    w->sending = id;
    if (ev->kind == EV_MESSAGE) {
        const struct replica_packet *p = ev->ptr;
        tally(w, id, 0, p->bytes, false);
        bt_replica_receive(m->core, now, p->bytes, p->n);
    } else if (ev->kind == EV_TICK) {
        bt_replica_tick(m->core, now);
    } else {
        take_completion(w, id, now);
    }
    after_input(w, id);
}

void replica_member_event(struct replica_world *w, const struct sim_event *ev)
{
    uint16_t id = (uint16_t)ev->node;
    struct replica_member *m = &w->member[id];
    bool mine = m->core != NULL && (ev->kind == EV_MESSAGE || ev->arg == (uint16_t)m->incarnation);
    if (mine && m->paused_until > w->agenda.now) {
        sim_agenda_push(&w->agenda, m->paused_until, *ev);
        return;
    }
    if (mine) {
        replica_lacking_input(w, id);
        input(w, id, ev);
    }
    if (ev->kind == EV_MESSAGE) {
        free(ev->ptr);
    }
}

static void request_apart(struct replica_world *w, uint16_t id, uint64_t op)
{
    static uint8_t body[REPLICA_REQUEST_MOST];
    struct bt_replica_request q = {.client = replica_client_of(op),
                                   .req_id = replica_req_id_of(w, op),
                                   .read_only = replica_is_read(w, op),
                                   .body = body,
                                   .length = replica_body_of(op, body)};
    w->sending = id;
    bt_replica_request(w->member[id].core, replica_clock(w, id), &q);
    after_input(w, id);
}

void replica_member_request(struct replica_world *w, uint16_t id, uint32_t client, uint64_t op)
{
    static uint8_t body[BODY_MOST];
    struct replica_member *m = &w->member[id];
    if (m->core == NULL || m->paused_until > w->agenda.now) {
        return;
    }
    w->tally.rx_requests += bt_replica_status(m->core).role == BT_REPLICA_LEADER;
    if (replica_is_apart(w)) {
        request_apart(w, id, op);
        return;
    }
    bt_put64(body, op);
    uint32_t n = (uint32_t)replica_draw(w, 8, BODY_MOST);
    memset(body + 8, (int)(op & 0xff), n - 8);
    uint64_t index = 0;
    w->sending = id;
    enum bt_replica_result r = m->waiters < REPLICA_WAITERS
                                   ? bt_replica_propose(m->core, replica_clock(w, id), body, n, &index)
                                   : BT_REPLICA_FULL;
    if (client >= REPLICA_CLIENTS) {
        after_input(w, id); /* nobody waits for it */
        return;
    }
    if (r == BT_REPLICA_OK) {
        uint64_t term = bt_replica_status(m->core).term;
        m->waiter[m->waiters++] = (struct replica_waiter){.index = index, .term = term, .op = op, .client = client};
    } else {
        replica_client_refused(w, client, op, bt_replica_status(m->core).leader);
    }
    after_input(w, id);
}

enum bt_replica_result replica_member_transfer(struct replica_world *w, uint16_t id, uint16_t to)
{
    w->sending = id;
    enum bt_replica_result r = bt_replica_transfer(w->member[id].core, replica_clock(w, id), to);
    after_input(w, id);
    return r;
}

enum bt_replica_result replica_member_change(struct replica_world *w, uint16_t id, enum bt_replica_change change,
                                             uint16_t of)
{
    w->sending = id;
    enum bt_replica_result r = bt_replica_change(w->member[id].core, replica_clock(w, id), change, of);
    after_input(w, id);
    return r;
}

uint16_t replica_leader(const struct replica_world *w)
{
    uint16_t best = 0;
    uint64_t term = 0;
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (!replica_member_up(w, id)) {
            continue;
        }
        struct bt_replica_status s = bt_replica_status(w->member[id].core);
        if (s.role == BT_REPLICA_LEADER && s.term > term) {
            best = id;
            term = s.term;
        }
    }
    return best;
}
