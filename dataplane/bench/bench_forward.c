// SPDX-License-Identifier: Apache-2.0
// Packets per second through a subject on one processor, a generator on another, over a transport in memory:
//   bench_forward ring|memif l2fwd|router SECONDS          prints one JSON object
//   bench_forward ring|memif l2fwd|router apart|together   cycles for an RPC or packet in lock step (forward.h), both
//                                                          sides on processors of their own or on the same one
// The subject is the whole router over its DPDK driver, or a bare forwarder that swaps MAC addresses. Same ports, same
// batch, same generator, same 114-byte frames. An RPC is two packets into the router (REQ0, FEEDBACK) and one out of
// it; a forwarded packet is one in and one out.
#include <errno.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "forward.h"
#include "io/dpdk.h"

// Buffers: what is in flight, what the caches of two threads hold, and as much again. More would only be a larger
// memory to go through, because a pool hands out first what was given back longest ago.
enum { BUFFERS = 2048, SUBJECT_CPU = 1, MEMORY_MIB = 64, ORDINARY_MIB = 256, ROUNDS = 4000 };

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_forward: %s: %s\n", what, rte_strerror(rte_errno));
    exit(1);
}

// As bobtail-router does: hugepages if enough are free. The page walks of ordinary ones cost the router a hundred
// cycles a request and the forwarder, whose few buffers never change, nothing.
static bool enough_hugepages(void)
{
    unsigned n = 0;
    FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
    bool enough = f != NULL && fscanf(f, "%u", &n) == 1 && n >= MEMORY_MIB / 2;
    if (f != NULL) {
        fclose(f);
    }
    return enough;
}

static bool start_eal(void)
{
    static char memory[16];
    static char *args[] = {"bench_forward",
                           "--no-pci",
                           "--no-telemetry",
                           "--lcores=0@0,1@1",
                           "--iova-mode=va",
                           "-m",
                           memory,
                           "--log-level=*:error",
                           NULL,
                           NULL};
    bool huge = enough_hugepages();
    snprintf(memory, sizeof memory, "%u", huge ? MEMORY_MIB : ORDINARY_MIB);
    args[8] = huge ? "--in-memory" : "--no-huge";
    args[9] = "--no-shconf"; // --in-memory does not go with --no-huge
    if (rte_eal_init(huge ? 9 : 10, args) < 0) {
        fail("DPDK does not start");
    }
    return huge;
}

static void start_port(uint16_t port, struct rte_mempool *buffers)
{
    struct rte_eth_conf conf = {0};
    uint16_t rx = FORWARD_RING, tx = FORWARD_RING;
    if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 || rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx) != 0 ||
        rte_eth_rx_queue_setup(port, 0, rx, 0, NULL, buffers) != 0 ||
        rte_eth_tx_queue_setup(port, 0, tx, 0, NULL) != 0 || rte_eth_dev_start(port) != 0) {
        fail("port");
    }
}

