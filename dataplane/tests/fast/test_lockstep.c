// SPDX-License-Identifier: Apache-2.0
// The program in the kernel decides what the policy core decides: random traces through
// both, packet by packet, and everything they know compared. Requests and FEEDBACK get lost, come twice, out of order
// and malformed; workers leave, come back and restart.
#include "fast/twins.h"

#include <stdlib.h>
#include <string.h>

#define WORKERS BT_DELEGATION_WORKERS
#define WAITING 64u
#define EVENTS  40000u

struct waiting {
    struct bt_addr client;
    uint16_t req_id;
};

/* A worker of the trace: serves in order, and says so. */
struct server {
    uint64_t received, served;
    uint32_t incarnation, n;
    struct waiting queue[WAITING];
    uint32_t queued;
    uint8_t last[128]; /* its last FEEDBACK */
    uint32_t last_len;
};

struct trace {
    struct twins twins;
    struct bt_rng rng;
    struct server server[WORKERS];
    uint32_t k, n, load;
    uint16_t next_id;
    enum bt_udp_sum sum;
    bool keys;
};

static struct bt_addr client_of(struct trace *t)
{
    return bt_addr_v4u(0x0a000063u + bt_rng_below(&t->rng, 4), (uint16_t)(33000u + bt_rng_below(&t->rng, 4)));
}

/* A request reaches its worker, or is lost on the way. */
static void arrive(void *arg, const struct bt_pkt *pkt)
{
    struct trace *t = arg;
    struct bt_r2p2_hdr hdr;
    if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr) != BT_M_OK) {
        return; /* DROP, to a client */
    }
    for (uint32_t w = 0; w < t->k; w++) {
        struct server *s = &t->server[w];
        if (bt_addr_eq(&t->twins.whole.members[w], &pkt->dst) && s->queued < WAITING &&
            bt_rng_below(&t->rng, 500) != 0) {
            s->received++;
            s->queue[s->queued++] = (struct waiting){hdr.opt.forwarded, hdr.req_id};
        }
    }
}

/* Now and then a bit turns where no checksum sees it: in the header, or what follows it. */
static void corrupt(struct trace *t, uint8_t *bytes)
{
    if (bt_rng_below(&t->rng, 300) == 0) {
        bytes[bt_rng_below(&t->rng, 20)] ^= (uint8_t)(1u << bt_rng_below(&t->rng, 8));
    }
}

static void request(struct trace *t, struct bt_r2p2_hdr hdr, uint32_t body)
{
    uint8_t bytes[1600] = {0};
    struct bt_addr client = client_of(t);
    hdr.type = BT_REQUEST;
    hdr.first = true;
    hdr.ext = bt_rng_below(&t->rng, 2) == 0;
    hdr.req_id = t->next_id++;
    size_t head = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    for (uint32_t i = 0; i < body; i++) {
        bytes[head + i] = (uint8_t)bt_rng_next(&t->rng);
    }
    corrupt(t, bytes);
    twins_packet(&t->twins, &client, false, bytes, (uint32_t)head + body, t->sum);
}

/* One in forty is not plain: of several packets, sticky, replicated, with an option, too long, empty. */
static void any_request(struct trace *t)
{
    struct bt_r2p2_hdr hdr = {.last = true, .count_or_index = 1};
    uint32_t body = bt_rng_below(&t->rng, 100);
    switch (bt_rng_below(&t->rng, 240)) {
    case 0:
        hdr.last = false;
        hdr.count_or_index = 3;
        break;
    case 1:
        hdr.policy = BT_POLICY_STICKY;
        break;
    case 2:
        hdr.policy = BT_POLICY_REPLICATED_WRITE;
        break;
    case 3:
        hdr.opt = (struct bt_options){.present = BT_HAS_TRACE, .trace = 77};
        break;
    case 4:
        body = 1440 + bt_rng_below(&t->rng, 32);
        break;
    case 5:
        body = 0;
        break;
    default:
        break;
    }
    request(t, hdr, body);
}

