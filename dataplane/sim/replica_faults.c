// SPDX-License-Identifier: Apache-2.0
// See replica_faults.h.
#include "replica_faults.h"

#include <stddef.h>

#include "replica_aggregator.h"
#include "replica_apart.h"
#include "replica_check.h"
#include "replica_lacking.h"
#include "replica_diverge.h"
#include "replica_member.h"
#include "replica_net.h"

enum { KILLS = 20 };

static void push(struct replica_world *w, uint64_t ns, enum replica_event kind, uint32_t node)
{
    sim_agenda_push(&w->agenda, w->agenda.now + ns, (struct sim_event){NULL, node, (uint16_t)kind, 0});
}

static uint16_t some_member(struct replica_world *w)
{
    for (int tries = 0; tries < 40; tries++) {
        uint16_t id = (uint16_t)replica_draw(w, 1, REPLICA_MEMBERS - 1);
        if (w->member[id].exists && replica_member_up(w, id)) {
            return id;
        }
    }
    return 0;
}

static void crash(struct replica_world *w, uint16_t id)
{
    if (id == 0 || !replica_member_up(w, id)) {
        return;
    }
    replica_member_crash(w, id);
    push(w, replica_draw(w, 1, 300) * SIM_MS, EV_RESTART, id);
}

void replica_blink(struct replica_world *w, uint16_t id)
{
    if (replica_member_up(w, id) && (!w->calm || bt_replica_status(w->member[id].core).failed)) {
        replica_member_crash(w, id);
        push(w, bt_rng_next(&w->rng) % (3 * SIM_MS), EV_RESTART, id);
    }
}

void replica_restart(struct replica_world *w, uint16_t id)
{
    if (!replica_member_up(w, id) && !w->member[id].gone) {
        w->count.restarts++;
        replica_member_start(w, id);
    }
}

/* --- cuts --- */

static void cut_between(struct replica_world *w, uint32_t side, bool both)
{
    uint32_t first = replica_is_shared(w) ? 0 : 1; /* the aggregator stands on one of the sides */
    for (uint32_t a = first; a < REPLICA_MEMBERS; a++) {
        for (uint32_t b = first; b < REPLICA_MEMBERS; b++) {
            if ((side >> a & 1) != 0 && (side >> b & 1) == 0) {
                w->cut[a][b] = true;
                w->cut[b][a] = w->cut[b][a] || both;
            }
        }
    }
    push(w, replica_draw(w, 20, 400) * SIM_MS, EV_HEAL, 0);
}

static void partition(struct replica_world *w)
{
    bool both = replica_chance(w, 0.6);
    w->count.cuts++;
    w->count.one_way += !both;
    cut_between(w, (uint32_t)bt_rng_next(&w->rng), both);
}

static void isolate_leader(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    uint64_t kind = replica_draw(w, 0, 2); /* both ways, nothing out, nothing in */
    uint32_t side = kind == 2 ? ~(UINT32_C(1) << leader) : UINT32_C(1) << leader;
    if (leader != 0) {
        w->count.isolations++;
        cut_between(w, side, kind == 0);
    }
}

void replica_back(struct replica_world *w, uint16_t id)
{
    uint16_t leader = replica_leader(w);
    if (leader != 0 && leader != id) {
        w->count.transfers += replica_member_transfer(w, leader, id) == BT_REPLICA_OK;
    }
}

