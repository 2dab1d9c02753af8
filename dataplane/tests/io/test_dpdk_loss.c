// SPDX-License-Identifier: Apache-2.0
// Who tells when a device is taken from under a running program, and what is believed of it.
#include "unit.h"

#include "dpdk_card.h"

#include <errno.h>
#include <string.h>

static const struct bt_dpdk_device_config plain;

static void who_tells_of_its_loss_is_asked_until_it_is_closed(void **state)
{
    static int *const refusals[] = {&card.events, &card.removal};
    (void)state;
    card_new();
    card.busy = 2; // callbacks that run
    struct bt_dpdk_device *dev = card_must_open(&plain);
    assert_null(strstr(card_said, "nobody will tell"));
    assert_non_null(card.removed);
    assert_int_equal(card.removed(dev->port, RTE_ETH_EVENT_INTR_RMV, card.removed_arg, NULL), 0);
    assert_int_equal(bt_dpdk_loss(dev), BT_DPDK_KEPT); // noted only: who owns an io acts on it
    bt_dpdk_lost_look(dev);
    assert_int_equal(bt_dpdk_loss(dev), BT_DPDK_GONE);
    card_assert_has(card_said, "DPDK: device net_ring_a was taken away: its driver says that it is gone\n");
    assert_false(atomic_load(&dev->running));
    card_close(dev);
    assert_int_equal(card.stops, 1); // it ran when it was lost
    assert_int_equal(card.takes, 3);
    assert_null(card.removed);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        card_new();
        *refusals[i] = -ENOMEM;
        dev = card_must_open(&(struct bt_dpdk_device_config){.port = "net_x,iface=lo"});
        card_assert_has(card_said, "DPDK: nobody will tell when interface lo is taken away\n");
        card_close(dev);
    }
}

// A port on an interface has a carrier while that runs, and is lost when the kernel has it no more. That it cannot be
// asked says nothing.
static void an_interface_is_asked_for_by_its_number(void **state)
{
    static const struct {
        int error;
        bool running, up;
        enum bt_dpdk_loss loss;
    } rows[] = {
        {0, true, true, BT_DPDK_KEPT},
        {0, false, false, BT_DPDK_KEPT},
        {EPERM, false, true, BT_DPDK_KEPT},
        {ENODEV, true, false, BT_DPDK_GONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.port = "net_x,iface=lo"});
        assert_int_not_equal(dev->interface, 0);
        dev->interface = 4711;
        card.interface = true;
        card.if_error = rows[i].error;
        card.if_running = rows[i].running;
        bt_dpdk_lost_look(dev);
        assert_int_equal(bt_dpdk_link_up(dev), rows[i].up);
        assert_int_equal(bt_dpdk_loss(dev), rows[i].loss);
        assert_int_equal(atomic_load(&dev->running), rows[i].loss == BT_DPDK_KEPT);
        if (rows[i].loss == BT_DPDK_GONE) {
            card_assert_has(card_said, "DPDK: interface lo was taken away: the kernel has it no more here\n");
            card.interface = false;
        }
        card_close(dev);
    }
}

// What vfio wants back is told once, and what is gone after that once more.
static void a_loss_is_told_once(void **state)
{
    (void)state;
    card_new();
    struct bt_dpdk_device *dev = card_must_open(&plain);
    bt_dpdk_lost_look(dev);
    assert_int_equal(bt_dpdk_loss(dev), BT_DPDK_KEPT);
    for (unsigned i = 0; i < 2; i++) {
        card_said[0] = i == 0 ? '\0' : card_said[0];
        atomic_store(&dev->wanted, true);
        bt_dpdk_lost_look(dev);
        assert_int_equal(bt_dpdk_loss(dev), BT_DPDK_WANTED);
        assert_string_equal(card_said, "DPDK: device net_ring_a was taken away: its driver wants it back and waits for "
                                       "this program\n");
        assert_true(atomic_load(&dev->running));
    }
    for (unsigned i = 0; i < 2; i++) {
        card_said[0] = i == 0 ? '\0' : card_said[0];
        atomic_store(&dev->removed, true);
        bt_dpdk_lost_look(dev);
        assert_int_equal(bt_dpdk_loss(dev), BT_DPDK_GONE);
        assert_string_equal(card_said, "DPDK: device net_ring_a was taken away: its driver says that it is gone\n");
        assert_false(bt_dpdk_link_up(dev));
    }
    card_close(dev);
}

// Absent is what the kernel says it has not; what it does not tell of may be there.
static void a_card_is_absent_if_the_kernel_says_so(void **state)
{
    static const struct {
        int said;
        bool absent;
    } rows[] = {{0, false}, {ENOENT, true}, {EACCES, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.pci = true;
        card.no_pci = rows[i].said;
        assert_int_equal(bt_dpdk_absent("3B:0A.1,arg=1"), rows[i].absent);
        assert_string_equal(card.probed, "/sys/bus/pci/devices/0000:3b:0a.1");
    }
    card_new();
    assert_false(bt_dpdk_absent("net_ring_a"));
    assert_false(bt_dpdk_absent("net_x,iface=lo"));
    assert_true(bt_dpdk_absent("net_x,iface=none0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_tells_of_its_loss_is_asked_until_it_is_closed),
        cmocka_unit_test(an_interface_is_asked_for_by_its_number),
        cmocka_unit_test(a_loss_is_told_once),
        cmocka_unit_test(a_card_is_absent_if_the_kernel_says_so),
    };
    return cmocka_run_group_tests_name("loss", tests, hosts_start, NULL);
}
