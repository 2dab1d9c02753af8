// SPDX-License-Identifier: Apache-2.0
// See replica_run.h. After the faults a group must go on: writes are acknowledged, the leadership can be handed over,
// the membership can change, and all members come to the same state.
#include "replica_run.h"

#include <stdlib.h>
#include <string.h>

#include "replica_aggregator.h"
#include "replica_apart.h"
#include "replica_check_history.h"
#include "replica_clients.h"
#include "replica_diverge.h"
#include "replica_line.h"
#include "replica_faults.h"
#include "replica_member.h"
#include "replica_net.h"
#include "replica_sessions.h"

enum { POLL_MS = 5, STAGE_MS = 2500, AGAIN_MS = 250, HAND_OVERS = 3, EVENTS = 2000000, WRITES_AFTER = 3, WARM = 100 };
enum { STAGE_WRITES, STAGE_TRANSFER, STAGE_CHANGE, STAGE_AGREE };
static const char *const stage_name[] = {"no write of a client is acknowledged", "the leadership is not handed over",
                                         "the membership does not change", "the members do not agree"};

static void draw_rules(struct replica_world *w)
{
    static const uint32_t sizes[] = {3, 3, 3, 5, 5, 5, 7, 9};
    struct replica_rules *r = &w->rules;
    bool kills = w->mode == REPLICA_KILLS;
    *r = (struct replica_rules){.election_ns = 50 * SIM_MS, .heartbeat_ns = 10 * SIM_MS, .keep = 16};
    r->delay_ns = replica_draw(w, 10, 300) * SIM_US;
    r->spread_ns = replica_draw(w, 1, 500) * SIM_US;
    r->sync_ns = replica_draw(w, 50, 6000) * SIM_US;
    r->snapshot_every = (uint32_t)replica_draw(w, 20, 120);
    r->clients = (uint32_t)replica_draw(w, 2, REPLICA_CLIENTS);
    r->members = sizes[bt_rng_below(&w->rng, 8)];
    if (kills) {
        r->loss = 0.001;
        return;
    }
    r->loss = replica_chance(w, 0.5) ? 0.15 * bt_rng_unit(&w->rng) : 0;
    r->duplicate = replica_chance(w, 0.5) ? 0.1 * bt_rng_unit(&w->rng) : 0;
    r->late = replica_chance(w, 0.7) ? 0.1 * bt_rng_unit(&w->rng) : 0;
    r->late_ns = replica_draw(w, 1, 120) * SIM_MS;
    r->stall = replica_chance(w, 0.5) ? 0.05 * bt_rng_unit(&w->rng) : 0;
    r->stall_ns = replica_draw(w, 10, 150) * SIM_MS;
    r->wal = replica_chance(w, 0.5);
    r->sync_fails = replica_chance(w, 0.2) ? 0.005 : 0;
    r->same_timers = replica_chance(w, 0.25);
    r->after_a_vote = replica_chance(w, 0.6) ? 0.3 * bt_rng_unit(&w->rng) : 0;
    if (replica_chance(w, 0.5)) {
        r->keep = (uint32_t)replica_draw(w, 0, 4);
        r->snapshot_every = (uint32_t)replica_draw(w, 2, 12);
    }
    r->apply_most = replica_chance(w, 0.3) ? (uint32_t)replica_draw(w, 1, 6) : 0;
}

static void draw_apart(struct replica_world *w, struct bt_rng *rng)
{
    static const uint32_t kept[] = {32, 64, 256, 256}, bounds[] = {1, 2, 4, 8, 32, 128};
    bool kills = w->mode == REPLICA_KILLS;
    struct bt_replica_apart *a = &w->rules.apart;
    *a = (struct bt_replica_apart){.recent_pairs = 2048, .quarantine_ns = 200 * SIM_MS, .key = "bodies of one gr"};
    a->kept_requests = kept[kills ? 3 : bt_rng_below(rng, 4)];
    a->bound = bounds[bt_rng_below(rng, 6)];
    a->repliers = bt_rng_below(rng, 2) ? BT_REPLICA_JBSQ : BT_REPLICA_RANDOM;
    a->keep_ns = SIM_MS * (bt_rng_below(rng, 3) ? 1000 : 5 + bt_rng_below(rng, 60));
    a->recover_ns = SIM_MS * (1 + bt_rng_below(rng, 4));
    w->rules.box_limit = 2 + bt_rng_below(rng, 14);
    w->rules.reads = 0.8 * bt_rng_unit(rng);
}

