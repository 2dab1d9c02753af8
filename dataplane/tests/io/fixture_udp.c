// SPDX-License-Identifier: Apache-2.0
// The Linux driver at both ends of the loopback interface. As root that of a namespace of its own, whose MTU a packet
// can exceed; the host's takes any that fits a packet buffer.
#include "packet_suite.h"

#include "io/udp.h"
#include "io/udp_internal.h"
#include "netns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFERS = 1024, MTU = 1500 };

static bool own_loopback;

struct udp_end {
    struct bt_pool_fixed fixed;
    void *mem;
};

static bool begin(char *why, size_t len)
{
    int ns = geteuid() == 0 ? netns_new() : -1;
    own_loopback = ns >= 0 && netns_run(ns, why, len, "ip link set lo mtu %d up", MTU) && netns_enter(ns);
    if (ns >= 0) {
        close(ns); // the thread keeps it
    }
    return true;
}

static void end(void) {}

static bool have_v6(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)(void *)&sa, sizeof sa) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return have;
}

static void open_ends(struct packet_rig *r)
{
    struct udp_end *u = calloc(PACKET_ENDS, sizeof *u);
    char err[256];
    assert_non_null(u);
    if (r->v6 && !have_v6()) {
        free(u);
        print_message("left out: this host has no IPv6 loopback\n");
        skip();
    }
    r->fixture = u;
    r->mtu = MTU;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        struct packet_end *e = &r->end[i];
        struct bt_addr local[PACKET_PORTS];
        for (unsigned p = 0; p < PACKET_PORTS; p++) {
            assert_int_equal(bt_addr_parse(r->v6 ? "[::1]:1" : "127.0.0.1:1", 0, &local[p]), 0);
            e->nobody = local[p]; // tcpmux: nobody listens on UDP port 1
            local[p].port = 0;
        }
        u[i].mem = malloc(bt_pool_fixed_bytes(BUFFERS));
        assert_non_null(u[i].mem);
        e->pool = bt_pool_fixed_init(&u[i].fixed, u[i].mem, BUFFERS);
        e->buffers = BUFFERS;
        e->any_size = !own_loopback;
        struct bt_udp_config cfg = {
            .locals = local, .n_locals = PACKET_PORTS, .pool = e->pool, .report_unreachable = true};
        e->io = bt_udp_open(&cfg, err, sizeof err);
        if (e->io == NULL) {
            fail_msg("%s", err);
        }
        for (unsigned p = 0; p < PACKET_PORTS; p++) {
            e->port[p] = e->io->ops->local(e->io, p);
        }
    }
}

static unsigned close_ends(struct packet_rig *r)
{
    struct udp_end *u = r->fixture;
    unsigned lost = 0;
    for (unsigned i = 0; i < PACKET_ENDS; i++) {
        r->end[i].io->ops->close(r->end[i].io);
        lost += BUFFERS - u[i].fixed.left;
        free(u[i].mem);
    }
    free(u);
    return lost;
}

static bool transparent(struct packet_end *e, char *why, size_t len)
{
    return bt_udp_allow_transparent(e->io, why, len) == 0;
}

// Longer than a packet buffer (M-14).
static bool inject_broken(struct packet_rig *r, unsigned from, struct bt_addr to)
{
    static const uint8_t big[BT_PKT_BUFFER];
    union bt_udp_sa sa;
    socklen_t len;
    (void)from;
    sa_family_t family = r->v6 ? AF_INET6 : AF_INET;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent = fd >= 0 && bt_udp_to_sockaddr(&to, family, &sa, &len) == 0 &&
                sendto(fd, big, sizeof big, 0, &sa.sa, len) == (ssize_t)sizeof big;
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}

const struct packet_driver packet_driver_udp = {
    .name = "udp",
    .begin = begin,
    .end = end,
    .has_v6 = true,
    .open = open_ends,
    .close = close_ends,
    .transparent = transparent,
    .inject_broken = inject_broken,
};
