// SPDX-License-Identifier: Apache-2.0
// Requests of several packets: REQRDY, reassembly, repair, collection, and the
// holding list for packets that overtook their F packet.
#include <string.h>

#include "rpc/server_internal.h"

static void send_reqrdy(struct bt_server *s, const struct bt_pair *p, struct bt_txq *txq)
{
    struct bt_r2p2_hdr h = {.type = BT_REQRDY, .policy = BT_POLICY_STICKY, .first = true, .last = true, .ext = p->ext};
    h.req_id = p->req_id;
    h.count_or_index = 1;
    bool sent = bt_port_send(&s->port, &p->client, &h, "ACK", 3, txq);
    s->counters[sent ? BT_SERVER_REQRDY_SENT : BT_SERVER_NO_BUFFER]++;
    s->counters[BT_SERVER_PACKETS_SENT] += sent;
}

// Wakes for what comes first: its credit is to go back, or something is to be done about what is missing.
static void watch(struct bt_server *s, struct bt_pair *p)
{
    uint64_t at = bt_assembly_deadline(p->in, &s->cfg.timers, p->ext);
    bt_wheel_add(&s->wheel, &p->timer, p->hold_until_ns && p->hold_until_ns < at ? p->hold_until_ns : at);
}

static void complete(struct bt_server *s, struct bt_pair *p)
{
    bt_wheel_del(&s->wheel, &p->timer);
    bt_server_release(s, p, true);
    bt_assembly_take(p->in, &p->msg);
    bt_assembly_put(&s->assemblies, p->in, s->port.pool);
    p->in = NULL;
    bt_server_hand_over(s, p);
}

// Adds one packet; true when the message is complete and was handed over.
static enum bt_mcase add_part(struct bt_server *s, struct bt_pair *p, struct bt_arrival *a)
{
    enum bt_mcase why = BT_M_OK;
    switch (bt_assembly_add(p->in, a->pkt, &a->h, s->now, (struct bt_assembly_owner){&s->port, s->counters}, &why)) {
    case BT_ASSEMBLY_REJECTED:
        return why;
    case BT_ASSEMBLY_DUPLICATE:
        s->counters[BT_SERVER_DUPLICATE]++;
        return BT_M_OK;
    case BT_ASSEMBLY_COMPLETE:
        a->kept = true;
        complete(s, p);
        return BT_M_OK;
    case BT_ASSEMBLY_ADDED:
        break;
    }
    a->kept = true;
    if (!a->h.first) {
        bt_server_hold_part(s, p);
    }
    watch(s, p);
    return BT_M_OK;
}

static bool held_by(const struct bt_pkt *pkt, const struct bt_addr *client, uint16_t req_id)
{
    return pkt->index == req_id && bt_addr_eq(&pkt->src, client);
}

// Feeds the packets that came before this pair's F packet.
static void release_held(struct bt_server *s, struct bt_pair *p, struct bt_txq *txq)
{
    uint32_t generation = p->generation;
    struct bt_pkt *prev = NULL;
    for (struct bt_pkt *pkt = s->held_head, *next; pkt; pkt = next) {
        next = pkt->next;
        if (!held_by(pkt, &p->client, p->req_id)) {
            prev = pkt;
            continue;
        }
        *(prev ? &prev->next : &s->held_head) = next;
        if (!next) {
            s->held_tail = prev;
        }
        s->held--;
        pkt->next = NULL;
        struct bt_arrival a = {
            .pkt = pkt, .txq = txq, .client = p->client, .router = BT_NO_ROUTER, .flow = BT_FLOW_NONE};
        enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &a.h);
        bool open = p->generation == generation && p->state == BT_PAIR_RECEIVING;
        if (!m) {
            m = open ? add_part(s, p, &a) : BT_M15;
        }
        s->counters[m]++;
        if (!a.kept) {
            bt_pool_put(s->port.pool, pkt);
        }
    }
}

