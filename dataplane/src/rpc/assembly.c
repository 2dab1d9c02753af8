// SPDX-License-Identifier: Apache-2.0
// See assembly.h. bt_pkt.index is the place in the message; bt_pkt.mark is 1 on
// a packet that carried L, checked again when the count becomes known.
#include "rpc/assembly.h"

#include <string.h>

void bt_assembly_pool_init(struct bt_assembly_pool *ap, struct bt_mem *mem, uint32_t n, uint32_t max_packets)
{
    ap->words = (max_packets + 63) / 64;
    ap->free = NULL;
    ap->left = n;
    struct bt_assembly *all = bt_mem_take(mem, (size_t)n * sizeof *all);
    uint64_t *bits = bt_mem_take(mem, (size_t)n * ap->words * sizeof *bits);
    if (!all || !bits) {
        return;
    }
    for (uint32_t i = n; i-- > 0;) {
        all[i].bits = bits + (size_t)i * ap->words;
        all[i].next_free = ap->free;
        ap->free = &all[i];
    }
}

struct bt_assembly *bt_assembly_get(struct bt_assembly_pool *ap, uint64_t now_ns)
{
    struct bt_assembly *a = ap->free;
    if (!a) {
        return NULL;
    }
    ap->free = a->next_free;
    ap->left--;
    a->next_free = NULL;
    a->progress_ns = a->event_ns = now_ns;
    return a;
}

void bt_assembly_put(struct bt_assembly_pool *ap, struct bt_assembly *a, struct bt_pool *pool)
{
    bt_pool_put_chain(pool, a->head);
    // Clean when it goes back, so that a rejected packet leaves no trace.
    uint64_t *bits = a->bits;
    memset(bits, 0, ap->words * sizeof *bits);
    *a = (struct bt_assembly){.bits = bits, .next_free = ap->free};
    ap->free = a;
    ap->left++;
}

static bool present(const struct bt_assembly *a, uint32_t i)
{
    return (a->bits[i >> 6] >> (i & 63)) & 1;
}

static const struct bt_pkt *find(const struct bt_assembly *a, uint32_t index)
{
    const struct bt_pkt *p = a->head;
    while (p && p->index != index) {
        p = p->next;
    }
    return p;
}

static bool same_payload(const struct bt_pkt *have, const struct bt_r2p2_hdr *h)
{
    return have && have->len == h->payload_len && memcmp(have->data, h->payload, h->payload_len) == 0;
}

bool bt_assembly_same_first(const struct bt_pkt *have, uint32_t count, const struct bt_r2p2_hdr *h)
{
    return count == h->count_or_index && same_payload(have, h);
}

static void insert(struct bt_assembly *a, struct bt_pkt *pkt)
{
    struct bt_pkt **at = &a->head;
    if (a->tail && a->tail->index < pkt->index) {
        at = &a->tail->next; // in order: the common case
    }
    while (*at && (*at)->index < pkt->index) {
        at = &(*at)->next;
    }
    pkt->next = *at;
    *at = pkt;
    if (!pkt->next) {
        a->tail = pkt;
    }
    a->bits[pkt->index >> 6] |= 1ull << (pkt->index & 63);
    a->have++;
    a->bytes += pkt->len;
}

// The count is known now: what came early and contradicts it goes.
static void adopt_count(struct bt_assembly *a, uint32_t count, struct bt_pool *pool, uint64_t *counters)
{
    a->count = count;
    a->tail = NULL;
    for (struct bt_pkt **at = &a->head; *at;) {
        struct bt_pkt *p = *at;
        bool beyond = p->index >= count;
        if (!beyond && p->mark == (p->index == count - 1)) {
            a->tail = p;
            at = &p->next;
            continue;
        }
        counters[beyond ? BT_M9 : BT_M10]++;
        *at = p->next;
        a->bits[p->index >> 6] &= ~(1ull << (p->index & 63));
        a->have--;
        a->bytes -= p->len;
        bt_pool_put(pool, p);
    }
}