static void make_rings(void)
{
    struct rte_ring *to = rte_ring_create("to", FORWARD_RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    struct rte_ring *from = rte_ring_create("from", FORWARD_RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (to == NULL || from == NULL || rte_eth_from_rings("generator", &from, 1, &to, 1, 0) < 0 ||
        rte_eth_from_rings("subject", &to, 1, &from, 1, 0) < 0) {
        fail("rings");
    }
}

static uint16_t port_of(const char *name)
{
    uint16_t port;
    if (rte_eth_dev_get_port_by_name(name, &port) != 0) {
        fail(name);
    }
    return port;
}

static void await_link(uint16_t port)
{
    struct rte_eth_link link = {0};
    for (unsigned i = 0; i < 500 && !link.link_status; i++) {
        rte_delay_us_sleep(10000);
        (void)rte_eth_link_get_nowait(port, &link);
    }
    if (!link.link_status) {
        fail("the two ends do not find each other");
    }
}

static uint64_t account(struct forward_subject *s, uint64_t since, bool busy)
{
    uint64_t now = rte_rdtsc();
    *(busy ? &s->busy : &s->idle) += now - since;
    return now;
}

// The subject's processor.
static int run_subject(void *arg)
{
    struct forward_subject *s = arg;
    s->failed = !forward_subject_open(s);
    atomic_store(&s->ready, true);
    uint64_t at = rte_rdtsc();
    while (!s->failed && !atomic_load_explicit(&s->over, memory_order_relaxed)) {
        if (s->lockstep != NULL) {
            forward_lockstep_subject(s);
        } else {
            at = account(s, at, forward_subject_turn(s));
        }
    }
    return 0;
}

// RPCs or packets per second.
static double run_freely(struct forward_generator *g, double seconds)
{
    const uint64_t hz = rte_get_tsc_hz();
    uint64_t start = rte_rdtsc() + (uint64_t)(seconds / 5 * (double)hz); // a fifth of it more to warm up
    while (rte_rdtsc() < start) {
        forward_generator_turn(g);
    }
    uint64_t before = forward_generator_count(g);
    start = rte_rdtsc();
    uint64_t end = start + (uint64_t)(seconds * (double)hz);
    while (rte_rdtsc() < end) {
        forward_generator_turn(g);
    }
    double took = (double)(rte_rdtsc() - start) / (double)hz;
    return (double)(forward_generator_count(g) - before) / took;
}

static void print(const struct forward_subject *s, double result)
{
    const char *huge = s->huge ? "true" : "false";
    if (s->lockstep != NULL) {
        printf("{\"cycles\": %.1f, \"hugepages\": %s}\n", result, huge);
        return;
    }
    printf("{\"perSecond\": %.0f, \"packetsInPerSecond\": %.0f, \"busyShare\": %.3f, \"hugepages\": %s}\n", result,
           result * (s->router ? 2 : 1), (double)s->busy / (double)(s->busy + s->idle), huge);
}

static void start_subject(struct forward_subject *s, bool together)
{
    if (together) {
        s->failed = !forward_subject_open(s);
        return;
    }
    if (rte_eal_remote_launch(run_subject, s, SUBJECT_CPU) != 0) {
        fail("launch");
    }
    while (!atomic_load(&s->ready)) {
        rte_delay_us_sleep(1000);
    }
}

// `how`: seconds, or the kind of lock step. Returns the exit status.
static int measure(uint16_t port, struct forward_subject *s, const char *how)
{
    bool together = strcmp(how, "together") == 0;
    double result = 0;
    start_subject(s, together);
    if (!s->failed) {
        await_link(port);
        await_link(port_of(s->port));
        if (s->lockstep != NULL) {
            forward_lockstep_turn(s, together); // memif: the client makes room for the server when it first looks
        }
        struct forward_generator *g = forward_generator_begin(port, s->buffers, s->mac, s->router);
        result = s->lockstep != NULL ? forward_lockstep_run(s, g, ROUNDS, together) : run_freely(g, atof(how));
    }
    atomic_store(&s->over, true);
    rte_eal_wait_lcore(SUBJECT_CPU);
    if (result <= 0) {
        fprintf(stderr, "bench_forward: nothing came back\n");
        return 1;
    }
    print(s, result);
    forward_subject_explain(s);
    return 0;
}

struct ask {
    const char *how;
    bool memif, router, steps;
};

/* False: what the command line says is none of the usage. */
static bool read_arguments(int argc, char **argv, struct ask *a)
{
    if (argc != 4) {
        return false;
    }
    *a = (struct ask){.how = argv[3],
                      .memif = strcmp(argv[1], "memif") == 0,
                      .router = strcmp(argv[2], "router") == 0,
                      .steps = strcmp(argv[3], "apart") == 0 || strcmp(argv[3], "together") == 0};
    return (a->steps || atof(a->how) > 0) && (a->memif || strcmp(argv[1], "ring") == 0) &&
           (a->router || strcmp(argv[2], "l2fwd") == 0);
}

/* Both ends of the link. Memif's socket is `path`, in that folder. */
static void make_link(bool memif, const char *folder, const char *path)
{
    if (!memif) {
        make_rings();
        return;
    }
    char server[128], client[128];
    snprintf(server, sizeof server, "net_memif0,role=server,socket=%s,socket-abstract=no,rsize=10", path);
    // One process holds both ends: the driver tells sockets apart by the text of their path.
    snprintf(client, sizeof client, "net_memif1,role=client,socket=%s/./m,socket-abstract=no,rsize=10", folder);
    if (rte_dev_probe(server) != 0 || rte_dev_probe(client) != 0) {
        fail("memif");
    }
}

int main(int argc, char **argv)
{
    static struct forward_subject s;
    static struct forward_lockstep lockstep;
    char folder[] = "/tmp/bobtail-forward-XXXXXX", path[64];
    struct ask a;
    if (!read_arguments(argc, argv, &a)) {
        fprintf(stderr, "usage: bench_forward ring|memif l2fwd|router SECONDS|apart|together\n");
        return 2;
    }
    s.router = a.router;
    s.lockstep = a.steps ? &lockstep : NULL;
    s.huge = start_eal();
    s.buffers = bt_dpdk_pool_new("generator", BUFFERS);
    if (s.buffers == NULL || mkdtemp(folder) == NULL) {
        fail("buffers");
    }
    snprintf(path, sizeof path, "%s/m", folder);
    make_link(a.memif, folder, path);
    uint16_t port = port_of(a.memif ? "net_memif0" : "net_ring_generator");
    s.port = a.memif ? "net_memif1" : "net_ring_subject";
    start_port(port, s.buffers);
    if (!s.router) {
        start_port(port_of(s.port), s.buffers);
    }
    int result = measure(port, &s, a.how);
    unlink(path);
    rmdir(folder);
    return result;
}
