// SPDX-License-Identifier: Apache-2.0
// every M-case that client or server decide, against tables that hold a
// pair in each state. After a rejected packet the counter of its case has moved by
// one; the rest of the state is byte for byte what it was.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lab.h"
#include "wire/sack.h"

static struct lab lab;
static uint8_t *before;
static uint64_t counters_before[BT_M_COUNT + 64];
static uint8_t raw[4096];
static size_t raw_len;

// --- snapshots ------------------------------------------------------------------

struct side {
    uint8_t *mem;
    size_t bytes;
    const uint64_t *counters;
    unsigned n;
    void (*inject)(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src);
};

static struct side server_side(void)
{
    return (struct side){lab.server_mem, lab.server_bytes, bt_server_counters(lab.server), BT_SERVER_COUNTERS,
                         lab_inject_server};
}

static struct side client_side(void)
{
    return (struct side){lab.client_mem, lab.client_bytes, bt_client_counters(lab.client), BT_CLIENT_COUNTERS,
                         lab_inject_client};
}

static void expect(const struct side *d, const char *what, const struct bt_addr *src, unsigned counter)
{
    size_t at = (size_t)((const uint8_t *)d->counters - d->mem), len = d->n * sizeof(uint64_t);
    before = realloc(before, d->bytes);
    memcpy(before, d->mem, d->bytes);
    memcpy(counters_before, d->counters, len);
    uint32_t left = lab.pool.left + lab.flights;
    d->inject(&lab, raw, raw_len, src);
    if (d->counters[counter] != counters_before[counter] + 1)
        for (unsigned i = 0; i < d->n; i++)
            if (d->counters[i] != counters_before[i])
                fail_msg("%s: counter %u (%s) moved, want %u", what, i, bt_mcase_name((enum bt_mcase)i), counter);
    if (d->counters[counter] != counters_before[counter] + 1)
        fail_msg("%s: counter %u did not move", what, counter);
    if (memcmp(before, d->mem, at) || memcmp(before + at + len, d->mem + at + len, d->bytes - at - len))
        fail_msg("%s: state changed", what);
    lab_flush(&lab);
    assert_int_equal(lab.pool.left, left);
}

// --- packets --------------------------------------------------------------------

#define F 0x80
#define L 0x40
#define X 0x20

static void packet(unsigned type, unsigned policy, unsigned flags, unsigned id, unsigned count, size_t payload,
                   uint8_t fill)
{
    uint8_t h[8] = {0xcc,
                    8,
                    (uint8_t)(type << 4 | policy),
                    (uint8_t)flags,
                    (uint8_t)(id >> 8),
                    (uint8_t)id,
                    (uint8_t)(count >> 8),
                    (uint8_t)count};
    memcpy(raw, h, 8);
    memset(raw + 8, fill, payload);
    raw_len = 8 + payload;
}

static void hex(const char *text)
{
    raw_len = strlen(text) / 2;
    for (size_t i = 0; i < raw_len; i++) {
        unsigned v = 0;
        for (int k = 0; k < 2; k++) {
            char c = text[2 * i + (size_t)k];
            v = v * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        raw[i] = (uint8_t)v;
    }
}

static void sack(unsigned id, unsigned what, unsigned base, unsigned nbits, size_t bytes)
{
    packet(BT_SACK, 0, F | L | X, id, 1, 6 + bytes, 0xff);
    raw[8] = (uint8_t)what;
    raw[9] = 0;
    bt_put16(raw + 10, (uint16_t)base);
    bt_put16(raw + 12, (uint16_t)nbits);
}

static uint16_t last_id;

static void spy_id(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    (void)pkt;
    if (h->type == BT_REQUEST && h->first)
        last_id = h->req_id;
}

static uint16_t start_call(uint32_t len, uint64_t timeout)
{
    assert_true(lab_call(&lab, len, 8, timeout) >= 0);
    lab_flush(&lab);
    return last_id;
}

static const char *const malformed[][2] = {
    {"", "M-1"},
    {"cc0800c0000700", "M-1"},
    {"00080060000f0001", "M-2"},
    {"cc070060000f0001", "M-3"},
    {"cc0c0060000f0001", "M-3"},
    {"cc0820c0000f0001aa", "M-5"},
    {"cc08a0c0000f0001", "M-5"},
    {"cc0850c0000f0001", "M-26"},
    {"cc0a00c0000f00010000", "OPT-SIZE"},
    {"cc0c00c0000f000103080000", "OPT-TRUNCATED"},
    {"cc0c00c0000f000103030000", "OPT-LENGTH"},
    {"cc1000c0000f00010304000003040000", "OPT-DUPLICATE"},
    {"cc080080000f0000", "M-7"},
    {"cc0800c0000f0000", "M-7"},
    {"cc0800c0000f0002", "M-8"},
    {"cc080000000f0000", "M-9"},
};

static unsigned case_of(const char *name)
{
    for (unsigned m = 1; m < BT_M_COUNT; m++)
        if (strcmp(bt_mcase_name((enum bt_mcase)m), name) == 0)
            return m;
    fail_msg("no case %s", name);
    return 0;
}

// Type nibble of REQUEST-only samples is moved to what this side accepts.
static void malformed_everywhere(const struct side *d, const struct bt_addr *src, uint8_t legal_type)
{
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        hex(malformed[i][0]);
        if (raw_len >= 8 && raw[2] == 0)
            raw[2] = (uint8_t)(legal_type << 4);
        expect(d, malformed[i][0], src, case_of(malformed[i][1]));
    }
}