/* A leader with too few beside it takes writes that will be taken back. */
static void minority_with_a_tail(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (leader == 0) {
        return;
    }
    struct bt_group_config c = *bt_replica_status(w->member[leader].core).config;
    uint32_t side = UINT32_C(1) << leader, most = c.count / 2U;
    for (int i = 0; i < c.count && most > 1; i++) {
        if (c.member[i].id != leader && replica_chance(w, 0.5)) {
            side |= UINT32_C(1) << c.member[i].id;
            most--;
        }
    }
    w->count.tails++;
    for (int i = 0; i < 3; i++) {
        push(w, replica_draw(w, 60, 500) * SIM_MS, EV_BACK, leader);
    }
    cut_between(w, side, true);
    uint64_t tail = replica_chance(w, 0.5) ? replica_draw(w, 5, 40) : replica_draw(w, 60, 250);
    for (uint64_t n = tail; n > 0; n--) {
        uint64_t op = UINT64_C(99) << 40 | ++w->tail_seq;
        sim_agenda_push(&w->agenda, w->agenda.now + bt_rng_next(&w->rng) % (40 * SIM_MS),
                        (struct sim_event){(void *)(uintptr_t)op, REPLICA_CLIENTS, EV_REQUEST, leader});
    }
}

static void pause_one(struct replica_world *w)
{
    uint16_t id = some_member(w);
    if (id != 0) {
        w->count.pauses++;
        w->member[id].paused_until = w->agenda.now + replica_draw(w, 1, 200) * SIM_MS;
    }
}

/* --- what an administrator does --- */

static void transfer(struct replica_world *w)
{
    uint16_t leader = replica_leader(w), to = some_member(w);
    if (leader != 0 && to != 0 && replica_member_transfer(w, leader, to) == BT_REPLICA_OK) {
        w->count.transfers++;
    }
}

static uint16_t with_role(struct replica_world *w, const struct bt_group_config *c, uint8_t role, uint32_t *n)
{
    uint16_t found = 0;
    *n = 0;
    for (int i = 0; i < c->count; i++) {
        if (c->member[i].role == role) {
            ++*n;
            if (replica_draw(w, 1, *n) == 1) {
                found = c->member[i].id;
            }
        }
    }
    return found;
}

static bool is_in(const struct bt_group_config *c, uint16_t id)
{
    for (int i = 0; i < c->count; i++) {
        if (c->member[i].id == id) {
            return true;
        }
    }
    return false;
}

/* One that was started for nothing, because its leader could not take it then, or a new one. */
static uint16_t new_member(struct replica_world *w, const struct bt_group_config *c)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (replica_member_up(w, id) && !is_in(c, id) && bt_replica_status(w->member[id].core).last == 0) {
            return id;
        }
        if (!w->member[id].exists) {
            replica_member_make(w, id, &(struct bt_group_config){.count = 0});
            replica_member_start(w, id);
            return id;
        }
    }
    return 0;
}

bool replica_change_something(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (leader == 0) {
        return false;
    }
    struct bt_group_config c = *bt_replica_status(w->member[leader].core).config;
    uint32_t voters, learners;
    uint16_t voter = with_role(w, &c, BT_GROUP_VOTER, &voters);
    uint16_t learner = with_role(w, &c, BT_GROUP_LEARNER, &learners);
    enum bt_replica_result r = BT_REPLICA_NO_MEMBER;
    if (learners > 0 && replica_chance(w, 0.8)) {
        r = replica_member_change(w, leader, BT_REPLICA_PROMOTE, learner);
    } else if (voters > (replica_diverges(w) || replica_lacks(w) ? 3 : 2) && /* of two nobody says who differs */
               replica_chance(w, voters > 3 ? 0.6 : 0.2)) {
        r = replica_member_change(w, leader, BT_REPLICA_REMOVE, voter);
    } else if (learners < 2 && voters < 9) {
        uint16_t id = new_member(w, &c);
        r = id != 0 ? replica_member_change(w, leader, BT_REPLICA_ADD_LEARNER, id) : r;
    }
    w->count.changes += r == BT_REPLICA_OK;
    return r == BT_REPLICA_OK;
}

/* --- the modes --- */

