// SPDX-License-Identifier: Apache-2.0
// See split_bed.h.
#include "router/split_bed.h"

#include <stdlib.h>
#include <string.h>

static struct bt_pool *open_pool(struct split_bed *t, unsigned i)
{
    t->pool_mem[i] = calloc(1, bt_pool_fixed_bytes(t->packets));
    assert_non_null(t->pool_mem[i]);
    return bt_pool_fixed_init(&t->fixed[i], t->pool_mem[i], t->packets);
}

void split_open(struct split_bed *t, const struct bed *b, uint32_t packets, uint32_t credits, uint32_t notes)
{
    memset(t, 0, sizeof *t);
    t->packets = packets;
    t->requests = open_pool(t, 0);
    t->feedback = open_pool(t, 1);
    struct bt_router_setup setup = {.threads = 2,
                                    .max_pairs = 256,
                                    .seed = 7,
                                    .pool = t->requests,
                                    .request_addr = b->requests,
                                    .feedback_addr = b->feedback,
                                    .feedback_pool = t->feedback,
                                    .credits = credits,
                                    .notes = notes};
    size_t bytes = bt_router_bytes(&setup);
    assert_int_not_equal(bytes, 0);
    t->mem = aligned_alloc(64, bytes);
    assert_non_null(t->mem);
    memset(t->mem, 0xa5, bytes); /* init must not count on zeroes */
    t->s = bt_router_init(t->mem, bytes, &setup, b->now);
    assert_non_null(t->s);
    bt_txq_init(&t->out);
    split_configure(t, b);
}

void split_configure(struct split_bed *t, const struct bed *b)
{
    struct bt_router_refusal why = {0};
    if (!bt_router_apply(t->s, b->now, &b->config, &why)) {
        fail_msg("refused: %s %s", why.field, why.reason);
    }
}

void split_close(struct split_bed *t)
{
    split_discard(t);
    bt_router_discard_held(t->s);
    assert_int_equal(t->fixed[0].left, t->packets);
    assert_int_equal(t->fixed[1].left, t->packets);
    free(t->mem);
    free(t->pool_mem[0]);
    free(t->pool_mem[1]);
}

struct bt_pkt *split_packet(struct split_bed *t, const struct bed *b, bool feedback, const struct bt_addr *from,
                            const uint8_t *bytes, size_t len)
{
    struct bt_pkt *pkt = bt_pool_get(feedback ? t->feedback : t->requests);
    assert_non_null(pkt);
    memcpy(bt_pkt_append(pkt, (uint32_t)len), bytes, len);
    pkt->src = *from;
    pkt->dst = feedback ? b->feedback : b->requests;
    pkt->t_rx_ns = b->now;
    return pkt;
}

void split_discard(struct split_bed *t)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&t->out)) != NULL) {
        bt_pool_put(t->requests, pkt);
    }
}

/* More than OWED_MAX only by forged counters, where there is no key. */
static uint64_t believed(uint64_t owed)
{
    return owed < OWED_MAX ? owed : OWED_MAX;
}

void split_check_agreement(const struct split_bed *t)
{
    const struct bt_router *q = t->s->split->request, *f = t->s->split->feedback;
    bool any_free = false;
    for (uint32_t w = 0; w < f->used_end; w++) {
        bool receives = router_may_receive(f, w);
        uint32_t n = !receives ? 0 : f->worker[w].n < f->depth ? f->worker[w].n : f->depth;
        uint64_t owed = believed(router_outstanding(f, w));
        assert_int_equal(believed(router_outstanding(q, w)), owed);
        assert_int_equal(q->worker[w].flags, f->worker[w].flags);
        assert_int_equal(q->worker[w].n, f->worker[w].n);
        assert_true(n == 0 || believed(bt_load_outstanding(&q->load, w)) == owed);
        any_free = any_free || (n > 0 && (!q->balancer->bounded || owed < n));
    }
    assert_int_equal(bt_load_any_free(&q->load), any_free);
    assert_true(q->held.n == 0 || !any_free || q->hold_back_packets != 0 || q->pump_due);
}
