// SPDX-License-Identifier: Apache-2.0
// Pair table, ring, packet pool, arena, random numbers.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pairs.h"
#include "base/pkt.h"
#include "base/ring.h"
#include "base/rng.h"
#include "base/trace.h"

#define LIMIT 100

struct model {
    bool present;
    uint32_t value;
};

static struct bt_addr addr_of(unsigned i)
{
    return i & 1 ? bt_addr_v4u(0x0a000000 + i / 8, (uint16_t)(1000 + i / 2 % 4))
                 : (struct bt_addr){.ip = {0xfd, [15] = (uint8_t)i}, .port = 9};
}

/* Both ways to insert, look up and remove do the same. */
static bool insert(struct bt_pairs *t, bool hashed, const struct bt_addr *a, uint16_t id, uint32_t v)
{
    return hashed ? bt_pairs_add(t, bt_pairs_hash(t->seed, a, id), a, id, v) : bt_pairs_put(t, a, id, v);
}

static uint32_t look_up(const struct bt_pairs *t, const struct bt_addr *a, uint16_t id)
{
    uint32_t hash = bt_pairs_hash(t->seed, a, id), v = bt_pairs_find(t, a, id);
    assert_int_equal(bt_pairs_look(t, hash, a, id), v);
    if (v != BT_PAIRS_NONE) {
        const struct bt_pairs_slot *entry = bt_pairs_entry(t, hash, v);
        assert_true(entry != NULL && entry->req_id == id && bt_addr_eq(&entry->addr, a));
    }
    return v;
}

static uint32_t delete(struct bt_pairs *t, bool hashed, const struct bt_addr *a, uint16_t id)
{
    uint32_t v = bt_pairs_find(t, a, id);
    if (!hashed || v == BT_PAIRS_NONE) {
        return bt_pairs_del(t, a, id);
    }
    bt_pairs_remove(t, bt_pairs_entry(t, bt_pairs_hash(t->seed, a, id), v));
    return v;
}

static void r27_pairs_match_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct bt_rng rng;
        bt_rng_seed(&rng, seed);
        struct bt_pairs t;
        uint64_t seeds[2] = {bt_rng_next(&rng), bt_rng_next(&rng)};
        void *mem = malloc(bt_pairs_bytes(LIMIT));
        bt_pairs_init(&t, mem, LIMIT, seeds);
        struct model model[256] = {{0}};
        uint32_t count = 0;
        for (int step = 0; step < 4000; step++) {
            unsigned k = bt_rng_below(&rng, 256);
            struct bt_addr a = addr_of(k);
            uint16_t id = (uint16_t)(k * 257);
            uint32_t v = (uint32_t)step;
            if (bt_rng_below(&rng, 5) < 3) {
                bool ok = insert(&t, !model[k].present && step % 2 == 0, &a, id, v);
                bool expect = model[k].present || count < LIMIT;
                assert_int_equal(ok, expect);
                if (ok) {
                    count += !model[k].present;
                    model[k] = (struct model){true, v};
                }
            } else {
                uint32_t want = model[k].present ? model[k].value : BT_PAIRS_NONE;
                assert_int_equal(delete (&t, step % 3 == 0, &a, id), want);
                count -= model[k].present;
                model[k].present = false;
            }
            assert_int_equal(t.count, count);
            for (unsigned i = 0; i < 256; i += 17) {
                struct bt_addr b = addr_of(i);
                uint32_t want = model[i].present ? model[i].value : BT_PAIRS_NONE;
                assert_int_equal(look_up(&t, &b, (uint16_t)(i * 257)), want);
            }
        }
        free(mem);
    }
}

static void r1_identity_is_address_port_and_id(void **state)
{
    (void)state;
    struct bt_pairs t;
    uint64_t seeds[2] = {0, 0};
    void *mem = malloc(bt_pairs_bytes(8));
    bt_pairs_init(&t, mem, 8, seeds);
    struct bt_addr a = bt_addr_v4u(0x0a000001, 7), b = bt_addr_v4u(0x0a000001, 8), c = bt_addr_v4u(0x0a000002, 7);
    assert_true(bt_pairs_put(&t, &a, 1, 10) && bt_pairs_put(&t, &a, 2, 20));
    assert_true(bt_pairs_put(&t, &b, 1, 30) && bt_pairs_put(&t, &c, 1, 40));
    assert_int_equal(bt_pairs_find(&t, &a, 1), 10);
    assert_int_equal(bt_pairs_find(&t, &a, 2), 20);
    assert_int_equal(bt_pairs_find(&t, &b, 1), 30);
    assert_int_equal(bt_pairs_find(&t, &c, 1), 40);
    assert_int_equal(bt_pairs_find(&t, &c, 2), BT_PAIRS_NONE);
    free(mem);
}

static void ring_is_a_bounded_fifo(void **state)
{
    (void)state;
    int items[7];
    void *mem[8];
    struct bt_ring r;
    assert_int_equal(bt_ring_bytes(5), sizeof mem);
    bt_ring_init(&r, mem, 5);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 7; i++) {
            assert_int_equal(bt_ring_push(&r, &items[i]), i < 5);
        }
        assert_ptr_equal(bt_ring_peek(&r), &items[0]);
        for (int i = 0; i < 5; i++) {
            assert_ptr_equal(bt_ring_pop(&r), &items[i]);
        }
        assert_null(bt_ring_pop(&r));
    }
}

