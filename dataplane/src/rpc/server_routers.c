// SPDX-License-Identifier: Apache-2.0
// What this worker tells its routers: received, served and n are kept for each
// router apart, and every message carries absolute values.
#include <string.h>

#include "rpc/server_internal.h"
#include "wire/feedback.h"

#define JOIN_REPEATS 3 // FEEDBACK messages that carry JOIN; any one suffices

void bt_server_shares(struct bt_server *s)
{
    s->share[0] = s->cfg.n;
    for (uint16_t k = 1; k <= BT_ROUTER_SLOTS; k++) {
        s->share[k] = (uint16_t)(s->cfg.n == 0 ? 0 : s->cfg.n / k ? s->cfg.n / k : 1);
    }
}

static bool heard(const struct bt_server *s, const struct bt_router_slot *r)
{
    return r->used && r->st.heard_ns && s->now - r->st.heard_ns < s->cfg.timers.router_heard_ns;
}

// max(1, n / routers heard from lately); one not heard from counts as if it
// were about to be.
static uint16_t grant(const struct bt_server *s, const struct bt_router_slot *r)
{
    if (s->leaving) {
        return 0;
    }
    uint32_t active = 0;
    for (uint32_t i = 0; i < s->router_top; i++) {
        active += &s->router[i] == r || heard(s, &s->router[i]);
    }
    uint32_t share = s->share[active];
    if (__builtin_expect(s->beyond == 0, 1)) {
        return (uint16_t)share;
    }
    if (share == 0) {
        return 0;
    }
    return (uint16_t)(share > s->beyond ? share - s->beyond : 1); // they take places all the same
}

static struct bt_router_slot *slot_with_address(struct bt_server *s, const struct bt_addr *src)
{
    struct bt_router_slot *same_host = NULL;
    for (uint32_t i = 0; i < s->router_top; i++) {
        struct bt_router_slot *r = &s->router[i];
        if (!r->used || !bt_addr_ip_eq(&r->st.router.request, src)) {
            continue;
        }
        if (r->st.router.request.port == src->port || r->st.router.feedback.port == src->port) {
            return r;
        }
        // Known by its tag under another of its ports, before it was configured:
        // a second slot would tell it counters that go backwards (M-22). So
        // would its own slot, were it given to another router of its host.
        if (r->tag_only) {
            same_host = r;
        }
    }
    return same_host;
}

static struct bt_router_slot *slot_with_id(struct bt_server *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->router_top; i++) {
        if (s->router[i].used && s->router[i].st.configured && s->router[i].id == id) {
            return &s->router[i];
        }
    }
    return NULL;
}

static struct bt_router_slot *legacy_slot(struct bt_server *s)
{
    for (uint32_t i = 0; i < s->router_top; i++) {
        if (s->router[i].used && s->router[i].st.configured && s->router[i].st.router.legacy) {
            return &s->router[i];
        }
    }
    return NULL;
}

static void name_slot(struct bt_router_slot *r, const struct bt_server_router *router)
{
    r->st.router = *router;
    r->id = bt_router_id(&router->request);
}

// Pairs of a router whose slot is taken away keep running, on nobody's account.
static void detach(struct bt_server *s, const struct bt_router_slot *r)
{
    uint8_t index = (uint8_t)(r - s->router);
    for (uint32_t i = 0; i < s->cfg.max_pending; i++) {
        if (s->pair[i].state != BT_PAIR_FREE && s->pair[i].router == index) {
            s->pair[i].router = BT_NO_ROUTER;
        }
    }
}

// What a router that is joined now is told: later than what was said to it before, and than what workers said that
// began before now. A switch gives the place of one of those to this worker (R-112, W-7).
static uint32_t incarnation_of_now(const struct bt_server *s)
{
    uint64_t ticks =
        s->cfg.incarnation_shift != 0 && s->now > s->began ? (s->now - s->began) >> s->cfg.incarnation_shift : 0;
    return s->cfg.incarnation + (uint32_t)ticks + s->reclaimed;
}