static void bad_sources(const struct side *d, const struct bt_addr *own)
{
    struct bt_addr src[] = {
        bt_addr_v4u(0xe0000001, 5),  bt_addr_v4u(0xffffffff, 5), bt_addr_v4u(0, 5), bt_addr_v4u(0x0a000009, 0), *own,
        {.ip = {0xff, 2}, .port = 9}};
    for (size_t i = 0; i < sizeof src / sizeof *src; i++) {
        packet(BT_REQUEST, 0, F | L, 15, 1, 4, 0);
        expect(d, "bad source", &src[i], BT_M23);
    }
}

// --- the server -----------------------------------------------------------------

enum { RECEIVING = 7, EXECUTING = 8, DONE = 9, KEPT = 10 };

static void no_app(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct lab *l = arg;
    static uint8_t big[9000];
    (void)txq;
    if (rq->req_id == EXECUTING) {
        l->waiting[l->waitings] = rq->handle;
        l->waiting_body[l->waitings++] = NULL;
        return;
    }
    struct iovec iov = {big, rq->req_id == KEPT ? sizeof big : 1};
    assert_int_equal(bt_server_reply(l->server, l->now, rq->handle, &iov, 1, txq), 0);
}

static void server_with_a_pair_in_each_state(void)
{
    lab_init(&lab, 1);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.max_held = 1;
    lab_start(&lab);
    // The lab's application answers by size; here the id decides.
    lab.scfg.ops.on_request = no_app;
    struct bt_server_router r = {.request = lab.raddr, .feedback = lab.rfeedback};
    struct bt_txq txq;
    bt_txq_init(&txq);
    lab.server = bt_server_init(&lab.scfg, lab.server_mem, lab.server_bytes, lab.now);
    bt_server_set_routers(lab.server, lab.now, &r, 1, &txq);
    lab_transmit(&lab, &txq);
    packet(BT_REQUEST, 0, F | X, RECEIVING, 4, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, X, RECEIVING, 1, 1464, 0x22);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, EXECUTING, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, DONE, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, KEPT, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(bt_server_backlog(lab.server), 2);
    lab_flush(&lab);
}