static void pool_gives_clean_packets_and_runs_dry(void **state)
{
    (void)state;
    struct bt_pool_fixed f;
    void *mem = aligned_alloc(64, (bt_pool_fixed_bytes(4) + 63) / 64 * 64);
    struct bt_pool *pool = bt_pool_fixed_init(&f, mem, 4);
    struct bt_pkt *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = bt_pool_get(pool);
        assert_non_null(p[i]);
        assert_int_equal(p[i]->room_before, BT_PKT_HEADROOM);
        assert_non_null(bt_pkt_append(p[i], BT_PKT_BUFFER - BT_PKT_HEADROOM));
        assert_null(bt_pkt_append(p[i], 1));
        assert_non_null(bt_pkt_push(p[i], BT_PKT_HEADROOM));
        assert_null(bt_pkt_push(p[i], 1));
        memset(p[i]->data, i, p[i]->len);
    }
    assert_null(bt_pool_get(pool));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(p[i]->data[BT_PKT_BUFFER - 1], i);
    }
    p[0]->next = p[1];
    p[1]->next = p[2];
    p[2]->next = p[3];
    p[3]->next = NULL;
    bt_pool_put_chain(pool, p[0]);
    assert_int_equal(f.left, 4);
    struct bt_pkt *again = bt_pool_get(pool);
    assert_int_equal(again->len, 0);
    assert_int_equal(again->room_before, BT_PKT_HEADROOM);
    free(mem);
}

static void txq_keeps_order(void **state)
{
    (void)state;
    struct bt_pkt p[3];
    struct bt_txq q;
    bt_txq_init(&q);
    for (int i = 0; i < 3; i++) {
        bt_txq_push(&q, &p[i]);
    }
    assert_int_equal(q.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(bt_txq_pop(&q), &p[i]);
    }
    assert_null(bt_txq_pop(&q));
    assert_null(q.tail);
}

static void arena_measures_and_refuses_overflow(void **state)
{
    (void)state;
    struct bt_mem m;
    bt_mem_init(&m, NULL, 0);
    assert_null(bt_mem_take(&m, 1));
    assert_null(bt_mem_take(&m, 65));
    assert_int_equal(m.used, 192);
    assert_false(m.overflowed);
    uint8_t *mem = aligned_alloc(64, 192);
    bt_mem_init(&m, mem, 192);
    assert_ptr_equal(bt_mem_take(&m, 1), mem);
    assert_ptr_equal(bt_mem_take(&m, 65), mem + 64);
    assert_null(bt_mem_take(&m, 1));
    assert_true(m.overflowed);
    for (int before = 0; before < 2; before++) { // more than there are numbers: by itself, or with what is used already
        bt_mem_init(&m, NULL, 0);
        bt_mem_take(&m, before ? 64 : 0);
        assert_null(bt_mem_take(&m, before ? SIZE_MAX - 63 : SIZE_MAX));
        assert_true(m.overflowed);
        assert_int_equal(m.used, before ? 64 : 0);
    }
    free(mem);
}

static void rng_is_even_and_repeatable(void **state)
{
    (void)state;
    struct bt_rng a, b;
    bt_rng_seed(&a, 42);
    bt_rng_seed(&b, 42);
    unsigned seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint32_t v = bt_rng_below(&a, 7);
        assert_int_equal(v, bt_rng_below(&b, 7));
        seen[v]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 9600, 10400); // 10,000 +- 4 sigma
    }
    double u = bt_rng_unit(&a);
    assert_true(u >= 0 && u < 1);
}

// Seeds are spread by splitmix64, of which these numbers are published: runs can be repeated by another program.
static void rng_is_seeded_by_splitmix64(void **state)
{
    (void)state;
    struct bt_rng r;
    bt_rng_seed(&r, 0);
    assert_true(r.s[0] == UINT64_C(0xe220a8397b1dcdaf) && r.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(r.s[2] == UINT64_C(0x06c45d188009454f) && r.s[3] == UINT64_C(0xf88bb8a8724c81ec));
}

// the newest are kept, each is read once, and what was overwritten is counted.
static void r59_traces_are_read_once_and_losses_counted(void **state)
{
    static struct bt_trace_ring ring;
    struct bt_trace out[BT_TRACES];
    uint64_t next, lost;
    (void)state;
    assert_int_equal(bt_trace_read(&ring, 0, out, 4, &next, &lost), 0);
    assert_int_equal(next | lost, 0);
    for (uint64_t id = 1; id <= BT_TRACES + 6; id++) {
        bt_trace_note(&ring, &(struct bt_trace){.id = id});
    }
    bt_trace_note(NULL, &(struct bt_trace){.id = 1}); // nobody wants to know
    assert_int_equal(bt_trace_read(&ring, 2, out, 4, &next, &lost), 4);
    assert_int_equal(lost, 4); // 3 to 6
    assert_int_equal(out[0].id, 7);
    assert_int_equal(next, 10);
    assert_int_equal(bt_trace_read(&ring, next, out, BT_TRACES, &next, &lost), BT_TRACES - 4);
    assert_int_equal(out[BT_TRACES - 5].id, BT_TRACES + 6);
    assert_int_equal(lost, 0);
    assert_int_equal(bt_trace_read(&ring, next, out, 4, &next, &lost), 0);
    assert_int_equal(bt_trace_read(&ring, BT_TRACES + 7, out, 1, &next, &lost), 1); // of another life
    assert_int_equal(out[0].id, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r27_pairs_match_model),
        cmocka_unit_test(r1_identity_is_address_port_and_id),
        cmocka_unit_test(ring_is_a_bounded_fifo),
        cmocka_unit_test(pool_gives_clean_packets_and_runs_dry),
        cmocka_unit_test(txq_keeps_order),
        cmocka_unit_test(arena_measures_and_refuses_overflow),
        cmocka_unit_test(rng_is_even_and_repeatable),
        cmocka_unit_test(rng_is_seeded_by_splitmix64),
        cmocka_unit_test(r59_traces_are_read_once_and_losses_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
