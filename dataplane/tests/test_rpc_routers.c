// SPDX-License-Identifier: Apache-2.0
// What a server tells its routers, and whom it believes: R-38…,
//
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lab.h"
#include "wire/tag.h"

static struct lab lab;
static struct bt_addr router_a, router_b;
static struct bt_txq txq;

static struct bt_server_router router_at(const struct bt_addr *request)
{
    struct bt_server_router r = {.request = *request, .feedback = *request};
    r.feedback.port = 9000;
    return r;
}

static void set_routers(int n, const struct bt_addr *a, const struct bt_addr *b)
{
    struct bt_server_router r[2] = {router_at(a), router_at(b)};
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, r, n, &txq), 0);
    lab_transmit(&lab, &txq);
}

static void start(void)
{
    lab_init(&lab, 1);
    router_a = bt_addr_v4u(0x0a000003, 8000);
    router_b = bt_addr_v4u(0x0a000004, 8000);
    lab_start(&lab);
}

static void settle(void)
{
    lab_run(&lab, lab.now + 200000);
}

// A request of one packet, forwarded by a router for a client, tagged if key.
static void forwarded(const struct bt_addr *router, uint16_t id, const struct bt_key *key)
{
    struct bt_r2p2_hdr h = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = id, .count_or_index = 1};
    uint8_t p[128];
    h.opt.present = BT_HAS_FORWARDED | (key ? BT_HAS_TAG : 0);
    h.opt.forwarded = lab.caddr;
    h.opt.key_id = key ? key->id : 0;
    size_t n = bt_r2p2_encode(p, sizeof p, &h);
    memset(p + n, 0, 5); // wants an empty reply
    if (key) {
        bt_tag_sign(p, n + 5, &h, key, router, &lab.saddr);
    }
    lab_inject_server(&lab, p, n + 5, router);
}

static const struct bt_feedback *last_to(const struct bt_addr *router)
{
    for (int i = lab.feedbacks - 1; i >= 0; i--) {
        if (bt_addr_ip_eq(&lab.feedback_to[i], router)) {
            return &lab.feedback[i];
        }
    }
    fail_msg("no FEEDBACK to that router");
    return NULL;
}

static void r61_counters_and_grants_are_kept_per_router(void **state)
{
    (void)state;
    start();
    set_routers(2, &router_a, &router_b);
    for (uint16_t i = 0; i < 5; i++) {
        forwarded(&router_a, i, NULL);
    }
    settle();
    const struct bt_feedback *a = last_to(&router_a);
    assert_int_equal(a->received, 5);
    assert_int_equal(a->served, 5);
    assert_int_equal(a->n, 4); // alone so far: all of n
    assert_int_equal(last_to(&router_b)->received, 0);
    for (uint16_t i = 10; i < 12; i++) {
        forwarded(&router_b, i, NULL);
    }
    settle();
    const struct bt_feedback *b = last_to(&router_b);
    assert_int_equal(b->received, 2);
    assert_int_equal(b->n, 2); // n / 2 routers
    assert_int_equal(last_to(&router_a)->received, 5);
    lab_run(&lab, lab.now + 20 * MS); // A learns its smaller share within a period
    assert_int_equal(last_to(&router_a)->n, 2);
    lab_run(&lab, lab.now + 1100 * MS);
    forwarded(&router_a, 30, NULL); // B was not heard for a second
    settle();
    assert_int_equal(last_to(&router_a)->n, 4);
    lab_end(&lab);
}

/* A clock that steps back (which none may) must not make the server forget whom it heard, nor repeat FEEDBACK. */
static void r61_time_that_goes_back_changes_no_share(void **state)
{
    (void)state;
    start();
    set_routers(2, &router_a, &router_b);
    forwarded(&router_a, 1, NULL);
    forwarded(&router_b, 2, NULL);
    settle();
    int before = lab.feedbacks;
    lab.now -= 5 * MS;
    forwarded(&router_a, 3, NULL);
    settle();
    assert_int_equal(last_to(&router_a)->n, 2);
    for (int i = 0; i < 5; i++) {
        lab_run(&lab, lab.now + MS);
    }
    assert_true(lab.feedbacks - before <= 1 + 2); // the pair's, and one period
    lab_end(&lab);
}