static void r54_server_headers(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    malformed_everywhere(&d, &lab.caddr, BT_REQUEST);
    bad_sources(&d, &lab.saddr);
    packet(BT_REPLY, 0, F | L, 15, 1, 4, 0);
    expect(&d, "REPLY at a server", &lab.caddr, BT_M5);
    packet(BT_REQUEST, 0, F | L, 15, 1, 1465, 0);
    expect(&d, "longer than the MTU", &lab.caddr, BT_M14);
    packet(BT_REQUEST, 9, 0, RECEIVING, 2, 1464, 0);
    expect(&d, "REQn of unknown policy", &lab.caddr, BT_M6);
    packet(BT_REQUEST, 9, F | L, 15, 1, 4, 0);
    expect(&d, "policy 9", &lab.caddr, BT_M6);
    packet(BT_REQUEST, 0, F, 15, 60000, 14, 0);
    expect(&d, "message above the maximum", &lab.caddr, BT_M14);
    hex("cc0c00c0000f000180040000");
    expect(&d, "critical option", &lab.caddr, BT_M_OPT_CRITICAL);
    hex("cc1000c0000f00010108012c0a000001");
    expect(&d, "forwarded-for from a stranger", &lab.caddr, BT_M_FORWARDER);
    hex("cc1000c0000f00010108012ce0000001");
    expect(&d, "forwarded multicast identity", &lab.raddr, BT_M23);
    hex("cc1000c0000f0001010800000a000001");
    expect(&d, "forwarded port 0", &lab.raddr, BT_M23);
    lab_end(&lab);
}

static void r54_server_messages(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    packet(BT_REQUEST, 0, L, RECEIVING, 4, 9, 0);
    expect(&d, "index = count", &lab.caddr, BT_M9);
    packet(BT_REQUEST, 0, 0, RECEIVING, 65535, 1464, 0);
    expect(&d, "index far beyond", &lab.caddr, BT_M9);
    packet(BT_REQUEST, 0, L, RECEIVING, 2, 1464, 0);
    expect(&d, "L too early", &lab.caddr, BT_M10);
    packet(BT_REQUEST, 0, 0, RECEIVING, 3, 1464, 0);
    expect(&d, "L missing", &lab.caddr, BT_M10);
    packet(BT_REQUEST, 0, F, RECEIVING, 5, 14, 0x11);
    expect(&d, "second F, other count", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 1, F, RECEIVING, 4, 14, 0x11);
    expect(&d, "second F, other policy", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, F, RECEIVING, 4, 14, 0x12);
    expect(&d, "second F, other bytes", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, F | L, EXECUTING, 1, 13, 0x11);
    expect(&d, "second F of an executing pair", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, 0, RECEIVING, 1, 1464, 0x23);
    expect(&d, "duplicate index, other bytes", &lab.caddr, BT_M12);
    packet(BT_REQUEST, 0, 0, RECEIVING, 2, 1463, 0);
    expect(&d, "short in the middle", &lab.caddr, BT_M13);
    packet(BT_REQUEST, 0, L, EXECUTING, 1, 9, 0);
    expect(&d, "REQn of an executing pair", &lab.caddr, BT_M15);
    packet(BT_REQUEST, 0, L, DONE, 1, 9, 0);
    expect(&d, "REQn of a finished pair", &lab.caddr, BT_M15);
    packet(BT_REQUEST, 0, F, RECEIVING, 4, 14, 0x11);
    expect(&d, "F again", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, 0, RECEIVING, 1, 1464, 0x22);
    expect(&d, "REQ1 again", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, F | L, DONE, 1, 14, 0x11);
    expect(&d, "F of a finished pair", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, F | L, KEPT, 1, 14, 0x11);
    expect(&d, "F of a kept pair", &lab.caddr, BT_SERVER_DUPLICATE);
    lab_end(&lab);
}

static void r54_server_sacks(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    static const struct {
        unsigned id, what, base, nbits;
        size_t bytes;
        unsigned want;
    } cases[] = {
        {99, 1, 0, 1, 1, BT_M20},        {DONE, 1, 0, 1, 1, BT_M20}, {EXECUTING, 1, 0, 1, 1, BT_M20},
        {RECEIVING, 1, 0, 1, 1, BT_M20}, {KEPT, 0, 0, 1, 1, BT_M20}, {KEPT, 2, 0, 1, 1, BT_M20},
        {KEPT, 1, 0, 0, 0, BT_M20},      {KEPT, 1, 0, 8, 1, BT_M20}, {KEPT, 1, 7, 1, 1, BT_M20},
        {KEPT, 1, 0, 1025, 129, BT_M20}, {KEPT, 1, 0, 7, 0, BT_M20}, {KEPT, 1, 0, 7, 2, BT_M25},
        {KEPT, 1, 65535, 2, 1, BT_M20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sack(cases[i].id, cases[i].what, cases[i].base, cases[i].nbits, cases[i].bytes);
        expect(&d, "SACK", &lab.caddr, cases[i].want);
    }
    sack(KEPT, 1, 0, 1, 1);
    expect(&d, "SACK from another client", &other, BT_M20);
    for (int i = 0; i < 8; i++) { // what the protocol itself could ask for, and some
        lab_inject_server(&lab, raw, raw_len, &lab.caddr);
        assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_SACK_RECEIVED], i + 1);
    }
    expect(&d, "SACKs above the bound", &lab.caddr, BT_M20);
    lab_end(&lab);
}

