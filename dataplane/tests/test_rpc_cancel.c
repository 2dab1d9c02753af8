// SPDX-License-Identifier: Apache-2.0
// Copies that a router takes back, at the server.
#include "unit.h"

#include <string.h>

#include "lab.h"
#include "wire/tag.h"

static struct lab lab;
static struct bt_addr router_a, router_b;
static struct bt_txq txq;
static struct bt_key key = {.id = 3, .bytes = {1, 2, 3}};

static enum bt_server_cancel decision;
static int asked;
static uint64_t asked_of;

static enum bt_server_cancel on_cancel(void *arg, uint64_t handle)
{
    (void)arg;
    asked++;
    asked_of = handle;
    return decision;
}

static void start(enum bt_server_cancel decide, int routers)
{
    lab_init(&lab, 1);
    lab.hold = true;
    lab.on_cancel = on_cancel;
    router_a = bt_addr_v4u(0x0a000003, 8000);
    router_b = bt_addr_v4u(0x0a000004, 8000);
    decision = decide;
    asked = 0;
    lab_start(&lab);
    struct bt_server_router r[2] = {{.request = router_a, .feedback = router_a},
                                    {.request = router_b, .feedback = router_b}};
    r[0].feedback.port = r[1].feedback.port = 9000;
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, r, routers, &txq), 0);
    lab_transmit(&lab, &txq);
}

static void settle(void)
{
    lab_run(&lab, lab.now + 200000);
}

static uint64_t counter(unsigned c)
{
    return bt_server_counters(lab.server)[c];
}

static struct bt_r2p2_hdr header(enum bt_type type, uint16_t id, uint32_t copy)
{
    struct bt_r2p2_hdr h = {.type = (uint8_t)type, .first = true, .last = true, .ext = true, .req_id = id};
    h.count_or_index = 1;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_COPY;
    h.opt.forwarded = lab.caddr;
    h.opt.copy = copy;
    return h;
}

/* A message of one packet from a router, with so many bytes of payload, tagged with k unless NULL. */
static void from_router(const struct bt_addr *router, struct bt_r2p2_hdr h, size_t payload, const struct bt_key *k)
{
    uint8_t p[128] = {0};
    if (k) {
        h.opt.present |= BT_HAS_TAG;
        h.opt.key_id = k->id;
    }
    size_t n = bt_r2p2_encode(p, sizeof p, &h);
    if (k) {
        bt_tag_sign(p, n + payload, &h, k, router, &lab.saddr);
    }
    lab_inject_server(&lab, p, n + payload, router);
}

static void request(const struct bt_addr *router, uint16_t id, uint32_t copy)
{
    from_router(router, header(BT_REQUEST, id, copy), 5, NULL);
}

static void cancel(const struct bt_addr *router, uint16_t id, uint32_t copy)
{
    from_router(router, header(BT_CANCEL, id, copy), 0, NULL);
}

static const struct bt_feedback *last(void)
{
    for (int i = lab.feedbacks - 1; i >= 0; i--) {
        if (bt_addr_ip_eq(&lab.feedback_to[i], &router_a) && (lab.feedback[i].flags & BT_FEEDBACK_PAIR)) {
            return &lab.feedback[i];
        }
    }
    return NULL;
}

/* gone without a reply, and its router learns it once. */
static void r272_what_is_taken_back_is_told_once(void **state)
{
    (void)state;
    const enum bt_server_cancel ways[] = {BT_CANCEL_REMOVED, BT_CANCEL_STOPPED};
    for (unsigned i = 0; i < 2; i++) {
        start(ways[i], 1);
        request(&router_a, 7, 100);
        cancel(&router_a, 7, 100);
        settle();
        const struct bt_feedback *fb = last();
        assert_non_null(fb);
        assert_int_equal(fb->flags & ~BT_FEEDBACK_JOIN, BT_FEEDBACK_PAIR | BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED);
        assert_int_equal(fb->req_id, 7);
        assert_int_equal(fb->received, 1);
        assert_int_equal(fb->served, 1);
        assert_int_equal(counter(i ? BT_SERVER_CANCELS_STOPPED : BT_SERVER_CANCELS_REMOVED), 1);
        assert_int_equal(counter(BT_SERVER_REPLIES), 0);
        assert_int_equal(bt_server_backlog(lab.server), 0);
        assert_int_equal(bt_server_reply(lab.server, lab.now, lab.waiting[0], NULL, 0, &txq), BT_RPC_BAD_ARGUMENT);
        assert_int_equal(asked, 1);
        int told = lab.feedbacks;
        cancel(&router_a, 7, 100); /* twice */
        assert_int_equal(counter(BT_SERVER_CANCELS_UNMATCHED), 1);
        assert_int_equal(asked, 1);
        assert_int_equal(lab.feedbacks, told);
        lab_end(&lab);
    }
}

