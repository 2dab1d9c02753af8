// SPDX-License-Identifier: Apache-2.0
// Two queues of one device, a thread for each: over every transport of this machine that has two. None of them takes
// rte_flow rules (test_dpdk_flow.c), so that by each queue come packets of both threads.
#include "unit.h"

#include "netns.h"
#include "queue_wire.h"

#include <rte_eth_ring.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rte_ring *towards[2][QUEUES]; // host, queue

// libxdp keeps what the driver of af_xdp made with it until the process ends, and the driver the object of its program.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:xsk_umem__create\nleak:xsk_socket__create_shared\nleak:libbpf.so\n";
}

static void empty_rings(void)
{
    void *m;
    for (unsigned i = 0; i < 2 * QUEUES; i++) {
        while (rte_ring_dequeue(towards[i / QUEUES][i % QUEUES], &m) == 0) {
            rte_pktmbuf_free(m);
        }
    }
}

static void rings(void **state)
{
    static const char *const port[2] = {"net_ring_queues0", "net_ring_queues1"};
    struct queue_net n;
    (void)state;
    queue_net_open(&n, port, 0); // all there are
    assert_true(queue_net_said("does not steer UDP port 9000 to queue 1"));
    queue_net_exchange(&n, QUEUE_TO_QUEUE);
    queue_net_stop(&n);
    empty_rings();
    queue_net_close(&n);
}

static void memif(void **state)
{
    char folder[] = "/tmp/bobtail-queues-XXXXXX";
    char text[2][160];
    const char *port[2] = {text[0], text[1]};
    struct queue_net n;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(text[0], sizeof text[0], "net_memif0,role=server,socket=%s/m,socket-abstract=no", folder);
    snprintf(text[1], sizeof text[1], "net_memif1,role=client,socket=%s/./m,socket-abstract=no", folder);
    queue_net_open(&n, port, QUEUES);
    queue_net_exchange(&n, QUEUE_TO_QUEUE);
    queue_net_stop(&n);
    queue_net_close(&n);
    snprintf(text[0], sizeof text[0], "%s/m", folder);
    unlink(text[0]);
    rmdir(folder);
}

// The asking host on rings, the answering one on an interface of a namespace of its own.
static void over_interface(struct queue_carrier *c, const char *answering_port, enum queue_wire wire)
{
    const char *port[2] = {"net_ring_queues0", answering_port};
    struct queue_net n;
    for (unsigned i = 0; i < QUEUES; i++) {
        c->from[i] = towards[QUEUE_ANSWERS][i];
        c->to[i] = towards[QUEUE_ASKS][i];
    }
    c->buffers = bt_dpdk_pool_new("wire", 1024);
    assert_non_null(c->buffers);
    queue_net_open(&n, port, 0); // all there are
    queue_carrier_start(c);
    queue_net_exchange(&n, wire);
    queue_net_stop(&n);
    queue_carrier_stop(c);
    empty_rings();
    queue_net_close(&n);
    queue_carrier_close(c);
    rte_mempool_free(c->buffers);
}

// A namespace without addresses, which the thread enters; `here` leads back.
static void enter_new_namespace(int *here, const char *command)
{
    char why[600];
    if (geteuid() != 0) {
        print_message("left out: network namespaces need root\n");
        skip();
    }
    *here = netns_here();
    int ns = netns_new();
    assert_true(*here >= 0 && ns >= 0 && netns_enter(ns));
    if (!netns_run(ns, why, sizeof why, "sysctl -qw net.ipv6.conf.default.disable_ipv6=1%s", command)) {
        fail_msg("%s", why);
    }
    close(ns);
}

static void leave_namespace(int here)
{
    assert_true(netns_enter(here));
    close(here);
}

