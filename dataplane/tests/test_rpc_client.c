// SPDX-License-Identifier: Apache-2.0
// Request ids, tables and ends of calls on the client's side.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lab.h"

static struct lab lab;
static uint16_t ids[200000];
static uint32_t id_count;

static void spy_ids(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    (void)pkt;
    if (h->type == BT_REQUEST && h->first && id_count < 200000) {
        ids[id_count++] = h->req_id;
    }
}

static void reply_to(uint16_t id)
{
    uint8_t p[8] = {0xcc, 8, 0x10, 0xc0, (uint8_t)(id >> 8), (uint8_t)id, 0, 1};
    lab_inject_client(&lab, p, 8, &lab.saddr);
}

// over several wraps of the id space no id comes back while pending or
// within a quarantine of its release.
static void r10_ids_wrap_around_pending_and_quarantined_ones(void **state)
{
    (void)state;
    static uint64_t released[65536];
    static bool pending[65536];
    memset(released, 0, sizeof released);
    memset(pending, 0, sizeof pending);
    lab_init(&lab, 1);
    lab.spy = spy_ids;
    lab.ccfg.max_pending = 8;
    lab_start(&lab);
    id_count = 0;
    uint64_t quarantine = lab.ccfg.timers.quarantine_ns;
    uint16_t stuck[2] = {0};
    for (uint32_t i = 0; i < 150000; i++) {
        lab.calls = lab.calls >= 4000 ? 2 : lab.calls; // call slots of the lab are reused
        memset(&lab.call[lab.calls], 0, sizeof lab.call[0]);
        lab.now += 500; // 2 Mrps: the space wraps every 33 ms
        int got = lab_call(&lab, 8, 8, 1000 * SEC);
        lab_flush(&lab);
        if (got == BT_RPC_NO_ID) {
            continue;
        }
        assert_true(got >= 0);
        uint16_t id = ids[id_count - 1];
        assert_false(pending[id]);
        if (released[id] && lab.now - released[id] < quarantine) {
            fail_msg("id %u again after %llu ns", id, (unsigned long long)(lab.now - released[id]));
        }
        pending[id] = true;
        if (i < 2) {
            stuck[i] = id; // these two stay outstanding for ever
            continue;
        }
        reply_to(id);
        released[id] = lab.now;
        pending[id] = false;
        id_count = 0;
    }
    assert_true(pending[stuck[0]] && pending[stuck[1]]);
    lab_end(&lab);
}

/* A clock that steps back (which none may) must not make an id look long released. */
static void r10_quarantine_survives_time_that_goes_back(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.ccfg.max_pending = 8;
    lab.spy = spy_ids;
    lab_start(&lab);
    id_count = 0;
    uint64_t quarantine = lab.ccfg.timers.quarantine_ns;
    for (uint32_t i = 0; i < 65536; i++) { // every id was used a moment ago
        lab.calls = 0;
        memset(&lab.call[0], 0, sizeof lab.call[0]);
        assert_int_equal(lab_call(&lab, 8, 8, 1000 * SEC), 0);
        lab_flush(&lab);
        reply_to(ids[id_count - 1]);
        id_count = 0;
    }
    lab.now -= 2 * quarantine;
    lab.calls = 0;
    assert_int_equal(lab_call(&lab, 8, 8, 1000 * SEC), BT_RPC_NO_ID);
    lab.now += 4 * quarantine;
    memset(&lab.call[0], 0, sizeof lab.call[0]);
    assert_int_equal(lab_call(&lab, 8, 8, SEC), 0);
    lab_flush(&lab);
    reply_to(ids[id_count - 1]);
    lab_end(&lab);
}

static void r10_no_free_id_is_an_error_not_a_reuse(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab.ccfg.max_pending = 8;
    lab.ccfg.timers.quarantine_ns = 1000 * SEC; // the id space runs dry
    lab.spy = spy_ids;
    lab_start(&lab);
    id_count = 0;
    int got = 0;
    for (uint32_t i = 0; i < 65536; i++) {
        lab.calls = 0;
        memset(&lab.call[0], 0, sizeof lab.call[0]);
        got = lab_call(&lab, 8, 8, SEC);
        assert_true(got >= 0);
        lab_flush(&lab);
        reply_to(ids[id_count - 1]);
        id_count = 0;
    }
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_NO_ID);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_REFUSED_ID], 1);
    lab.now += 1005 * SEC; // and they come back
    lab.calls = 0;
    memset(&lab.call[0], 0, sizeof lab.call[0]);
    assert_true(lab_call(&lab, 8, 8, SEC) >= 0);
    lab_end(&lab);
}