/* who goes on answers as ever; who gives up later says so itself. */
static void r272_an_application_may_ignore_it_or_give_up_later(void **state)
{
    (void)state;
    start(BT_CANCEL_KEPT, 1);
    request(&router_a, 7, 100);
    request(&router_a, 8, 101);
    uint64_t first = lab.waiting[0], second = lab.waiting[1];
    assert_int_equal(bt_server_abandon(lab.server, lab.now, first, &txq),
                     BT_RPC_BAD_ARGUMENT); /* nobody took it back */
    cancel(&router_a, 7, 100);
    cancel(&router_a, 8, 101);
    cancel(&router_a, 8, 101);
    assert_int_equal(asked, 2);
    assert_int_equal(asked_of, second);
    assert_int_equal(counter(BT_SERVER_CANCELS_KEPT), 2);
    assert_true(bt_server_cancelled(lab.server, first));
    bt_txq_init(&txq);
    assert_int_equal(bt_server_abandon(lab.server, lab.now, second, &txq), 0);
    assert_int_equal(bt_server_abandon(lab.server, lab.now, second, &txq), BT_RPC_BAD_ARGUMENT);
    assert_false(bt_server_cancelled(lab.server, second));
    lab_transmit(&lab, &txq);
    settle();
    assert_int_equal(last()->flags & BT_FEEDBACK_CANCELLED, BT_FEEDBACK_CANCELLED);
    assert_int_equal(bt_server_reply(lab.server, lab.now, first, NULL, 0, &txq), 0);
    lab_transmit(&lab, &txq);
    settle();
    assert_int_equal(last()->flags & BT_FEEDBACK_CANCELLED, 0);
    assert_int_equal(last()->served, 2);
    assert_int_equal(counter(BT_SERVER_REPLIES), 1);
    lab_end(&lab);
}

/* another copy of the same name, another client, another router's request, one that has no number: untouched. */
static void r270_it_ends_no_other_request(void **state)
{
    (void)state;
    start(BT_CANCEL_STOPPED, 2);
    request(&router_a, 7, 100);
    cancel(&router_a, 7, 99);  /* late, of the former user of the id */
    cancel(&router_a, 8, 100); /* unknown */
    cancel(&router_b, 7, 100); /* not its request */
    struct bt_r2p2_hdr h = header(BT_CANCEL, 7, 100);
    h.opt.forwarded.port++;
    from_router(&router_a, h, 0, NULL);
    h = header(BT_REQUEST, 9, 0); /* 0 is no number */
    from_router(&router_a, h, 5, NULL);
    assert_false(bt_server_cancelled(lab.server, lab.waiting[1]));
    h = header(BT_REQUEST, 10, 0); /* nobody gave it one */
    h.opt.present = BT_HAS_FORWARDED;
    from_router(&router_a, h, 5, NULL);
    cancel(&router_a, 10, 100);
    assert_int_equal(asked, 0);
    assert_int_equal(counter(BT_SERVER_CANCELS_UNMATCHED), 5);
    assert_int_equal(bt_server_backlog(lab.server), 3);
    lab_end(&lab);
}

/* refused and counted by reason, nothing touched. */
static void r271_who_may_take_back(void **state)
{
    (void)state;
    struct bt_addr stranger = bt_addr_v4u(0x0a000063, 8000);
    start(BT_CANCEL_STOPPED, 1);
    request(&router_a, 7, 100);
    cancel(&stranger, 7, 100);
    assert_int_equal(counter(BT_M_FORWARDER), 1);
    from_router(&router_a, header(BT_CANCEL, 7, 100), 1, NULL);
    assert_int_equal(counter(BT_M25), 1);
    struct bt_r2p2_hdr h = header(BT_CANCEL, 7, 100);
    h.opt.present = BT_HAS_COPY;
    from_router(&router_a, h, 0, NULL);
    h.opt.present = BT_HAS_FORWARDED;
    from_router(&router_a, h, 0, NULL);
    cancel(&router_a, 7, 0);
    assert_int_equal(counter(BT_M27), 3);
    struct bt_keyring ring = {{key}};
    struct bt_key other = key;
    other.bytes[0] ^= 1;
    bt_server_set_keys(lab.server, &ring);
    cancel(&router_a, 7, 100); /* no tag */
    from_router(&router_a, header(BT_CANCEL, 7, 100), 0, &other);
    assert_int_equal(counter(BT_M_TAG), 2);
    from_router(&stranger, header(BT_CANCEL, 7, 100), 0, &key); /* no request came through it */
    assert_int_equal(counter(BT_M_FORWARDER), 2);
    assert_int_equal(asked, 0);
    from_router(&router_a, header(BT_CANCEL, 7, 100), 0, &key);
    assert_int_equal(asked, 1);
    lab_end(&lab);
}

