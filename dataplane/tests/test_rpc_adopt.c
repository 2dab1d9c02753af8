// SPDX-License-Identifier: Apache-2.0
// requests that came another way than to this worker's port, and are answered from here; and places for routers
// known by their tag.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "wire/tag.h"

static struct lab lab;
static struct bt_txq txq;

static struct bt_server_adopted request(uint16_t id, bool ext)
{
    return (struct bt_server_adopted){
        .client = lab.caddr, .req_id = id, .policy = BT_POLICY_REPLICATED_READ, .ext = ext};
}

static int adopt(const struct bt_server_adopted *a, uint64_t *handle)
{
    bt_txq_init(&txq);
    return bt_server_adopt(lab.server, lab.now, a, handle, &txq);
}

static int answer(uint64_t handle)
{
    struct iovec iov = {(void *)(uintptr_t)"hello", 5};
    bt_txq_init(&txq);
    return bt_server_reply(lab.server, lab.now, handle, &iov, 1, &txq);
}

static uint64_t counter(unsigned c)
{
    return bt_server_counters(lab.server)[c];
}

static void r329_an_adopted_request_is_answered_as_its_own(void **state)
{
    (void)state;
    for (int ext = 0; ext < 2; ext++) {
        lab_init(&lab, 1);
        lab_start(&lab);
        struct bt_server_adopted a = request(0x1234, ext != 0);
        uint64_t handle = 0;
        assert_int_equal(adopt(&a, &handle), 0);
        assert_int_equal(txq.n, 0);
        assert_int_equal(bt_server_backlog(lab.server), 1);
        assert_int_equal(counter(BT_SERVER_REQUESTS), 1);
        assert_int_equal(answer(handle), 0);
        assert_int_equal(txq.n, 1);
        struct bt_r2p2_hdr h;
        assert_int_equal(bt_r2p2_decode(txq.head->data, txq.head->len, BT_ROLE_CLIENT, &h), BT_M_OK);
        assert_true(bt_addr_eq(&txq.head->dst, &lab.caddr) && bt_addr_eq(&txq.head->src, &lab.saddr));
        assert_int_equal(h.type, BT_REPLY);
        assert_int_equal(h.req_id, 0x1234);
        assert_int_equal(h.policy, BT_POLICY_REPLICATED_READ);
        assert_int_equal(h.ext, ext);
        assert_int_equal(h.payload_len, 5);
        assert_memory_equal(h.payload, "hello", 5);
        assert_int_equal(counter(BT_SERVER_REPLIES), 1);
        assert_int_equal(bt_server_backlog(lab.server), 0);
        lab_transmit(&lab, &txq);
        assert_int_equal(answer(handle), BT_RPC_BAD_ARGUMENT);
        lab_end(&lab);
    }
}

/* Once, and for as long as any finished pair is known; then its name is free, whether or not a timer came by. */
static void r329_a_pair_is_adopted_once(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab_start(&lab);
    struct bt_server_adopted a = request(7, true), other = request(8, true);
    uint64_t first, second;
    assert_int_equal(adopt(&a, &first), 0);
    assert_int_equal(adopt(&a, &second), BT_RPC_BAD_ARGUMENT);
    assert_int_equal(adopt(&other, &second), 0);
    assert_true(first != second);
    assert_int_equal(answer(first), 0);
    lab_transmit(&lab, &txq);
    lab.now += lab.scfg.timers.quarantine_ns - 1;
    assert_int_equal(adopt(&a, &first), BT_RPC_BAD_ARGUMENT);
    lab.now++;
    assert_int_equal(adopt(&a, &first), 0);
    assert_int_equal(answer(first), 0);
    lab_transmit(&lab, &txq);
    assert_int_equal(answer(second), 0);
    lab_transmit(&lab, &txq);
    assert_int_equal(counter(BT_SERVER_REQUESTS), 3);
    lab_end(&lab);
}

static void r329_a_full_table_adopts_nothing_but_in_the_place_of_a_half(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.scfg.max_pending = 2;
    lab_start(&lab);
    uint8_t half[22] = {0xCC, 8, 0x00, 0xA0, 0, 99, 0, 3};
    lab_inject_server(&lab, half, sizeof half, &lab.caddr);
    uint64_t handle[3];
    struct bt_server_adopted a[3] = {request(1, true), request(2, true), request(3, true)};
    assert_int_equal(adopt(&a[0], &handle[0]), 0);
    assert_int_equal(adopt(&a[1], &handle[1]), 0);
    assert_int_equal(txq.n, 1); // who gave way is told
    assert_int_equal(counter(BT_SERVER_DISPLACED), 1);
    lab_transmit(&lab, &txq);
    assert_int_equal(adopt(&a[2], &handle[2]), BT_RPC_NO_BUFFER);
    assert_int_equal(answer(handle[0]), 0);
    lab_transmit(&lab, &txq);
    assert_int_equal(adopt(&a[2], &handle[2]), 0);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(answer(handle[i]), 0);
        lab_transmit(&lab, &txq);
    }
    lab_end(&lab);
}

