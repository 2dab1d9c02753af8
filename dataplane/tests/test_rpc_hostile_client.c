// SPDX-License-Identifier: Apache-2.0
// every M-case that a client decides, against tables that hold a call in each state.
#include "hostile.h"
#include "unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r54_client_headers),
        cmocka_unit_test(r54_client_replies),
        cmocka_unit_test(r54_client_control),
        cmocka_unit_test(m24_client_without_assemblies_discards),
        cmocka_unit_test(m18_reqrdy_content_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, free_snapshot);
}
