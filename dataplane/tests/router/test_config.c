// SPDX-License-Identifier: Apache-2.0
// Configurations: refused whole with the field at fault, or applied whole; members that stay keep their counters.
#include <stdlib.h>
#include <string.h>

#include "router/bed.h"

static void refuse(struct bed *b, const struct bt_router_config *bad, const char *field)
{
    struct bt_router_refusal why = {0};
    uint64_t refused = bed_counter(b, BT_RC_CONFIGS_REFUSED);
    if (bt_router_apply(b->r, b->now, bad, &why)) {
        fail_msg("accepted although %s is wrong", field);
    }
    assert_string_equal(why.field, field);
    assert_non_null(why.reason);
    assert_int_equal(bed_counter(b, BT_RC_CONFIGS_REFUSED), refused + 1);
}

static void refused_whole_with_the_field_at_fault(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 2);
    bed_join_all(&b, 2);
    struct bt_router_config c = b.config;
    struct bt_addr other = bt_addr_v4u(0x0a020000, 1);
    c.members = &other; /* every refused one would also have changed the members */
    c.members_n = 1;
#define REFUSE(change, name)                                                                                           \
    do {                                                                                                               \
        struct bt_router_config bad = c;                                                                               \
        change;                                                                                                        \
        refuse(&b, &bad, name);                                                                                        \
    } while (0)
    REFUSE(bad.policy = BT_ROUTER_POLICIES, "service.policy");
    REFUSE(bad.forwarding = (enum bt_router_forwarding)2, "service.forwarding");
    REFUSE(bad.device = (enum bt_device)3, "service.deviceProfile");
    REFUSE(bad.depth = 0, "service.workerQueueDepth");
    REFUSE(bad.depth = 65, "service.workerQueueDepth");
    REFUSE(bad.central_limit = 0, "service.centralQueueLimit");
    REFUSE(bad.central_limit = 1048577, "service.centralQueueLimit");
    REFUSE(bad.max_queue_ns = 0, "service.maxQueueMilliseconds");
    REFUSE(bad.max_queue_ns = 600 * SEC + 1, "service.maxQueueMilliseconds");
    REFUSE(bad.request_timeout_ns = 0, "service.requestTimeoutMilliseconds");
    REFUSE(bad.request_timeout_ns = 600 * SEC + 1, "service.requestTimeoutMilliseconds");
    REFUSE(bad.hold_back_packets = 1, "service.holdBack");
    REFUSE(bad.hold_back_ns = 1, "service.holdBack");
    REFUSE((bad.hold_back_ns = bad.hold_back_packets = 1, bad.policy = BT_ROUTER_JSQ), "service.holdBack");
    REFUSE(bad.max_payload = 77, "maxPayload");
    REFUSE(bad.timers.loss_ns = 3601 * SEC, "timers");
    struct bt_addr twins[3] = {b.members[0], b.members[1], b.members[0]};
    REFUSE((bad.members = twins, bad.members_n = 3), "members");
    struct bt_addr bad_addr = bt_addr_v4u(0xe0000001, 5), no_port = bt_addr_v4u(0x0a000005, 0);
    REFUSE(bad.members = &bad_addr, "members");
    REFUSE(bad.members = &no_port, "members");
    REFUSE(bad.members = &b.requests, "members");
    REFUSE(bad.members = &b.feedback, "members");
    REFUSE((bad.members = b.members, bad.members_n = 1025), "members");
#undef REFUSE
    assert_true(bed_row(&b, 0).eligible && bed_row(&b, 1).eligible);
    bed_send(&b, 1);
    assert_in_range(bed_take(&b), 0, 1);
    bed_close(&b);
}