static void m16_m15_early_packets_are_held_within_bounds(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    packet(BT_REQUEST, 0, 0, RECEIVING, 2, 1464, 0x33); // somebody else's pair of that id
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_HELD], 1);
    expect(&d, "holding list full", &other, BT_M16);
    uint32_t left = lab.pool.left;
    lab_run(&lab, lab.now + 12 * MS); // past one RTO and the next period
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 1);
    assert_true(lab.pool.left > left);
    lab_end(&lab);
}

// REQn that overtook its REQ0 (a retransmission after the pair was lost
// here, say) waits and is used.
static void r21_early_packets_are_used_when_their_first_arrives(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab_start(&lab);
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    packet(BT_REQUEST, 0, L | X, 21, 1, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &other); // somebody else's, before and after
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_HELD], 3);
    assert_int_equal(lab.executed, 0);
    packet(BT_REQUEST, 0, F | X, 21, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(lab.executed, 1);
    assert_int_equal(lab.last_request.msg.len, 6);
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(lab.executed, 2);
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 1); // its copy found the pair complete
    lab_end(&lab);
}

// Reply packets that came before F and contradict its count go when it comes;
// the message completes from honest ones.
static void m9_m10_early_reply_packets_are_checked_against_the_count(void **state)
{
    (void)state;
    lab_init(&lab, 6);
    lab.spy = spy_id;
    lab_start(&lab);
    uint16_t a = start_call(8, SEC);
    uint32_t left = lab.pool.left;
    packet(BT_REPLY, 0, X, a, 5, 1464, 0); // beyond the count
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, L | X, a, 1, 9, 0); // L in the middle
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, X, a, 2, 1464, 0); // no L at the end
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, F | X, a, 3, 1464, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    assert_int_equal(bt_client_counters(lab.client)[BT_M9], 1);
    assert_int_equal(bt_client_counters(lab.client)[BT_M10], 2);
    assert_int_equal(lab.pool.left, left - 1);
    packet(BT_REPLY, 0, X, a, 1, 1464, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, L | X, a, 2, 9, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_int_equal(lab.call[0].reply_len, 2 * 1464 + 9);
    lab_end(&lab);
}

static void m24_full_tables_answer_drop_and_return_the_credit(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.max_pending = 3;
    lab.scfg.max_assemblies = 1;
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 5000, 8, SEC); // takes the only assembly
    lab.faults.lose[LAB_REQN] = 1000;
    lab_run(&lab, lab.now + MS / 2);
    lab_call(&lab, 5000, 8, SEC);
    for (int i = 0; i < 4; i++)
        lab_call(&lab, 100, 8, SEC);
    lab_run(&lab, lab.now + MS);
    int dropped = 0;
    for (int i = 0; i < lab.calls; i++)
        dropped += lab.call[i].end == LAB_ERROR && lab.call[i].code == BT_RPC_DROPPED;
    assert_int_equal(dropped, 3); // one message, two of the four short ones
    assert_int_equal(bt_server_counters(lab.server)[BT_M24], 3);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_TABLE], 3);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.received - st.served, 3); // what is really inside
    lab_end(&lab);
}

// --- the client -----------------------------------------------------------------

static struct {
    uint16_t sent, offered, sending, replying, answered, timed_out;
} id;

