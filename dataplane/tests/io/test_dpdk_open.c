// SPDX-License-Identifier: Apache-2.0
// A port from its name to its end: how it is found, that it waits for its carrier, how a memif client looks for its
// server, and what closing takes back.
#include "unit.h"

#include "dpdk_card.h"

#include <errno.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <string.h>

static const struct bt_dpdk_device_config plain;

// A port that DPDK knows by its name is others'; one that was made for us goes with us.
static void what_was_made_for_us_is_removed(void **state)
{
    (void)state;
    card_new();
    card_close(card_must_open(&plain));
    assert_string_equal(card.probed, "");
    assert_int_equal(card.stops, 1);
    assert_int_equal(card.closes + card.removes, 0);
    card_new();
    card.unknown = true;
    card_close(card_must_open(&(struct bt_dpdk_device_config){.port = "net_ring9,a=1"}));
    assert_string_equal(card.probed, "net_ring9,a=1");
    assert_true(card.stops == 1 && card.closes == 1 && card.removes == 1);
    card_new();
    char port[500] = "net_ring9,a="; // whole, however much it says
    memset(port + strlen(port), 'x', sizeof port - 1 - strlen(port));
    card.unknown = true;
    card_close(card_must_open(&(struct bt_dpdk_device_config){.port = port}));
    assert_string_equal(card.probed, port);
    card_new();
    card.unknown = card.no_port = true;
    assert_null(card_open(&(struct bt_dpdk_device_config){.port = "net_ring9,a=1"}));
    assert_string_equal(card_error, "port \"net_ring9,a=1\" is no network device");
    assert_int_equal(card.stops + card.closes + card.removes, 0);
}

static void why_a_port_cannot_be_opened_is_said(void **state)
{
    static const struct {
        const char *port;
        int failed;
        const char *reason, *hint;
    } rows[] = {
        {"net_nonsense0", -EFAULT, "Bad address", ", no driver in this program goes by that name"},
        {"net_nonsense0", -ENOMEM, "Cannot allocate memory", ""},
        {"net_af_packet0,iface=none0", -EFAULT, "Bad address",
         "; there is no such interface here: it was taken away, or never made"},
        {"net_af_packet0,iface=lo", -EFAULT, "Bad address", ", no driver in this program goes by that name"},
        {"ffff:1f:1f.7,a=1", -EFAULT, "Bad address",
         "; the kernel has no PCI device ffff:1f:1f.7: it was taken away, or never made"},
    };
    char want[400];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.unknown = true;
        card.probe = rows[i].failed;
        assert_null(card_open(&(struct bt_dpdk_device_config){.port = rows[i].port}));
        snprintf(want, sizeof want, "port \"%s\" cannot be opened: %s; DPDK's own lines above say more%s", rows[i].port,
                 rows[i].reason, rows[i].hint);
        assert_string_equal(card_error, want);
    }
}

// A hundred looks in a second, until the carrier is there or the time is up.
static void opening_waits_for_the_carrier(void **state)
{
    static const struct {
        uint32_t ms;
        unsigned up_after, sleeps;
        const char *says;
    } rows[] = {
        {0, UINT32_MAX, 0, NULL},
        {1000, 0, 0, NULL},
        {1000, 3, 3, NULL},
        {1000, UINT32_MAX, 100, "DPDK: no carrier after 1000 ms; going on, packets are dropped until there is one\n"},
        {20, UINT32_MAX, 2, "DPDK: no carrier after 20 ms"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.up_after = rows[i].up_after;
        struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.link_wait_ms = rows[i].ms});
        assert_int_equal(card.sleeps, rows[i].sleeps);
        assert_true(card.sleeps == 0 || card.sleep_ns == 10000000);
        assert_int_equal(strstr(card_said, "no carrier") != NULL, rows[i].says != NULL);
        card_assert_has(card_said, rows[i].says != NULL ? rows[i].says : "");
        assert_int_equal(bt_dpdk_carrier(dev), rows[i].up_after != UINT32_MAX); // before anybody looks
        assert_int_equal(card.starts, 1);                                       // no client: nobody has to look again
        assert_int_equal(card.silenced, 0);
        card_close(dev);
    }
}

#define CLIENT "net_memif0,role=client"

// A connection that is being made is given twenty looks, a fifth of a second apart; then it is made anew.
static void a_client_looks_for_its_server_again(void **state)
{
    enum { LOOKS_MS = 200, PATIENCE = 20 };
    (void)state;
    for (unsigned looks = PATIENCE; looks < PATIENCE + 5; looks++) {
        bool again = looks > PATIENCE;
        card_new();
        card.driver = "net_memif";
        card.up_after = UINT32_MAX;
        struct bt_dpdk_device *dev =
            card_must_open(&(struct bt_dpdk_device_config){.port = CLIENT, .link_wait_ms = looks * LOOKS_MS});
        assert_int_equal(card.starts, again ? 2 : 1);
        assert_int_equal(card.stops, again);
        assert_int_equal(dev->patience, again ? 2 * PATIENCE + 1 - looks : 0);
        assert_true(atomic_load(&dev->running));
        assert_int_equal(card.silenced, 1);
        card_close(dev);
    }
}