// The kernel deals the frames out to the sockets of the port by flow, as the hash of a card would.
static void af_packet(void **state)
{
    struct queue_carrier c = {.n_fds = 1};
    int here;
    (void)state;
    enter_new_namespace(&here, " && ip link add qa type veth peer name qb && ip link set qa up && ip link set qb up");
    c.fd[0] = queue_packet_socket("qa");
    assert_true(c.fd[0] >= 0);
    over_interface(&c, "net_af_packet0,iface=qb,qpairs=2", QUEUE_BY_HASH);
    leave_namespace(here);
}

// A veth pair has no "combined" channels, which is what the driver counts. A TAP device has, and frames that are
// written to its queue i come by queue i.
static void af_xdp(void **state)
{
    struct queue_carrier c = {.n_fds = QUEUES};
    char why[200];
    int here;
    (void)state;
    enter_new_namespace(&here, "");
    if (!queue_tap_open("qt", c.fd, why, sizeof why)) {
        leave_namespace(here);
        print_message("left out: %s\n", why);
        skip();
    }
    int ns = netns_here();
    assert_true(netns_run(ns, why, sizeof why, "ip link set qt up"));
    close(ns);
    over_interface(&c, "net_af_xdp0,iface=qt,queue_count=2,busy_budget=0", QUEUE_TO_QUEUE);
    leave_namespace(here);
}

// The driver would take such a pool, send from wherever a buffer's distance from the first piece leads, and free that.
static void af_xdp_wants_its_buffers_in_one_piece(void **state)
{
    enum { BUFFERS = 4096, PIECES = 2 };
    struct rte_mempool *pool =
        rte_mempool_create_empty("pieces", BUFFERS, 2432, 0, sizeof(struct rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
    const size_t len = rte_mempool_calc_obj_size(2432, 0, NULL) * (BUFFERS / PIECES);
    void *piece[PIECES];
    struct bt_link_prefix own[2];
    char err[400];
    int here;
    (void)state;
    assert_non_null(pool);
    enter_new_namespace(&here, " && ip link add qa type veth peer name qb && ip link set qa up && ip link set qb up");
    rte_pktmbuf_pool_init(pool, NULL);
    for (unsigned i = 0; i < PIECES; i++) {
        piece[i] = rte_malloc(NULL, len + RTE_CACHE_LINE_SIZE, RTE_CACHE_LINE_SIZE);
        assert_non_null(piece[i]);
        assert_true(rte_mempool_populate_iova(pool, piece[i], RTE_BAD_IOVA, len, NULL, NULL) > 0);
    }
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    dpdk_addresses(2, own);
    struct bt_dpdk_device_config cfg = {
        .port = "net_af_xdp1,iface=qb", .addrs = own, .n_addrs = 2, .buffers_of = pool, .seed = 1};
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "one piece of memory, and they are in 2; give DPDK more memory"));
    rte_mempool_free(pool);
    for (unsigned i = 0; i < PIECES; i++) {
        rte_free(piece[i]);
    }
    leave_namespace(here);
}

static int start(void **state)
{
    char why[400];
    (void)state;
    if (!dpdk_begin("net_ring", why, sizeof why)) {
        print_message("%s\n", why);
        return -1;
    }
    for (unsigned i = 0; i < 2 * QUEUES; i++) {
        char name[RTE_RING_NAMESIZE];
        snprintf(name, sizeof name, "queues-%u", i);
        towards[i / QUEUES][i % QUEUES] = rte_ring_create(name, 1024, SOCKET_ID_ANY, 0);
        if (towards[i / QUEUES][i % QUEUES] == NULL) {
            return -1;
        }
    }
    return rte_eth_from_rings("queues0", towards[0], QUEUES, towards[1], QUEUES, 0) >= 0 &&
                   rte_eth_from_rings("queues1", towards[1], QUEUES, towards[0], QUEUES, 0) >= 0
               ? 0
               : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(af_xdp), // first: its buffers have to lie in one piece
        cmocka_unit_test(af_xdp_wants_its_buffers_in_one_piece),
        cmocka_unit_test(af_packet),
        cmocka_unit_test(memif),
        cmocka_unit_test(rings),
    };
    return cmocka_run_group_tests_name("two queues", tests, start, NULL);
}
