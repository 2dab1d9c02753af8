// SPDX-License-Identifier: Apache-2.0
// See replica_net.h.
#include "replica_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static uint64_t delay(struct replica_world *w)
{
    const struct replica_rules *r = &w->rules;
    uint64_t d = r->delay_ns + bt_rng_next(&w->rng) % (r->spread_ns + 1);
    if (!w->calm && replica_chance(w, r->late)) {
        w->count.late++;
        d += bt_rng_next(&w->rng) % r->late_ns;
    }
    return d;
}

static struct replica_packet *packet(uint16_t from, const uint8_t *bytes, size_t n)
{
    struct replica_packet *p = malloc(sizeof *p + n);
    if (p == NULL) {
        abort();
    }
    p->from = from;
    p->n = (uint32_t)n;
    memcpy(p->bytes, bytes, n);
    return p;
}

static void deliver(struct replica_world *w, uint16_t to, struct replica_packet *p)
{
    w->count.messages++;
    sim_agenda_push(&w->agenda, w->agenda.now + delay(w), (struct sim_event){p, to, EV_MESSAGE, 0});
}

/* The same message as another group of the same name would send it, of a later term. */
static void foreign(struct replica_world *w, uint16_t to, const struct replica_packet *like)
{
    struct replica_packet *p = packet(like->from, like->bytes, like->n);
    bt_put64(p->bytes + 8, bt_get64(p->bytes + 8) + 1000);
    if (p->bytes[1] == BT_GROUP_VOTE) {
        bt_put64(p->bytes + BT_GROUP_HEADER + 4, bt_get64(p->bytes + BT_GROUP_HEADER + 4) + 1000);
    }
    p->bytes[16 + replica_draw(w, 0, 7)] ^= 0x40;
    w->count.foreign++;
    deliver(w, to, p);
}

/* Some words come again much later: a vote is asked for when whom it was given to may be forgotten; a success is told
 * when another leads, or the same one for the second time. */
static void repeat_later(struct replica_world *w, uint16_t to, const struct replica_packet *like)
{
    bool vote = like->bytes[1] == BT_GROUP_VOTE && (bt_get32(like->bytes + BT_GROUP_HEADER) & BT_GROUP_PRE) == 0;
    bool reply = like->bytes[1] == BT_GROUP_APPEND_REPLY || like->bytes[1] == BT_GROUP_SHARED_REPLY;
    bool success = reply && bt_get32(like->bytes + BT_GROUP_HEADER) == BT_GROUP_YES;
    double often = vote ? 2 * w->rules.after_a_vote : success ? w->rules.after_a_vote : 0;
    if (replica_chance(w, often)) {
        w->count.duplicated++;
        uint64_t later = w->agenda.now + delay(w);
        later += bt_rng_next(&w->rng) % ((vote ? 12 : 600) * SIM_MS);
        struct replica_packet *p = packet(like->from, like->bytes, like->n);
        sim_agenda_push(&w->agenda, later, (struct sim_event){p, to, EV_MESSAGE, 0});
    }
}

static void odd_ones(struct replica_world *w, uint16_t to, const struct replica_packet *like)
{
    if (replica_chance(w, 0.002)) {
        foreign(w, to, like);
    }
    if (replica_chance(w, 0.002)) {
        w->count.cut_short++;
        deliver(w, to, packet(like->from, like->bytes, replica_draw(w, 0, like->n - 1)));
    }
    repeat_later(w, to, like);
    if (replica_chance(w, w->rules.duplicate)) {
        w->count.duplicated++;
        deliver(w, to, packet(like->from, like->bytes, like->n));
    }
}

void replica_net_send(struct replica_world *w, uint16_t from, uint16_t to, const uint8_t *bytes, size_t n)
{
    from = from == BT_GROUP_AGGREGATOR ? 0 : from;
    to = to == BT_GROUP_AGGREGATOR ? 0 : to;
    if (to >= REPLICA_MEMBERS || w->cut[from][to]) {
        return;
    }
    if (!w->calm && replica_chance(w, w->rules.loss)) {
        w->count.lost++;
        return;
    }
    struct replica_packet *p = packet(from, bytes, n);
    if (!w->calm && (w->mode < REPLICA_KILLS || w->mode >= REPLICA_SESSIONS)) {
        odd_ones(w, to, p);
    }
    deliver(w, to, p);
}

uint64_t replica_net_client(struct replica_world *w)
{
    return !w->calm && replica_chance(w, w->rules.loss) ? 0 : delay(w);
}

void replica_net_heal(struct replica_world *w)
{
    memset(w->cut, 0, sizeof w->cut);
}
