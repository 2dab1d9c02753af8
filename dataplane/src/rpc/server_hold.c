// SPDX-License-Identifier: Apache-2.0
// A request that is not whole needs memory, not the worker: it holds its router's credit for a short time, in which
// honest ones become whole, and is kept without it. When its rest comes it runs all the same.
#include "rpc/server_internal.h"

void bt_pair_list_add(struct bt_pair_list *l, struct bt_pair *p)
{
    p->kept_prev = l->tail;
    *(l->tail ? &l->tail->kept_next : &l->head) = p;
    l->tail = p;
}

void bt_pair_list_remove(struct bt_pair_list *l, struct bt_pair *p)
{
    *(p->kept_prev ? &p->kept_prev->kept_next : &l->head) = p->kept_next;
    *(p->kept_next ? &p->kept_next->kept_prev : &l->tail) = p->kept_prev;
    p->kept_prev = p->kept_next = NULL;
}

// Its client's address, whatever the port.
static uint32_t source_of(const struct bt_server *s, const struct bt_pair *p)
{
    struct bt_addr host = p->client;
    host.port = 0;
    return bt_pairs_hash(s->pairs.seed, &host, 0);
}

static void give_back(struct bt_server *s, struct bt_pair *p)
{
    p->hold_until_ns = 0;
    p->begun = p->in->have > 1;
    bt_pair_list_add(&s->loose[p->begun], p);
    if (p->router == BT_NO_ROUTER) {
        return; // it came without one
    }
    p->paid = true;
    s->counters[BT_SERVER_CREDITS_EARLY]++;
    bt_server_pay_early(s, p, s->txq);
}

// Behind a burst of its packets comes a gap. Divides, once for a message of many packets: the proof of the hot
// path knows it by its name.
__attribute__((noinline)) static uint64_t patience_for(const struct bt_server *s, const struct bt_pair *p)
{
    const struct bt_rpc_timers *t = &s->cfg.timers;
    return t->patience_ns * (1 + p->packets / t->burst);
}

// All but one of the credits may be held so, the only one where there is one.
void bt_server_hold(struct bt_server *s, struct bt_pair *p)
{
    uint32_t most = s->cfg.n > 1 ? s->cfg.n - 1u : 1;
    if (p->router == BT_NO_ROUTER || s->holding >= most || !bt_patience_allows(&s->patience, source_of(s, p), s->now)) {
        give_back(s, p);
        return;
    }
    s->holding++;
    p->hold_until_ns = s->now + patience_for(s, p);
}

static void in_vain(struct bt_server *s, struct bt_pair *p)
{
    uint64_t whole = patience_for(s, p), left = p->hold_until_ns > s->now ? p->hold_until_ns - s->now : 0;
    s->holding--;
    bt_patience_in_vain(&s->patience, source_of(s, p), s->now, left < whole ? whole - left : 0);
}

void bt_server_hold_due(struct bt_server *s, struct bt_pair *p)
{
    if (p->hold_until_ns != 0 && p->hold_until_ns <= s->now) {
        in_vain(s, p);
        give_back(s, p);
    }
}

// One more of its packets is here, and it waits for more.
void bt_server_hold_part(struct bt_server *s, struct bt_pair *p)
{
    if (p->hold_until_ns == 0 && !p->begun) {
        bt_pair_list_remove(&s->loose[0], p);
        p->begun = true;
        bt_pair_list_add(&s->loose[1], p);
    }
}

// It leaves the table: whole, or given up.
void bt_server_release(struct bt_server *s, struct bt_pair *p, bool whole)
{
    if (whole) {
        bt_patience_whole(&s->patience, source_of(s, p));
    }
    if (p->hold_until_ns == 0) {
        bt_pair_list_remove(&s->loose[p->begun], p);
        s->beyond += whole && p->paid;
    } else if (whole) {
        s->holding--;
    } else {
        in_vain(s, p);
    }
    p->hold_until_ns = 0;
}

// Room for another request, which came through `router`, at the cost of the one that has been without a credit for
// longest, first of those of which nothing came but the beginning; it has not run, and its client is told.
// False: there is none.
bool bt_server_displace(struct bt_server *s, uint8_t router)
{
    struct bt_pair *p = s->loose[0].head ? s->loose[0].head : s->loose[1].head;
    if (p == NULL) {
        return false;
    }
    bt_server_heard(s, router); // what is told of this counts it
    s->counters[BT_SERVER_DISPLACED]++;
    bt_server_release(s, p, false);
    bt_server_send_drop(s, p, NULL, s->txq);
    bt_server_end(s, p, BT_FEEDBACK_DROPPED, s->txq);
    bt_server_free_pair(s, p);
    return true;
}
