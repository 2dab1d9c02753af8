// SPDX-License-Identifier: Apache-2.0
// The balancer as a whole: C-3, C-4, C-8 to C-10, C-20 to C-28, C-40 to C-43; each with IPv4 and with IPv6.
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"
#include "counter_names.h"
#include "tcp/crab.h"
#include "tcp/crab_recent.h"

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
    struct bt_addr to;
    uint32_t hop, len; // hop: the number of `to`
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
    for (uint32_t i = 0; i < SERVERS; i++) {
        b->servers[i] =
            (struct bt_crab_backend){.ip = syn_ip(0x0a010000 + i), .weight = 1, .capable = true, .up = true};
    }
    b->vips[0] = b->vips[1] = (struct bt_crab_vip_config){.addr = syn_ip(VIP)};
    b->vips[0].addr.port = 80;
    b->vips[1].addr.port = 443;
    b->cfg = (struct bt_crab_config){.n_vips = 2, .recent_sets = 64};
}

static void close_bed(struct bed *b)
{
    free(b->mem);
    free(b->pool_mem);
}

// Gives the balancer b->p[0..n) with so much room behind.
static bool give_bytes(struct bed *b, uint64_t now, uint32_t n, uint32_t room)
{
    struct bt_crab_packet pkt = {.p = b->p, .len = n, .room = room};
    bool goes_on = bt_crab_take(b->crab, now, &pkt);
    b->to = pkt.hop;
    b->len = pkt.len;
    if (goes_on) {
        b->hop = syn_number(&b->to);
    }
    return goes_on;
}

static bool give(struct bed *b, uint64_t now, const struct syn *syn)
{
    uint32_t n = syn_write(syn, b->p);
    return give_bytes(b, now, n, SYN_MOST - n);
}

static struct bt_crab_segment sent(const struct bed *b)
{
    struct bt_crab_segment s;
    const struct bt_crab_encoding enc = {.kind = BT_CRAB_KIND};
    assert_int_equal(bt_crab_segment_parse(b->p, b->len, true, &enc, &s), BT_CRAB_SEGMENT_OK);
    assert_true(syn_sums_right(b->p));
    return s;
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
    syn_mark(&s);
    return s;
}

