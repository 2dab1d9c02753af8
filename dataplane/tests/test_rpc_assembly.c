// SPDX-License-Identifier: Apache-2.0
// what an incomplete message says is missing, bit by bit.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/assembly.h"

enum { PACKETS = 1400, PAYLOAD = 1464 };

static struct bt_pool_fixed fixed;
static struct bt_port port;
static struct bt_assembly_pool assemblies;
static void *slab, *memory;
static uint64_t counters[BT_M_COUNT];

static int setup(void **state)
{
    (void)state;
    struct bt_addr here = bt_addr_v4u(0x0a000002, 8000);
    struct bt_mem m;
    slab = aligned_alloc(64, (bt_pool_fixed_bytes(PACKETS) + 63) / 64 * 64);
    memory = calloc(1, 1 << 16);
    struct bt_pool *pool = bt_pool_fixed_init(&fixed, slab, PACKETS);
    bt_mem_init(&m, memory, 1 << 16);
    bt_assembly_pool_init(&assemblies, &m, 1, 2000);
    return m.overflowed || !bt_port_init(&port, pool, &here, 0, 1500, 1 << 22);
}

static int teardown(void **state)
{
    (void)state;
    free(slab);
    free(memory);
    return 0;
}

static void add(struct bt_assembly *a, uint32_t index, uint32_t count)
{
    static const uint8_t zeros[PAYLOAD];
    enum bt_mcase why;
    struct bt_r2p2_hdr h;
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    assert_non_null(pkt);
    bt_r2p2_start(&h, BT_REQUEST, 0, true);
    h.first = index == 0;
    h.last = index == count - 1;
    h.count_or_index = (uint16_t)(index == 0 ? count : index);
    memcpy(bt_pkt_append(pkt, PAYLOAD), zeros, PAYLOAD);
    assert_true(bt_r2p2_push_header(pkt, &h));
    pkt->src = bt_addr_v4u(0x0a000001, 40000);
    assert_int_equal(bt_assembly_add(a, pkt, &h, 1, (struct bt_assembly_owner){&port, counters}, &why),
                     BT_ASSEMBLY_ADDED);
}

// Of count packets those are here for which it says so.
static void expect_sack(uint32_t count, bool (*here)(uint32_t i), uint32_t base, uint32_t nbits)
{
    struct bt_assembly *a = bt_assembly_get(&assemblies, 1);
    uint8_t buf[BT_SACK_SIZE_MAX];
    struct bt_sack s;
    assert_non_null(a);
    for (uint32_t i = count; i-- > 0;) { // the first comes last
        if (here(i)) {
            add(a, i, count);
        }
    }
    size_t n = bt_assembly_sack(a, BT_SACK_REQUEST, buf);
    assert_int_equal(n, BT_SACK_HEADER + (nbits + 7) / 8);
    assert_int_equal(bt_sack_decode(buf, n, &s), BT_M_OK);
    assert_int_equal(s.what, BT_SACK_REQUEST);
    assert_int_equal(s.base, base);
    assert_int_equal(s.nbits, nbits);
    for (uint32_t i = 0; i < (nbits + 7) / 8 * 8; i++) {
        bool missing = (s.bits[i / 8] >> (7 - i % 8)) & 1;
        assert_int_equal(missing, i < nbits && !here(base + i));
    }
    bt_assembly_put(&assemblies, a, &fixed.pool);
    assert_int_equal(fixed.left, PACKETS);
}

static bool all_but_some(uint32_t i)
{
    return i != 3 && i != 4 && i != 9 && i != 11 && i != 25;
}

static bool only_the_first(uint32_t i)
{
    return i == 0;
}

static bool all_but_the_first(uint32_t i)
{
    return i != 0;
}

static bool all_but_the_last_of_ten(uint32_t i)
{
    return i != 9;
}

static bool every_other(uint32_t i)
{
    return i % 2 == 0;
}

static void r22_what_is_missing_is_named(void **state)
{
    (void)state;
    expect_sack(40, all_but_some, 3, 23);
    expect_sack(40, only_the_first, 1, 39);
    expect_sack(10, all_but_the_last_of_ten, 9, 1);
    expect_sack(70, every_other, 1, 69);
    expect_sack(10, all_but_the_first, 0, 1); // how many there are is not known: the first is asked for
}

static void r22_so_much_is_named_at_once(void **state)
{
    (void)state;
    expect_sack(1300, only_the_first, 1, BT_SACK_BITS_MAX);
    expect_sack(1300, every_other, 1, BT_SACK_BITS_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r22_what_is_missing_is_named),
        cmocka_unit_test(r22_so_much_is_named_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
