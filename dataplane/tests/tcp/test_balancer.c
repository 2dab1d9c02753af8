// SPDX-License-Identifier: Apache-2.0
// The balancer as a whole: C-3, C-4, C-8, C-10, C-20 to C-28, C-40 to C-43.
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"
#include "tcp/crab.h"

#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

enum { SERVERS = 4, VIP = 0x0a090909 };

struct bed {
    void *mem, *pool_mem;
    struct bt_crab *crab;
    struct bt_crab_backend servers[SERVERS];
    struct bt_crab_vip_config vips[2];
    struct bt_crab_config cfg;
    uint8_t p[SYN_MOST];
    uint32_t hop, len;
};

static void *take(size_t bytes)
{
    void *mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    assert_non_null(mem);
    return memset(mem, 0, bytes);
}

static void set_servers(struct bed *b)
{
    void *old = b->pool_mem;
    b->pool_mem = take(bt_crab_pool_bytes(SERVERS));
    bt_crab_swap(b->crab, 0, bt_crab_pool_build(b->pool_mem, b->servers, SERVERS, 1));
    free(old);
}

static void start(struct bed *b)
{
    b->cfg.vips = b->vips;
    b->mem = take(bt_crab_bytes(&b->cfg));
    b->crab = bt_crab_init(b->mem, bt_crab_bytes(&b->cfg), &b->cfg);
    assert_non_null(b->crab);
    set_servers(b);
}

static void open_bed(struct bed *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < SERVERS; i++)
        b->servers[i] = (struct bt_crab_backend){.ip = 0x0a010000 + i, .weight = 1, .capable = true, .up = true};
    b->vips[0] = (struct bt_crab_vip_config){.ip = VIP, .port = 80};
    b->vips[1] = (struct bt_crab_vip_config){.ip = VIP, .port = 443};
    b->cfg = (struct bt_crab_config){.n_vips = 2, .recent_sets = 64};
}

static void close_bed(struct bed *b)
{
    free(b->mem);
    free(b->pool_mem);
}

static bool give(struct bed *b, uint64_t now, const struct syn *syn)
{
    uint32_t n = syn_write(syn, b->p);
    return bt_crab_take(b->crab, now, b->p, n, SYN_MOST - n, &b->hop, &b->len);
}

static uint64_t counted(const struct bed *b, enum bt_crab_counter which)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    const uint64_t *c = bt_crab_counters(b->crab, &desc, &n);
    assert_int_equal(n, BT_CRAB_COUNTERS);
    assert_non_null(desc[which].name);
    return c[which];
}

static struct syn capable(void)
{
    struct syn s = syn_plain();
    s.options = syn_linux_options;
    s.options_len = sizeof syn_linux_options;
    return s;
}

static void c10_c21_a_placeholder_becomes_the_vip_and_the_syn_goes_to_a_server(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    struct syn syn = capable();
    open_bed(&b);
    start(&b);
    for (uint32_t i = 0; i < 8; i++) {
        syn.seq = i;
        assert_true(give(&b, SECOND, &syn));
        assert_int_equal(b.hop, 0x0a010000 + i % SERVERS);
        assert_true(syn_sums_right(b.p));
        bt_crab_segment_parse(b.p, b.len, true, &(struct bt_crab_encoding){.kind = BT_CRAB_KIND}, &s);
        assert_int_equal(s.address, VIP);
        assert_int_equal(s.dst, b.hop);
    }
    assert_int_equal(counted(&b, BT_CRAB_REDIRECTED), 8);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 0);
    close_bed(&b);
}

static void c20_a_syn_of_ecn_is_a_syn(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable();
    open_bed(&b);
    start(&b);
    syn.flags = 0xc2;
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_REDIRECTED), 1);
    close_bed(&b);
}

