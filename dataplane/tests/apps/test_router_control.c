// SPDX-License-Identifier: Apache-2.0
// What of a document becomes what of a router's configuration, and how refusals are told.
#include "router_control_bed.h"

#include <string.h>

static struct bt_ctl_error error;

static struct bt_config_member members[2];

static struct bt_config a_document(void)
{
    struct bt_config c = {.members = members, .n_members = 2};
    members[0] = (struct bt_config_member){.workers = 2, .addr = bt_addr_v4u(0x0a000003, 8000)};
    members[1] = (struct bt_config_member){.workers = 1, .addr = bt_addr_v4u(0x0a000002, 7000)};
    c.service = (struct bt_config_service){.policy = BT_ROUTER_RANDOM,
                                           .device = BT_DEVICE_SRIOV,
                                           .legacy_peers = true,
                                           .worker_queue_depth = 5,
                                           .central_queue_limit = 6,
                                           .max_queue_ms = 7,
                                           .request_timeout_ms = 8,
                                           .hold_back_packets = 9,
                                           .hold_back_us = 10};
    return c;
}

static bool apply(const struct bt_config *c)
{
    static const struct bt_keyring keys;
    bool taken = router_ctl_app.apply(&bed.app, c, &keys, &error);
    assert_true(!taken || bed.applied.keys == &keys);
    return taken;
}

static void a_document_becomes_the_routers_configuration(void **state)
{
    char text[BT_ADDR_TEXT];
    struct bt_config c = a_document();
    (void)state;
    assert_true(apply(&c));
    assert_int_equal(bed.applied.policy, BT_ROUTER_RANDOM);
    assert_int_equal(bed.applied.forwarding, BT_FORWARD_ENCAPSULATED);
    assert_int_equal(bed.applied.device, BT_DEVICE_SRIOV);
    assert_true(bed.applied.legacy_peers);
    assert_int_equal(bed.applied.depth, 5);
    assert_int_equal(bed.applied.central_limit, 6);
    assert_int_equal(bed.applied.max_queue_ns, 7 * MS);
    assert_int_equal(bed.applied.request_timeout_ns, 8 * MS);
    assert_int_equal(bed.applied.hold_back_packets, 9);
    assert_int_equal(bed.applied.hold_back_ns, 10000);
    assert_int_equal(bed.applied.max_payload, 1234);
    assert_int_equal(bed.applied.members_n, 3);
    static const char *const want[] = {"10.0.0.3:8000", "10.0.0.3:8001", "10.0.0.2:7000"};
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(bt_addr_format(&bed.applied_member[i], text), want[i]);
    }
    assert_int_equal(bed.applied.admission.mode, BT_ADMISSION_OBSERVE); // nobody asked for it
    assert_int_equal(bed.applied.admission.droppable, 0);
    assert_int_equal(bed.applied.hedging.mode, BT_HEDGING_OFF);
    assert_int_equal(bed.applied.hedging.budget_percent, 0);
}

static void admission_and_hedging_are_as_the_document_says(void **state)
{
    int64_t droppable[] = {0, 3, 7};
    struct bt_config c = a_document();
    (void)state;
    c.service.admission = (struct bt_config_admission){.given = true,
                                                       .mode = BT_ADMISSION_REJECT,
                                                       .controller = BT_CONTROL_AIAD,
                                                       .latency_us = 250,
                                                       .per_100k = 95000,
                                                       .droppable = droppable,
                                                       .n_droppable = 3};
    c.service.hedging = (struct bt_config_hedging){.given = true,
                                                   .mode = BT_HEDGING_DELAYED,
                                                   .cancellation = (enum bt_hedging_cancellation)1,
                                                   .busy_percent = 11,
                                                   .budget_percent = 12,
                                                   .per_100k = 60000,
                                                   .probe_per_million = 13};
    assert_true(apply(&c));
    const struct bt_admission_config *a = &bed.applied.admission;
    assert_int_equal(a->mode, BT_ADMISSION_REJECT);
    assert_int_equal(a->controller, BT_CONTROL_AIAD);
    assert_int_equal(a->slo_ns, 250000);
    assert_int_equal(a->per_100k, 95000);
    assert_int_equal(a->droppable, 0x89);
    const struct bt_hedging_config *h = &bed.applied.hedging;
    assert_int_equal(h->mode, BT_HEDGING_DELAYED);
    assert_int_equal(h->cancellation, 1);
    assert_int_equal(h->busy_percent, 11);
    assert_int_equal(h->budget_percent, 12);
    assert_int_equal(h->per_100k, 60000);
    assert_int_equal(h->probe_per_million, 13);
    c.service.admission.given = c.service.hedging.given = false; // what is not there says nothing
    assert_true(apply(&c));
    assert_int_equal(bed.applied.admission.mode, BT_ADMISSION_OBSERVE);
    assert_int_equal(bed.applied.hedging.mode, BT_HEDGING_OFF);
}

static void refused(const struct bt_config *c, const char *field, const char *message)
{
    assert_false(apply(c));
    assert_string_equal(error.code, "InvalidConfig");
    assert_string_equal(error.field, field);
    assert_string_equal(error.message, message);
}

static void what_the_router_refuses_is_told_by_the_workers_address(void **state)
{
    struct bt_config c = a_document();
    (void)state;
    bed.refuses = (struct bt_router_refusal){.field = "members", .reason = "is twice there", .index = 1};
    refused(&c, "members", "10.0.0.3:8001 is twice there");
    bed.refuses.index = BT_ROUTER_MEMBERS_MAX; // of no worker
    refused(&c, "members", "is twice there");
    bed.refuses = (struct bt_router_refusal){.field = "service.policy", .reason = "must be another", .index = 1};
    refused(&c, "service.policy", "must be another");
}

static void transparent_forwarding_has_its_needs(void **state)
{
    struct bt_config c = a_document();
    (void)state;
    c.service.forwarding = BT_FORWARD_TRANSPARENT;
    assert_true(apply(&c));
    assert_int_equal(bed.applied.forwarding, BT_FORWARD_TRANSPARENT);
    bed.no_privilege = true;
    refused(&c, "service.forwarding", "no privilege");
    members[1].addr = (struct bt_addr){.ip = {0xfd, [15] = 1}, .port = 7000};
    refused(&c, "service.forwarding", "Transparent needs members of the router's own family, IPv4; fd00::1 is not");
    c.service.forwarding = BT_FORWARD_ENCAPSULATED; // which asks for neither
    assert_true(apply(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_document_becomes_the_routers_configuration, router_control_open),
        cmocka_unit_test_setup(admission_and_hedging_are_as_the_document_says, router_control_open),
        cmocka_unit_test_setup(what_the_router_refuses_is_told_by_the_workers_address, router_control_open),
        cmocka_unit_test_setup(transparent_forwarding_has_its_needs, router_control_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
