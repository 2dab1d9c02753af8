// SPDX-License-Identifier: Apache-2.0
// DPDK's memory transports: a pair of rings inside the process, and memif between a server and a client port.
#include "fixture_dpdk.h"

#include "io/dpdk_internal.h"

#include <rte_eth_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rte_ring *ring[2];
static char folder[] = "/tmp/bobtail-packets-XXXXXX";

struct ends {
    struct bt_dpdk_device *dev[PACKET_ENDS];
};

// --- rings

static bool ring_begin(char *why, size_t len)
{
    if (!dpdk_begin("net_ring", why, len)) {
        return false;
    }
    ring[0] = rte_ring_create("test-a", 1024, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    ring[1] = rte_ring_create("test-b", 1024, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (ring[0] == NULL || ring[1] == NULL || rte_eth_from_rings("a", &ring[0], 1, &ring[1], 1, 0) < 0 ||
        rte_eth_from_rings("b", &ring[1], 1, &ring[0], 1, 0) < 0) {
        snprintf(why, len, "no pair of ring ports");
        return false;
    }
    return true;
}

static void no_end(void) {}

static void ring_open(struct packet_rig *r)
{
    static const char *const name[PACKET_ENDS] = {"net_ring_a", "net_ring_b"};
    struct ends *x = calloc(1, sizeof *x);
    assert_non_null(x);
    r->fixture = x;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        x->dev[i] = dpdk_open_end(r, i, name[i], 1000);
    }
}

static unsigned close_both(struct packet_rig *r)
{
    struct ends *x = r->fixture;
    unsigned lost = 0;
    void *m;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        r->end[i].io->ops->close(r->end[i].io);
    }
    for (unsigned i = 0; i < PACKET_ENDS && ring[i] != NULL; i++) { // on the wire
        while (rte_ring_dequeue(ring[i], &m) == 0) {
            rte_pktmbuf_free(m);
        }
    }
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        lost += bt_dpdk_device_close(x->dev[i]);
    }
    free(x);
    return lost;
}

static bool inject_broken(struct packet_rig *r, unsigned from, struct bt_addr to)
{
    struct ends *x = r->fixture;
    uint8_t frame[128];
    uint8_t a[6];
    uint8_t b[6];
    bt_dpdk_mac(x->dev[from], a);
    bt_dpdk_mac(x->dev[1 - from], b);
    unsigned len = dpdk_broken_frame(b, a, r->end[from].port[0], to, frame);
    return dpdk_send_raw(x->dev[from], frame, len);
}

const struct packet_driver packet_driver_ring = {
    .name = "ring",
    .begin = ring_begin,
    .end = no_end,
    .has_v6 = true,
    .open = ring_open,
    .close = close_both,
    .transparent = dpdk_transparent,
    .inject_broken = inject_broken,
};

// --- memif

static bool memif_begin(char *why, size_t len)
{
    if (!dpdk_begin("net_memif", why, len)) {
        return false;
    }
    if (mkdtemp(folder) == NULL) {
        snprintf(why, len, "no folder below /tmp");
        return false;
    }
    return true;
}

static void memif_end(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/m", folder);
    unlink(path);
    rmdir(folder);
}

// Both roles in one process: the driver tells sockets apart by the text of their path, so the client writes it
// differently.
static void memif_open(struct packet_rig *r)
{
    struct ends *x = calloc(1, sizeof *x);
    char port[PACKET_ENDS][160];
    assert_non_null(x);
    r->fixture = x;
    snprintf(port[0], sizeof port[0], "net_memif0,role=server,socket=%s/m,socket-abstract=no", folder);
    snprintf(port[1], sizeof port[1], "net_memif1,role=client,socket=%s/./m,socket-abstract=no", folder);
    x->dev[0] = dpdk_open_end(r, 0, port[0], 0);
    x->dev[1] = dpdk_open_end(r, 1, port[1], 5000);
    assert_true(bt_dpdk_link_up(x->dev[0]) && bt_dpdk_link_up(x->dev[1]));
}

const struct packet_driver packet_driver_memif = {
    .name = "memif",
    .begin = memif_begin,
    .end = memif_end,
    .has_v6 = true,
    .open = memif_open,
    .close = close_both,
    .transparent = dpdk_transparent,
    .inject_broken = inject_broken,
};