static void c10_c21_a_placeholder_becomes_the_vip_and_the_syn_goes_to_a_server(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable();
    open_bed(&b);
    start(&b);
    for (uint32_t i = 0; i < 8; i++) {
        syn.seq = i;
        assert_true(give(&b, SECOND, &syn));
        assert_int_equal(b.hop, 0x0a010000 + i % SERVERS);
        struct bt_crab_segment s = sent(&b);
        assert_int_equal(syn_number(&s.address), VIP);
        assert_int_equal(syn_number(&s.dst), b.hop);
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
    for (uint32_t i = 0; i <= PLACES; i++, syn.seq++) {
        assert_true(give(&b, SECOND + i, &syn));
    }
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

// C-25: only the same SYN is a repetition: of another port, client or VIP it is another connection.
static void c25_other_connections_with_the_same_number_are_no_repetitions(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = capable(), port = capable(), client = capable(), vip = capable();
    port.sport++;
    client.src++;
    vip.dport = 443;
    open_bed(&b);
    b.cfg.recent_sets = 1; // all in one place
    start(&b);
    struct bt_crab_pool *pool = bt_crab_swap(b.crab, 0, NULL);
    bt_crab_swap(b.crab, 0, pool);
    bt_crab_swap(b.crab, 1, pool);
    assert_true(give(&b, SECOND, &syn));
    assert_true(give(&b, SECOND, &port));
    assert_true(give(&b, SECOND, &client));
    assert_true(give(&b, SECOND, &vip));
    assert_int_equal(counted(&b, BT_CRAB_REPEATED), 0);
    assert_true(give(&b, SECOND, &syn));
    assert_int_equal(counted(&b, BT_CRAB_REPEATED), 1);
    close_bed(&b);
}

// C-6, C-20: a VIP is an address and a port, however many share the address.
static void c20_every_port_of_an_address_is_a_vip_of_its_own(void **state)
{
    (void)state;
    static struct bt_crab_vip_config vips[BT_CRAB_MAX_VIPS];
    struct bed b = {.cfg = {.vips = vips, .n_vips = BT_CRAB_MAX_VIPS, .recent_sets = 1}};
    struct syn syn = capable();
    for (unsigned i = 0; i < BT_CRAB_MAX_VIPS; i++) {
        vips[i] = (struct bt_crab_vip_config){.addr = syn_ip(VIP)};
        vips[i].addr.port = (uint16_t)(1000 + 2 * i);
    }
    b.mem = take(bt_crab_bytes(&b.cfg));
    b.crab = bt_crab_init(b.mem, bt_crab_bytes(&b.cfg), &b.cfg);
    for (unsigned i = 0; i < BT_CRAB_MAX_VIPS; i++) {
        for (unsigned k = 0; k < 2; k++) {
            syn.dport = (uint16_t)(1000 + 2 * i + k);
            assert_false(give(&b, SECOND, &syn));
        }
        assert_int_equal(counted(&b, BT_CRAB_DROP_NO_SERVER), i + 1); // known, and without servers
        assert_int_equal(counted(&b, BT_CRAB_DROP_NOT_A_VIP), i + 1);
    }
    close_bed(&b);
}

static void c40_c41_what_cannot_be_redirected_takes_the_hash_unchanged(void **state)
{
    (void)state;
    struct bed b;
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
        struct bt_crab_segment s = sent(&b);
        assert_int_equal(syn_number(&s.dst), VIP); // C-42
        assert_int_equal(s.ttl, 63);
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
    for (uint32_t i = 0; i < SERVERS; i++) {
        b.servers[i].capable = false;
    }
    set_servers(&b);
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_NO_CAPABLE), 1);
    for (uint32_t i = 0; i < SERVERS; i++) {
        b.servers[i].up = false;
    }
    set_servers(&b);
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_NO_SERVER), 1);
    bt_crab_swap(b.crab, 0, NULL);
    assert_false(give(&b, 1, &syn));
    close_bed(&b);
}

static void c9_c22_clients_of_the_prototype_get_the_option_inserted(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = syn_plain(), other = syn_plain();
    uint8_t nops[36];
    const uint32_t more = syn_six ? 20 : 8;
    memset(nops, 1, sizeof nops);
    other.sport = 9;
    open_bed(&b);
    b.vips[0].assume_capable = true;
    start(&b);
    uint32_t n = syn_write(&syn, b.p);
    assert_true(give_bytes(&b, 1, n, SYN_MOST - n));
    assert_int_equal(b.len, n + more);
    struct bt_crab_segment s = sent(&b);
    assert_int_equal(syn_number(&s.address), VIP);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 1);
    syn.options = nops; // C-8
    syn.options_len = sizeof nops;
    assert_true(give(&b, 1, &syn));
    n = syn_write(&other, b.p);
    assert_true(give_bytes(&b, 1, n, more - 1)); // the buffer ends
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_NO_SPACE), 2);
    assert_int_equal(counted(&b, BT_CRAB_INSERTED), 1);
    n = syn_write(&other, b.p);
    assert_true(give_bytes(&b, 1, n + more, 0)); // room enough in the frame's padding
    assert_int_equal(b.len, n + more);
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
    uint8_t o[40];
    struct syn syn = syn_plain();
    open_bed(&b);
    start(&b);
    syn.options = o;
    syn.options_len = syn_option(o, 0x06060606);
    syn.options_len += syn_option(o + syn.options_len, 0x07070707);
    assert_true(give(&b, 1, &syn));
    struct bt_crab_segment s = sent(&b);
    assert_int_equal(syn_number(&s.address), VIP);
    assert_int_equal(counted(&b, BT_CRAB_FOREIGN_ADDRESS), 1);
    assert_int_equal(counted(&b, BT_CRAB_DUPLICATE_OPTIONS), 1);
    syn.options_len = syn_option(o, 0);
    o[syn.options_len++] = 5; // of no length
    o[syn.options_len++] = 0;
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_MALFORMED_OPTIONS), 1);
    assert_int_equal(counted(&b, BT_CRAB_FOREIGN_ADDRESS), 1);
    close_bed(&b);
}