static void client_with_a_call_in_each_state(void)
{
    lab_init(&lab, 3);
    lab.spy = spy_id;
    lab.ccfg.max_assemblies = 4;
    lab_start(&lab);
    id.timed_out = start_call(8, MS);
    lab_run(&lab, lab.now + 2 * MS);
    id.answered = start_call(8, SEC);
    packet(BT_REPLY, 0, F | L | X, id.answered, 1, 4, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    id.sent = start_call(8, SEC);
    id.offered = start_call(5000, SEC);
    id.sending = start_call(5000, SEC);
    packet(BT_REQRDY, 1, F | L | X, id.sending, 1, 3, 'A');
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    id.replying = start_call(8, SEC);
    packet(BT_REPLY, 0, F | X, id.replying, 4, 1464, 0x11);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, X, id.replying, 1, 1464, 0x22);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    lab_flush(&lab);
    assert_int_equal(bt_client_pending(lab.client), 4);
}

static void r54_client_headers(void **state)
{
    (void)state;
    client_with_a_call_in_each_state();
    struct side d = client_side();
    malformed_everywhere(&d, &lab.saddr, BT_REPLY);
    bad_sources(&d, &lab.caddr);
    packet(BT_REQUEST, 0, F | L, 15, 1, 4, 0);
    expect(&d, "REQUEST at a client", &lab.saddr, BT_M5);
    packet(BT_REPLY, 0, F | L, id.sent, 1, 1465, 0);
    expect(&d, "longer than the MTU", &lab.saddr, BT_M14);
    packet(BT_REPLY, 9, F | L, id.sent, 1, 4, 0);
    expect(&d, "policy 9", &lab.saddr, BT_M6);
    packet(BT_REQRDY, 1, F, id.offered, 2, 3, 0);
    expect(&d, "REQRDY of two packets", &lab.saddr, BT_M7);
    lab_end(&lab);
}

static void r54_client_replies(void **state)
{
    (void)state;
    client_with_a_call_in_each_state();
    struct side d = client_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 8000);
    static const struct {
        unsigned flags, count, payload, fill, want;
    } on_replying[] = {
        {L, 4, 9, 0, BT_M9},
        {L, 2, 1464, 0, BT_M10},
        {0, 3, 1464, 0, BT_M10},
        {F, 5, 1464, 0x11, BT_M11},
        {F, 4, 1464, 9, BT_M11},
        {F | L, 1, 9, 0, BT_M11},
        {0, 1, 1464, 0x23, BT_M12},
        {0, 2, 100, 0, BT_M13},
        {F, 4, 1464, 0x11, BT_CLIENT_DUPLICATE},
        {0, 1, 1464, 0x22, BT_CLIENT_DUPLICATE},
    };
    for (size_t i = 0; i < sizeof on_replying / sizeof *on_replying; i++) {
        packet(BT_REPLY, 0, on_replying[i].flags | X, id.replying, on_replying[i].count, on_replying[i].payload,
               (uint8_t)on_replying[i].fill);
        expect(&d, "reply in progress", &lab.saddr, on_replying[i].want);
    }
    packet(BT_REPLY, 0, X, id.replying, 2, 1464, 0);
    expect(&d, "part from another worker (R-36)", &other, BT_CLIENT_HEDGE_LATE);
    packet(BT_REPLY, 0, F | L, (uint16_t)(id.timed_out - 1), 1, 4, 0);
    expect(&d, "unknown id", &lab.saddr, BT_M17);
    packet(BT_REPLY, 0, F | L, id.offered, 1, 4, 0);
    expect(&d, "REPLY before REQRDY", &lab.saddr, BT_M17);
    packet(BT_REPLY, 0, F | L, id.sending, 1, 4, 0);
    expect(&d, "REPLY from another server (R-37)", &other, BT_CLIENT_FOREIGN_REPLY);
    packet(BT_REPLY, 0, F, id.sent, 60000, 1464, 0);
    expect(&d, "reply above the maximum", &lab.saddr, BT_M14);
    packet(BT_REPLY, 0, F, id.sent, 3, 1463, 0);
    expect(&d, "short first packet of a reply", &lab.saddr, BT_M13);
    packet(BT_REPLY, 0, F | L, id.timed_out, 1, 4, 0);
    expect(&d, "late reply", &lab.saddr, BT_CLIENT_LATE_REPLY);
    packet(BT_REPLY, 0, F | L, id.answered, 1, 4, 0);
    expect(&d, "second reply of a hedged pair", &other, BT_CLIENT_HEDGE_LATE);
    lab_end(&lab);
}

