// SPDX-License-Identifier: Apache-2.0
// An Ethernet switch between memif ports, for tests: memif joins two programs, and a router has more than one
// neighbour. Learns where addresses live, floods what it does not know, and ends on SIGTERM.
//
//   memif_switch SOCKET|interface=NAME...      a path, at which a program connects as client; or an interface of the
//                                              kernel, by af_packet
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <sched.h>

enum { PORTS_MAX = 8, BURST = 64, STATIONS = 64, BUFFERS = 8192, IDLE_TURNS = 2000 };

struct station {
    struct rte_ether_addr mac;
    uint16_t port;
};

static volatile sig_atomic_t stop;
static struct station known[STATIONS];
static unsigned n_known;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static bool open_port(unsigned i, const char *socket, struct rte_mempool *pool, uint16_t *port)
{
    struct rte_eth_conf conf = {0};
    static const char interface[] = "interface=";
    char args[300];
    char name[32];
    if (strncmp(socket, interface, strlen(interface)) == 0) {
        snprintf(name, sizeof name, "net_af_packet%u", i);
        snprintf(args, sizeof args, "%s,iface=%s", name, socket + strlen(interface));
    } else {
        snprintf(name, sizeof name, "net_memif%u", i);
        snprintf(args, sizeof args, "%s,role=server,socket=%s,socket-abstract=no", name, socket);
    }
    return rte_dev_probe(args) == 0 && rte_eth_dev_get_port_by_name(name, port) == 0 &&
           rte_eth_dev_configure(*port, 1, 1, &conf) == 0 &&
           rte_eth_rx_queue_setup(*port, 0, 1024, 0, NULL, pool) == 0 &&
           rte_eth_tx_queue_setup(*port, 0, 1024, 0, NULL) == 0 && rte_eth_dev_start(*port) == 0;
}

static void learn(const struct rte_ether_addr *mac, uint16_t port)
{
    for (unsigned i = 0; i < n_known; i++) {
        if (rte_is_same_ether_addr(&known[i].mac, mac)) {
            known[i].port = port;
            return;
        }
    }
    if (n_known < STATIONS) {
        known[n_known++] = (struct station){*mac, port};
    }
}

static int where(const struct rte_ether_addr *mac)
{
    for (unsigned i = 0; i < n_known; i++) {
        if (rte_is_same_ether_addr(&known[i].mac, mac)) {
            return known[i].port;
        }
    }
    return -1;
}

static void send_one(uint16_t port, struct rte_mbuf *m)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        struct rte_eth_link link;
        if (rte_eth_tx_burst(port, 0, &m, 1) == 1) {
            return;
        }
        if (rte_eth_link_get_nowait(port, &link) != 0 || link.link_status != RTE_ETH_LINK_UP) {
            break;
        }
        sched_yield();
    }
    rte_pktmbuf_free(m);
}

static void forward(const uint16_t *ports, unsigned n, uint16_t from, struct rte_mbuf *m, struct rte_mempool *pool)
{
    const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
    int to = where(&eth->dst_addr);
    learn(&eth->src_addr, from);
    if (to >= 0) {
        send_one((uint16_t)to, m);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        struct rte_mbuf *copy = ports[i] != from ? rte_pktmbuf_copy(m, pool, 0, UINT32_MAX) : NULL;
        if (copy != NULL) {
            send_one(ports[i], copy);
        }
    }
    rte_pktmbuf_free(m);
}

static void run(const uint16_t *ports, unsigned n, struct rte_mempool *pool)
{
    unsigned idle = 0;
    while (!stop) {
        unsigned got = 0;
        for (unsigned i = 0; i < n; i++) {
            struct rte_mbuf *m[BURST];
            unsigned k = rte_eth_rx_burst(ports[i], 0, m, BURST);
            got += k;
            for (unsigned j = 0; j < k; j++) {
                forward(ports, n, ports[i], m[j], pool);
            }
        }
        idle = got != 0 ? 0 : idle + 1;
        if (idle > IDLE_TURNS) {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        } else if (idle > 0) {
            sched_yield();
        }
    }
}

int main(int argc, char **argv)
{
    static char arg[][32] = {"memif_switch",     "--no-huge", "--no-shconf", "--no-telemetry",     "--no-pci",
                             "--lcores=0@(0-1)", "-m",        "96",          "--log-level=*:error"};
    char *args[sizeof arg / sizeof arg[0]];
    uint16_t ports[PORTS_MAX];
    unsigned n = (unsigned)(argc - 1);
    struct sigaction a = {.sa_handler = on_signal};
    for (unsigned i = 0; i < sizeof arg / sizeof arg[0]; i++) {
        args[i] = arg[i];
    }
    if (n == 0 || n > PORTS_MAX || rte_eal_init((int)(sizeof arg / sizeof arg[0]), args) < 0) {
        fprintf(stderr, "usage: memif_switch SOCKET|interface=NAME... (1 to %d)\n", PORTS_MAX);
        return 2;
    }
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("switch", BUFFERS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    for (unsigned i = 0; i < n; i++) {
        if (pool == NULL || !open_port(i, argv[1 + i], pool, &ports[i])) {
            fprintf(stderr, "memif_switch: cannot open %s\n", argv[1 + i]);
            return 1;
        }
    }
    printf("ready\n");
    fflush(stdout);
    run(ports, n, pool);
    return 0;
}