static void report(struct trace *t, uint32_t w, uint8_t flags, const struct waiting *done)
{
    struct server *s = &t->server[w];
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    struct bt_feedback fb = {.version = 1,
                             .flags = flags,
                             .n = (uint16_t)s->n,
                             .incarnation = s->incarnation,
                             .received = s->received,
                             .served = s->served};
    const struct bed *bed = &t->twins.whole;
    if (t->keys && bt_rng_below(&t->rng, 200) != 0) { /* now and then a tag is missing, or of a key nobody has */
        hdr.opt = (struct bt_options){.present = BT_HAS_TAG, .key_id = (uint8_t)(1u + bt_rng_below(&t->rng, 2))};
        hdr.opt.key_id = bt_rng_below(&t->rng, 200) == 0 ? 9 : hdr.opt.key_id;
    }
    fb.client = done != NULL ? done->client : bt_addr_v4u(0, 0);
    fb.req_id = done != NULL ? done->req_id : 0;
    uint8_t bytes[128];
    size_t head = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    size_t len = head + bt_feedback_encode(bytes + head, sizeof bytes - head, &fb);
    if (hdr.opt.present != 0) {
        bt_tag_sign(bytes, len, &hdr, &bed->keys.key[hdr.opt.key_id & 1u ? 0 : 1], &bed->members[w], &bed->feedback);
    }
    corrupt(t, bytes);
    uint32_t what = bt_rng_below(&t->rng, 100);
    if (what == 0) {
        return; /* lost */
    }
    if (what == 1 && s->last_len != 0) { /* the one before comes again, first */
        twins_packet(&t->twins, &t->twins.whole.members[w], true, s->last, s->last_len, t->sum);
    }
    twins_packet(&t->twins, &t->twins.whole.members[w], true, bytes, (uint32_t)len, t->sum);
    if (what == 2) {
        twins_packet(&t->twins, &t->twins.whole.members[w], true, bytes, (uint32_t)len, t->sum);
    }
    memcpy(s->last, bytes, len);
    s->last_len = (uint32_t)len;
}

static void serve(struct trace *t, uint32_t w)
{
    struct server *s = &t->server[w];
    if (s->queued == 0) {
        return;
    }
    struct waiting done = s->queue[0];
    memmove(&s->queue[0], &s->queue[1], --s->queued * sizeof s->queue[0]);
    s->served++;
    bool dropped = bt_rng_below(&t->rng, 100) == 0;
    report(t, w, (uint8_t)(BT_FEEDBACK_PAIR | (dropped ? BT_FEEDBACK_DROPPED : 0)), &done);
}

/* What happens to a worker: it leaves, joins again, says another n, dies and starts anew. */
static void live(struct trace *t, uint32_t w)
{
    struct server *s = &t->server[w];
    switch (bt_rng_below(&t->rng, 4)) {
    case 0:
        report(t, w, BT_FEEDBACK_LEAVE, NULL);
        break;
    case 1:
        report(t, w, BT_FEEDBACK_JOIN, NULL);
        break;
    case 2:
        s->n = bt_rng_below(&t->rng, 8) == 0 ? bt_rng_below(&t->rng, 3) : t->n;
        report(t, w, BT_FEEDBACK_PERIODIC, NULL);
        break;
    default:
        s->incarnation++;
        s->received = s->served = 0;
        s->queued = 0;
        s->last_len = 0;
        report(t, w, BT_FEEDBACK_JOIN, NULL);
        break;
    }
}

static void serve_somebody(struct trace *t)
{
    uint32_t w = bt_rng_below(&t->rng, t->k);
    for (uint32_t i = 0; i < t->k && t->server[w].queued == 0; i++) {
        w = (w + 1u) % t->k;
    }
    serve(t, w);
}

/* Mostly a load that leaves credit; now and then a burst, behind which requests are held until the workers caught up.
 */