enum bt_mcase bt_server_open_message(struct bt_server *s, struct bt_arrival *a)
{
    if ((!s->free || !s->assemblies.free) && !bt_server_displace(s, a->router)) {
        bt_server_refuse(s, a, BT_SERVER_DROP_TABLE);
        return BT_M24;
    }
    struct bt_assembly *in = bt_assembly_get(&s->assemblies, s->now); // who made room had both
    struct bt_pair *p = bt_server_new_pair(s, a);
    p->in = in;
    p->state = BT_PAIR_RECEIVING;
    bt_server_received(s, a->router);
    s->counters[BT_SERVER_REQUESTS]++;
    add_part(s, p, a); // cannot be rejected: first packet, count checked
    send_reqrdy(s, p, a->txq);
    bt_server_hold(s, p);
    watch(s, p);
    release_held(s, p, a->txq);
    return BT_M_OK;
}

static enum bt_mcase hold(struct bt_server *s, struct bt_arrival *a)
{
    if (s->held >= s->cfg.max_held) {
        return BT_M16;
    }
    a->kept = true;
    a->pkt->index = a->h.req_id;
    a->pkt->t_rx_ns = s->now;
    a->pkt->next = NULL;
    *(s->held_tail ? &s->held_tail->next : &s->held_head) = a->pkt;
    s->held_tail = a->pkt;
    s->held++;
    s->counters[BT_SERVER_HELD]++;
    s->counters[BT_M_OK]--; // what bt_server_rx adds: it is counted when it is known what became of it
    return BT_M_OK;
}

enum bt_mcase bt_server_message_part(struct bt_server *s, struct bt_arrival *a)
{
    uint32_t known = bt_pairs_find(&s->pairs, &a->client, a->h.req_id);
    if (known == BT_PAIRS_NONE) {
        bt_server_expire_held(s);
        return hold(s, a);
    }
    if (known & BT_PAIR_DONE) {
        return BT_M15;
    }
    struct bt_pair *p = &s->pair[known];
    return p->state == BT_PAIR_RECEIVING ? add_part(s, p, a) : BT_M15;
}

void bt_server_expire_held(struct bt_server *s)
{
    while (s->held_head && s->held_head->t_rx_ns + s->cfg.timers.rto_ns <= s->now) {
        struct bt_pkt *pkt = s->held_head;
        s->held_head = pkt->next;
        if (!s->held_head) {
            s->held_tail = NULL;
        }
        s->held--;
        s->counters[BT_M15]++; // its pair never came
        pkt->next = NULL;
        bt_pool_put(s->port.pool, pkt);
    }
}

static void send_sack(struct bt_server *s, const struct bt_pair *p)
{
    uint8_t buf[BT_SACK_SIZE_MAX];
    struct bt_r2p2_hdr h = {.type = BT_SACK, .first = true, .last = true, .ext = true, .req_id = p->req_id};
    h.count_or_index = 1;
    size_t n = bt_assembly_sack(p->in, BT_SACK_REQUEST, buf);
    bool sent = bt_port_send(&s->port, &p->client, &h, buf, (uint32_t)n, s->txq);
    s->counters[sent ? BT_SERVER_SACK_SENT : BT_SERVER_NO_BUFFER]++;
    s->counters[BT_SERVER_PACKETS_SENT] += sent;
}

void bt_server_repair(struct bt_server *s, struct bt_pair *p)
{
    bt_server_hold_due(s, p);
    switch (bt_assembly_due(p->in, &s->cfg.timers, s->now, p->ext)) {
    case BT_REPAIR_SACK:
        send_sack(s, p);
        break;
    case BT_REPAIR_WAIT:
        break;
    case BT_REPAIR_FAIL: // the router learns it
        s->counters[BT_SERVER_COLLECTED]++;
        bt_server_release(s, p, false);
        bt_server_end(s, p, BT_FEEDBACK_DROPPED, s->txq);
        bt_server_free_pair(s, p);
        return;
    }
    watch(s, p);
}
