// SPDX-License-Identifier: Apache-2.0
// See replica_aggregator.h.
#include "replica_aggregator.h"

#include <stdlib.h>

#include "replica_check_majority.h"
#include "replica_member.h"
#include "replica_net.h"

enum { DOWN_MS = 150 };

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct replica_world *w = ctx;
    static struct bt_group_message m;
    struct bt_group_fault f = bt_group_decode(message, n, &m);
    if (f.error != BT_GROUP_OK) {
        replica_breach(w, REPLICA_STORE_MISUSE, "the aggregator sends a malformed message: %s at byte %u",
                       bt_group_error_name(f.error), f.at);
        return;
    }
    if (m.header.type == BT_GROUP_COMMITTED) {
        w->count.announced++;
        replica_check_announced(w, m.header.term, &m.committed);
    }
    replica_net_send(w, BT_GROUP_AGGREGATOR, to, message, n);
}

void replica_aggregator_start(struct replica_world *w)
{
    static const struct bt_aggregator_ops ops = {.send = on_send};
    struct replica_aggregator *a = &w->aggregator;
    if (a->up) {
        return;
    }
    struct bt_aggregator_config c = {.cluster = REPLICA_CLUSTER, .group = REPLICA_GROUP, .as_switch = a->as_switch};
    bt_aggregator_start(&a->a, &c, &ops, w);
    a->up = true;
    a->seen_term = a->seen_commit = 0;
}

void replica_aggregator_crash(struct replica_world *w)
{
    if (!w->aggregator.up) {
        return;
    }
    w->aggregator.up = false;
    w->count.aggregators++;
    uint64_t ns = replica_chance(w, 0.3) ? 1 : replica_draw(w, 1, DOWN_MS) * SIM_MS;
    sim_agenda_push(&w->agenda, w->agenda.now + ns, (struct sim_event){NULL, 0, EV_AGGREGATOR_BACK, 0});
}

void replica_aggregator_forget(struct replica_world *w)
{
    if (w->aggregator.up) {
        w->count.aggregators++;
        w->aggregator.seen_term = 0;
        bt_aggregator_flush(&w->aggregator.a);
    }
}

void replica_aggregator_event(struct replica_world *w, const struct sim_event *ev)
{
    struct replica_packet *p = ev->ptr;
    if (w->aggregator.up) {
        bt_aggregator_receive(&w->aggregator.a, p->bytes, p->n);
    }
    free(p);
}
