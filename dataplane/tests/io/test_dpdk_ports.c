// SPDX-License-Identifier: Apache-2.0
// What an io of a DPDK device gets of it, place and queues, and what it is refused: more local ports than there can be,
// another host's address, a ring when there is none; and that a refusal leaves nothing behind.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "link/internal.h"

#include <errno.h>
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

// Queue q is received from by the io of that number, those of nobody by the first. Who sends by one that another sends
// by, too, takes turns.
static void queues_are_shared_out(void **state)
{
    enum { MOST = 4 };
    static const struct {
        unsigned queues, ios;
        const char *receives[MOST]; // by each io
        unsigned sends[MOST];
        bool turns[MOST];
    } rows[] = {
        {1, 1, {"0"}, {0}, {false}},
        {3, 1, {"012"}, {0}, {false}},
        {1, 2, {"0", ""}, {0, 0}, {true, true}},
        {2, 2, {"0", "1"}, {0, 1}, {false, false}},
        {4, 2, {"023", "1"}, {0, 1}, {false, false}},
        {2, 3, {"0", "1", ""}, {0, 1, 0}, {true, false, true}},
        {3, 4, {"0", "1", "2", ""}, {0, 1, 2, 0}, {true, false, false, true}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk_device *dev = hosts_device(1, rows[i].ios, BT_DPDK_CHECKSUMS_AUTO);
        struct bt_io *io[MOST];
        dev->n_queues = (uint16_t)rows[i].queues;
        for (unsigned k = 0; k < rows[i].ios; k++) {
            struct bt_addr local = dpdk_address(false, 1, (uint16_t)(7000 + k));
            io[k] = open_at(dev, &local, 1);
            assert_non_null(io[k]);
            const struct bt_dpdk *d = bt_dpdk_of(io[k]);
            assert_int_equal(d->index, k);
            assert_int_equal(d->n_rx, strlen(rows[i].receives[k]));
            for (unsigned q = 0; q < d->n_rx; q++) {
                assert_int_equal(d->rx_queue[q], rows[i].receives[k][q] - '0');
            }
            assert_int_equal(d->tx_queue, rows[i].sends[k]);
            assert_int_equal(d->tx_shared, rows[i].turns[k]);
        }
        for (unsigned k = rows[i].ios; k-- > 0;) {
            io[k]->ops->close(io[k]);
            assert_null(atomic_load(&dev->io[k]));
        }
        dev->n_queues = 1;
        assert_int_equal(bt_dpdk_device_close(dev), 0);
    }
}

// The place of one that closed is the next one's, the first to answer among them.
static void a_place_that_is_free_is_taken_first(void **state)
{
    struct bt_dpdk_device *dev = hosts_device(1, 3, BT_DPDK_CHECKSUMS_AUTO);
    struct bt_io *io[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bt_addr local = dpdk_address(false, 1, (uint16_t)(7000 + i));
        io[i] = open_at(dev, &local, 1);
        assert_non_null(io[i]);
        assert_ptr_equal(atomic_load(&dev->io[i]), bt_dpdk_of(io[i]));
        assert_int_equal(bt_dpdk_of(io[i])->link->secondary, i != 0);
    }
    struct bt_addr other = dpdk_address(false, 1, 7777);
    assert_null(open_at(dev, &other, 1));
    assert_string_equal(err, "the device was opened for 3 ios and has them");
    io[1]->ops->close(io[1]);
    assert_null(atomic_load(&dev->io[1]));
    io[1] = open_at(dev, &other, 1);
    assert_non_null(io[1]);
    assert_int_equal(bt_dpdk_of(io[1])->index, 1);
    for (unsigned i = 3; i-- > 0;) {
        io[i]->ops->close(io[i]);
    }
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

// Who asked for events gets them, as many as there is room for; whoever did not, counts them. A path that is too narrow
// is no news about a peer.
static void events_are_told_to_who_asked(void **state)
{
    struct bt_addr local = dpdk_address(false, 1, 7000);
    (void)state;
    for (unsigned report = 0; report < 2; report++) {
        struct bt_dpdk_device *dev = hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO);
        struct bt_dpdk_config cfg = {.locals = &local, .n_locals = 1, .report_unreachable = report};
        struct bt_io *io = bt_dpdk_open(dev, &cfg, err, sizeof err);
        struct bt_io_event ev[4];
        assert_non_null(io);
        for (uint16_t i = 0; i < 4; i++) {
            struct bt_addr peer = dpdk_address(false, 2, (uint16_t)(100 + i));
            link_event(bt_dpdk_of(io)->link, &peer, i, i == 1 ? EMSGSIZE : EHOSTUNREACH, 1400);
        }
        assert_int_equal(io->ops->events(io, ev, 0), 0);
        assert_int_equal(io->ops->events(io, ev, 2), report ? 2 : 0);
        if (report) {
            assert_int_equal(hosts_counter(io, "io_unreachable_total", NULL), 2);
            assert_true(ev[0].peer.port == 100 && ev[0].local == 0 && ev[0].error == EHOSTUNREACH);
            assert_true(ev[1].peer.port == 102 && ev[1].local == 2);
            assert_int_equal(io->ops->events(io, ev, 4), 1);
            assert_int_equal(ev[0].peer.port, 103);
        }
        assert_int_equal(hosts_counter(io, "io_unreachable_total", NULL), 3);
        assert_int_equal(io->ops->events(io, ev, 4), 0);
        io->ops->close(io);
        assert_int_equal(bt_dpdk_device_close(dev), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_local_ports_and_no_more),      cmocka_unit_test(queues_are_shared_out),
        cmocka_unit_test(a_place_that_is_free_is_taken_first),  cmocka_unit_test(events_are_told_to_who_asked),
        cmocka_unit_test(without_a_ring_there_is_no_second_io),
    };
    return cmocka_run_group_tests_name("ports", tests, hosts_start, NULL);
}
