// SPDX-License-Identifier: Apache-2.0
// See flow.h.
#include "run/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/pairs.h"
#include "wire/fc_signal.h"

#define OTHERS  0u // stands for all clients that take no part
#define CROWD   1u // and for those of which nothing can be kept
#define FIRST   2u
#define LOOK_AT 16u // clients, to find one that is idle

const struct bt_counter_desc bt_flow_counter_desc[BT_FLOW_COUNTERS] = {
    [BT_FLOW_THROTTLED_SIGNALS] = {"server_flow_silences_total", NULL, NULL},
    [BT_FLOW_CLOCK_BACK] = {"server_flow_ignored_total", "reason", "clock_back"},
    [BT_FLOW_UNMEASURED] = {"server_flow_ignored_total", "reason", "no_end"},
    [BT_FLOW_DISPERSED] = {"server_flow_dispersed_decisions_total", NULL, NULL},
    [BT_FLOW_CROWDED] = {"server_flow_crowded_total", NULL, NULL},
};

struct client {
    struct bt_fc_conn conn;
    struct bt_addr addr;
    bool used;
};

struct bt_flow {
    struct bt_fc_receiver lane;
    bool on;
    struct bt_pairs known;
    void *known_mem;
    uint32_t hand, count; // where the next look for an idle client begins; clients known
    uint64_t crowded;
    struct client client[FIRST + BT_FLOW_CLIENTS];
};

struct bt_flow *bt_flow_new(const uint64_t seed[2])
{
    struct bt_flow *f = calloc(1, sizeof *f);
    void *mem = f != NULL ? calloc(1, bt_pairs_bytes(BT_FLOW_CLIENTS)) : NULL;
    if (mem == NULL) {
        free(f);
        return NULL;
    }
    f->known_mem = mem;
    bt_pairs_init(&f->known, mem, BT_FLOW_CLIENTS, seed);
    f->hand = FIRST;
    return f;
}

void bt_flow_free(struct bt_flow *f)
{
    if (f != NULL) {
        free(f->known_mem);
        free(f);
    }
}

bool bt_flow_on(const struct bt_flow *f)
{
    return f->on;
}

void bt_flow_set(struct bt_flow *f, const struct bt_fc_objective *objective, uint64_t now)
{
    if (objective == NULL) {
        f->on = false;
    } else if (!f->on) { // who left while it was off was not counted out
        struct bt_fc_counts counts = f->lane.counts;
        bt_fc_receiver_init(&f->lane, objective, now);
        f->lane.counts = counts;
        for (uint32_t i = 0; i < FIRST + BT_FLOW_CLIENTS; i++) {
            f->client[i].conn = (struct bt_fc_conn){0};
        }
        f->on = true;
    } else if (memcmp(&f->lane.objective, objective, sizeof *objective) != 0) {
        f->lane.objective = *objective;
        f->lane.solved_mean = f->lane.solved_cv2 = 0; // solve again
    }
}

/* A place for a client: an empty one, else that of one who is idle. 0: there is none. */
static uint32_t place(struct bt_flow *f)
{
    for (uint32_t i = 0; i < LOOK_AT; i++) {
        uint32_t at = f->hand;
        struct client *c = &f->client[at];
        f->hand = at + 1 < FIRST + BT_FLOW_CLIENTS ? at + 1 : FIRST;
        if (!c->used) {
            f->count++;
            return at;
        }
        if (c->conn.pending == 0 && !bt_fc_active(&f->lane, &c->conn)) {
            bt_fc_gone(&f->lane, &c->conn);
            bt_pairs_del(&f->known, &c->addr, 0);
            return at;
        }
    }
    return 0;
}

static uint32_t number_of(struct bt_flow *f, const struct bt_addr *addr)
{
    uint32_t hash = bt_pairs_hash(f->known.seed, addr, 0), at = bt_pairs_look(&f->known, hash, addr, 0);
    if (at != BT_PAIRS_NONE) {
        return at;
    }
    at = place(f);
    if (at == 0) {
        return CROWD;
    }
    f->client[at] = (struct client){.addr = *addr, .used = true};
    bt_pairs_add(&f->known, hash, addr, 0, at);
    return at;
}