// A free slot, else one that is not configured: settled ones first, then the
// one not heard from for longest.
static struct bt_router_slot *new_slot(struct bt_server *s, const struct bt_server_router *router)
{
    struct bt_router_slot *best = NULL;
    for (uint32_t i = 0; i < BT_ROUTER_SLOTS; i++) {
        struct bt_router_slot *r = &s->router[i];
        if (!r->used) {
            best = r;
            break;
        }
        if (r->st.configured || heard(s, r)) {
            continue;
        }
        if (!best || r->st.heard_ns < best->st.heard_ns) {
            best = r;
        }
    }
    if (!best) {
        return NULL;
    }
    if (best->used) {
        // Should the former owner return, its counters start anew: another
        // incarnation makes that a fresh start for it.
        s->reclaimed++;
        if (best->st.received != best->st.served) {
            detach(s, best);
        }
    }
    *best = (struct bt_router_slot){.used = 1, .join_left = JOIN_REPEATS};
    best->incarnation = incarnation_of_now(s);
    name_slot(best, router);
    if ((uint32_t)(best - s->router) >= s->router_top) {
        s->router_top = (uint32_t)(best - s->router) + 1;
    }
    return best;
}

// from a configured router, or with a valid tag (so that a router pod
// that just started needs no control plane here).
static uint8_t forwarder(struct bt_server *s, const struct bt_arrival *a, enum bt_mcase *why)
{
    const struct bt_pkt *pkt = a->pkt;
    struct bt_router_slot *r = slot_with_address(s, &pkt->src);
    if (r && r->st.configured) {
        return (uint8_t)(r - s->router);
    }
    *why = BT_M_FORWARDER;
    if (bt_tag_verify(pkt->data, pkt->len, &a->h, &s->cfg.keys, &pkt->src, &pkt->dst) != BT_TAG_VALID) {
        return BT_NO_ROUTER;
    }
    *why = BT_M_OK;
    if (r) {
        return (uint8_t)(r - s->router);
    }
    struct bt_server_router router = {.request = pkt->src, .feedback = pkt->src};
    router.feedback.port = s->cfg.feedback_port;
    r = new_slot(s, &router);
    if (!r) {
        return BT_NO_ROUTER;
    }
    r->tag_only = 1;
    return (uint8_t)(r - s->router);
}

// who sent a CANCEL: a configured router, or, where there is a key, one with a valid tag through which requests
// came.
enum bt_mcase bt_server_canceller(struct bt_server *s, const struct bt_arrival *a, uint8_t *router)
{
    const struct bt_pkt *pkt = a->pkt;
    const struct bt_router_slot *r = slot_with_address(s, &pkt->src);
    bool keyed = !bt_keyring_empty(&s->cfg.keys);
    if (keyed && bt_tag_verify(pkt->data, pkt->len, &a->h, &s->cfg.keys, &pkt->src, &pkt->dst) != BT_TAG_VALID) {
        return BT_M_TAG;
    }
    if (!r || (!keyed && !r->st.configured)) {
        return BT_M_FORWARDER;
    }
    *router = (uint8_t)(r - s->router);
    return BT_M_OK;
}

uint8_t bt_server_router_of(struct bt_server *s, const struct bt_arrival *a, enum bt_mcase *why)
{
    const struct bt_options *o = &a->h.opt;
    if (o->present & BT_HAS_FORWARDED) {
        return forwarder(s, a, why);
    }
    struct bt_router_slot *r = o->present & BT_HAS_ROUTER ? slot_with_id(s, o->router_id) : legacy_slot(s);
    return r ? (uint8_t)(r - s->router) : BT_NO_ROUTER;
}

void bt_server_heard(struct bt_server *s, uint8_t router)
{
    if (router != BT_NO_ROUTER) {
        s->router[router].st.heard_ns = s->now ? s->now : 1;
    }
}

void bt_server_received(struct bt_server *s, uint8_t router)
{
    if (router == BT_NO_ROUTER) {
        return;
    }
    s->router[router].st.received++;
    bt_server_heard(s, router);
}

static inline void feedback_header(const struct bt_server *s, const struct bt_finished *f, struct bt_r2p2_hdr *h)
{
    const struct bt_key *key = bt_keyring_signer(&s->cfg.keys);
    bt_r2p2_start(h, BT_FEEDBACK, BT_POLICY_UNRESTRICTED, true);
    h->last = true;
    h->count_or_index = 1;
    h->req_id = f ? f->req_id : 0;
    if (key) {
        h->opt.present |= BT_HAS_TAG;
        h->opt.key_id = key->id;
    }
    if (f && f->with_trace) {
        h->opt.present |= BT_HAS_TRACE;
        h->opt.trace = f->trace;
    }
}