/* 0 means never heard: a clock may begin there. */
static void r61_router_heard_at_time_zero_has_its_share(void **state)
{
    (void)state;
    lab_init(&lab, 1);
    lab.now = 0;
    router_a = bt_addr_v4u(0x0a000003, 8000);
    router_b = bt_addr_v4u(0x0a000004, 8000);
    lab_start(&lab);
    set_routers(2, &router_a, &router_b);
    forwarded(&router_a, 1, NULL);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.heard_ns, 1);
    assert_true(bt_server_router_state(lab.server, 1, &st));
    assert_int_equal(st.heard_ns, 0);
    forwarded(&router_b, 2, NULL);
    assert_true(bt_server_router_state(lab.server, 1, &st));
    assert_int_equal(st.heard_ns, 1);
    settle();
    assert_int_equal(last_to(&router_b)->n, 2);
    lab_end(&lab);
}

static void r61_grant_is_at_least_one(void **state)
{
    (void)state;
    start();
    bt_txq_init(&txq);
    bt_server_set_n(lab.server, lab.now, 1, &txq);
    lab_transmit(&lab, &txq);
    set_routers(2, &router_a, &router_b);
    forwarded(&router_a, 1, NULL);
    forwarded(&router_b, 2, NULL);
    settle();
    assert_int_equal(last_to(&router_a)->n, 1);
    assert_int_equal(last_to(&router_b)->n, 1);
    lab_end(&lab);
}

static void r61_direct_requests_count_for_nobody(void **state)
{
    (void)state;
    start();
    set_routers(1, &router_a, &router_a);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    lab_run(&lab, lab.now + 20 * MS);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_int_equal(last_to(&router_a)->received, 0);
    lab_end(&lab);
}

static void r40_periodic_feedback_when_idle(void **state)
{
    (void)state;
    start();
    set_routers(1, &router_a, &router_a);
    settle();
    int before = lab.feedbacks;
    lab_run(&lab, lab.now + 100 * MS);
    assert_in_range(lab.feedbacks - before, 9, 11); // every 10 ms
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_PERIODIC);
    assert_false(last_to(&router_a)->flags & BT_FEEDBACK_PAIR);
    assert_int_equal(last_to(&router_a)->incarnation, 77);
    lab_end(&lab);
}

/* What it should have been told found no buffer: it is told at once, not a period later, however young the clock is. */
static void r40_router_that_was_never_told_waits_for_no_period(void **state)
{
    (void)state;
    lab_init(&lab, 1);
    lab.now = MS;
    router_a = bt_addr_v4u(0x0a000003, 8000);
    lab_start(&lab);
    struct bt_pkt *taken = NULL;
    for (struct bt_pkt *pkt; (pkt = bt_pool_get(&lab.pool.pool)) != NULL; taken = pkt) {
        pkt->next = taken;
    }
    set_routers(1, &router_a, &router_a);
    bt_pool_put_chain(&lab.pool.pool, taken);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_NO_BUFFER], 1);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.feedback_ns, 0);
    settle();
    assert_int_equal(lab.feedbacks, 1);
    assert_int_equal(last_to(&router_a)->flags, BT_FEEDBACK_PERIODIC | BT_FEEDBACK_JOIN);
    lab_end(&lab);
}

/* Who heard something in between hears nothing for a period from then. */
static void r40_a_period_counts_from_the_last_feedback(void **state)
{
    (void)state;
    start();
    set_routers(1, &router_a, &router_a);
    settle();
    lab_run(&lab, lab.now + 54 * MS); /* four milliseconds into a period */
    forwarded(&router_a, 1, NULL);
    int before = lab.feedbacks;
    lab_run(&lab, lab.now + 9 * MS);
    assert_int_equal(lab.feedbacks - before, 1);
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_PAIR);
    lab_run(&lab, lab.now + 2 * MS);
    assert_int_equal(lab.feedbacks - before, 2);
    assert_int_equal(last_to(&router_a)->flags, BT_FEEDBACK_PERIODIC);
    lab_end(&lab);
}

/* As often as the first time. */
static void r113_a_router_that_returns_is_joined_again(void **state)
{
    (void)state;
    start();
    set_routers(2, &router_a, &router_b);
    lab_run(&lab, lab.now + 50 * MS);
    assert_false(last_to(&router_b)->flags & BT_FEEDBACK_JOIN);
    set_routers(1, &router_a, &router_a);
    lab_run(&lab, lab.now + 50 * MS);
    set_routers(2, &router_a, &router_b);
    int from = lab.feedbacks, joins = 0;
    lab_run(&lab, lab.now + 50 * MS);
    for (int i = from; i < lab.feedbacks; i++) {
        bool join = lab.feedback[i].flags & BT_FEEDBACK_JOIN;
        assert_true(!join || bt_addr_ip_eq(&lab.feedback_to[i], &router_b));
        joins += join;
    }
    assert_int_equal(joins, 3);
    assert_false(last_to(&router_b)->flags & BT_FEEDBACK_JOIN);
    lab_end(&lab);
}