// Case of a packet that cannot belong to this message; BT_M_OK when it can.
static enum bt_mcase check(const struct bt_assembly *a, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h,
                           const struct bt_port *port)
{
    uint32_t index = h->count_or_index, datagram = bt_port_datagram(port, &pkt->src);
    if (h->first) {
        if (h->count_or_index > port->max_packets) {
            return BT_M14;
        }
        // REQ0 may be short; every other packet but the last is full.
        if (h->type != BT_REQUEST && !h->last && pkt->len != datagram) {
            return BT_M13;
        }
        return BT_M_OK;
    }
    if (a->count == 0 && index >= port->max_packets) {
        return BT_M14;
    }
    if (a->count && index >= a->count) {
        return BT_M9;
    }
    if (a->count && h->last != (index == a->count - 1)) {
        return BT_M10;
    }
    return !h->last && pkt->len != datagram ? BT_M13 : BT_M_OK;
}

enum bt_assembly_result bt_assembly_add(struct bt_assembly *a, struct bt_pkt *pkt, const struct bt_r2p2_hdr *h,
                                        uint64_t now_ns, struct bt_assembly_owner owner, enum bt_mcase *why)
{
    uint32_t index = h->first ? 0 : h->count_or_index;
    if (h->first && a->count) {
        *why = BT_M11;
        return bt_assembly_same_first(a->head, a->count, h) ? BT_ASSEMBLY_DUPLICATE : BT_ASSEMBLY_REJECTED;
    }
    *why = check(a, pkt, h, owner.port);
    if (*why) {
        return BT_ASSEMBLY_REJECTED;
    }
    if (present(a, index)) {
        *why = BT_M12;
        return same_payload(find(a, index), h) ? BT_ASSEMBLY_DUPLICATE : BT_ASSEMBLY_REJECTED;
    }
    if (a->bytes + h->payload_len > owner.port->max_message) {
        *why = BT_M14;
        return BT_ASSEMBLY_REJECTED;
    }
    bt_pkt_pull(pkt, h->hdr_size);
    pkt->index = (uint16_t)index;
    pkt->mark = h->last;
    if (h->first) {
        adopt_count(a, h->count_or_index, owner.port->pool, owner.counters);
    }
    insert(a, pkt);
    a->progress_ns = a->event_ns = now_ns;
    return a->have == a->count ? BT_ASSEMBLY_COMPLETE : BT_ASSEMBLY_ADDED;
}

void bt_assembly_take(struct bt_assembly *a, struct bt_msg *out)
{
    *out = (struct bt_msg){.head = a->head, .len = a->bytes, .packets = a->have};
    a->head = a->tail = NULL;
    a->have = a->bytes = 0;
}

size_t bt_assembly_sack(const struct bt_assembly *a, enum bt_sack_what what, uint8_t buf[BT_SACK_SIZE_MAX])
{
    uint8_t bits[BT_SACK_BITS_MAX / 8] = {0x80};
    struct bt_sack s = {.what = (uint8_t)what, .base = 0, .nbits = 1, .bits = bits};
    if (a->count && a->have < a->count) { // else: F packet missing, count unknown
        bits[0] = 0;
        uint32_t base = 0, last = 0;
        while (present(a, base)) {
            base++;
        }
        for (uint32_t i = base; i < a->count && i - base < BT_SACK_BITS_MAX; i++) {
            if (present(a, i)) {
                continue;
            }
            last = i - base;
            bits[last >> 3] = (uint8_t)(bits[last >> 3] | 0x80 >> (last & 7));
        }
        s.base = (uint16_t)base;
        s.nbits = (uint16_t)(last + 1);
    }
    return bt_sack_encode(buf, BT_SACK_SIZE_MAX, &s);
}

uint64_t bt_assembly_deadline(const struct bt_assembly *a, const struct bt_rpc_timers *t, bool repairable)
{
    uint64_t end = a->progress_ns + t->gc_ns;
    if (!repairable || a->rounds >= t->sack_rounds) {
        return end;
    }
    uint64_t next = a->event_ns + (t->rto_ns << a->rounds);
    return next < end ? next : end;
}

enum bt_repair bt_assembly_due(struct bt_assembly *a, const struct bt_rpc_timers *t, uint64_t now_ns, bool repairable)
{
    if (now_ns >= a->progress_ns + t->gc_ns) {
        return BT_REPAIR_FAIL;
    }
    if (now_ns < bt_assembly_deadline(a, t, repairable)) {
        return BT_REPAIR_WAIT;
    }
    a->rounds++;
    a->event_ns = now_ns;
    return BT_REPAIR_SACK;
}
