// SPDX-License-Identifier: Apache-2.0
// See train.h.
#include "rpc/train.h"

#include <string.h>

#define SACKS_PER_1024 8u // bounds what a forged or looping SACK can make us send

void bt_train_pool_init(struct bt_train_pool *tp, struct bt_mem *mem, uint32_t n, uint32_t max_packets)
{
    tp->words = (max_packets + 63) / 64;
    tp->free = NULL;
    tp->left = n;
    struct bt_train *all = bt_mem_take(mem, (size_t)n * sizeof *all);
    uint64_t *bits = bt_mem_take(mem, (size_t)n * tp->words * sizeof *bits);
    if (!all || !bits) {
        return;
    }
    for (uint32_t i = n; i-- > 0;) {
        all[i].bits = bits + (size_t)i * tp->words;
        all[i].next_free = tp->free;
        tp->free = &all[i];
    }
}

static void mark_todo(struct bt_train *t, uint32_t i)
{
    uint64_t bit = 1ull << (i & 63);
    t->todo += !(t->bits[i >> 6] & bit);
    t->bits[i >> 6] |= bit;
}

struct bt_train *bt_train_get(struct bt_train_pool *tp, struct bt_pool *pool, struct bt_iov_cursor *iov, uint32_t len,
                              const struct bt_split *split, uint32_t from_index)
{
    struct bt_train *t = tp->free;
    if (!t) {
        return NULL;
    }
    tp->free = t->next_free;
    tp->left--;
    t->next_free = NULL;
    t->count = split->count;
    uint32_t left = from_index ? len - split->first : len;
    struct bt_pkt **tail = &t->store;
    for (uint32_t i = from_index; i < split->count; i++) {
        struct bt_pkt *pkt = bt_pool_get(pool);
        if (!pkt) {
            bt_train_put(tp, t, pool);
            return NULL;
        }
        uint32_t want = i ? split->rest : split->first, n = left < want ? left : want;
        bt_iov_take(iov, pkt, n);
        left -= n;
        pkt->index = (uint16_t)i;
        *tail = pkt;
        tail = &pkt->next;
        mark_todo(t, i);
    }
    return t;
}

void bt_train_put(struct bt_train_pool *tp, struct bt_train *t, struct bt_pool *pool)
{
    bt_pool_put_chain(pool, t->store);
    uint64_t *bits = t->bits;
    memset(bits, 0, tp->words * sizeof *bits);
    *t = (struct bt_train){.bits = bits, .next_free = tp->free};
    tp->free = t;
    tp->left++;
}

static bool send_copy(const struct bt_pkt *stored, uint32_t count, const struct bt_port *port,
                      const struct bt_addr *dst, const struct bt_r2p2_hdr *head, struct bt_txq *txq)
{
    struct bt_r2p2_hdr h = *head;
    uint32_t i = stored->index;
    h.first = i == 0;
    h.last = i == count - 1;
    h.count_or_index = (uint16_t)(i ? i : count);
    if (i) {
        h.opt.present = 0;
    }
    return bt_port_send(port, dst, &h, stored->data, stored->len, txq);
}

struct bt_burst bt_train_burst(struct bt_train *t, const struct bt_port *port, const struct bt_addr *dst,
                               const struct bt_r2p2_hdr *head, uint32_t max, struct bt_txq *txq)
{
    struct bt_burst done = {0};
    struct bt_pkt *p = t->cursor ? t->cursor : t->store;
    while (t->todo && done.sent < max) {
        uint64_t bit = 1ull << (p->index & 63), *word = &t->bits[p->index >> 6];
        if (*word & bit) {
            if (!send_copy(p, t->count, port, dst, head, txq)) {
                done.starved = true;
                break;
            }
            *word &= ~bit;
            t->todo--;
            done.sent++;
            done.resent += p->mark;
            p->mark = 1;
        }
        p = p->next ? p->next : t->store;
    }
    t->cursor = p;
    return done;
}

enum bt_mcase bt_train_sack(struct bt_train *t, const struct bt_sack *s, uint32_t lowest)
{
    if (s->base < lowest || (uint32_t)s->base + s->nbits > t->count) {
        return BT_M20;
    }
    if (t->sacks >= SACKS_PER_1024 * ((t->count >> 10) + 1)) {
        return BT_M20;
    }
    t->sacks++;
    for (uint32_t i = 0; i < s->nbits; i++) {
        if (bt_sack_missing(s, i)) {
            mark_todo(t, s->base + i);
        }
    }
    t->cursor = NULL;
    return BT_M_OK;
}