static void the_index_of_the_bad_member_is_told(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 5, 2);
    struct bt_addr all[5];
    memcpy(all, b.members, sizeof all);
    all[4] = all[2];
    struct bt_router_config bad = b.config;
    bad.members = all;
    struct bt_router_refusal why;
    assert_false(bt_router_apply(b.r, b.now, &bad, &why));
    assert_int_equal(why.index, 4);
    assert_false(bt_router_apply(b.r, b.now, &bad, NULL)); /* nobody has to listen */
    bed_close(&b);
}

static void r107_members_that_stay_keep_counters_and_removed_ones_drain(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 2);
    bed_join_all(&b, 2);
    for (uint16_t i = 0; i < 8; i++) {
        bed_send(&b, i);
    }
    bed_discard(&b);
    struct bt_addr kept[] = {b.members[3], b.members[1], b.members[9]};
    b.config.members = kept;
    b.config.members_n = 3;
    bed_apply(&b);
    struct bt_router_stats stats;
    bt_router_read_stats(b.r, b.now, &stats);
    assert_int_equal(stats.members, 3);
    assert_int_equal(stats.joined, 2);
    assert_int_equal(stats.draining, 2);
    assert_int_equal(stats.outstanding, 8);
    assert_int_equal(bed_row(&b, 0).outstanding, 2); /* rows follow the new order */
    struct bt_router_member_stats row = bed_row(&b, 0);
    assert_true(bt_addr_eq(&row.addr, &b.members[3]));
    assert_false(bed_row(&b, 2).joined);
    /* a removed worker may finish, and gets nothing new though it asks */
    bed_feedback(&b, 0,
                 &(struct bed_report){.received = 2, .served = 2, .n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    bed_send(&b, 20);
    assert_int_equal(bed_take(&b), -1);
    bed_tick(&b, 200 * MS);
    bt_router_read_stats(b.r, b.now, &stats);
    assert_int_equal(stats.draining, 1);
    bed_feedback(&b, 0, &(struct bed_report){.received = 2, .served = 2, .n = 2, .incarnation = 1});
    assert_int_equal(bed_malformed(&b, BT_M21), 1); /* forgotten: a stranger now */
    bed_tick(&b, 10 * SEC);                         /* the other removed one had its time */
    bt_router_read_stats(b.r, b.now, &stats);
    assert_int_equal(stats.draining, 0);
    bed_close(&b);
}

static void removed_member_that_returns_while_draining_keeps_its_backlog(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 2);
    bed_join_all(&b, 2);
    for (uint16_t i = 0; i < 4; i++) {
        bed_send(&b, i);
    }
    bed_discard(&b);
    b.config.members_n = 1;
    bed_apply(&b);
    b.config.members_n = 2;
    bed_apply(&b);
    assert_int_equal(bed_row(&b, 1).outstanding, 2);
    assert_true(bed_row(&b, 1).eligible);
    bed_close(&b);
}

static void new_member_in_an_old_slot_starts_clean(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join_all(&b, 2);
    bed_send(&b, 1);
    bed_discard(&b);
    struct bt_addr *first = b.members;
    b.config.members = &b.members[4];
    b.members[4] = bt_addr_v4u(0x0a050005, 8000);
    bed_apply(&b);
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 1, .n = 2, .incarnation = 1});
    bed_tick(&b, 200 * MS);
    b.config.members = first; /* back again, after it was forgotten */
    bed_apply(&b);
    bed_tick(&b, 20 * SEC);
    assert_int_equal(bed_row(&b, 0).sent, 0);
    assert_false(bed_row(&b, 0).joined);
    assert_int_equal(bed_row(&b, 0).incarnation, 0);
    /* its old incarnation is as good as any for a router that never heard it */
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 1, .n = 2, .incarnation = 1});
    assert_true(bed_row(&b, 0).eligible);
    bed_close(&b);
}