static void r54_client_control(void **state)
{
    (void)state;
    client_with_a_call_in_each_state();
    struct side d = client_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 8000);
    const uint16_t not_offered[] = {id.sent,     id.sending,   id.replying,
                                    id.answered, id.timed_out, (uint16_t)(id.timed_out - 1)};
    for (size_t i = 0; i < 6; i++) {
        packet(BT_REQRDY, 1, F | L, not_offered[i], 1, 3, 'A');
        expect(&d, "REQRDY nobody waits for", &lab.saddr, BT_M18);
        expect(&d, "REQRDY from a second server", &other, BT_M18);
    }
    const uint16_t not_droppable[] = {id.replying, id.answered, id.timed_out, (uint16_t)(id.timed_out - 1)};
    for (size_t i = 0; i < 4; i++) {
        packet(BT_DROP, 1, F | L, not_droppable[i], 1, 4, 'D');
        expect(&d, "DROP", &lab.saddr, BT_M19);
    }
    packet(BT_DROP, 1, F | L, id.sending, 1, 4, 'D');
    expect(&d, "DROP from another server than the REQRDY's", &other, BT_M19);
    const uint16_t no_train[] = {id.sent, id.replying, id.answered, id.timed_out};
    for (size_t i = 0; i < 4; i++) {
        sack(no_train[i], 0, 1, 1, 1);
        expect(&d, "SACK of nothing sent in parts", &lab.saddr, BT_M20);
    }
    sack(id.sending, 0, 1, 1, 1);
    expect(&d, "SACK from another server", &other, BT_M20);
    sack(id.sending, 1, 1, 1, 1);
    expect(&d, "SACK of a reply", &lab.saddr, BT_M20);
    sack(id.sending, 0, 0, 1, 1);
    expect(&d, "SACK of REQ0", &lab.saddr, BT_M20);
    sack(id.sending, 0, 5, 1, 1);
    expect(&d, "SACK beyond the count", &lab.saddr, BT_M20);
    sack(id.sending, 0, 1, 0, 0);
    expect(&d, "SACK without bits", &lab.saddr, BT_M20);
    sack(id.sending, 0, 1, 1, 3);
    expect(&d, "SACK with trailing bytes", &lab.saddr, BT_M25);
    lab_end(&lab);
}

static void m24_client_without_assemblies_discards(void **state)
{
    (void)state;
    lab_init(&lab, 4);
    lab.spy = spy_id;
    lab.ccfg.max_assemblies = 1;
    lab_start(&lab);
    uint16_t a = start_call(8, SEC), b = start_call(8, SEC);
    packet(BT_REPLY, 0, F | X, a, 4, 1464, 0x11);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, F | X, b, 4, 1464, 0x11);
    struct side d = client_side();
    expect(&d, "no assembly left", &lab.saddr, BT_M24);
    lab_end(&lab);
}

// M-18: a REQRDY's payload is not looked at.
static void m18_reqrdy_content_is_ignored(void **state)
{
    (void)state;
    for (size_t n = 0; n < 9; n += 4) {
        client_with_a_call_in_each_state();
        packet(BT_REQRDY, 1, F | L, id.offered, 1, n, 0xee);
        lab_inject_client(&lab, raw, raw_len, &lab.saddr);
        assert_int_equal(bt_client_counters(lab.client)[BT_M18], 0);
        assert_true(lab.sent[LAB_REQN] > 4); // both trains left
        lab_end(&lab);
    }
}

static int free_snapshot(void **state)
{
    (void)state;
    free(before);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r54_server_headers),
        cmocka_unit_test(r54_server_messages),
        cmocka_unit_test(r54_server_sacks),
        cmocka_unit_test(m16_m15_early_packets_are_held_within_bounds),
        cmocka_unit_test(r21_early_packets_are_used_when_their_first_arrives),
        cmocka_unit_test(m9_m10_early_reply_packets_are_checked_against_the_count),
        cmocka_unit_test(m24_full_tables_answer_drop_and_return_the_credit),
        cmocka_unit_test(r54_client_headers),
        cmocka_unit_test(r54_client_replies),
        cmocka_unit_test(r54_client_control),
        cmocka_unit_test(m24_client_without_assemblies_discards),
        cmocka_unit_test(m18_reqrdy_content_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, free_snapshot);
}