static void r11_first_id_depends_on_the_seed(void **state)
{
    (void)state;
    uint16_t first[8];
    int same = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        lab_init(&lab, seed);
        lab.spy = spy_ids;
        lab_start(&lab);
        id_count = 0;
        lab_call(&lab, 8, 8, SEC);
        first[seed] = ids[0];
        lab_end(&lab);
        for (uint64_t k = 0; k < seed; k++) {
            same += first[k] == first[seed];
        }
    }
    assert_true(same <= 1);
}

static void r51_table_full_is_refused_without_callback(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.ccfg.max_pending = 300; // more than 128 outstanding on one port
    lab.scfg.max_pending = 400;
    lab.hold = true;
    lab_start(&lab);
    for (int i = 0; i < 300; i++) {
        assert_true(lab_call(&lab, 8, 8, SEC) >= 0);
    }
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_TABLE_FULL);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_REFUSED_TABLE], 1);
    assert_int_equal(bt_client_pending(lab.client), 300);
    lab_run(&lab, lab.now + MS);
    lab.hold = false;
    lab_answer_all(&lab);
    lab_run(&lab, 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(lab.call[i].end, LAB_SUCCESS);
    }
    lab_end(&lab);
}

static void r17_timeout_fires_in_time_and_once(void **state)
{
    (void)state;
    lab_init(&lab, 4);
    lab.faults.lose[LAB_REQ0] = 1000;
    lab_start(&lab);
    uint64_t start = lab.now;
    lab_call(&lab, 8, 8, 123456);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_TIMEOUT);
    assert_in_range(lab.now - start, 123456, 123456 + 256);
    lab_end(&lab);
}

static void r37_reply_after_the_timeout_is_counted(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab.service_ns = 5 * MS;
    lab_start(&lab);
    lab_call(&lab, 8, 8, 2 * MS);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_TIMEOUT);
    lab_run(&lab, lab.now + 10 * MS);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_LATE_REPLY], 1);
    lab_end(&lab);
}

/* R-30; R-217: and nothing is sent again. */
static void r30_drop_reaches_the_error_callback(void **state)
{
    (void)state;
    lab_init(&lab, 6);
    lab.path = LAB_ENCAPSULATED;
    lab.admit = false;
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_call(&lab, 5000, 8, SEC);
    lab_run(&lab, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lab.call[i].end, LAB_ERROR);
        assert_int_equal(lab.call[i].code, -2);
    }
    lab_run(&lab, lab.now + SEC);
    assert_int_equal(lab.executed, 0);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_ADMIT], 2);
    struct bt_server_router_state st;
    bt_server_router_state(lab.server, 0, &st);
    assert_int_equal(st.received, 2);
    assert_int_equal(st.served, 2);
    lab_end(&lab);
}

static void r43_close_ends_everything(void **state)
{
    (void)state;
    lab_init(&lab, 7);
    lab.hold = true;
    lab_start(&lab);
    for (int i = 0; i < 10; i++) {
        lab_call(&lab, i % 2 ? 5000 : 8, 8, SEC);
    }
    lab_run(&lab, lab.now + MS);
    bt_client_close(lab.client, lab.now);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(lab.call[i].end, LAB_ERROR);
        assert_int_equal(lab.call[i].code, BT_RPC_CANCELLED);
    }
    lab_end(&lab);
}