/* All slots taken, half of them by workers that drain: the new ones must fit. */
static void full_table_makes_room_for_new_members(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1024, 1);
    for (uint32_t w = 0; w < 1024; w++) {
        bed_join(&b, w, 1);
    }
    for (uint32_t i = 0; i < 1024; i++) {
        bed_send(&b, (uint16_t)i);
        bed_discard(&b);
    }
    assert_int_equal(bed_held(&b), 0);
    bed_send(&b, 0);
    assert_int_equal(bed_held(&b), 1); /* exactly one each */
    static struct bt_addr fresh[1024];
    memcpy(fresh, b.members, sizeof fresh);
    for (uint32_t w = 0; w < 512; w++) {
        fresh[w] = bt_addr_v4u(0x0a070000 + w, 8000);
    }
    b.config.members = fresh;
    bed_apply(&b);
    struct bt_router_stats stats;
    bt_router_read_stats(b.r, b.now, &stats);
    assert_int_equal(stats.members, 1024);
    assert_int_equal(stats.joined, 512);
    assert_int_equal(stats.draining, 0);
    assert_int_equal(stats.outstanding, 512);
    for (uint32_t w = 0; w < 1024; w++) {
        struct bt_router_member_stats row = bed_row(&b, w);
        assert_true(bt_addr_eq(&row.addr, &fresh[w]));
        assert_int_equal(row.feedback_age_ns == UINT64_MAX, w < 512); /* nothing is left of who had the slot before */
        assert_int_equal(row.outstanding, w < 512 ? 0 : 1);
    }
    bed_close(&b);
}

static void keys_change_with_the_configuration(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join(&b, 0, 1);
    bed_use_keys(&b);
    bed_apply(&b);
    bed_feedback(&b, 0, &(struct bed_report){.n = 1, .incarnation = 1, .untagged = true});
    assert_int_equal(bed_malformed(&b, BT_M_TAG), 1);
    bed_send(&b, 1);
    struct bt_pkt *pkt = bed_packet(&b);
    assert_non_null(pkt);
    struct bt_r2p2_hdr hdr;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
    assert_int_equal(bt_tag_verify(pkt->data, pkt->len, &hdr, &b.keys, &pkt->src, &pkt->dst), BT_TAG_VALID);
    bt_pool_put(b.pool, pkt);
    bed_close(&b);
}

static void setups_out_of_bounds_are_refused(void **state)
{
    (void)state;
    struct bt_pool_fixed fixed;
    memset(&fixed, 0, sizeof fixed);
    struct bt_router_setup s = {.max_members = 1025, .pool = &fixed.pool};
    assert_int_equal(bt_router_bytes(&s), 0);
    s.max_members = 1;
    s.max_pairs = (1u << 20) + 1u;
    assert_int_equal(bt_router_bytes(&s), 0);
    s.max_pairs = 1;
    s.max_hedges = UINT16_MAX + 1u;
    assert_int_equal(bt_router_bytes(&s), 0);
    s.max_hedges = 1;
    s.no_histograms = true;
    size_t bytes = bt_router_bytes(&s);
    assert_true(bytes > 0 && bytes < 200000);
    void *mem = aligned_alloc(64, bytes);
    assert_non_null(mem);
    assert_null(bt_router_init(mem, bytes - 64, &s, 0));
    s.pool = NULL;
    assert_null(bt_router_init(mem, bytes, &s, 0));
    s.pool = &fixed.pool;
    struct bt_router *r = bt_router_init(mem, bytes, &s, 0);
    assert_non_null(r);
    assert_null(bt_router_latency(r));
    assert_int_equal(bt_router_next(r), UINT64_MAX);
    free(mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_whole_with_the_field_at_fault),
        cmocka_unit_test(the_index_of_the_bad_member_is_told),
        cmocka_unit_test(r107_members_that_stay_keep_counters_and_removed_ones_drain),
        cmocka_unit_test(removed_member_that_returns_while_draining_keeps_its_backlog),
        cmocka_unit_test(new_member_in_an_old_slot_starts_clean),
        cmocka_unit_test(full_table_makes_room_for_new_members),
        cmocka_unit_test(keys_change_with_the_configuration),
        cmocka_unit_test(setups_out_of_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