/* since its first packet arrived, wherever that was; unless that is not known. */
static void r329_its_time_counts_from_its_first_packet(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        lab_init(&lab, 4);
        lab.scfg.latency = calloc(1, bt_hist_slices_bytes());
        assert_non_null(lab.scfg.latency);
        bt_hist_slices_init(lab.scfg.latency, lab.now);
        lab_start(&lab);
        struct bt_server_adopted a = request(5, true);
        uint64_t handle;
        a.t_first_ns = known ? lab.now - 2 * MS : 0;
        assert_int_equal(adopt(&a, &handle), 0);
        lab.now += MS;
        assert_int_equal(answer(handle), 0);
        lab_transmit(&lab, &txq);
        struct bt_hist *h = calloc(1, sizeof *h);
        struct bt_hist_window w;
        bt_hist_slices_merge(lab.scfg.latency, lab.now, 1, h, &w);
        assert_int_equal(h->total, 1);
        assert_int_equal(h->sum_ns, known ? 3 * MS : MS);
        free(h);
        free(lab.scfg.latency);
        lab_end(&lab);
    }
}

// --- places for routers

enum { SLOTS = 40 };

static const struct bt_key key = {1, {1, 2, 3}};

static struct bt_addr router(uint32_t i)
{
    return bt_addr_v4u(0x0a010000 + i, 8000);
}

/* A request that router i forwards, with a valid tag. */
static void forwarded(uint32_t i, uint16_t id)
{
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = id};
    uint8_t p[128];
    struct bt_addr src = router(i);
    h.count_or_index = 1;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_TAG;
    h.opt.forwarded = lab.caddr;
    h.opt.key_id = key.id;
    size_t n = bt_r2p2_encode(p, sizeof p, &h);
    memset(p + n, 0, 5);
    bt_tag_sign(p, n + 5, &h, &key, &src, &lab.saddr);
    lab_inject_server(&lab, p, n + 5, &src);
}

static struct bt_server_router_state place(int i)
{
    struct bt_server_router_state st = {0};
    assert_true(bt_server_router_state(lab.server, i, &st));
    return st;
}

static void has_place(int i, uint32_t r)
{
    struct bt_server_router_state st = place(i);
    struct bt_addr want = router(r);
    assert_true(bt_addr_eq(&st.router.request, &want));
}

/* The last FEEDBACK to a router. */
static const struct bt_feedback *told(uint32_t r)
{
    struct bt_addr a = router(r);
    for (int i = lab.feedbacks - 1; i >= 0; i--) {
        if (bt_addr_ip_eq(&lab.feedback_to[i], &a)) {
            return &lab.feedback[i];
        }
    }
    fail_msg("no FEEDBACK to router %u", r);
    return NULL;
}

/* who was not heard for longest gives way, never one that is configured or was heard lately, and what it is told
 * should it return is a fresh start. What the former owner sent runs on nobody's account. */
static void r112_the_router_unheard_for_longest_gives_way(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab_start(&lab);
    const struct bt_keyring keys = {{key}};
    bt_server_set_keys(lab.server, &keys);
    struct bt_server_router configured = {.request = router(0), .feedback = router(0)};
    configured.feedback.port = 9000;
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, &configured, 1, &txq), 0); // and never heard
    lab_transmit(&lab, &txq);
    lab.hold = true;
    for (uint32_t i = 1; i < SLOTS; i++) {
        lab.now += MS;
        forwarded(i, (uint16_t)i);
        has_place((int)i, i);
        assert_int_equal(place((int)i).received, 1);
    }
    forwarded(100, 100); // all were heard a moment ago
    assert_int_equal(lab.executed, SLOTS);
    assert_int_equal(lab.last_request.router, -1);
    for (int i = 0; i < SLOTS; i++) {
        has_place(i, (uint32_t)i);
    }
    lab.now += MS;
    forwarded(2, 99); // later than 5
    lab_run(&lab, lab.now + SEC + 50 * MS);
    forwarded(1, 101);
    forwarded(3, 102);
    forwarded(200, 103);
    has_place(4, 200);
    assert_int_equal(lab.last_request.router, 4);
    forwarded(201, 104);
    has_place(5, 201);
    has_place(2, 2);
    has_place(0, 0);
    has_place(1, 1);
    has_place(3, 3);
    assert_int_equal(place(4).received, 1);
    assert_false(place(4).configured);
    lab_answer_all(&lab);
    lab_run(&lab, lab.now + MS);
    assert_int_equal(place(4).served, 1); // its own, not those of router 4
    assert_int_equal(told(200)->incarnation, 78);
    assert_int_equal(told(201)->incarnation, 79);
    assert_int_equal(told(3)->incarnation, 77);
    assert_int_equal(told(3)->served, 2);
    assert_int_equal(told(200)->received, 1);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r329_an_adopted_request_is_answered_as_its_own),
        cmocka_unit_test(r329_a_pair_is_adopted_once),
        cmocka_unit_test(r329_a_full_table_adopts_nothing_but_in_the_place_of_a_half),
        cmocka_unit_test(r329_its_time_counts_from_its_first_packet),
        cmocka_unit_test(r112_the_router_unheard_for_longest_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
