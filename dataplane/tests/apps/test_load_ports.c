// SPDX-License-Identifier: Apache-2.0
// The sockets that bobtail-load opens: by which ports, to which routers, and for packets of which size.
#include "load_bed.h"

#include "io/mtu.h"

static void sockets_spread_over_routers_from_the_seed_on(void **state)
{
    (void)state;
    load_bed_new();
    load_bed_open(3, 2);
    for (unsigned i = 0; i < 3; i++) {
        struct bt_addr want = load_bed_router((4 + i) % 2);
        assert_true(bt_addr_eq(&bed.app.conn[i].router, &want));
    }
    assert_int_equal(bed.app.n_routers, 2);
    assert_int_equal(bed.app.n_records, 3 * 64);
    assert_int_equal(bed.app.moves, 0);
    assert_int_equal(bed.ports_asked, 1);
    assert_in_range(bed.local[0].port, 20000, 20000 + 4096 - 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bed.local[i].port, bed.local[0].port + i);
        assert_int_equal(bed.local[i].ip[12], 127);
    }
    load_bed_close();
}

static void ports_that_others_have_are_passed_over(void **state)
{
    enum { BLOCKS = 4096 / 256 };
    bool seen[BLOCKS] = {false};
    (void)state;
    load_bed_new();
    bed.ports_taken = BLOCKS - 1; // all but the last that is tried
    load_bed_open(256, 1);
    assert_int_equal(bed.ports_asked, BLOCKS);
    for (unsigned b = 0; b < BLOCKS; b++) {
        unsigned block = (bed.first_port[b] - 20000u) / 256;
        assert_int_equal((bed.first_port[b] - 20000u) % 256, 0);
        assert_in_range(block, 0, BLOCKS - 1);
        assert_false(seen[block]);
        seen[block] = true;
    }
    load_bed_close();
    load_bed_new();
    bed.ports_taken = BLOCKS;
    assert_false(load_bed_try(256, 1));
    assert_int_equal(bed.ports_asked, BLOCKS);
    load_bed_close();
}

static void the_mtu_is_the_networks_or_the_narrowest_route(void **state)
{
    struct bt_addr own;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    assert_int_equal(bed.app.mtu, 1400);
    own = bed.local[0];
    load_bed_close();
    load_bed_new();
    bed.mtu = 0;
    load_bed_open(1, 2);
    struct bt_addr router = load_bed_router(0);
    assert_int_equal(bed.app.mtu, bt_mtu_toward(&own, &router));
    load_bed_close();
    load_bed_new();
    bed.mtu_refused = true;
    assert_false(load_bed_try(1, 1));
    load_bed_close();
}

static void packets_that_are_too_long_to_leave_are_known(void **state)
{
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    bed.io_counter[0] = 5;
    bed.io_counter[1] = 7;
    bed.io_counter[2] = 9; // came, and were too long
    assert_int_equal(load_connections_too_long(&bed.app), 7);
    load_bed_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_spread_over_routers_from_the_seed_on),
        cmocka_unit_test(ports_that_others_have_are_passed_over),
        cmocka_unit_test(the_mtu_is_the_networks_or_the_narrowest_route),
        cmocka_unit_test(packets_that_are_too_long_to_leave_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