/* Drawn apart, so that a seed keeps its other faults. */
static void draw_later_rules(struct replica_world *w, uint64_t seed, enum replica_protocol protocol)
{
    struct bt_rng rng;
    bt_rng_seed(&rng, seed ^ UINT64_C(0x6c6f67));
    w->rules.log_slots = bt_rng_below(&rng, 3) == 0 ? REPLICA_SLOTS / 4 : REPLICA_SLOTS;
    if (w->rules.log_slots < REPLICA_SLOTS && w->rules.keep > 8) {
        w->rules.keep = 8;
    }
    if (protocol != REPLICA_RAFT) {
        draw_apart(w, &rng);
    }
    w->rules.apart.aggregator = protocol == REPLICA_HOVERCRAFTPP;
    w->aggregator.as_switch = bt_rng_below(&rng, 3) == 0;
}

/* Drawn apart, too. Now and then one less than there are clients: then those that write turn one another out. */
static void draw_sessions(struct replica_world *w, uint64_t seed)
{
    struct bt_rng rng;
    bt_rng_seed(&rng, seed ^ UINT64_C(0x73657373));
    w->rules.sessions = w->rules.clients - 1 + bt_rng_below(&rng, 4);
    w->rules.reads = 0;
}

/* A quiet group, whose members answer at random: with one request at a time the leader, which hears of its own progress
 * first, would always have the least to execute. */
static void quiet(struct replica_world *w, uint32_t members)
{
    struct replica_rules *r = &w->rules;
    *r = (struct replica_rules){.members = members,
                                .clients = 1,
                                .log_slots = REPLICA_SLOTS,
                                .election_ns = r->election_ns,
                                .heartbeat_ns = r->heartbeat_ns,
                                .delay_ns = 20 * SIM_US,
                                .sync_ns = 50 * SIM_US,
                                .keep = 16,
                                .snapshot_every = 100,
                                .apart = r->apart,
                                .box_limit = 64,
                                .reads = r->reads};
    r->apart.repliers = BT_REPLICA_RANDOM;
    r->apart.keep_ns = 1000 * SIM_MS;
    if (replica_is_apart(w)) {
        r->apart.bound = 32;
        r->apart.kept_requests = 256;
    }
}

static struct replica_world *make(uint64_t seed, enum replica_mode mode, enum replica_protocol protocol,
                                  uint32_t members)
{
    struct replica_world *w = calloc(1, sizeof *w);
    if (w == NULL) {
        abort();
    }
    bt_rng_seed(&w->rng, seed);
    sim_agenda_init(&w->agenda);
    w->mode = mode;
    w->term_most = 1;
    draw_rules(w);
    draw_later_rules(w, seed, protocol);
    if (mode == REPLICA_SESSIONS) {
        draw_sessions(w, seed);
    }
    if (mode == REPLICA_COUNTS) {
        quiet(w, members);
    }
    w->at_room = 1024;
    w->at = calloc(w->at_room, sizeof *w->at);
    if (w->at == NULL) {
        abort();
    }
    struct bt_group_config *first = &w->at[0].body;
    for (uint32_t i = 0; i < w->rules.members; i++) {
        first->member[first->count++] = (struct bt_group_member){.id = (uint16_t)(i + 1), .role = BT_GROUP_VOTER};
    }
    w->at[0].is = w->at[0].config = true;
    for (uint16_t id = 1; id <= w->rules.members; id++) {
        replica_member_make(w, id, &w->at[0].body);
        replica_member_start(w, id);
    }
    if (replica_is_apart(w)) {
        replica_box_start(w);
    }
    if (replica_is_shared(w)) {
        replica_aggregator_start(w);
    }
    replica_clients_start(w);
    w->faults_end = (mode == REPLICA_KILLS ? UINT64_MAX / SIM_MS / 2 : replica_draw(w, 1000, 2500)) * SIM_MS;
    if (mode != REPLICA_COUNTS) {
        sim_agenda_push(&w->agenda, 300 * SIM_MS, (struct sim_event){NULL, 0, EV_FAULT, 0});
    }
    return w;
}