// C-9: the other family's option is not the option, and its VIPs are others.
static void c9_the_families_do_not_mix(void **state)
{
    (void)state;
    struct bed b;
    struct syn syn = syn_plain();
    open_bed(&b);
    start(&b);
    syn.options = syn_six ? (const uint8_t[]){42, 6, 0, 0, 0, 0, 1, 1}
                          : (const uint8_t[]){42, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
    syn.options_len = syn_six ? 8 : 20;
    assert_true(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_FALLBACK_SYN), 1);
    syn.six = !syn.six;
    syn.net = 0; // ::10.9.9.9
    assert_false(give(&b, 1, &syn));
    assert_int_equal(counted(&b, BT_CRAB_DROP_NOT_A_VIP), 1);
    close_bed(&b);
}

static void drops_of_ip4(struct bed *b)
{
    struct syn syn = capable();
    uint32_t n = syn_write(&syn, b->p);
    b->p[10] ^= 1;
    assert_false(give_bytes(b, 1, n, 0));
    assert_int_equal(counted(b, BT_CRAB_DROP_IP_SUM), 1);
}

// C-9: what the programs of the node count and let pass is dropped here, since nobody else has the address.
static void drops_of_ip6(struct bed *b)
{
    const uint8_t chain[] = {0, 43, 51, 60, 135, 139, 140}, tcp[8] = {6};
    struct syn syn = capable();
    syn.ip_options = tcp;
    syn.ip_options_len = sizeof tcp;
    for (unsigned i = 0; i < sizeof chain; i++) {
        syn.extension = chain[i];
        assert_false(give(b, 1, &syn));
        assert_int_equal(counted(b, BT_CRAB_DROP_EXTENSION), i + 1);
    }
    syn.extension = 44;
    assert_false(give(b, 1, &syn));
    assert_int_equal(counted(b, BT_CRAB_DROP_FRAGMENT), 1);
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
    assert_false(give_bytes(&b, 1, n - 1, 0));
    assert_int_equal(counted(&b, BT_CRAB_DROP_TRUNCATED), 1);
    b.p[0] ^= 0xf0;
    assert_false(give_bytes(&b, 1, n, 0));
    assert_int_equal(counted(&b, BT_CRAB_DROP_HEADER), 1);
    syn_six ? drops_of_ip6(&b) : drops_of_ip4(&b);
    uint64_t sum = 0;
    for (int i = 1; i < BT_CRAB_COUNTERS; i++) {
        sum += counted(&b, (enum bt_crab_counter)i);
    }
    assert_int_equal(counted(&b, BT_CRAB_RX), sum);
    close_bed(&b);
}

