// SPDX-License-Identifier: Apache-2.0
// Asking servers whether they are up and echo the option: C-51, C-52; each with IPv4 and with IPv6.
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"
#include "tcp/crab_probe.h"

#define MILLISECOND UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)
#define IP_HEAD     (syn_six ? 40u : 20u)
#define RST_BYTES   (IP_HEAD + 20u)

enum { OWN = 0x0a000002, VIP = 0x0a090909, DIP = 0x0a010001, SERVERS = 3 };

struct bed {
    struct bt_crab_prober p;
    struct bt_crab_probed mem[SERVERS];
    uint8_t probe[BT_CRAB_PROBE_MOST], rst[BT_CRAB_PROBE_MOST], answer[SYN_MOST];
    uint32_t hop, to; // the numbers of who is asked, and where the answer goes
    uint16_t from;    // the answer's port
    uint64_t now;
};

static const struct bt_crab_encoding kind42 = {.kind = BT_CRAB_KIND};

static struct bt_crab_probe_config config(void)
{
    struct bt_crab_probe_config cfg = {.seed = 4};
    *(syn_six ? &cfg.own6 : &cfg.own4) = syn_ip(OWN);
    return cfg;
}

static void start(struct bed *b, uint32_t servers)
{
    struct bt_crab_probe_target targets[SERVERS];
    const struct bt_crab_probe_config cfg = config();
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < servers; i++) {
        targets[i] = (struct bt_crab_probe_target){.dip = syn_ip(DIP + i), .vip = syn_ip(VIP), .port = 80};
    }
    b->now = 10 * SECOND;
    b->to = OWN;
    b->from = 80;
    bt_crab_prober_init(&b->p, b->mem, targets, servers, &cfg, b->now);
}

// Lets time pass until a probe leaves.
static void until_probe(struct bed *b)
{
    struct bt_addr hop;
    for (uint32_t ms = 0; ms < 5000; ms++) {
        if (bt_crab_prober_send(&b->p, b->now, b->probe, &hop) != 0) {
            assert_true(syn_sums_right(b->probe));
            b->hop = syn_number(&hop);
            return;
        }
        b->now += MILLISECOND;
    }
    fail_msg("no probe for 5 s");
}

// What the server says to the last probe; echo 0: no option. Returns the length of what goes back.
static uint32_t answer(struct bed *b, uint8_t flags, uint32_t echo, uint32_t ack_off)
{
    struct syn s = syn_plain();
    struct bt_addr hop = syn_ip(b->hop);
    uint8_t option[20];
    const uint8_t *asked = b->probe + IP_HEAD;
    s.src = b->hop;
    s.dst = b->to;
    s.sport = b->from;
    s.dport = bt_get16(asked);
    s.flags = flags;
    s.options = option;
    s.options_len = echo != 0 ? syn_option(option, echo) : 0;
    uint32_t n = syn_write(&s, b->answer);
    bt_put32(b->answer + IP_HEAD + 8, bt_get32(asked + 4) + 1 + ack_off);
    n = bt_crab_prober_take(&b->p, b->now, b->answer, n, b->rst, &hop);
    b->hop = syn_number(&hop);
    return n;
}

static void c51_a_probe_is_a_syn_with_the_vip_in_it(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    start(&b, 1);
    until_probe(&b);
    assert_int_equal(bt_crab_segment_parse(b.probe, sizeof b.probe, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    assert_true(bt_crab_is_syn(&s));
    assert_int_equal(syn_number(&s.src), OWN);
    assert_int_equal(syn_number(&s.dst), DIP);
    assert_int_equal(s.dst.port, 80);
    assert_int_equal(syn_number(&s.address), VIP);
    assert_int_equal(s.total, RST_BYTES + (syn_six ? 20 : 8)); // C-9
}

static void c51_the_answer_tells_up_capable_up_plain_or_down(void **state)
{
    (void)state;
    struct bed b;
    struct bt_crab_segment s;
    start(&b, 1);
    until_probe(&b);
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), RST_BYTES);
    assert_int_equal(b.mem[0].health, BT_CRAB_UP_CAPABLE);
    assert_true(syn_sums_right(b.rst)); // the half-open connection is ended
    assert_int_equal(bt_crab_segment_parse(b.rst, RST_BYTES, true, &kind42, &s), BT_CRAB_SEGMENT_OK);
    assert_int_equal(s.flags, BT_TCP_RST);
    assert_int_equal(s.seq, bt_get32(b.probe + IP_HEAD + 4) + 1);
    until_probe(&b); // C-52: a change of capability counts at once
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, 0, 0);
    assert_int_equal(b.mem[0].health, BT_CRAB_UP_PLAIN);
    until_probe(&b);
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP + 1, 0); // not an exact echo
    assert_int_equal(b.mem[0].health, BT_CRAB_UP_PLAIN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b.mem[0].health, BT_CRAB_UP_PLAIN);
        until_probe(&b);
        assert_int_equal(answer(&b, BT_TCP_RST | BT_TCP_ACK, 0, 0), 0);
    }
    assert_int_equal(b.mem[0].health, BT_CRAB_DOWN);
    assert_int_equal(b.p.changes, 3);
}