/* f + 1 voters go and do not come back. */
static void beyond(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (leader == 0) {
        return;
    }
    struct bt_group_config c = *bt_replica_status(w->member[leader].core).config;
    uint32_t voters, least;
    with_role(w, &c, BT_GROUP_VOTER, &voters);
    least = voters - voters / 2;
    for (int i = 0; i < c.count && least > 0; i++) {
        uint16_t id = c.member[i].id;
        if (c.member[i].role == BT_GROUP_VOTER) {
            w->member[id].gone = true;
            least--;
            if (replica_member_up(w, id)) {
                replica_member_crash(w, id);
            }
        }
    }
}

static void kill_leader(struct replica_world *w)
{
    uint16_t leader = replica_leader(w);
    if (w->killed_at == 0 && leader != 0) {
        if (w->failovers == KILLS) {
            w->done = true;
            return;
        }
        w->killed_at = w->agenda.now;
        w->count.leader_kills++;
        crash(w, leader);
    }
    push(w, replica_draw(w, 500, 900) * SIM_MS, EV_FAULT, 0);
}

static void crash_one(struct replica_world *w)
{
    crash(w, some_member(w));
}

static void crash_leader(struct replica_world *w)
{
    crash(w, replica_leader(w));
}

static void change(struct replica_world *w)
{
    replica_change_something(w);
}

/* Some members do not reach the aggregator, or are not reached by it; the others do. */
static void cut_aggregator(struct replica_world *w)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        w->cut[0][id] = w->cut[0][id] || replica_chance(w, 0.4);
        w->cut[id][0] = w->cut[id][0] || replica_chance(w, 0.4);
    }
    w->count.cuts++;
    push(w, replica_draw(w, 20, 400) * SIM_MS, EV_HEAL, 0);
}

/* Power fails for all at once. */
static void crash_all(struct replica_world *w)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        crash(w, w->member[id].exists ? id : 0);
    }
}

/* The last three are of groups with an aggregator only, the one before of groups with a flow-control box. */
static const struct {
    void (*fn)(struct replica_world *);
    uint32_t weight;
} kinds[] = {{crash_one, 20},
             {crash_leader, 15},
             {partition, 15},
             {isolate_leader, 12},
             {pause_one, 10},
             {minority_with_a_tail, 12},
             {transfer, 12},
             {change, 25},
             {crash_all, 3},
             {replica_box_crash, 8},
             {replica_aggregator_crash, 10},
             {replica_aggregator_forget, 10},
             {cut_aggregator, 10}};

static void draw_fault(struct replica_world *w)
{
    uint32_t sum = 0;
    size_t n = sizeof kinds / sizeof kinds[0] - !replica_is_apart(w) - (replica_is_shared(w) ? 0 : 3);
    for (size_t i = 0; i < n; i++) {
        sum += kinds[i].weight;
    }
    uint32_t drawn = bt_rng_below(&w->rng, sum);
    for (size_t i = 0; i < n; i++) {
        if (drawn < kinds[i].weight) {
            kinds[i].fn(w);
            return;
        }
        drawn -= kinds[i].weight;
    }
}

void replica_fault(struct replica_world *w)
{
    if (w->mode == REPLICA_KILLS) {
        kill_leader(w);
        return;
    }
    if (w->mode == REPLICA_BEYOND && w->agenda.now > w->faults_end / 2) {
        beyond(w);
    }
    draw_fault(w);
    push(w, replica_draw(w, 5, 90) * SIM_MS, EV_FAULT, 0);
}

void replica_faults_over(struct replica_world *w)
{
    w->calm = true;
    replica_net_heal(w);
    if (replica_is_apart(w)) {
        replica_box_start(w);
    }
    if (replica_is_shared(w)) {
        replica_aggregator_start(w);
    }
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        struct replica_member *m = &w->member[id];
        m->paused_until = 0;
        if (m->exists) {
            replica_disk_mend(m->disk);
            if (m->core != NULL && bt_replica_status(m->core).failed) {
                replica_member_crash(w, id);
            }
            replica_restart(w, id);
        }
    }
}