static void c25_a_repeated_syn_goes_where_the_first_one_went(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable(), other = capable();
    other.sport = 41000;
    open_bed(&b);
    start(&b);
    assert_true(give(&b, SECOND, &syn));
    uint32_t first = b.hop;
    assert_true(give(&b, SECOND, &other));
    assert_true(give(&b, 2 * SECOND, &syn));
    assert_int_equal(b.hop, first);
    assert_int_equal(counted(&b, BT_CRAB_REPEATED), 1);
    syn.seq++; // another connection on the same ports
    assert_true(give(&b, 2 * SECOND, &syn));
    assert_int_not_equal(b.hop, first);
    syn.seq--;
    b.servers[first - 0x0a010000].up = false; // C-26
    set_servers(&b);
    assert_true(give(&b, 3 * SECOND, &syn));
    assert_int_not_equal(b.hop, first);
    assert_true(give(&b, 60 * SECOND, &syn)); // forgotten
    assert_int_equal(counted(&b, BT_CRAB_REPEATED), 1);
    close_bed(&b);
}

/* C-25: where all places are taken, the SYN that came first makes room. */
static void c25_the_oldest_syn_is_forgotten_first(void **state)
{
    enum { PLACES = 4 };
    (void)state;
    struct bed b;
    struct syn syn = capable();
    open_bed(&b);
    b.cfg.recent_sets = 1;
    start(&b);
    for (uint32_t i = 0; i <= PLACES; i++, syn.seq++)
        assert_true(give(&b, SECOND + i, &syn));
    for (uint32_t i = 1; i <= PLACES; i++) {
        syn.seq--;
        assert_true(give(&b, SECOND + PLACES + i, &syn));
        assert_int_equal(counted(&b, BT_CRAB_REPEATED), i);
    }
    syn.seq--;
    assert_true(give(&b, 2 * SECOND, &syn));
    assert_int_equal(counted(&b, BT_CRAB_REPEATED), PLACES);
    close_bed(&b);
}

static void c40_c41_what_cannot_be_redirected_takes_the_hash_unchanged(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    struct syn syn = syn_plain();
    open_bed(&b);
    start(&b);
    assert_true(give(&b, 1, &syn));
    uint32_t server = b.hop;
    syn.flags = BT_TCP_ACK;
    for (uint32_t i = 0; i < 10; i++) {
        syn.seq += 100;
        assert_true(give(&b, i, &syn));
        assert_int_equal(b.hop, server);
        bt_crab_segment_parse(b.p, b.len, true, &(struct bt_crab_encoding){.kind = BT_CRAB_KIND}, &s);
        assert_int_equal(s.dst, VIP); // C-42
        assert_int_equal(s.ttl, 63);
        assert_true(syn_sums_right(b.p));
    }
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_SYN), 1);
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_OTHER), 10);
    close_bed(&b);
}

static void c42_a_vip_without_the_hash_path_drops_and_says_so(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = syn_plain();
    open_bed(&b);
    b.vips[0].fallback = BT_CRAB_FALLBACK_DROP;
    start(&b);
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_FALLBACK), 1);
    close_bed(&b);
}

static void c43_no_capable_server_means_the_hash(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable();
    open_bed(&b);
    start(&b);
    for (uint32_t i = 0; i < SERVERS; i++)
        b.servers[i].capable = false;
    set_servers(&b);
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_NO_CAPABLE), 1);
    for (uint32_t i = 0; i < SERVERS; i++)
        b.servers[i].up = false;
    set_servers(&b);
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_NO_SERVER), 1);
    bt_crab_swap(b.crab, 0, NULL);
    assert_false(give(&b, 1, &syn));
    close_bed(&b);
}