static void put_away(struct replica_world *w)
{
    struct sim_event ev = {0};
    while (sim_agenda_take(&w->agenda, UINT64_MAX / 2, &ev)) {
        if (ev.kind == EV_MESSAGE || ev.kind == EV_ANSWER) {
            free(ev.ptr);
        }
    }
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        replica_member_free(w, id);
    }
    sim_agenda_free(&w->agenda);
    free(w->at);
    free(w->known);
    free(w->leader_of);
    free(w->ack);
    free(w->dropped);
    free(w->box_mem);
    free(w);
}

/* --- after the faults --- */

static void next_stage(struct replica_world *w)
{
    w->stage++;
    w->stage_at = w->agenda.now;
    w->stage_tried = w->agenda.now; /* what was under way comes to rest first */
    w->stage_target = 0;
    w->stage_index = 0;
}

/* Every client; where requests are forgotten before their turn, all together as much. */
static bool all_wrote(const struct replica_world *w)
{
    uint64_t sum = 0;
    bool each = true;
    for (uint32_t i = 0; i < w->rules.clients; i++) {
        uint64_t wrote = w->client[i].acked - w->stage_acked[i];
        each = each && wrote >= WRITES_AFTER;
        sum += wrote;
    }
    return each || (replica_line_forgets(w) && sum >= (uint64_t)WRITES_AFTER * w->rules.clients);
}

static bool ask_for_hand_over(struct replica_world *w, uint16_t leader)
{
    struct bt_replica_status s = bt_replica_status(w->member[leader].core);
    for (int i = 0; i < s.config->count; i++) {
        uint16_t id = s.config->member[i].id;
        bool other = s.config->member[i].role == BT_GROUP_VOTER && id != leader;
        if (other && replica_chance(w, 0.5) && replica_member_transfer(w, leader, id) == BT_REPLICA_OK) {
            w->stage_target = id;
            w->stage_term = s.term;
            w->stage_tried = w->agenda.now;
            w->count.transfers++;
            return false;
        }
    }
    return s.config->count == 1;
}

/* The one that was chosen leads the very next term. One that is behind may be waited for in vain: then another is
 * asked; but an election that somebody else won, or that took several terms, was no hand-over. */
static bool handed_over(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (leader == 0) {
        return false;
    }
    uint64_t term = bt_replica_status(w->member[leader].core).term;
    if (w->stage_target != 0 && term > w->stage_term) {
        if (leader == w->stage_target && term == w->stage_term + 1) {
            return true;
        }
        w->stage_target = 0;
        w->stage_tried = w->agenda.now;
        if (!w->rules.same_timers && ++w->stage_failed == HAND_OVERS) { /* else elections collide by design */
            replica_breach(w, REPLICA_NO_PROGRESS,
                           "the leadership was asked to be handed over %d times and was won by others", HAND_OVERS);
        }
    }
    if (w->agenda.now < w->stage_tried + AGAIN_MS * SIM_MS) {
        return false;
    }
    return ask_for_hand_over(w, leader);
}

static bool changed(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (w->stage_index == 0) {
        if (leader != 0 && replica_change_something(w)) {
            w->stage_index = bt_replica_status(w->member[leader].core).config_index;
        }
        return false;
    }
    return w->commit >= w->stage_index;
}