static inline void feedback_body(struct bt_server *s, struct bt_router_slot *r, uint8_t flags,
                                 const struct bt_finished *f, struct bt_feedback *fb)
{
    *fb = (struct bt_feedback){.version = 1, .flags = flags, .incarnation = r->incarnation};
    fb->received = r->st.received;
    fb->served = r->st.served;
    fb->n = r->st.granted = grant(s, r);
    if (s->leaving) {
        fb->flags |= BT_FEEDBACK_LEAVE;
    } else if (r->join_left) {
        fb->flags |= BT_FEEDBACK_JOIN;
        r->join_left--;
    }
    if (f) {
        fb->flags = (uint8_t)(fb->flags | BT_FEEDBACK_PAIR | f->fate);
        fb->client = *f->client;
        fb->req_id = f->req_id;
        fb->version = bt_addr_is_v4(f->client) ? 1 : 2;
    }
    if (s->cfg.flow.arrived != NULL && fb->version == 1 && !r->st.router.legacy) {
        fb->signal = s->cfg.flow.signal(s->cfg.flow.arg, BT_FLOW_NONE, s->now);
        fb->version = fb->signal != 0 ? 3 : 1;
    }
}

// The header of a FEEDBACK that carries a tag, a trace or both.
static void push_options(struct bt_server *s, const struct bt_finished *f, struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    feedback_header(s, f, &h);
    bt_r2p2_push_header(pkt, &h);
    if (h.opt.present & BT_HAS_TAG) {
        bt_tag_sign(pkt->data, pkt->len, &h, bt_keyring_signer(&s->cfg.keys), &pkt->src, &pkt->dst);
    }
}

static void send_feedback(struct bt_server *s, struct bt_router_slot *r, uint8_t flags, const struct bt_finished *f,
                          struct bt_txq *txq)
{
    struct bt_feedback fb;
    feedback_body(s, r, flags, f, &fb);
    bool legacy = r->st.router.legacy;
    if (legacy) {
        if (!f || fb.version == 2) {
            return; // it knows finished IPv4 pairs and nothing else
        }
        fb.version = 0;
    }
    struct bt_pkt *pkt = bt_port_packet(&s->port, &r->st.router.feedback);
    if (!pkt) {
        s->counters[BT_SERVER_NO_BUFFER]++; // the next one repairs it: values are absolute
        return;
    }
    bt_pkt_append(pkt, (uint32_t)bt_feedback_encode(pkt->data, pkt->room_after, &fb));
    if (legacy || (bt_keyring_empty(&s->cfg.keys) && !(f && f->with_trace))) { // headroom is larger than any header
        bt_r2p2_push_single(pkt, BT_FEEDBACK, BT_POLICY_UNRESTRICTED, !legacy, f ? f->req_id : 0);
    } else {
        push_options(s, f, pkt);
    }
    bt_txq_push(txq, pkt);
    r->st.feedback_ns = s->now;
    s->counters[BT_SERVER_FEEDBACK_SENT]++;
    s->counters[BT_SERVER_PACKETS_SENT]++;
}

void bt_server_served(struct bt_server *s, uint8_t router, const struct bt_finished *f, struct bt_txq *txq)
{
    if (router == BT_NO_ROUTER) {
        return;
    }
    s->router[router].st.served++;
    send_feedback(s, &s->router[router], 0, f, txq);
}

void bt_server_end_paid(struct bt_server *s, struct bt_pair *p, const struct bt_finished *f, struct bt_txq *txq)
{
    s->beyond -= p->state != BT_PAIR_RECEIVING;
    p->paid = false; // for who gets its place
    if (p->router != BT_NO_ROUTER && !s->router[p->router].st.router.legacy) {
        send_feedback(s, &s->router[p->router], 0, f, txq);
    }
}

// of a request that makes no pair here its router knows only that it sent it, and would wait for T_loss. In the
// 16-byte form it would be one answer more than the network may have made of one request.
void bt_server_pay_unwanted(struct bt_server *s, const struct bt_arrival *a)
{
    if (a->router == BT_NO_ROUTER || s->router[a->router].st.router.legacy) {
        return;
    }
    s->counters[BT_SERVER_CREDITS_UNWANTED]++;
    bt_server_received(s, a->router);
    s->router[a->router].st.served++;
    send_feedback(s, &s->router[a->router], 0, NULL, a->txq);
}

// the credit of a request that is not whole. In the 16-byte form each message is one credit, and names a pair.
void bt_server_pay_early(struct bt_server *s, const struct bt_pair *p, struct bt_txq *txq)
{
    struct bt_router_slot *r = &s->router[p->router];
    struct bt_finished f = {.client = &p->client, .req_id = p->req_id};
    r->st.served++;
    send_feedback(s, r, 0, r->st.router.legacy ? &f : NULL, txq);
}