static void r113_join_then_leave(void **state)
{
    (void)state;
    start();
    set_routers(1, &router_a, &router_a);
    settle();
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_JOIN);
    assert_int_equal(last_to(&router_a)->n, 4);
    lab_run(&lab, lab.now + 100 * MS);
    assert_false(last_to(&router_a)->flags & BT_FEEDBACK_JOIN);
    bt_txq_init(&txq);
    bt_server_leave(lab.server, lab.now, &txq);
    assert_int_equal(txq.n, 1); // at once
    lab_transmit(&lab, &txq);
    lab_run(&lab, lab.now + 30 * MS); // and with every later one
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_LEAVE);
    assert_int_equal(last_to(&router_a)->n, 0);
    forwarded(&router_a, 5, NULL); // was on its way: still served
    settle();
    assert_int_equal(last_to(&router_a)->served, 1);
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_LEAVE);
    bt_txq_init(&txq);
    bt_server_join(lab.server, lab.now, &txq);
    lab_transmit(&lab, &txq);
    settle();
    assert_true(last_to(&router_a)->flags & BT_FEEDBACK_JOIN);
    assert_int_equal(last_to(&router_a)->n, 4);
    lab_end(&lab);
}

static void r41_n_changes_are_told_at_once(void **state)
{
    (void)state;
    start();
    set_routers(2, &router_a, &router_b);
    bt_txq_init(&txq);
    bt_server_set_n(lab.server, lab.now, 0, &txq);
    assert_int_equal(txq.n, 2);
    lab_transmit(&lab, &txq);
    settle();
    assert_int_equal(last_to(&router_a)->n, 0);
    assert_false(last_to(&router_a)->flags & BT_FEEDBACK_LEAVE);
    lab_end(&lab);
}

static const struct bt_key key1 = {1, {1, 2, 3}}, key2 = {2, {9, 9, 9}}, key3 = {3, {7}};

static void set_keys(const struct bt_key *a, const struct bt_key *b)
{
    struct bt_keyring k = {{*a, b ? *b : (struct bt_key){0}}};
    bt_server_set_keys(lab.server, &k);
}

static uint64_t refused(void)
{
    return bt_server_counters(lab.server)[BT_M_FORWARDER];
}

static void r56_a_forwarder_is_configured_or_carries_a_valid_tag(void **state)
{
    (void)state;
    start();
    set_routers(1, &router_a, &router_a);
    forwarded(&router_a, 1, NULL);
    assert_int_equal(refused(), 0);
    forwarded(&router_b, 2, NULL); // stranger, no keys anywhere
    assert_int_equal(refused(), 1);
    forwarded(&router_b, 3, &key1); // tag, but no key to check it
    assert_int_equal(refused(), 2);
    set_keys(&key1, &key2);
    forwarded(&router_b, 4, &key3); // unknown key
    assert_int_equal(refused(), 3);
    struct bt_key forged = key1;
    forged.bytes[5] ^= 1;
    forwarded(&router_b, 5, &forged);
    assert_int_equal(refused(), 4);
    assert_int_equal(lab.executed, 1);
    forwarded(&router_b, 6, &key1); // rotation: both keys are live
    forwarded(&router_b, 7, &key2);
    assert_int_equal(refused(), 4);
    assert_int_equal(lab.executed, 3);
    settle();
    assert_int_equal(last_to(&router_b)->received, 2); // and it gets its credit back
    lab_end(&lab);
}

static void r57_feedback_is_tagged_with_the_first_live_key(void **state)
{
    (void)state;
    start();
    struct bt_keyring both = {{key1, key2}};
    set_keys(&key1, &key2);
    set_routers(1, &router_a, &router_a);
    bt_txq_init(&txq);
    bt_server_leave(lab.server, lab.now, &txq);
    struct bt_pkt *pkt = txq.head;
    struct bt_r2p2_hdr h;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_FEEDBACK, &h), BT_M_OK);
    assert_int_equal(h.opt.key_id, 1);
    assert_int_equal(bt_tag_verify(pkt->data, pkt->len, &h, &both, &lab.saddr, &lab.rfeedback), BT_TAG_VALID);
    struct bt_addr elsewhere = lab.rfeedback;
    elsewhere.port++;
    assert_int_equal(bt_tag_verify(pkt->data, pkt->len, &h, &both, &lab.saddr, &elsewhere), BT_TAG_WRONG);
    lab_transmit(&lab, &txq);
    lab_end(&lab);
}

