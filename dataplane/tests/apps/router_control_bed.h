// SPDX-License-Identifier: Apache-2.0
// bobtail-router's answers to the control protocol around a router of the test's own, which the linker puts in the
// place of the real one: it keeps what it is told and says what the test says.
#ifndef BT_TESTS_ROUTER_CONTROL_BED_H
#define BT_TESTS_ROUTER_CONTROL_BED_H

#include "unit.h"

#include "bobtail-router/router_app.h"

#define MS         UINT64_C(1000000)
#define ROUTER_NOW (1000 * MS)

struct router_control_bed {
    struct router_app app;
    struct bt_router_config applied; // and its members, which are the program's scratch
    struct bt_addr applied_member[BT_ROUTER_MEMBERS_MAX];
    struct bt_router_refusal refuses; // field NULL: it takes the configuration
    struct bt_router_stats stats;
    struct bt_router_member_stats member[2];
    struct bt_io request_io, feedback_io;
    uint64_t drained_at;
    bool no_privilege; // to forward transparently
};

extern struct router_control_bed bed;

int router_control_open(void **state); // for cmocka: anew before each test

#endif