// A client whose server is not there starts when it is; a server has to start at once.
static void a_client_need_not_start(void **state)
{
    static const char *const servers[] = {"net_memif0,role=server", "net_memif0,role=master,id=1"};
    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        card_new();
        card.driver = "net_memif";
        card.start = -EIO;
        assert_null(card_open(&(struct bt_dpdk_device_config){.port = servers[i]}));
        card_assert_has(card_error, "does not start: Input/output error");
    }
    card_new();
    card.driver = "net_memif";
    card.start = -EIO;
    card.up_after = UINT32_MAX;
    struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.port = CLIENT});
    assert_false(atomic_load(&dev->running));
    bt_dpdk_port_reconnect(dev); // spends no patience: there is nothing to wait for
    assert_true(card.starts == 2 && card.stops == 0 && dev->patience == 0);
    assert_false(atomic_load(&dev->running));
    card.start = 0;
    bt_dpdk_port_reconnect(dev);
    assert_true(card.starts == 3 && card.stops == 0 && dev->patience == 20);
    assert_true(atomic_load(&dev->running));
    card.used = dev;
    dev->patience = 0;
    bt_dpdk_port_reconnect(dev); // who uses it knows that before it is stopped
    assert_true(card.starts == 4 && card.stops == 1 && dev->patience == 20);
    card.up_after = 0;
    bt_dpdk_port_reconnect(dev); // connected: the next loss is acted on at once
    assert_true(card.starts == 4 && dev->patience == 0);
    card_close(dev);
}

// DPDK's interrupt thread takes memif's connections down, so it is stopped there, or here where there is no alarm.
static void a_memif_is_stopped_where_its_connections_are(void **state)
{
    (void)state;
    for (unsigned refused = 0; refused < 2; refused++) {
        card_new();
        card.driver = "net_memif";
        struct bt_dpdk_device *dev = card_must_open(&(struct bt_dpdk_device_config){.port = CLIENT});
        card.alarm = refused ? -ENOMEM : 0;
        card_close(dev);
        assert_true(card.alarms == 1 && card.stops == 1);
    }
    card_new();
    card_close(card_must_open(&plain));
    assert_int_equal(card.alarms, 0);
}

// A driver that keeps buffers is asked for what it has sent, of each queue; what it holds is no loss, the rest is.
static void buffers_that_do_not_come_back_are_counted(void **state)
{
    (void)state;
    for (unsigned keeps = 0; keeps < 2; keeps++) {
        card_new();
        card.driver = keeps ? "net_af_xdp" : "net_ring";
        card.max_rx = card.max_tx = 3;
        struct bt_dpdk_device *dev = card_must_open(&plain);
        struct rte_mempool *buffers = dev->buffers;
        struct bt_pkt *p[3];
        dev->held_at_start = 1;
        for (unsigned i = 0; i < 3; i++) {
            p[i] = bt_pool_get(bt_dpdk_pool(dev));
        }
        assert_int_equal(bt_dpdk_in_use(dev), 3);
        assert_int_equal(bt_dpdk_device_close(dev), keeps ? 2 : 3);
        card_assert_has(card_said, keeps ? "DPDK: 2 packet buffers did not" : "DPDK: 3 packet buffers did not");
        assert_int_equal(card.asked_back, keeps ? 3 : 0);
        for (unsigned i = 0; i < 3; i++) { // they are still whole
            rte_mbuf_raw_free(bt_dpdk_mbuf(p[i]));
        }
        rte_mempool_free(buffers);
    }
}

static void settings_have_their_bounds(void **state)
{
    static const struct {
        unsigned ios, queues;
        const char *says;
    } rows[] = {
        {16, 16, NULL},
        {17, 0, "takes at most 16 ios and 16 queues; got 17 and 0"},
        {1, 17, "takes at most 16 ios and 16 queues; got 1 and 17"},
    };
    struct bt_link_prefix own[BT_LINK_MAX_ADDRS + 1] = {0};
    char want[100];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        card_new();
        card.max_rx = card.max_tx = 20;
        struct bt_dpdk_device *dev =
            card_open(&(struct bt_dpdk_device_config){.ios = rows[i].ios, .queues = rows[i].queues});
        assert_int_equal(dev != NULL, rows[i].says == NULL);
        assert_string_equal(card_error, rows[i].says != NULL ? rows[i].says : "");
        if (dev != NULL) {
            card_close(dev);
        }
    }
    struct bt_dpdk_device_config many = {.port = "net_ring_a", .addrs = own, .n_addrs = BT_LINK_MAX_ADDRS + 1};
    assert_null(bt_dpdk_device_open(&many, card_error, sizeof card_error));
    snprintf(want, sizeof want, "needs 1..%u addresses; got %u", BT_LINK_MAX_ADDRS, BT_LINK_MAX_ADDRS + 1);
    assert_string_equal(card_error, want);
    many.port = NULL;
    assert_null(bt_dpdk_device_open(&many, card_error, sizeof card_error));
    card_assert_has(card_error, "needs a port: a virtual device such as");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_made_for_us_is_removed),
        cmocka_unit_test(why_a_port_cannot_be_opened_is_said),
        cmocka_unit_test(opening_waits_for_the_carrier),
        cmocka_unit_test(a_client_looks_for_its_server_again),
        cmocka_unit_test(a_client_need_not_start),
        cmocka_unit_test(a_memif_is_stopped_where_its_connections_are),
        cmocka_unit_test(buffers_that_do_not_come_back_are_counted),
        cmocka_unit_test(settings_have_their_bounds),
    };
    return cmocka_run_group_tests_name("open", tests, hosts_start, NULL);
}