/* the network's duplicate does not run, a later copy of the router's does. */
static void r273_a_later_copy_runs(void **state)
{
    (void)state;
    start(BT_CANCEL_STOPPED, 1);
    request(&router_a, 7, UINT32_MAX);
    cancel(&router_a, 7, UINT32_MAX);
    request(&router_a, 7, UINT32_MAX);
    assert_int_equal(counter(BT_SERVER_DUPLICATE), 1);
    request(&router_a, 7, UINT32_MAX - 1);
    assert_int_equal(counter(BT_SERVER_DUPLICATE), 2);
    request(&router_a, 7, 1); /* the numbers wrap */
    assert_int_equal(lab.executed, 2);
    assert_int_equal(bt_server_backlog(lab.server), 1);
    bt_txq_init(&txq);
    assert_int_equal(bt_server_reply(lab.server, lab.now, lab.waiting[1], NULL, 0, &txq), 0);
    lab_transmit(&lab, &txq);
    settle();
    assert_int_equal(last()->received, 4); /* the network's copies, too */
    assert_int_equal(last()->served, 4);
    request(&router_a, 7, 5); /* answered: never again */
    assert_int_equal(counter(BT_SERVER_DUPLICATE), 3);
    lab_run(&lab, lab.now + 2 * SEC);
    lab_end(&lab);
}

/* What is being answered is past being taken back, while its reply leaves in bursts and while it is kept. */
static void r272_what_is_answered_is_not_taken_back(void **state)
{
    (void)state;
    static const uint8_t large[300000];
    struct iovec iov = {(void *)(uintptr_t)large, sizeof large};
    start(BT_CANCEL_STOPPED, 1);
    request(&router_a, 7, 100);
    bt_txq_init(&txq);
    assert_int_equal(bt_server_reply(lab.server, lab.now, lab.waiting[0], &iov, 1, &txq), 0);
    lab_transmit(&lab, &txq);
    assert_int_equal(counter(BT_SERVER_REPLIES), 0); /* the first burst */
    cancel(&router_a, 7, 100);
    assert_int_equal(counter(BT_SERVER_CANCELS_UNMATCHED), 1);
    lab_run(&lab, lab.now + 2 * MS);
    assert_int_equal(counter(BT_SERVER_REPLIES), 1);
    cancel(&router_a, 7, 100);
    assert_int_equal(counter(BT_SERVER_CANCELS_UNMATCHED), 2);
    assert_int_equal(asked, 0);
    lab_end(&lab);
}

/* Wherever in the ring of finished pairs its name is remembered. */
static void r273_a_later_copy_runs_however_many_ended_before(void **state)
{
    (void)state;
    lab_init(&lab, 1);
    lab.scfg.max_done = 3;
    lab.on_cancel = on_cancel;
    decision = BT_CANCEL_REMOVED;
    lab.hold = true;
    lab.path = LAB_ENCAPSULATED;
    router_a = lab.raddr;
    lab_start(&lab);
    for (uint16_t i = 1; i <= 8; i++) {
        request(&router_a, i, 10);
        cancel(&router_a, i, 10);
        request(&router_a, i, 10);
        assert_int_equal(counter(BT_SERVER_DUPLICATE), i);
        assert_int_equal(lab.executed, 2 * i - 1);
        request(&router_a, i, 11);
        assert_int_equal(lab.executed, 2 * i);
        assert_int_equal(counter(BT_SERVER_CANCELS_REMOVED), i);
    }
    assert_int_equal(bt_server_backlog(lab.server), 8);
    lab_end(&lab);
}

/* The request's own buffer is the last: it is free before the word that the request is gone. */
static void r272_it_is_told_where_no_other_buffer_is(void **state)
{
    (void)state;
    start(BT_CANCEL_STOPPED, 1);
    request(&router_a, 7, 100);
    lab_flush(&lab);
    struct bt_pkt *taken = NULL;
    while (lab.pool.left > 1) { /* one for the CANCEL */
        struct bt_pkt *pkt = bt_pool_get(&lab.pool.pool);
        pkt->next = taken;
        taken = pkt;
    }
    cancel(&router_a, 7, 100);
    assert_int_equal(counter(BT_SERVER_NO_BUFFER), 0);
    bt_pool_put_chain(&lab.pool.pool, taken);
    settle();
    assert_non_null(last());
    assert_int_equal(last()->flags & BT_FEEDBACK_CANCELLED, BT_FEEDBACK_CANCELLED);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r272_what_is_taken_back_is_told_once),
        cmocka_unit_test(r272_an_application_may_ignore_it_or_give_up_later),
        cmocka_unit_test(r270_it_ends_no_other_request),
        cmocka_unit_test(r271_who_may_take_back),
        cmocka_unit_test(r272_what_is_answered_is_not_taken_back),
        cmocka_unit_test(r273_a_later_copy_runs),
        cmocka_unit_test(r273_a_later_copy_runs_however_many_ended_before),
        cmocka_unit_test(r272_it_is_told_where_no_other_buffer_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
