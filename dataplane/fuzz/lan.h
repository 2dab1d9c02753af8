// SPDX-License-Identifier: Apache-2.0
// A network the fuzzer controls: packets wait in it as bytes until the input says which one arrives, arrives twice,
// is lost or changed. Every packet given in is accounted for (sent = arrived + lost + waiting − copies).
#ifndef BT_FUZZ_LAN_H
#define BT_FUZZ_LAN_H

#include "mutate.h"

enum { LAN_WAITING = 64, LAN_BYTES = 1600 };

struct lan_packet {
    struct bt_addr src, dst;
    uint32_t len;
    uint8_t touched; // a mutation changed it
    uint8_t bytes[LAN_BYTES];
};

struct lan {
    struct lan_packet packet[LAN_WAITING];
    uint16_t order[LAN_WAITING]; // slots, oldest first; the rest are free
    uint32_t waiting;
    uint64_t sent, arrived, copied, lost;
};

static inline void lan_open(struct lan *l)
{
    l->waiting = 0;
    l->sent = l->arrived = l->copied = l->lost = 0;
    for (uint16_t i = 0; i < LAN_WAITING; i++) {
        l->order[i] = i;
    }
}

// Takes all of a transmit queue; what finds no room is lost.
static inline void lan_send(struct lan *l, struct bt_txq *q, struct bt_pool *pool)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        l->sent++;
        if (l->waiting == LAN_WAITING || p->len > LAN_BYTES) {
            l->lost++;
        } else {
            struct lan_packet *to = &l->packet[l->order[l->waiting++]];
            to->src = p->src;
            to->dst = p->dst;
            to->len = p->len;
            to->touched = 0;
            memcpy(to->bytes, p->data, p->len);
        }
        bt_pool_put(pool, p);
    }
}

static inline struct lan_packet *lan_at(struct lan *l, uint32_t i)
{
    return &l->packet[l->order[i]];
}

// Forgets the i-th waiting packet.
static inline void lan_remove(struct lan *l, uint32_t i)
{
    uint16_t slot = l->order[i];
    memmove(&l->order[i], &l->order[i + 1], (l->waiting - i - 1) * sizeof l->order[0]);
    l->order[--l->waiting] = slot;
}

static inline void lan_check(const struct lan *l)
{
    CHECK(l->sent + l->copied == l->arrived + l->lost + l->waiting);
}

#endif
