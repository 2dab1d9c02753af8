// SPDX-License-Identifier: Apache-2.0
// What an io of a DPDK device is refused: more local ports than there can be, another host's address, a ring when there
// is none; and that a refusal leaves nothing behind.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "link/link.h"

#include <stdio.h>
#include <string.h>

static char err[400];

static struct bt_io *open_at(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n)
{
    err[0] = '\0';
    return bt_dpdk_open(dev, &(struct bt_dpdk_config){.locals = locals, .n_locals = n}, err, sizeof err);
}

static unsigned listeners(const struct bt_dpdk_device *dev, const struct bt_dpdk *who)
{
    unsigned n = 0;
    for (unsigned port = 0; port < 65536; port++) {
        n += atomic_load(&dev->listener[port]) == who;
    }
    return n;
}

static void so_many_local_ports_and_no_more(void **state)
{
    static struct bt_addr locals[BT_LINK_MAX_LOCALS + 1];
    struct bt_dpdk_device *dev = hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO);
    char want[100];
    (void)state;
    for (unsigned i = 0; i <= BT_LINK_MAX_LOCALS; i++) {
        locals[i] = dpdk_address(false, 1, 0);
    }
    static const unsigned refused[] = {0, BT_LINK_MAX_LOCALS + 1};
    for (unsigned i = 0; i < 2; i++) {
        assert_null(open_at(dev, locals, refused[i]));
        snprintf(want, sizeof want, "needs 1..%u local ports; got %u", BT_LINK_MAX_LOCALS, refused[i]);
        assert_string_equal(err, want);
    }
    struct bt_io *io = open_at(dev, locals, BT_LINK_MAX_LOCALS);
    assert_non_null(io);
    assert_int_equal(io->ops->local(io, BT_LINK_MAX_LOCALS).port, 0); // none
    io->ops->close(io);
    locals[3] = dpdk_address(false, 77, 9); // nobody's address here
    assert_null(open_at(dev, locals, 4));
    assert_string_equal(err, "locals[3]: is at an address this port does not have: use one of addrs, or 0.0.0.0 or ::");
    assert_int_equal(listeners(dev, NULL), 65536);
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

static void without_a_ring_there_is_no_second_io(void **state)
{
    struct bt_dpdk_device *dev = hosts_device(1, 2, BT_DPDK_CHECKSUMS_AUTO);
    struct bt_addr local = dpdk_address(false, 1, 7000);
    char name[RTE_RING_NAMESIZE];
    (void)state;
    snprintf(name, sizeof name, "bobtail%u.0", dev->port);
    struct rte_ring *taken = rte_ring_create(name, 16, SOCKET_ID_ANY, 0);
    assert_non_null(taken);
    assert_null(open_at(dev, &local, 1));
    assert_string_equal(err, "no memory for a ring between threads: File exists");
    rte_ring_free(taken);
    struct bt_io *io = open_at(dev, &local, 1);
    assert_non_null(io);
    assert_ptr_equal(rte_ring_lookup(name), bt_dpdk_of(io)->handed);
    assert_int_equal(rte_ring_get_size(bt_dpdk_of(io)->handed), BT_DPDK_HANDOVER);
    io->ops->close(io);
    assert_null(rte_ring_lookup(name));
    assert_int_equal(bt_dpdk_device_close(dev), 0);
    dev = hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO); // one alone needs none
    io = open_at(dev, &local, 1);
    assert_non_null(io);
    assert_null(bt_dpdk_of(io)->handed);
    io->ops->close(io);
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_local_ports_and_no_more),
        cmocka_unit_test(without_a_ring_there_is_no_second_io),
    };
    return cmocka_run_group_tests_name("ports", tests, hosts_start, NULL);
}