static uint32_t arrived(void *arg, const struct bt_addr *addr, struct bt_server_came came, uint64_t now)
{
    struct bt_flow *f = arg;
    if (!f->on) {
        return BT_FLOW_NONE;
    }
    bt_fc_look(&f->lane, now);
    uint32_t at = came.asked ? number_of(f, addr) : OTHERS;
    if (at < FIRST) {
        f->crowded += at == CROWD;
        bt_fc_passed(&f->lane, &f->client[at].conn, now);
        return at;
    }
    f->client[at].conn.elsewhere = came.routed;
    return bt_fc_arrived(&f->lane, &f->client[at].conn, now) ? at : at | BT_FLOW_REFUSED;
}

static void left(void *arg, uint32_t number, const struct bt_server_took *took)
{
    struct bt_flow *f = arg;
    struct bt_fc_conn *c = &f->client[number].conn;
    if (took == NULL || !f->on) {
        bt_fc_dropped(&f->lane, c);
    } else {
        bt_fc_served(&f->lane, c, took->began_ns, took->ended_ns);
    }
}

static uint16_t told(void *arg, uint32_t number, uint64_t now)
{
    struct bt_flow *f = arg;
    if (!f->on) {
        return 0;
    }
    if (number == CROWD && f->lane.throttling) {
        return bt_fc_write_idle(BT_FC_VALUE_MAX); // so many are active that each has to wait for longest
    }
    return number == BT_FLOW_NONE || number < FIRST ? bt_fc_advertise_any(&f->lane, now)
                                                    : bt_fc_advertise(&f->lane, &f->client[number].conn, now);
}

struct bt_server_flow bt_flow_hooks(struct bt_flow *f)
{
    return (struct bt_server_flow){.arrived = arrived, .left = left, .signal = told, .arg = f};
}

void bt_flow_read(const struct bt_flow *f, uint64_t now, struct bt_flow_figures *out)
{
    const struct bt_fc_receiver *r = &f->lane;
    *out = (struct bt_flow_figures){.on = f->on, .refused = r->counts.refused};
    out->counters[BT_FLOW_THROTTLED_SIGNALS] = r->counts.throttled;
    out->counters[BT_FLOW_CLOCK_BACK] = r->counts.clock_back;
    out->counters[BT_FLOW_UNMEASURED] = r->counts.unmeasured;
    out->counters[BT_FLOW_DISPERSED] = r->counts.dispersed;
    out->counters[BT_FLOW_CROWDED] = f->crowded;
    if (!f->on) {
        return;
    }
    out->throttling = r->throttling;
    out->load = bt_fc_offered(r, now);
    out->admitted = r->load;
    out->service_ns = r->mean_ns;
    out->cv2 = bt_fc_cv2(r);
    out->alarm = r->samples >= BT_FC_SAMPLES && out->cv2 > BT_FC_CV2_MAX;
    out->clients = f->count;
}

/* Whether one is closer to its limit than another. Who has not seen enough to have a limit says least. */
static bool says_more(const struct bt_flow_figures *one, const struct bt_flow_figures *than)
{
    if (!than->on || than->admitted == 0) {
        return !than->on || one->admitted > 0;
    }
    return one->admitted > 0 && one->load * than->admitted > than->load * one->admitted;
}

void bt_flow_add(struct bt_flow_figures *sum, const struct bt_flow_figures *one)
{
    for (unsigned i = 0; i < BT_FLOW_COUNTERS; i++) {
        sum->counters[i] += one->counters[i];
    }
    sum->refused += one->refused;
    sum->clients += one->clients;
    sum->throttling |= one->throttling;
    sum->alarm |= one->alarm;
    if (one->on && says_more(one, sum)) {
        sum->on = true;
        sum->load = one->load;
        sum->admitted = one->admitted;
        sum->service_ns = one->service_ns;
        sum->cv2 = one->cv2;
    }
}