static void c52_three_silences_are_down_and_two_answers_up(void **state)
{
    (void)state;
    struct bed b;
    start(&b, 1);
    until_probe(&b);
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0);
    until_probe(&b);
    until_probe(&b);
    until_probe(&b);
    assert_int_equal(b.mem[0].health, BT_CRAB_UP_CAPABLE); // the third one is still under way
    until_probe(&b);
    assert_int_equal(b.mem[0].health, BT_CRAB_DOWN);
    assert_int_equal(b.p.silent, 3);
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0);
    until_probe(&b);
    until_probe(&b); // silence in between: they count in a row
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0);
    assert_int_equal(b.mem[0].health, BT_CRAB_DOWN);
    until_probe(&b);
    answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0);
    assert_int_equal(b.mem[0].health, BT_CRAB_UP_CAPABLE);
}

static void c52_probes_keep_their_rhythm(void **state)
{
    (void)state;
    struct bed b;
    start(&b, 1);
    until_probe(&b);
    uint64_t first = b.now;
    for (uint64_t i = 1; i < 10; i++) {
        if (i % 2 == 0) {
            answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0);
        }
        until_probe(&b);
        assert_int_equal(b.now, first + i * SECOND);
    }
}

static void c52_nobody_is_waited_for_longer_than_the_interval(void **state)
{
    (void)state;
    struct bed b = {.now = SECOND};
    const struct bt_crab_probe_target target = {.dip = syn_ip(DIP), .vip = syn_ip(VIP), .port = 80};
    struct bt_crab_probe_config cfg = config();
    cfg.interval_ns = SECOND / 10;
    cfg.timeout_ns = 5 * SECOND;
    bt_crab_prober_init(&b.p, b.mem, &target, 1, &cfg, b.now);
    until_probe(&b);
    uint64_t first = b.now;
    until_probe(&b);
    assert_int_equal(b.now, first + SECOND / 10);
    assert_int_equal(b.p.silent, 1);
}

static void what_was_not_asked_for_changes_nothing(void **state)
{
    (void)state;
    struct bed b;
    start(&b, 2);
    until_probe(&b);
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 1), 0); // another number
    b.hop++;
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), 0); // another server
    b.hop--;
    b.to++;
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), 0); // to another address
    b.to--;
    b.from++;
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), 0); // of another port
    b.from--;
    assert_int_equal(answer(&b, BT_TCP_ACK, VIP, 0), 0);
    assert_int_equal(answer(&b, BT_TCP_RST, 0, 0), 0);
    assert_int_equal(b.p.unasked, 6);
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), RST_BYTES);
    assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), 0); // once only
    assert_int_equal(b.p.unasked, 7);
}

static void c51_one_prober_asks_servers_of_both_families(void **state)
{
    (void)state;
    struct bed b = {.now = SECOND};
    const bool first = syn_six;
    struct bt_crab_probe_target targets[2];
    struct bt_crab_probe_config cfg = {.own4 = bt_addr_v4u(OWN, 0)};
    for (unsigned i = 0; i < 2; i++, syn_six = !syn_six) {
        *(syn_six ? &cfg.own6 : &cfg.own4) = syn_ip(OWN);
        targets[i] = (struct bt_crab_probe_target){.dip = syn_ip(DIP), .vip = syn_ip(VIP), .port = 80};
    }
    bt_crab_prober_init(&b.p, b.mem, targets, 2, &cfg, b.now);
    b.to = OWN;
    b.from = 80;
    for (unsigned i = 0; i < 2; i++, syn_six = !syn_six) {
        until_probe(&b);
        assert_int_equal(answer(&b, BT_TCP_SYN | BT_TCP_ACK, VIP, 0), RST_BYTES);
        assert_int_equal(b.mem[i].health, BT_CRAB_UP_CAPABLE);
    }
    assert_int_equal(syn_six, first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c51_a_probe_is_a_syn_with_the_vip_in_it),
        cmocka_unit_test(c51_the_answer_tells_up_capable_up_plain_or_down),
        cmocka_unit_test(c52_three_silences_are_down_and_two_answers_up),
        cmocka_unit_test(c52_probes_keep_their_rhythm),
        cmocka_unit_test(c52_nobody_is_waited_for_longer_than_the_interval),
        cmocka_unit_test(what_was_not_asked_for_changes_nothing),
        cmocka_unit_test(c51_one_prober_asks_servers_of_both_families),
    };
    int four = cmocka_run_group_tests_name("IPv4", tests, syn_four_group, NULL);
    return four + cmocka_run_group_tests_name("IPv6", tests, syn_six_group, NULL);
}
