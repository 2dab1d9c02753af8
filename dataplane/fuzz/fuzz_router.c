// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the whole router, on one thread or on two: the input is a story of configurations, requests,
// FEEDBACK (honest and raw) and time; after every sentence the router's invariants are checked.
// tests/router/test_faults.c and test_split_order.c tell random stories.
#include "router_story.h"

static uint32_t take(struct story *s, unsigned bytes)
{
    uint32_t v = 0;
    while (bytes-- > 0) {
        v = v << 8 | in8(&s->in);
    }
    return v;
}

static void setting(struct story *s)
{
    uint32_t bits = take(s, 2), policy = bits >> 13;
    if (!s->configured) {
        policy %= BT_ROUTER_POLICIES; /* what is refused comes later: a story begins with a router that has workers */
    }
    struct bt_addr members[WORKERS];
    uint32_t members_n = bits % (WORKERS + 1u);
    for (uint32_t i = 0; i < members_n; i++) {
        members[i] = s->worker[(i + bits / 7u) % WORKERS];
    }
    bool hold_back = (bits & 0x100u) != 0 && policy == BT_ROUTER_JBSQ;
    bool may_hedge = policy == BT_ROUTER_JBSQ && (!on_two_threads(s) || s->configured);
    uint32_t hedging = may_hedge ? bits >> 10 & 3u : 0; /* off, or one more than the cancellation */
    struct bt_router_config c = {
        .policy = (enum bt_router_policy)policy,
        .forwarding = (enum bt_router_forwarding)(bits >> 4 & 1u),
        .device = (enum bt_device)((bits >> 5 & 1u) * 2u),
        .legacy_peers = (bits >> 6 & 1u) != 0,
        .depth = 1u + take(s, 1) % 8u,
        .central_limit = 1u + take(s, 1) % 16u,
        .max_queue_ns = (1u + take(s, 1)) * MILLISECOND,
        .request_timeout_ns = (1u + take(s, 1)) * 4u * MILLISECOND,
        .hold_back_packets = hold_back ? 2 : 0,
        .hold_back_ns = hold_back ? 5000 : 0,
        .hedging = {.mode = hedging == 0 ? BT_HEDGING_OFF : BT_HEDGING_LOAD_AWARE,
                    .cancellation =
                        hedging == 0 ? BT_HEDGING_CANCEL_NONE : (enum bt_hedging_cancellation)(hedging - 1u),
                    .busy_percent = 100,
                    .budget_percent = 100,
                    .per_100k = 95000},
        .members = members,
        .members_n = members_n,
        .keys = (bits >> 9 & 1u) != 0 ? &s->keys : NULL,
    };
    bool good = policy < BT_ROUTER_POLICIES && (!on_two_threads(s) || hedging == 0);
    CHECK(good == bt_router_apply(s->decides, s->now, &c, NULL));
    s->configured = s->configured || good;
    if (good) {
        s->keyed = c.keys != NULL;
        s->preempts = s->preempts || hedging == BT_HEDGING_CANCEL_PREEMPTIVE + 1u;
        s->limit = c.central_limit > s->limit ? c.central_limit : s->limit;
    }
}

static struct bt_pkt *packet(struct story *s, const struct bt_addr *from, const struct bt_addr *to,
                             const uint8_t *bytes, size_t len)
{
    struct bt_pkt *pkt = bt_pool_get(s->pool);
    CHECK(pkt != NULL);
    memcpy(bt_pkt_append(pkt, (uint32_t)len), bytes, len);
    pkt->src = *from;
    pkt->dst = *to;
    pkt->t_rx_ns = s->now;
    s->last_n = (uint32_t)len;
    s->pristine = true;
    s->last_from = *from;
    s->last_to = *to;
    memcpy(s->last, bytes, len);
    return pkt;
}

/* To a router on two threads it comes by way of the port that half reads. */
static void give(struct story *s, bool feedback, struct bt_pkt *pkt)
{
    uint64_t before = story_fingerprint(s);
    if (on_two_threads(s)) {
        halves_give(s, feedback, pkt);
        return;
    }
    if (feedback) {
        bt_router_feedback(s->decides, s->now, pkt, &s->out);
    } else {
        bt_router_request(s->decides, s->now, pkt, &s->out);
    }
    CHECK(!s->clean || story_fingerprint(s) == before); /* */
}

/* The last packet once more, changed. Without a key a forged FEEDBACK is believed, as it must be. */
static void changed_packet(struct story *s)
{
    uint8_t bytes[1600];
    memcpy(bytes, s->last, s->last_n);
    uint32_t n = mutate(&s->in, bytes, s->last_n, sizeof bytes);
    struct bt_addr from = s->last_from, to = s->last_to;
    if (bt_addr_eq(&to, &s->feedback)) {
        /* every byte of it is under the tag: not the same any more, so not believed */
        bool same = n == s->last_n && memcmp(bytes, s->last, n) == 0;
        s->clean = s->keyed && !s->hears->legacy_peers && !same && s->pristine;
        give(s, true, packet(s, &from, &to, bytes, n));
    } else if (n > 0) {
        give(s, false, packet(s, &from, &to, bytes, n));
    }
    s->pristine = false;
}