static void c22_clients_of_the_prototype_get_the_option_inserted(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    struct syn syn = syn_plain();
    uint8_t nops[36];
    memset(nops, 1, sizeof nops);
    open_bed(&b);
    b.vips[0].assume_capable = true;
    start(&b);
    uint32_t n = syn_write(&syn, b.p);
    assert_true(bt_crab_take(b.crab, 1, b.p, n, SYN_MOST - n, &b.hop, &b.len));
    assert_int_equal(b.len, n + 8);
    bt_crab_segment_parse(b.p, b.len, true, &(struct bt_crab_encoding){.kind = BT_CRAB_KIND}, &s);
    assert_int_equal(s.address, VIP);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 1);
    syn.options = nops; // C-8
    syn.options_len = sizeof nops;
    assert_true(give(&b, 1, &syn));
    n = syn_write(&(struct syn){.src = 1, .dst = VIP, .sport = 9, .dport = 80, .flags = BT_TCP_SYN, .ttl = 9}, b.p);
    assert_true(bt_crab_take(b.crab, 1, b.p, n, 7, &b.hop, &b.len)); // the buffer ends
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_NO_SPACE), 2);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 1);
    n = syn_write(&(struct syn){.src = 1, .dst = VIP, .sport = 9, .dport = 80, .flags = BT_TCP_SYN, .ttl = 9}, b.p);
    assert_true(bt_crab_take(b.crab, 1, b.p, n + 8, 0, &b.hop, &b.len)); // room enough in the frame's padding
    assert_int_equal(b.len, n + 8);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 2);
    syn.options = (const uint8_t[]){9, 0, 1, 1}; // what cannot be read is not made longer
    syn.options_len = 4;
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_NO_SPACE), 3);
    close_bed(&b);
}

static void c28_an_address_that_came_with_the_syn_is_overwritten(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    struct syn syn = syn_plain();
    open_bed(&b);
    start(&b);
    syn.options = (const uint8_t[]){42, 6, 6, 6, 6, 6, 42, 6, 7, 7, 7, 7};
    syn.options_len = 12;
    assert_true(give(&b, 1, &syn));
    bt_crab_segment_parse(b.p, b.len, true, &(struct bt_crab_encoding){.kind = BT_CRAB_KIND}, &s);
    assert_int_equal(s.address, VIP);
    assert_int_equal(counted(&b, BT_CRAB_FOREIGN_ADDRESS), 1);
    assert_int_equal(counted(&b, BT_CRAB_DUPLICATE_OPTIONS), 1);
    syn.options = (const uint8_t[]){42, 6, 0, 0, 0, 0, 5, 0};
    syn.options_len = 8;
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_MALFORMED_OPTIONS), 1);
    close_bed(&b);
}

static void every_drop_has_its_reason(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable();
    open_bed(&b);
    start(&b);
    syn.dport = 81;
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_NOT_A_VIP), 1);
    syn.dport = 80;
    syn.ttl = 1;
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_TTL), 1);
    uint32_t n = syn_write(&syn, b.p);
    assert_false(bt_crab_take(b.crab, 1, b.p, n - 1, 0, &b.hop, &b.len));
    assert_int_equal(counted(&b, BT_CRAB_DROP_TRUNCATED), 1);
    b.p[10] ^= 1;
    assert_false(bt_crab_take(b.crab, 1, b.p, n, 0, &b.hop, &b.len));
    assert_int_equal(counted(&b, BT_CRAB_DROP_IP_SUM), 1);
    uint64_t sum = 0;
    for (int i = 1; i < BT_CRAB_COUNTERS; i++)
        sum += counted(&b, (enum bt_crab_counter)i);
    assert_int_equal(counted(&b, BT_CRAB_RX), sum);
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c10_c21_a_placeholder_becomes_the_vip_and_the_syn_goes_to_a_server),
        cmocka_unit_test(c20_a_syn_of_ecn_is_a_syn),
        cmocka_unit_test(c25_a_repeated_syn_goes_where_the_first_one_went),
        cmocka_unit_test(c25_the_oldest_syn_is_forgotten_first),
        cmocka_unit_test(c40_c41_what_cannot_be_redirected_takes_the_hash_unchanged),
        cmocka_unit_test(c42_a_vip_without_the_hash_path_drops_and_says_so),
        cmocka_unit_test(c43_no_capable_server_means_the_hash),
        cmocka_unit_test(c22_clients_of_the_prototype_get_the_option_inserted),
        cmocka_unit_test(c28_an_address_that_came_with_the_syn_is_overwritten),
        cmocka_unit_test(every_drop_has_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
