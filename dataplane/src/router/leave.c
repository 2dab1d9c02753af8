// SPDX-License-Identifier: Apache-2.0
// See leave.h.
#include "router/leave.h"

#include <string.h>

#include "wire/fc_signal.h"
#include "wire/tag_short.h"

static const char drop_payload[4] = {'D', 'R', 'O', 'P'};
#define DROP_BYTES (BT_R2P2_HEADER + (uint32_t)sizeof drop_payload)

void router_reject(struct bt_router *r, struct bt_pkt *pkt, enum bt_mcase why)
{
    r->malformed[why]++;
    bt_pool_put(r->pool, pkt);
}

/* F-49: a client that asked is told when to come again. A router that has to refuse has no tokens to give. */
static bool add_signal(struct bt_router *r, const struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr)
{
    struct bt_r2p2_hdr asked;
    uint32_t told = atomic_load_explicit(&r->flow_told, memory_order_relaxed);
    if (__builtin_expect(told == 0, 1) || bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST) ||
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &asked) != BT_M_OK || !asked.ext ||
        (asked.opt.present & BT_HAS_FLOW) == 0) {
        return false;
    }
    struct bt_fc_signal signal = bt_fc_read((uint16_t)told);
    hdr->ext = true;
    hdr->opt.present = BT_HAS_FLOW;
    hdr->opt.flow = signal.idle ? (uint16_t)told : bt_fc_write_tokens(0);
    return true;
}

void router_drop(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, enum bt_router_counter reason,
                 struct bt_txq *txq)
{
    r->counter[reason]++;
    if (r->latency != NULL) {
        bt_hist_slices_rejected(r->latency, now, 1);
    }
    uint32_t space = pkt->len + pkt->room_after;
    if (space < DROP_BYTES + 4) { /* or with a signal */
        bt_pool_put(r->pool, pkt);
        return;
    }
    struct bt_r2p2_hdr hdr = {.type = BT_DROP,
                              .policy = BT_POLICY_STICKY,
                              .first = true,
                              .last = true,
                              .req_id = (uint16_t)(pkt->data[4] << 8 | pkt->data[5]),
                              .count_or_index = 1};
    uint32_t header = add_signal(r, pkt, &hdr) ? BT_R2P2_HEADER + 4 : BT_R2P2_HEADER; /* as long as its REQUEST's */
    bt_r2p2_encode(pkt->data, header, &hdr);
    memcpy(pkt->data + header, drop_payload, sizeof drop_payload);
    pkt->len = header + (uint32_t)sizeof drop_payload;
    pkt->room_after = space - pkt->len;
    pkt->dst = pkt->src;
    pkt->src = r->request_addr;
    pkt->tx_as_src = 0;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    bt_txq_push(txq, pkt);
}

/* Options the router adds for a worker that understands them (r2p2.md §11). */
static void choose_options(const struct bt_router *r, const struct bt_pkt *pkt, struct bt_options *add)
{
    memset(add, 0, sizeof *add);
    if (r->forwarding == BT_FORWARD_TRANSPARENT) {
        add->present = BT_HAS_ROUTER;
        add->router_id = r->router_id;
        return;
    }
    add->present = BT_HAS_FORWARDED;
    add->forwarded = pkt->src;
    const struct bt_key *key = bt_keyring_signer(&r->keys);
    if (key != NULL) {
        add->present |= BT_HAS_TAG;
        add->key_id = key->id;
    }
}

static bool fits(const struct bt_router *r, const struct bt_pkt *pkt, const struct worker *worker, size_t more)
{
    uint32_t most = r->max_payload != 0 ? r->max_payload : bt_r2p2_datagram_max(1500, bt_addr_is_v4(&worker->addr));
    return pkt->len + more <= most;
}

bool router_address(struct bt_router *r, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, const struct worker *worker)
{
    if ((worker->flags & WORKER_EXTENDED) == 0) {
        if (!fits(r, pkt, worker, 0)) {
            return false;
        }
        pkt->tx_as_src = 1;
        r->counter[BT_RC_FORWARDED_LEGACY]++;
    } else {
        struct bt_options add;
        choose_options(r, pkt, &add);
        if (!fits(r, pkt, worker, bt_options_size(&add)) || !bt_r2p2_add_options(pkt, hdr, &add)) {
            return false;
        }
        pkt->tx_as_src = r->forwarding == BT_FORWARD_TRANSPARENT ? 1 : 0;
    }
    if (!pkt->tx_as_src) {
        pkt->src = r->request_addr;
    }
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    if ((hdr->opt.present & BT_HAS_TAG) != 0) {
        bt_tag_sign(pkt->data, pkt->len, hdr, bt_keyring_signer(&r->keys), &pkt->src, &pkt->dst);
    }
    return true;
}

#define TAGGED_OPTIONS (PLAIN_OPTION + BT_TAG_OPTION)
#define TAGGED_REQUEST (BT_R2P2_HEADER + TAGGED_OPTIONS)

bool router_tagged_fits(const struct bt_router *r, const struct bt_pkt *pkt, const struct worker *worker)
{
    return bt_keyring_signer(&r->keys) != NULL && r->forwarding != BT_FORWARD_TRANSPARENT &&
           (worker->flags & WORKER_EXTENDED) != 0 && bt_addr_is_v4(&pkt->src) && pkt->room_before >= TAGGED_OPTIONS &&
           pkt->len + TAGGED_OPTIONS <= r->max_payload;
}

/* Moves the header to the front of two options: for whom the request is forwarded, and the tag. */
void router_address_tagged(const struct bt_router *r, struct bt_pkt *pkt, const struct worker *worker)
{
    const struct bt_key *key = bt_keyring_signer(&r->keys);
    uint8_t *p = pkt->data - TAGGED_OPTIONS, *option = p + BT_R2P2_HEADER;
    memcpy(p, pkt->data, BT_R2P2_HEADER);
    p[1] = (uint8_t)TAGGED_REQUEST;
    put_forwarded(option, &pkt->src);
    bt_put32(option + PLAIN_OPTION, (uint32_t)BT_OPTION_TAG << 24 | BT_TAG_OPTION << 16 | (uint32_t)key->id << 8);
    pkt->data = p;
    pkt->len += TAGGED_OPTIONS;
    pkt->room_before -= TAGGED_OPTIONS;
    pkt->tx_as_src = 0;
    pkt->src = r->request_addr;
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    uint64_t tag = bt_tag_short(p, TAGGED_REQUEST, TAGGED_REQUEST - sizeof tag, key, &pkt->src, &pkt->dst);
    memcpy(p + TAGGED_REQUEST - sizeof tag, &tag, sizeof tag);
}