static bool agree(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    w->closing = true;
    if (leader == 0) {
        return false;
    }
    struct bt_replica_status l = bt_replica_status(w->member[leader].core);
    for (int i = 0; i < l.config->count; i++) {
        if (!replica_member_up(w, l.config->member[i].id)) {
            return false;
        }
        struct bt_replica_status s = bt_replica_status(w->member[l.config->member[i].id].core);
        if (s.applied != l.last || w->commit != l.last || s.last != l.last) {
            return false;
        }
    }
    if (!replica_diverge_over(w, &l)) {
        return false;
    }
    return w->box == NULL || bt_box_counts(w->box, w->agenda.now).inside == 0; /* I-17 */
}

/* Until the group has come to rest, and what the writes of all take one after the other. */
static uint64_t stage_ms(const struct replica_world *w)
{
    return STAGE_MS + WRITES_AFTER * replica_line_ns(w) / SIM_MS;
}

static void poll(struct replica_world *w)
{
    static bool (*const reached[])(struct replica_world *) = {NULL, handed_over, changed, agree};
    bool on = w->stage == STAGE_WRITES ? all_wrote(w) : reached[w->stage](w);
    if (on && w->stage == STAGE_AGREE) {
        w->done = true;
        return;
    }
    if (on) {
        next_stage(w);
    } else if (w->agenda.now > w->stage_at + stage_ms(w) * SIM_MS) {
        replica_breach(w, REPLICA_NO_PROGRESS, "%s within %llu ms after faults ended", stage_name[w->stage],
                       (unsigned long long)stage_ms(w));
    }
    sim_agenda_push(&w->agenda, w->agenda.now + POLL_MS * SIM_MS, (struct sim_event){NULL, 0, EV_FAULT, 0});
}

static void end_faults(struct replica_world *w)
{
    if (w->mode == REPLICA_BEYOND) {
        w->done = true;
        return;
    }
    replica_faults_over(w);
    w->stage_at = w->agenda.now;
    for (uint32_t i = 0; i < w->rules.clients; i++) {
        w->stage_acked[i] = w->client[i].acked;
    }
}

static void fault(struct replica_world *w)
{
    if (w->calm) {
        poll(w);
    } else if (w->agenda.now >= w->faults_end) {
        end_faults(w);
        sim_agenda_push(&w->agenda, w->agenda.now + POLL_MS * SIM_MS, (struct sim_event){NULL, 0, EV_FAULT, 0});
    } else if (w->killed_at != 0 && w->agenda.now > w->killed_at + STAGE_MS * SIM_MS) {
        replica_breach(w, REPLICA_NO_PROGRESS, "no write within %d ms after a leader's death", STAGE_MS);
    } else {
        replica_fault(w);
    }
}

/* --- the run --- */

static void client(struct replica_world *w, const struct sim_event *ev)
{
    if (!replica_client_wake(w, ev)) {
        return;
    }
    const struct replica_client *c = &w->client[ev->node];
    if (replica_is_apart(w)) {
        replica_box_send(w, ev->node, c->op);
        return;
    }
    uint64_t after = replica_net_client(w);
    if (after != 0) {
        after += replica_late_attempt(w);
        sim_agenda_push(&w->agenda, w->agenda.now + after,
                        (struct sim_event){(void *)(uintptr_t)c->op, ev->node, EV_REQUEST, c->target});
    }
}

static void message(struct replica_world *w, const struct sim_event *ev)
{
    if (ev->node == 0) {
        replica_aggregator_event(w, ev);
    } else {
        replica_member_event(w, ev);
    }
}

static void request(struct replica_world *w, const struct sim_event *ev)
{
    replica_member_request(w, ev->arg, ev->node, (uint64_t)(uintptr_t)ev->ptr);
}

static void restart(struct replica_world *w, const struct sim_event *ev)
{
    replica_restart(w, (uint16_t)ev->node);
}

static void crash(struct replica_world *w, const struct sim_event *ev)
{
    replica_blink(w, (uint16_t)ev->node);
}

static void back(struct replica_world *w, const struct sim_event *ev)
{
    replica_back(w, (uint16_t)ev->node);
}

static void aggregator_back(struct replica_world *w, const struct sim_event *ev)
{
    (void)ev;
    replica_aggregator_start(w);
}

static void heal(struct replica_world *w, const struct sim_event *ev)
{
    (void)ev;
    replica_net_heal(w);
}