static void event(struct trace *t, uint32_t i)
{
    bool burst = i % 2048u < 64u;
    if (bt_rng_below(&t->rng, 1000) == 0) {
        live(t, bt_rng_below(&t->rng, t->k));
    } else if (burst || (bed_held(&t->twins.whole) < 2 && bt_rng_below(&t->rng, 100) < t->load)) {
        any_request(t);
    } else {
        serve_somebody(t);
    }
}

static void histograms_agree(struct trace *t)
{
    const struct bt_hist_slices *a[] = {bt_router_latency(t->twins.whole.r), bt_router_hold(t->twins.whole.r)};
    const struct bt_hist_slices *b[] = {bt_router_latency(t->twins.lending.r), bt_router_hold(t->twins.lending.r)};
    for (unsigned i = 0; i < 2; i++) {
        assert_memory_equal(a[i]->slice, b[i]->slice, sizeof a[i]->slice);
    }
}

struct shape {
    uint64_t seed;
    uint32_t k, n, load;
    enum bt_udp_sum sum;
    bool away, keys;
};

static bool run(const struct shape *shape)
{
    const uint32_t k = shape->k, n = shape->n;
    struct trace *t = calloc(1, sizeof *t);
    assert_non_null(t);
    if (!twins_open(&t->twins, k, n, shape->away, shape->keys)) {
        free(t);
        return false;
    }
    bt_rng_seed(&t->rng, shape->seed);
    t->twins.sent = arrive;
    t->twins.arg = t;
    t->k = k, t->n = n, t->load = shape->load, t->sum = shape->sum, t->keys = shape->keys;
    for (uint32_t w = 0; w < k; w++) {
        t->server[w].incarnation = 1;
        t->server[w].n = n;
    }
    twins_turn(&t->twins);
    for (uint32_t i = 0; i < SEEDS(EVENTS); i++) {
        event(t, i);
        if (bt_rng_below(&t->rng, 3) == 0) {
            twins_turn(&t->twins);
        }
        if (bt_rng_below(&t->rng, 32) == 0) {
            twins_compare(&t->twins);
        }
    }
    twins_compare(&t->twins);
    histograms_agree(t);
    const struct twins *s = &t->twins;
    print_message(
        "%u workers, n %u: %llu forwarded and %llu FEEDBACK taken in the kernel, %llu passed up, %llu loans\n", k, n,
        (unsigned long long)s->saw.forwarded, (unsigned long long)s->saw.taken, (unsigned long long)s->saw.passed,
        (unsigned long long)s->fast->loans);
    assert_int_equal(s->fast->disagreed, 0);
    assert_true(s->saw.forwarded > SEEDS(EVENTS) / 40u && s->saw.taken > SEEDS(EVENTS) / 40u);
    twins_close(&t->twins);
    free(t);
    return true;
}

#define SHAPE(name, ...)                                                                                               \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        if (!run(&(const struct shape){__VA_ARGS__})) {                                                                \
            skip();                                                                                                    \
        }                                                                                                              \
    }

SHAPE(light_load, 1, 4, 3, 48, BT_UDP_SUM_FULL, false, false)
SHAPE(many_workers, 2, 16, 2, 50, BT_UDP_SUM_PARTIAL, true, false)
SHAPE(held_requests, 3, 5, 2, 55, BT_UDP_SUM_NONE, false, false)
SHAPE(with_keys, 4, 4, 3, 48, BT_UDP_SUM_FULL, false, true)
SHAPE(two_groups_and_one, 5, 17, 3, 50, BT_UDP_SUM_FULL, true, false) /* now and then the last one leaves: 16 */
SHAPE(a_group_not_full, 6, 43, 2, 50, BT_UDP_SUM_PARTIAL, true, true)
SHAPE(a_whole_row, 7, 64, 1, 50, BT_UDP_SUM_NONE, false, false)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(light_load),         cmocka_unit_test(many_workers),
                                       cmocka_unit_test(held_requests),      cmocka_unit_test(with_keys),
                                       cmocka_unit_test(two_groups_and_one), cmocka_unit_test(a_group_not_full),
                                       cmocka_unit_test(a_whole_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