// A router known by its tag first and configured later keeps its counters,
// whichever of its ports it sent from: else they would run backwards (M-22).
static void r112_a_router_configured_late_keeps_its_counters(void **state)
{
    (void)state;
    start();
    set_keys(&key1, NULL);
    struct bt_addr from_feedback_port = router_b;
    from_feedback_port.port = 9000;
    forwarded(&from_feedback_port, 1, &key1);
    set_routers(1, &router_b, &router_b);
    forwarded(&router_b, 2, NULL);
    settle();
    assert_int_equal(last_to(&router_b)->received, 2);
    lab_end(&lab);
}

// Two routers on one host are told apart by port, in whatever order a new
// configuration names them.
static void r112_routers_of_one_host_keep_their_own_counters(void **state)
{
    (void)state;
    start();
    struct bt_addr newcomer = router_a;
    newcomer.port = 8001;
    set_routers(1, &router_a, &router_a);
    forwarded(&router_a, 1, NULL);
    struct bt_server_router r[2] = {router_at(&newcomer), router_at(&router_a)};
    r[0].feedback.port = 9001;
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, r, 2, &txq), 0);
    assert_int_equal(txq.n, 1); // JOIN to the newcomer only
    lab_transmit(&lab, &txq);
    forwarded(&newcomer, 2, NULL);
    forwarded(&newcomer, 3, NULL);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.router.request.port, 8000);
    assert_int_equal(st.received, 1);
    assert_true(bt_server_router_state(lab.server, 1, &st));
    assert_int_equal(st.router.request.port, 8001);
    assert_int_equal(st.received, 2);
    assert_false(bt_server_router_state(lab.server, 2, &st));
    lab_end(&lab);
}

// Not even when the one takes the other's place and the other returns: it knows
// this incarnation, so its counters must go on where they were (M-22).
static void r112_a_router_that_returns_finds_its_own_counters(void **state)
{
    (void)state;
    start();
    struct bt_addr newcomer = router_a;
    newcomer.port = 8001;
    struct bt_server_router r[2] = {router_at(&router_a), router_at(&newcomer)};
    r[1].feedback.port = 9001;
    set_routers(1, &router_a, &router_a);
    for (uint16_t i = 0; i < 5; i++) {
        forwarded(&router_a, i, NULL);
    }
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, &r[1], 1, &txq), 0);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, r, 2, &txq), 0);
    lab_transmit(&lab, &txq);
    forwarded(&router_a, 9, NULL);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.router.request.port, 8000);
    assert_int_equal(st.received, 6);
    assert_true(bt_server_router_state(lab.server, 1, &st));
    assert_int_equal(st.router.request.port, 8001);
    assert_int_equal(st.received, 0);
    lab_end(&lab);
}

// A switch knows places, and not who had them before: one that is free may go to a worker that began before the one
// that left (W-7). So what counts is when a worker joined, and it joins anew when the router returns; its counters go
// on.
static void r112_a_worker_that_joins_later_has_a_later_incarnation(void **state)
{
    (void)state;
    const uint64_t tick = UINT64_C(1) << BT_INCARNATION_SHIFT;
    lab_init(&lab, 1);
    router_a = bt_addr_v4u(0x0a000003, 8000);
    router_b = bt_addr_v4u(0x0a000004, 8000);
    lab.scfg.incarnation_shift = BT_INCARNATION_SHIFT;
    lab_start(&lab);
    set_routers(1, &router_a, &router_a);
    settle();
    assert_int_equal(last_to(&router_a)->incarnation, 77);
    lab.now += 3 * tick;
    set_routers(2, &router_a, &router_b);
    forwarded(&router_b, 1, NULL);
    settle();
    assert_int_equal(last_to(&router_a)->incarnation, 77);
    assert_int_equal(last_to(&router_b)->incarnation, 80);
    set_routers(1, &router_a, &router_a);
    settle();
    lab.now += 2 * tick;
    set_routers(2, &router_a, &router_b);
    settle();
    assert_int_equal(last_to(&router_a)->incarnation, 77);
    assert_int_equal(last_to(&router_b)->incarnation, 82);
    assert_int_equal(last_to(&router_b)->received, 1);
    lab_end(&lab);
}