static void tell_all(struct bt_server *s, uint8_t flags, struct bt_txq *txq)
{
    for (uint32_t i = 0; i < BT_ROUTER_SLOTS; i++) {
        struct bt_router_slot *r = &s->router[i];
        if (r->used && (r->st.configured || heard(s, r))) {
            send_feedback(s, r, flags, NULL, txq);
        }
    }
}

// To each router that got no FEEDBACK for a period, then sleeps until
// the first of them is due again.
void bt_server_periodic(struct bt_server *s)
{
    uint64_t period = s->cfg.timers.feedback_period_ns, next = s->now + period;
    for (uint32_t i = 0; i < BT_ROUTER_SLOTS; i++) {
        struct bt_router_slot *r = &s->router[i];
        if (!r->used || !(r->st.configured || heard(s, r))) {
            continue;
        }
        if (r->st.feedback_ns == 0 || s->now - r->st.feedback_ns >= period) {
            send_feedback(s, r, BT_FEEDBACK_PERIODIC, NULL, s->txq);
        } else if (r->st.feedback_ns + period < next) {
            next = r->st.feedback_ns + period;
        }
    }
    bt_wheel_add(&s->wheel, &s->period, next);
}

static bool same_router(const struct bt_router_slot *r, const struct bt_server_router *router)
{
    return r->used && bt_addr_eq(&r->st.router.request, &router->request);
}

// Marks the slots of the routers already known; bit i of the result: router i is.
static uint32_t keep_known(struct bt_server *s, const struct bt_server_router *routers, int count)
{
    uint32_t known = 0;
    for (uint32_t k = 0; k < s->router_top; k++) {
        bool joined = s->router[k].st.configured || s->router[k].tag_only;
        s->router[k].st.configured = false;
        for (int i = 0; i < count; i++) {
            if (!same_router(&s->router[k], &routers[i])) {
                continue;
            }
            name_slot(&s->router[k], &routers[i]);
            s->router[k].st.configured = true;
            s->router[k].tag_only = 0;
            if (!joined) {
                s->router[k].incarnation = incarnation_of_now(s);
                s->router[k].join_left = JOIN_REPEATS;
            }
            known |= 1u << i;
        }
    }
    return known;
}

int bt_server_set_routers(struct bt_server *s, uint64_t now_ns, const struct bt_server_router *routers, int count,
                          struct bt_txq *txq)
{
    if (count < 0 || count > BT_SERVER_ROUTERS) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_server_clock(s, now_ns);
    // Known ones first: a newcomer on the same host must not take their slot.
    uint32_t known = keep_known(s, routers, count);
    for (int i = 0; i < count; i++) {
        if (known & (1u << i)) {
            continue;
        }
        struct bt_router_slot *r = slot_with_address(s, &routers[i].request);
        if (!r || r->st.configured) {
            r = new_slot(s, &routers[i]);
        }
        if (!r) {
            return BT_RPC_BAD_ARGUMENT; // cannot be: at most 16 of 40 are configured, and heard ones expire
        }
        name_slot(r, &routers[i]);
        r->st.configured = true;
        r->tag_only = 0;
        r->join_left = JOIN_REPEATS;
        send_feedback(s, r, 0, NULL, txq);
    }
    return 0;
}

void bt_server_set_keys(struct bt_server *s, const struct bt_keyring *keys)
{
    s->cfg.keys = *keys;
}

void bt_server_set_n(struct bt_server *s, uint64_t now_ns, uint16_t n, struct bt_txq *txq)
{
    bt_server_clock(s, now_ns);
    s->cfg.n = n > 64 ? 64 : n;
    bt_server_shares(s);
    tell_all(s, 0, txq);
}

void bt_server_leave(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq)
{
    bt_server_clock(s, now_ns);
    s->leaving = true;
    tell_all(s, 0, txq);
}

void bt_server_join(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq)
{
    bt_server_clock(s, now_ns);
    s->leaving = false;
    for (uint32_t i = 0; i < BT_ROUTER_SLOTS; i++) {
        s->router[i].join_left = s->router[i].used ? JOIN_REPEATS : 0;
    }
    tell_all(s, 0, txq);
}

bool bt_server_router_state(const struct bt_server *s, int i, struct bt_server_router_state *out)
{
    for (uint32_t k = 0; k < BT_ROUTER_SLOTS; k++) {
        if (!s->router[k].used || i-- > 0) {
            continue;
        }
        *out = s->router[k].st;
        return true;
    }
    return false;
}