static void m24_empty_pool_refuses_the_send(void **state)
{
    (void)state;
    lab_init(&lab, 8);
    lab_start(&lab);
    struct bt_pkt *all = NULL, *p;
    while (lab.pool.left > 2) {
        p = bt_pool_get(&lab.pool.pool);
        p->next = all;
        all = p;
    }
    assert_int_equal(lab_call(&lab, 5000, 8, SEC), BT_RPC_NO_BUFFER); // needs 5
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_NO_BUFFER], 1);
    assert_int_equal(lab.pool.left, 2);
    assert_int_equal(bt_client_pending(lab.client), 0);
    bt_pool_put_chain(&lab.pool.pool, all);
    lab_end(&lab);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    lab_init(&lab, 9);
    lab_start(&lab);
    struct bt_request rq = {.timeout_ns = 0};
    assert_int_equal(lab_call_with(&lab, &rq, 8, 8), BT_RPC_BAD_ARGUMENT);
    rq = (struct bt_request){.timeout_ns = SEC, .policy = 4};
    assert_int_equal(lab_call_with(&lab, &rq, 8, 8), BT_RPC_BAD_ARGUMENT);
    struct bt_client_cfg bad = lab.ccfg;
    bad.mtu = 100;
    assert_int_equal(bt_client_bytes(&bad), 0);
    bad = lab.ccfg;
    bad.max_pending = 65536;
    assert_int_equal(bt_client_bytes(&bad), 0);
    assert_null(bt_client_init(&bad, lab.client_mem, lab.client_bytes, lab.now));
    bad = lab.ccfg;
    bad.max_pending = 0;
    assert_int_equal(bt_client_bytes(&bad), 0);
    bad = lab.ccfg;
    bad.flow_targets = 1025;
    assert_int_equal(bt_client_bytes(&bad), 0);
    bad.flow_targets = 1024;
    assert_true(bt_client_bytes(&bad) > 0);
    bad = lab.ccfg;
    bad.timers.rto_ns = 0;
    assert_int_equal(bt_client_bytes(&bad), 0);
    for (int i = 0; i < 3; i++) {
        bad = lab.ccfg;
        bad.ops.success = i == 0 ? NULL : bad.ops.success;
        bad.ops.timeout = i == 1 ? NULL : bad.ops.timeout;
        bad.ops.error = i == 2 ? NULL : bad.ops.error;
        assert_int_equal(bt_client_bytes(&bad), 0);
        assert_null(bt_client_init(&bad, lab.client_mem, lab.client_bytes, lab.now));
    }
    assert_null(bt_client_init(&lab.ccfg, lab.client_mem, lab.client_bytes - 1, lab.now));
    lab.client = bt_client_init(&lab.ccfg, lab.client_mem, lab.client_bytes, lab.now);
    lab_end(&lab);
}

static bool server_takes(const struct bt_server_cfg *cfg)
{
    return bt_server_bytes(cfg) > 0;
}

static void bad_configurations_of_a_server_are_refused(void **state)
{
    (void)state;
    lab_init(&lab, 9);
    lab_start(&lab);
#define MAY(field, value, right)                                                                                       \
    do {                                                                                                               \
        struct bt_server_cfg one = lab.scfg;                                                                           \
        one.field = (value);                                                                                           \
        assert_int_equal(server_takes(&one), (right));                                                                 \
    } while (0)
    MAY(n, 0, false);
    MAY(n, 1, true);
    MAY(n, 64, true);
    MAY(n, 65, false);
    MAY(max_pending, 0, false);
    MAY(max_pending, 1, true);
    MAY(max_pending, (1u << 24) - 1, true);
    MAY(max_pending, 1u << 24, false);
    MAY(max_done, 0, false);
    MAY(max_done, 1, true);
    MAY(max_done, (1u << 24) - 1, true);
    MAY(max_done, 1u << 24, false);
    MAY(timers.gc_ns, 0, false);
    MAY(ops.on_request, NULL, false);
    MAY(pool, NULL, false);
    struct bt_server_cfg bad = lab.scfg;
    bad.n = 0;
    assert_null(bt_server_init(&bad, lab.server_mem, lab.server_bytes, lab.now));
    assert_null(bt_server_init(&lab.scfg, lab.server_mem, lab.server_bytes - 1, lab.now));
    lab.server = bt_server_init(&lab.scfg, lab.server_mem, lab.server_bytes, lab.now);
    assert_non_null(lab.server);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r10_ids_wrap_around_pending_and_quarantined_ones),
        cmocka_unit_test(r10_quarantine_survives_time_that_goes_back),
        cmocka_unit_test(r10_no_free_id_is_an_error_not_a_reuse),
        cmocka_unit_test(r11_first_id_depends_on_the_seed),
        cmocka_unit_test(r51_table_full_is_refused_without_callback),
        cmocka_unit_test(r17_timeout_fires_in_time_and_once),
        cmocka_unit_test(r37_reply_after_the_timeout_is_counted),
        cmocka_unit_test(r30_drop_reaches_the_error_callback),
        cmocka_unit_test(r43_close_ends_everything),
        cmocka_unit_test(m24_empty_pool_refuses_the_send),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(bad_configurations_of_a_server_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