static void r114_a_removed_router_gets_its_last_feedback_and_no_more(void **state)
{
    (void)state;
    start();
    lab.hold = true;
    set_routers(1, &router_a, &router_a);
    forwarded(&router_a, 1, NULL);
    set_routers(1, &router_b, &router_b);
    lab.hold = false;
    lab_answer_all(&lab);
    settle();
    assert_int_equal(last_to(&router_a)->served, 1);
    forwarded(&router_a, 2, NULL);
    assert_int_equal(refused(), 1);
    lab_run(&lab, lab.now + 1100 * MS);
    int before = lab.feedbacks, to_a = 0;
    lab_run(&lab, lab.now + 50 * MS);
    for (int i = before; i < lab.feedbacks; i++) {
        to_a += bt_addr_ip_eq(&lab.feedback_to[i], &router_a);
    }
    assert_int_equal(to_a, 0);
    assert_true(lab.feedbacks > before);
    lab_end(&lab);
}

static void r42_legacy_router_gets_16_byte_feedback(void **state)
{
    (void)state;
    start();
    struct bt_server_router r = router_at(&router_a);
    r.legacy = true;
    set_keys(&key1, NULL);
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, &r, 1, &txq), 0);
    assert_int_equal(txq.n, 0); // knows no JOIN
    lab.ccfg.extensions = false;
    lab_call(&lab, 8, 8, SEC); // comes with the client's own address: Transparent
    lab_run(&lab, 0);
    settle();
    assert_int_equal(lab.feedbacks, 1);
    assert_int_equal(lab.feedback[0].version, 0);
    assert_true(lab.feedback_hdr[0].legacy);
    assert_true(bt_addr_eq(&lab.feedback[0].client, &lab.caddr));
    lab_end(&lab);
}

static void r12_replicated_policies_are_dropped(void **state)
{
    (void)state;
    lab_init(&lab, 9);
    lab.path = LAB_TRANSPARENT;
    lab_start(&lab);
    for (uint8_t policy = 2; policy <= 3; policy++) {
        struct bt_request rq = {.timeout_ns = SEC, .policy = policy};
        lab_call_with(&lab, &rq, 8, 8);
    }
    lab_run(&lab, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lab.call[i].code, BT_RPC_DROPPED);
    }
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_POLICY], 2);
    settle();
    assert_true(last_to(&lab.raddr)->flags & BT_FEEDBACK_DROPPED);
    assert_int_equal(last_to(&lab.raddr)->served, 2);
    lab_end(&lab);
}

static void r38_application_drop_returns_the_credit(void **state)
{
    (void)state;
    lab_init(&lab, 10);
    lab.path = LAB_ENCAPSULATED;
    lab.refuse = true;
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].code, BT_RPC_DROPPED);
    settle();
    assert_int_equal(last_to(&lab.raddr)->served, 1);
    assert_true(last_to(&lab.raddr)->flags & BT_FEEDBACK_DROPPED);
    assert_int_equal(bt_server_reply(lab.server, lab.now, lab.last_request.handle, NULL, 0, &txq), BT_RPC_BAD_ARGUMENT);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r61_counters_and_grants_are_kept_per_router),
        cmocka_unit_test(r61_time_that_goes_back_changes_no_share),
        cmocka_unit_test(r61_router_heard_at_time_zero_has_its_share),
        cmocka_unit_test(r61_grant_is_at_least_one),
        cmocka_unit_test(r61_direct_requests_count_for_nobody),
        cmocka_unit_test(r40_periodic_feedback_when_idle),
        cmocka_unit_test(r40_router_that_was_never_told_waits_for_no_period),
        cmocka_unit_test(r40_a_period_counts_from_the_last_feedback),
        cmocka_unit_test(r113_a_router_that_returns_is_joined_again),
        cmocka_unit_test(r113_join_then_leave),
        cmocka_unit_test(r41_n_changes_are_told_at_once),
        cmocka_unit_test(r56_a_forwarder_is_configured_or_carries_a_valid_tag),
        cmocka_unit_test(r57_feedback_is_tagged_with_the_first_live_key),
        cmocka_unit_test(r112_a_router_configured_late_keeps_its_counters),
        cmocka_unit_test(r112_routers_of_one_host_keep_their_own_counters),
        cmocka_unit_test(r112_a_router_that_returns_finds_its_own_counters),
        cmocka_unit_test(r112_a_worker_that_joins_later_has_a_later_incarnation),
        cmocka_unit_test(r114_a_removed_router_gets_its_last_feedback_and_no_more),
        cmocka_unit_test(r42_legacy_router_gets_16_byte_feedback),
        cmocka_unit_test(r12_replicated_policies_are_dropped),
        cmocka_unit_test(r38_application_drop_returns_the_credit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