static size_t raw(struct story *s, uint8_t *bytes)
{
    size_t len = take(s, 1) % 80u;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)take(s, 1);
    }
    if (len > 0 && take(s, 1) % 8u != 0) {
        bytes[0] = BT_R2P2_MAGIC;
    }
    return len;
}

static void request(struct story *s)
{
    uint32_t bits = take(s, 2);
    uint8_t bytes[1500] = {0};
    struct bt_r2p2_hdr hdr = {.type = BT_REQUEST,
                              .policy = bits % 11u == 0 ? bits >> 4 & 15u : 0,
                              .first = true,
                              .last = (bits & 0x400u) == 0,
                              .ext = true,
                              .req_id = (uint16_t)(bits >> 8),
                              .count_or_index = (bits & 0x400u) == 0 ? 1 : 3};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    len += bits % 61u == 0 ? 1450u : 8u;
    give(s, false, packet(s, &s->client, &s->requests, bytes, len));
}

static void raw_request(struct story *s)
{
    uint8_t bytes[80];
    struct bt_addr from = s->client;
    size_t len = raw(s, bytes);
    if (len > 3 && bytes[3] % 4u == 0) {
        from = bytes[3] % 8u == 0 ? s->requests : bt_addr_v4u(0xe0000001, 7);
        s->clean = true;
    }
    give(s, false, packet(s, &from, &s->requests, bytes, len));
}

static size_t sign(struct story *s, uint8_t *bytes, struct bt_r2p2_hdr *hdr, const struct bt_feedback *fb,
                   const struct bt_addr *from)
{
    if (s->keyed) {
        hdr->opt.present = BT_HAS_TAG;
        hdr->opt.key_id = s->keys.key[fb->n % 2u].id;
    }
    size_t len = bt_r2p2_encode(bytes, 64, hdr);
    len += bt_feedback_encode(bytes + len, 64, fb);
    if (s->keyed) {
        bt_tag_sign(bytes, len, hdr, &s->keys.key[fb->n % 2u], from, &s->feedback);
    }
    return len;
}

/* A worker that counts honestly, except that bits may send its counters anywhere. */
static void worker_speaks(struct story *s)
{
    uint32_t bits = take(s, 2);
    uint32_t w = bits % WORKERS;
    s->received[w] += bits >> 4 & 3u;
    s->served[w] += bits >> 6 & 3u;
    s->served[w] = s->served[w] > s->received[w] ? s->received[w] : s->served[w];
    s->incarnation[w] += bits % 37u == 0 ? 1u : 0u;
    uint32_t odd = bits % 23u == 0 ? take(s, 2) : 0; /* stale, contradicting or absurd */
    struct bt_feedback fb = {.version = 1,
                             .flags = (uint8_t)(bits >> 8 & 63u),
                             .req_id = (uint16_t)(bits >> 8),
                             .client = s->client,
                             .n = (uint16_t)(1u + bits % 5u + (odd >> 10)),
                             .incarnation = s->incarnation[w] - (odd >> 3 & 1u),
                             .received = s->received[w] - (odd & 3u),
                             .served = s->served[w] - (odd >> 1 & 3u)};
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    uint8_t bytes[128];
    size_t len = sign(s, bytes, &hdr, &fb, &s->worker[w]);
    if (odd >> 15 != 0 && s->keyed) {
        bytes[len - 1] ^= 1;
        s->clean = true; /* forged */
    }
    give(s, true, packet(s, &s->worker[w], &s->feedback, bytes, len));
}

static void raw_feedback(struct story *s)
{
    uint8_t bytes[80];
    uint32_t w = take(s, 1) % (WORKERS + 1u);
    size_t len = raw(s, bytes);
    struct bt_addr from = w < WORKERS ? s->worker[w] : bt_addr_v4u(0x0a0b0c0d, 8000);
    if (len > 2 && take(s, 1) % 2u == 0) {
        bytes[2] = BT_FEEDBACK << 4;
    }
    s->clean = w == WORKERS;
    give(s, true, packet(s, &from, &s->feedback, bytes, len));
}

static void legacy_feedback(struct story *s)
{
    uint32_t bits = take(s, 1);
    uint8_t bytes[16] = {BT_R2P2_MAGIC, 0, BT_FEEDBACK << 4};
    struct bt_feedback fb = {.version = 0, .flags = BT_FEEDBACK_PAIR, .req_id = (uint16_t)bits, .client = s->client};
    bt_feedback_encode(bytes + 8, 8, &fb);
    s->clean = !s->hears->legacy_peers;
    give(s, true, packet(s, &s->worker[bits % WORKERS], &s->feedback, bytes, 16));
}