static void another_fault(struct replica_world *w, const struct sim_event *ev)
{
    (void)ev;
    fault(w);
}

static void happen(struct replica_world *w, const struct sim_event *ev)
{
    static void (*const how[])(struct replica_world *, const struct sim_event *) = {
        [EV_MESSAGE] = message,
        [EV_TICK] = replica_member_event,
        [EV_DISK] = replica_member_event,
        [EV_CLIENT] = client,
        [EV_REQUEST] = request,
        [EV_ANSWER] = replica_client_answered,
        [EV_RESTART] = restart,
        [EV_CRASH] = crash,
        [EV_BACK] = back,
        [EV_BOX] = replica_box_event,
        [EV_FEEDBACK] = replica_box_event,
        [EV_BOX_BACK] = replica_box_event,
        [EV_AGGREGATOR_BACK] = aggregator_back,
        [EV_HEAL] = heal,
        [EV_FAULT] = another_fault,
    };
    how[ev->kind](w, ev);
}

static void count_installs(struct replica_world *w)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (replica_member_up(w, id)) {
            w->count.installs += bt_replica_counters(w->member[id].core)[BT_REPLICA_SNAPSHOTS_INSTALLED_TOTAL];
        }
    }
}

void replica_run(uint64_t seed, enum replica_mode mode, enum replica_protocol protocol, struct replica_result *out)
{
    struct replica_world *w = make(seed, mode, protocol, 0);
    struct sim_event ev;
    while (!w->done && w->breach == REPLICA_HELD && sim_agenda_take(&w->agenda, UINT64_MAX / 2, &ev)) {
        happen(w, &ev);
        if (++w->count.events > EVENTS) {
            replica_breach(w, REPLICA_NO_PROGRESS, "%d events, the last of kind %u of %u", EVENTS, ev.kind, ev.node);
        }
    }
    uint64_t lost = replica_check_lost(w);
    if (lost > 0) {
        replica_breach(w, REPLICA_HISTORY, "%llu writes are lost or twice in the committed order",
                       (unsigned long long)lost);
    }
    uint64_t again = replica_check_executed_twice(w);
    if (again > 0) {
        replica_breach(w, REPLICA_TWICE, "%llu writes were executed twice", (unsigned long long)again);
    }
    uint64_t executed = replica_check_dropped_executed(w);
    if (executed > 0) {
        replica_breach(w, REPLICA_DROPPED, "%llu requests were refused and are in the committed order",
                       (unsigned long long)executed);
    }
    count_installs(w);
    out->dropped_executed = executed;
    out->executed_twice = again;
    out->lost_replies_most = w->lost_replies_most;
    out->bound = w->rules.apart.bound;
    out->breach = w->breach;
    memcpy(out->says, w->says, sizeof out->says);
    out->count = w->count;
    memcpy(out->failover, w->failover, sizeof out->failover);
    out->failovers = w->failovers;
    out->members = w->rules.members;
    out->lost = lost;
    out->virtual_ns = w->agenda.now;
    out->ran = true;
    put_away(w);
}

bool replica_run_counts(enum replica_protocol protocol, uint32_t members, uint64_t ops, struct replica_tally *out)
{
    struct replica_world *w = make(members, REPLICA_COUNTS, protocol, members);
    struct sim_event ev;
    uint64_t first = 0;
    while (w->breach == REPLICA_HELD && w->count.acked < WARM + ops &&
           sim_agenda_take(&w->agenda, UINT64_MAX / 2, &ev)) {
        happen(w, &ev);
        if (first == 0 && w->count.acked == WARM) {
            first = w->term_most;
            uint64_t acked[REPLICA_MEMBERS];
            memcpy(acked, w->tally.acked, sizeof acked);
            w->tally = (struct replica_tally){0};
            memcpy(w->tally.acked, acked, sizeof acked);
        }
    }
    *out = w->tally;
    bool held = w->breach == REPLICA_HELD && first == w->term_most; /* one leader all the while */
    put_away(w);
    return held;
}