// C-25: for three seconds, from the first moment of the clock on.
static void c25_a_syn_is_remembered_for_three_seconds(void **state)
{
    static const struct {
        uint64_t first, again;
        bool known;
    } rows[] = {{SECOND, 4 * SECOND, true}, {SECOND, 4 * SECOND + 1, false}, {0, 1, true}, {5, 5, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bed b;
        struct syn syn = capable();
        open_bed(&b);
        start(&b);
        assert_true(give(&b, rows[i].first, &syn));
        assert_true(give(&b, rows[i].again, &syn));
        assert_int_equal(counted(&b, BT_CRAB_REPEATED), rows[i].known);
        close_bed(&b);
    }
}

// C-62: a report is believed for three seconds where nothing else is said.
static void c62_a_report_is_old_after_three_seconds(void **state)
{
    (void)state;
    for (unsigned old = 0; old < 2; old++) {
        struct bed b;
        struct syn syn = capable();
        unsigned others = 0;
        open_bed(&b);
        b.vips[0].policy = BT_CRAB_LEAST;
        start(&b);
        struct bt_crab_pool *pool = bt_crab_swap(b.crab, 0, NULL);
        bt_crab_swap(b.crab, 0, pool);
        for (uint32_t i = 0; i < SERVERS; i++) {
            assert_true(bt_crab_pool_report(pool, &b.servers[i].ip, i == 2 ? 0 : 100, SECOND));
        }
        for (uint32_t i = 0; i < 40; i++) {
            syn.seq = i;
            assert_true(give(&b, 4 * SECOND + old, &syn));
            others += b.hop != 0x0a010002;
        }
        assert_int_equal(others > 10, old);
        assert_int_equal(others == 0, !old);
        close_bed(&b);
    }
}

static void a_balancer_needs_the_memory_it_says(void **state)
{
    (void)state;
    struct bed b;
    open_bed(&b);
    b.cfg.vips = b.vips;
    size_t bytes = bt_crab_bytes(&b.cfg);
    void *mem = take(bytes);
    assert_null(bt_crab_init(mem, bytes - 1, &b.cfg));
    assert_non_null(bt_crab_init(mem, bytes, &b.cfg));
    free(mem);
    b.cfg.recent_sets = 0; // as many as a balancer has by itself
    assert_true(bt_crab_bytes(&b.cfg) > 16000 * bt_crab_recent_bytes(1));
    assert_true(bt_crab_bytes(&b.cfg) < 17000 * bt_crab_recent_bytes(1));
}

// What docs/reference/metrics.md calls each of them.
static void counters_stand_under_their_names(void **state)
{
    struct bed b;
    const struct bt_counter_desc *desc;
    unsigned n;
    (void)state;
    open_bed(&b);
    start(&b);
    (void)bt_crab_counters(b.crab, &desc, &n);
    assert_int_equal(n, BT_CRAB_COUNTERS);
    assert_counter_names(desc, n,
                         "crab_segments_total\n"
                         "crab_redirected_total\n"
                         "crab_inserted_total\n"
                         "crab_repeated_total\n"
                         "crab_fallback_total{reason=client}\n"
                         "crab_fallback_total{reason=servers}\n"
                         "crab_fallback_total{reason=option_space}\n"
                         "crab_fallback_total{reason=not_syn}\n"
                         "crab_foreign_address_total\n"
                         "crab_duplicate_options_total\n"
                         "crab_malformed_options_total\n"
                         "crab_dropped_total{reason=truncated}\n"
                         "crab_dropped_total{reason=header}\n"
                         "crab_dropped_total{reason=ip_checksum}\n"
                         "crab_dropped_total{reason=fragment}\n"
                         "crab_dropped_total{reason=extension_header}\n"
                         "crab_dropped_total{reason=ttl}\n"
                         "crab_dropped_total{reason=not_a_vip}\n"
                         "crab_dropped_total{reason=no_server}\n"
                         "crab_dropped_total{reason=fallback}\n");
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c10_c21_a_placeholder_becomes_the_vip_and_the_syn_goes_to_a_server),
        cmocka_unit_test(c20_a_syn_of_ecn_is_a_syn),
        cmocka_unit_test(c25_a_repeated_syn_goes_where_the_first_one_went),
        cmocka_unit_test(c25_the_oldest_syn_is_forgotten_first),
        cmocka_unit_test(c25_other_connections_with_the_same_number_are_no_repetitions),
        cmocka_unit_test(c20_every_port_of_an_address_is_a_vip_of_its_own),
        cmocka_unit_test(c40_c41_what_cannot_be_redirected_takes_the_hash_unchanged),
        cmocka_unit_test(c42_a_vip_without_the_hash_path_drops_and_says_so),
        cmocka_unit_test(c43_no_capable_server_means_the_hash),
        cmocka_unit_test(c9_c22_clients_of_the_prototype_get_the_option_inserted),
        cmocka_unit_test(c28_an_address_that_came_with_the_syn_is_overwritten),
        cmocka_unit_test(c9_the_families_do_not_mix),
        cmocka_unit_test(every_drop_has_its_reason),
        cmocka_unit_test(c25_a_syn_is_remembered_for_three_seconds),
        cmocka_unit_test(c62_a_report_is_old_after_three_seconds),
        cmocka_unit_test(a_balancer_needs_the_memory_it_says),
        cmocka_unit_test(counters_stand_under_their_names),
    };
    int four = cmocka_run_group_tests_name("IPv4", tests, syn_four_group, NULL);
    return four + cmocka_run_group_tests_name("IPv6", tests, syn_six_group, NULL);
}