/* On two threads a half may sleep through it. */
static void tick(struct story *s, uint32_t verb)
{
    if (!on_two_threads(s)) {
        bt_router_tick(s->decides, s->now, &s->out);
        CHECK(bt_router_next(s->decides) > s->now); /* a driver that sleeps until then must not spin */
        return;
    }
    for (uint32_t half = 2; half-- > 0;) {
        if ((verb >> 4 >> half & 1u) == 0) {
            halves_tick(s, half == 1);
        }
    }
}

static void time_passes(struct story *s, uint32_t verb)
{
    uint32_t bits = take(s, 1);
    s->now += (uint64_t)(bits >> 2) << (bits % 4u * 6u + 6u);
    tick(s, verb);
    if (bits == 0xfe) { /* which no monotonic clock may do: the router's own time stands still until it is caught up */
        s->now -= 3u * MILLISECOND;
    } else if (bits == 0xfd) {
        bt_router_drain(s->decides, s->now);
        CHECK(bt_router_draining(s->decides));
    }
}

static void unreachable(struct story *s)
{
    const struct bt_addr *worker = &s->worker[take(s, 1) % WORKERS];
    bt_router_unreachable(s->decides, s->now, worker);
}

static void tell(struct story *s, uint32_t verb)
{
    switch (verb % 16u) {
    case 0:
        setting(s);
        break;
    case 1:
        raw_request(s);
        break;
    case 2:
        raw_feedback(s);
        break;
    case 3:
        legacy_feedback(s);
        break;
    case 4:
        unreachable(s);
        break;
    case 5:
    case 6:
        time_passes(s, verb);
        break;
    case 7:
        changed_packet(s);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        request(s);
        break;
    default:
        worker_speaks(s);
        break;
    }
}

/* A quarter of the verbs is for a half of a router on two threads, which reads its port. */
static void sentence(struct story *s)
{
    uint32_t verb = take(s, 1);
    s->clean = false;
    s->waits = (verb & 0x10u) != 0;
    if (on_two_threads(s) && verb >= 0xc0) {
        halves_turn(s, (verb & 0x20u) != 0, verb & 0x1fu);
    } else {
        tell(s, verb);
    }
    story_check(s);
}

static void meet(struct story *s)
{
    s->now = SECOND;
    s->client = bt_addr_v4u(0x0a000063, 33000);
    s->requests = bt_addr_v4u(0x0a000001, 8000);
    s->feedback = bt_addr_v4u(0x0a000001, 9000);
    for (uint32_t w = 0; w < WORKERS; w++) {
        s->worker[w] = bt_addr_v4u(0x0a010001, (uint16_t)(8000u + w));
        s->incarnation[w] = UINT32_MAX - 1u;
        s->received[w] = s->served[w] = UINT64_MAX - 20u; /* counters that wrap */
    }
    for (uint8_t i = 0; i < 2; i++) {
        s->keys.key[i].id = (uint8_t)(i + 1u);
        memset(s->keys.key[i].bytes, 7 + i, sizeof s->keys.key[i].bytes);
    }
}

/* The first byte: on how many threads, and how long the queues between them are. */
static void *open_router(struct story *s, uint32_t how)
{
    struct bt_router_setup setup = {.max_members = WORKERS,
                                    .max_pairs = PAIRS,
                                    .no_histograms = true,
                                    .seed = 3,
                                    .pool = s->pool,
                                    .request_addr = s->requests,
                                    .feedback_addr = s->feedback};
    bool two = (how & 1u) != 0;
    if (two) {
        halves_setup(&setup, how);
    }
    size_t bytes = bt_router_bytes(&setup);
    void *mem = aligned_alloc(64, bytes);
    if (mem == NULL) {
        abort();
    }
    s->decides = s->hears = bt_router_init(mem, bytes, &setup, s->now);
    CHECK(s->decides != NULL);
    if (two) {
        halves_open(s);
    }
    return mem;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
    struct story s;
    memset(&s, 0, sizeof s);
    if (pool_mem == NULL) {
        abort();
    }
    s.in = (struct input){data, size};
    s.pool = bt_pool_fixed_init(&s.fixed, pool_mem, PACKETS);
    bt_txq_init(&s.out);
    meet(&s);
    void *mem = open_router(&s, take(&s, 1));
    setting(&s);
    while (s.in.left > 0) {
        sentence(&s);
    }
    if (on_two_threads(&s)) {
        halves_close(&s);
    }
    bt_router_discard_held(s.decides);
    CHECK(s.fixed.left == PACKETS);
    free(mem);
    free(pool_mem);
    return 0;
}
