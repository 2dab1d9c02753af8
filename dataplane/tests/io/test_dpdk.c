// SPDX-License-Identifier: Apache-2.0
// What the DPDK driver does beyond the packet suite: several threads on one device, buffers of others, settings.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "wire/checksum.h"
#include "wire/frame.h"
#include "wire/frame_icmp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

struct echo {
    struct bt_dpdk_device *dev;
    struct bt_io *io;
    atomic_bool stop;
    atomic_uint answered;
};

static void *echo_loop(void *arg)
{
    struct echo *e = arg;
    struct bt_pkt *pkts[BT_IO_BATCH];
    while (!atomic_load(&e->stop)) {
        struct bt_txq q;
        bt_io_wait(e->io, BT_IO_FOREVER);
        unsigned n = bt_io_rx(e->io, BT_IO_ANY, pkts, BT_IO_BATCH);
        bt_txq_init(&q);
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(pkts[i]->dst.port, FEEDBACK_PORT);
            pkts[i]->dst = pkts[i]->src;
            bt_txq_push(&q, pkts[i]);
        }
        bt_io_tx(e->io, &q);
        atomic_fetch_add(&e->answered, n);
    }
    return NULL;
}

// The thread of one port polls the only queue; the thread of the other sleeps until something is handed over.
static void packets_reach_the_thread_that_owns_their_port(void **state)
{
    enum { N = 500 };
    struct hosts h = hosts_open();
    struct echo e = {.dev = h.dev[1], .io = h.feedback};
    struct bt_pkt *pkts[BT_IO_BATCH];
    pthread_t t;
    unsigned requests = 0;
    unsigned answers = 0;
    (void)state;
    assert_int_equal(pthread_create(&t, NULL, echo_loop, &e), 0);
    for (uint32_t i = 0; i < 2 * N; i++) {
        hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, i & 1 ? FEEDBACK_PORT : REQUEST_PORT), i);
        uint64_t until = bt_io_now(h.peer) + 60000 * MS;
        while (requests + answers <= i && bt_io_now(h.peer) < until) { // one at a time: each finds a sleeper
            bt_io_wait(h.request, bt_io_now(h.request) + MS / 10);
            unsigned n = bt_io_rx(h.request, BT_IO_ANY, pkts, BT_IO_BATCH);
            requests += n;
            for (unsigned k = 0; k < n; k++) {
                assert_int_equal(pkts[k]->dst.port, REQUEST_PORT);
                bt_pool_put(bt_dpdk_pool(h.dev[1]), pkts[k]);
            }
            n = bt_io_rx(h.peer, BT_IO_ANY, pkts, BT_IO_BATCH);
            answers += n;
            for (unsigned k = 0; k < n; k++) {
                bt_pool_put(bt_dpdk_pool(h.dev[0]), pkts[k]);
            }
        }
        assert_int_equal(requests + answers, i + 1);
    }
    atomic_store(&e.stop, true);
    bt_io_wake(h.feedback);
    pthread_join(t, NULL);
    assert_int_equal(requests, N);
    assert_int_equal(answers, N);
    assert_int_equal(atomic_load(&e.answered), N);
    assert_true(hosts_counter(h.request, "io_rx_handed_over_total", NULL) >= N);
    assert_int_equal(hosts_counter(h.request, "io_rx_dropped_total", "handover_full"), 0);
    hosts_close(&h);
}

// A port of nobody is refused by the link that answers, whoever polls.
static void a_port_of_nobody_is_answered_once(void **state)
{
    struct hosts h = hosts_open();
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_io_event ev[4];
    unsigned n = 0;
    (void)state;
    hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, 12), 1);
    for (unsigned turn = 0; turn < 1000 && n == 0; turn++) {
        bt_io_wait(h.request, bt_io_now(h.request) + MS / 10);
        assert_int_equal(bt_io_rx(h.request, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
        assert_int_equal(bt_io_rx(h.feedback, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
        assert_int_equal(bt_io_rx(h.peer, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
        n = h.peer->ops->events(h.peer, ev, 4);
    }
    assert_int_equal(n, 1);
    assert_int_equal(ev[0].peer.port, 12);
    assert_int_equal(hosts_counter(h.request, "link_rx_dropped_total", "udp_port"), 1);
    assert_int_equal(hosts_counter(h.feedback, "link_rx_dropped_total", "udp_port"), 0);
    hosts_close(&h);
}

// An IPv4 ICMP error about a datagram of host 1 to `peer`, put on host 2's wire. Code 4 with no MTU is what routers
// older than RFC 1191 send, and what anybody can forge.
static void tell_error(struct hosts *h, uint8_t code, struct bt_addr peer)
{
    struct bt_addr sender = dpdk_address(false, 1, 7000);
    uint8_t frame[128] = {0};
    uint8_t *ip = frame + BT_ETHER_HEAD;
    uint8_t *icmp = ip + BT_IP4_HEAD;
    const uint32_t quoted = BT_IP4_HEAD + BT_UDP_HEAD;
    bt_ether_write(frame, h->dev[0]->mac, h->dev[1]->mac, BT_ETHER_IP4);
    bt_ip4_write(ip, &peer, &sender, BT_PROTO_ICMP4, BT_TTL, BT_ICMP_HEAD + quoted);
    bt_ip4_write(icmp + BT_ICMP_HEAD, &sender, &peer, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD);
    bt_udp_write(icmp + BT_ICMP_HEAD + BT_IP4_HEAD, &sender, &peer, 0, BT_UDP_SUM_FULL);
    icmp[0] = BT_ICMP4_UNREACHABLE;
    icmp[1] = code;
    bt_csum_store(icmp + 2, bt_csum_bytes(0, icmp, BT_ICMP_HEAD + quoted));
    assert_true(dpdk_send_raw(h->dev[1], frame, (unsigned)(icmp - frame) + BT_ICMP_HEAD + quoted));
}

// E-10: "too long" is about a packet; a peer that is told to be gone would be taken out of service.
static void too_long_is_no_news_about_the_peer(void **state)
{
    struct hosts h = hosts_open();
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_io_event ev[4];
    (void)state;
    tell_error(&h, 4, dpdk_address(false, 2, 21)); // fragmentation needed
    tell_error(&h, 3, dpdk_address(false, 2, 22)); // port unreachable
    assert_int_equal(bt_io_rx(h.peer, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
    assert_int_equal(hosts_counter(h.peer, "link_rx_total", "icmp_error"), 2);
    assert_int_equal(h.peer->ops->events(h.peer, ev, 4), 1);
    assert_int_equal(ev[0].error, ECONNREFUSED);
    assert_int_equal(ev[0].peer.port, 22);
    hosts_close(&h);
}

// Chosen ports have to be free on the device, not only among those of one thread.
static void chosen_ports_are_free_on_the_device(void **state)
{
    enum { IOS = 8, PORTS = BT_LINK_MAX_LOCALS };
    static struct bt_addr locals[PORTS];
    static bool taken[65536];
    struct bt_dpdk_device *dev = hosts_device(1, IOS, BT_DPDK_CHECKSUMS_AUTO);
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = PORTS};
    struct bt_io *io[IOS];
    char err[400];
    (void)state;
    for (unsigned p = 0; p < PORTS; p++) {
        locals[p] = dpdk_address(false, 1, p == PORTS - 1 ? 60000 : 0);
    }
    for (unsigned i = 0; i < IOS; i++) {
        io[i] = bt_dpdk_open(dev, &cfg, err, sizeof err);
        if (io[i] == NULL) {
            fail_msg("io %u: %s", i, err);
        }
        locals[PORTS - 1].port = 0;
        for (unsigned p = 0; p < PORTS; p++) {
            uint16_t port = io[i]->ops->local(io[i], p).port;
            assert_true(port >= 49152 && !taken[port]);
            taken[port] = true;
        }
    }
    assert_true(taken[60000]);
    for (unsigned i = IOS; i-- > 0;) {
        io[i]->ops->close(io[i]);
    }
    assert_int_equal(bt_dpdk_device_close(dev), 0);
}

static void a_thread_that_does_not_keep_up_loses_its_own_packets_only(void **state)
{
    enum { N = 3000 };
    struct hosts h = hosts_open();
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned requests = 0;
    unsigned feedback = 0;
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, FEEDBACK_PORT), i);
        hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, REQUEST_PORT), i);
        unsigned n;
        do {
            n = bt_io_rx(h.request, BT_IO_ANY, pkts, BT_IO_BATCH);
            requests += n;
            for (unsigned k = 0; k < n; k++) {
                bt_pool_put(bt_dpdk_pool(h.dev[1]), pkts[k]);
            }
        } while (n != 0);
        assert_int_equal(bt_io_rx(h.peer, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
    }
    uint64_t dropped = hosts_counter(h.request, "io_rx_dropped_total", "handover_full");
    for (unsigned n = 1; n != 0; feedback += n) {
        n = bt_io_rx(h.feedback, BT_IO_ANY, pkts, BT_IO_BATCH);
        for (unsigned k = 0; k < n; k++) {
            bt_pool_put(bt_dpdk_pool(h.dev[1]), pkts[k]);
        }
    }
    print_message("%u requests, %u of FEEDBACK, %u dropped\n", requests, feedback, (unsigned)dropped);
    assert_int_equal(requests, N);
    assert_true(dropped > 0);
    assert_int_equal(feedback + dropped, N);
    hosts_close(&h);
}

static void a_port_belongs_to_one_io(void **state)
{
    struct hosts h = hosts_open();
    struct bt_addr local = dpdk_address(false, 2, REQUEST_PORT);
    struct bt_dpdk_config cfg = {.locals = &local, .n_locals = 1};
    char err[400];
    (void)state;
    assert_null(bt_dpdk_open(h.dev[1], &cfg, err, sizeof err));
    assert_non_null(strstr(err, "opened for 2 ios"));
    h.feedback->ops->close(h.feedback);
    assert_null(bt_dpdk_open(h.dev[1], &cfg, err, sizeof err));
    assert_non_null(strstr(err, "UDP port 8000 is taken"));
    // One io may have it at several addresses: a balancer's reports come by both families.
    struct bt_addr both[] = {dpdk_address(false, 2, FEEDBACK_PORT), dpdk_address(true, 2, FEEDBACK_PORT)};
    h.feedback = bt_dpdk_open(h.dev[1], &(struct bt_dpdk_config){.locals = both, .n_locals = 2}, err, sizeof err);
    assert_non_null(h.feedback);
    h.feedback->ops->close(h.feedback);
    both[1] = both[0];
    assert_null(bt_dpdk_open(h.dev[1], &(struct bt_dpdk_config){.locals = both, .n_locals = 2}, err, sizeof err));
    assert_non_null(strstr(err, "given twice"));
    h.feedback = hosts_io(h.dev[1], false, 2, FEEDBACK_PORT); // the refusal left nothing behind
    cfg.n_locals = 0;
    assert_null(bt_dpdk_open(h.dev[0], &cfg, err, sizeof err));
    assert_non_null(strstr(err, "local ports"));
    hosts_close(&h);
}

// Frames in buffers of a pool that has no room for our state are copied, not trusted.
static void foreign_buffers_are_copied(void **state)
{
    struct hosts h = hosts_open();
    struct rte_mempool *foreign =
        rte_pktmbuf_pool_create("foreign", 127, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    struct bt_pkt *pkts[BT_IO_BATCH];
    (void)state;
    assert_non_null(foreign);
    hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, REQUEST_PORT), 1); // so that they know each other
    for (unsigned turn = 0; turn < 100; turn++) {
        bt_io_wait(h.request, bt_io_now(h.request) + MS / 10);
        unsigned n = bt_io_rx(h.request, BT_IO_ANY, pkts, BT_IO_BATCH);
        for (unsigned k = 0; k < n; k++) {
            bt_pool_put(bt_dpdk_pool(h.dev[1]), pkts[k]);
        }
        assert_int_equal(bt_io_rx(h.peer, BT_IO_ANY, pkts, BT_IO_BATCH), 0);
    }
    hosts_send(h.dev[0], h.peer, dpdk_address(false, 2, REQUEST_PORT), 77);
    void *m = NULL; // the frame is taken off the wire and put back in two pieces of another pool
    assert_int_equal(rte_ring_dequeue(wire[0], &m), 0);
    struct rte_mbuf *head = rte_pktmbuf_copy(m, foreign, 0, 30);
    struct rte_mbuf *tail = rte_pktmbuf_copy(m, foreign, 30, UINT32_MAX);
    assert_non_null(head);
    assert_non_null(tail);
    assert_int_equal(rte_pktmbuf_chain(head, tail), 0);
    rte_pktmbuf_free(m);
    assert_int_equal(rte_ring_enqueue(wire[0], head), 0);
    assert_int_equal(bt_io_rx(h.request, BT_IO_ANY, pkts, BT_IO_BATCH), 1);
    uint32_t value;
    memcpy(&value, pkts[0]->data, sizeof value);
    assert_int_equal(value, 77);
    assert_int_equal(hosts_counter(h.request, "io_rx_copied_total", NULL), 1);
    bt_pool_put(bt_dpdk_pool(h.dev[1]), pkts[0]);
    hosts_close(&h);
    assert_int_equal(rte_mempool_in_use_count(foreign), 0);
    rte_mempool_free(foreign);
}

// Without checksums: none over IPv4, a computed one over IPv6, where it may not be missing; and a peer that does
// check takes both.
static void checksums_can_be_left_out(void **state)
{
    (void)state;
    for (unsigned v6 = 0; v6 < 2; v6++) {
        struct bt_dpdk_device *dev[2] = {hosts_device(1, 1, BT_DPDK_CHECKSUMS_NONE),
                                         hosts_device(2, 1, BT_DPDK_CHECKSUMS_AUTO)};
        struct bt_io *from = hosts_io(dev[0], v6, 1, 7000);
        struct bt_io *to = hosts_io(dev[1], v6, 2, 8000);
        struct bt_pkt *pkts[BT_IO_BATCH];
        unsigned got = 0;
        hosts_send(dev[0], from, dpdk_address(v6, 2, 8000), 5);
        for (unsigned turn = 0; turn < 1000 && got == 0; turn++) {
            bt_io_wait(to, bt_io_now(to) + MS / 10);
            got = bt_io_rx(to, BT_IO_ANY, pkts, BT_IO_BATCH);
            assert_int_equal(bt_io_rx(from, BT_IO_ANY, pkts + 1, 1), 0);
        }
        assert_int_equal(got, 1);
        const uint8_t *udp = pkts[0]->data - 8;
        assert_int_equal((udp[6] | udp[7]) != 0, v6);
        bt_pool_put(bt_dpdk_pool(dev[1]), pkts[0]);
        from->ops->close(from);
        to->ops->close(to);
        void *m;
        for (unsigned i = 0; i < 2; i++) {
            while (rte_ring_dequeue(wire[i], &m) == 0) {
                rte_pktmbuf_free(m);
            }
        }
        assert_int_equal(bt_dpdk_device_close(dev[0]), 0);
        assert_int_equal(bt_dpdk_device_close(dev[1]), 0);
    }
}

static void settings_are_refused_by_name(void **state)
{
    struct bt_link_prefix own[2];
    char err[400];
    (void)state;
    dpdk_addresses(1, own);
    struct bt_dpdk_device_config cfg = {.port = "", .addrs = own, .n_addrs = 2};
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "needs a port"));
    cfg.port = "net_nonsense0";
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "net_nonsense0"));
    cfg.port = "net_ring_a";
    cfg.n_addrs = 0;
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "addresses"));
    cfg.n_addrs = 1;
    cfg.queues = 2; // the ring port has one
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "2 queues"));
    cfg.queues = 0;
    cfg.mtu = 2035; // a byte more than a buffer holds behind an Ethernet header
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "2034 at most; got 2035"));
    cfg.mtu = 0;
    cfg.buffers = 4000000; // more than the memory DPDK was given
    assert_null(bt_dpdk_device_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "packet buffers"));
    char name[RTE_ETH_NAME_MAX_LEN];
    bt_dpdk_port_name("3B:0A.1,arg=X", name, sizeof name); // DPDK compares letter by letter
    assert_string_equal(name, "0000:3b:0a.1");
    bt_dpdk_port_name("net_memif0,socket=/A", name, sizeof name);
    assert_string_equal(name, "net_memif0");
    assert_true(bt_dpdk_is_pci("0000:05:00.0"));
    assert_true(bt_dpdk_is_pci("05:00.0,arg=1"));
    assert_false(bt_dpdk_is_pci("net_memif0,role=client"));
    assert_false(bt_dpdk_is_pci("0000:05:00"));
    assert_false(bt_dpdk_is_pci(""));
}

int numa_available(void); // as DPDK calls it

// A child under the filter of container runtimes, as far as memory policies go: 0 if it says that there is no NUMA.
static int refused_nodes(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        return 2;
    }
    return numa_available() == -1 && !bt_dpdk_may_choose_nodes() ? 0 : 1;
}

static void a_process_that_may_not_choose_nodes_does_without_them(void **state)
{
    int status = -1;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        _exit(refused_nodes());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(numa_available(), bt_dpdk_may_choose_nodes() ? 0 : -1);
}

// Where memory lies is what the kernel tells of the mapping that has it.
static void memory_lies_where_the_kernel_says(void **state)
{
    static char maps[] = "55ce93402000 default file=/usr/bin/a\\040N3=9 mapped=2 N0=2 kernelpagesize_kB=4\n"
                         "7f0000000000 prefer:1 file=/memfd:x huge dirty=5 N0=2 N1=3 kernelpagesize_kB=2048\n"
                         "7f0000400000 default stack\n";
    static const struct {
        uintptr_t at;
        int node;
    } rows[] = {{0x1000, -1}, {0x55ce93402000, 0}, {0x7f0000000000, 1}, {0x7f00003fffff, 1}, {0x7f0000400000, -1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        FILE *f = fmemopen(maps, sizeof maps - 1, "r");
        assert_non_null(f);
        assert_int_equal(bt_dpdk_node_in(f, rows[i].at), rows[i].node);
        assert_int_equal(fclose(f), 0);
    }
    bool told = access("/proc/self/numa_maps", R_OK) == 0;
    assert_true(told == (bt_dpdk_node_of(maps) >= 0)); // it was read just now, so its page is there
}

// What stands against a PCI device is told by what the kernel shows of it: here a folder made for the purpose.
static void a_pci_device_that_cannot_be_had_is_explained(void **state)
{
    static const struct {
        const char *name, *driver; // NULL: none; "": there is no such device
        const char *says;
    } rows[] = {
        {"0000:01:10.0", "", "no PCI device 0000:01:10.0: it was taken away"},
        {"0000:01:10.2", NULL, "no driver has it"},
        {"0000:01:10.4", "../../../bus/pci/drivers/igbvf", "on its kernel driver igbvf"},
        {"0000:01:10.6", "../../../bus/pci/drivers/vfio-pci", "bound to vfio-pci, as it has to be"},
        {"0000:01:11.0", "../x/uio_pci_generic", "bound to uio_pci_generic, as it has to be"},
        {"0000:01:11.2", "igb_uio", "bound to igb_uio, as it has to be"},
        {"0000:01:11.4", "vfio-pci2", "on its kernel driver vfio-pci2 and must be bound to vfio-pci"},
    };
    char root[] = "/tmp/bobtail-pci-XXXXXX";
    char path[100];
    char link[120];
    char text[400];
    (void)state;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool there = rows[i].driver == NULL || rows[i].driver[0] != '\0';
        snprintf(path, sizeof path, "%s/%s", root, rows[i].name);
        snprintf(link, sizeof link, "%s/driver", path);
        assert_true(!there || mkdir(path, 0700) == 0);
        assert_true(!there || rows[i].driver == NULL || symlink(rows[i].driver, link) == 0);
        const struct bt_dpdk_places at = {.devices = root, .groups = "/nowhere"};
        bt_dpdk_pci_hint(&at, rows[i].name, text, sizeof text);
        (void)unlink(link);
        assert_true(!there || rmdir(path) == 0);
        assert_true(strncmp(text, "; ", 2) == 0);
        if (strstr(text, rows[i].says) == NULL) {
            fail_msg("%s: \"%s\", want \"%s\"", rows[i].name, text, rows[i].says);
        }
    }
    assert_int_equal(rmdir(root), 0);
}

// A folder with one device on vfio-pci and the file of its group, both made for the purpose.
static void one_handed_over(char *root, mode_t mode, bool make)
{
    static const char *const links[][2] = {{"d/driver", "x/vfio-pci"}, {"d/iommu_group", "x/7"}};
    char path[100];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", root, links[i][0]);
        assert_int_equal(make ? symlink(links[i][1], path) : unlink(path), 0);
    }
    snprintf(path, sizeof path, "%s/7", root);
    if (make) {
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(chmod(path, mode), 0);
    } else {
        assert_int_equal(unlink(path), 0);
    }
}

// What a process is told of it that may lock next to nothing, and has no rights unless it stays root; it ends with 0 if
// that has this word, or is nothing where none is wanted.
static int told_without_rights(const struct bt_dpdk_places *at, bool stays_root, const char *word)
{
    char text[400] = "";
    const struct rlimit limit = {65536, 65536};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (!stays_root && setresuid(65534, 65534, 65534) != 0)) {
        return 2;
    }
    bt_dpdk_pci_hint(at, "d", text, sizeof text);
    return (word == NULL ? text[0] == '\0' : strstr(text, word) != NULL) ? 0 : 1;
}

static void a_function_without_a_right_to_it_is_explained(void **state)
{
    static const struct {
        mode_t mode;
        bool stays_root;
        const char *word;
    } rows[] = {{0600, false, "it is root's"}, {0666, false, "capability IPC_LOCK"}, {0600, true, NULL}};
    (void)state;
    if (getuid() != 0) {
        skip(); // nobody can be without root's rights then
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char root[] = "/tmp/bobtail-group-XXXXXX";
        char device[100];
        int status = -1;
        assert_non_null(mkdtemp(root));
        assert_int_equal(chmod(root, 0755), 0);
        snprintf(device, sizeof device, "%s/d", root);
        assert_int_equal(mkdir(device, 0755), 0);
        one_handed_over(root, rows[i].mode, true);
        const struct bt_dpdk_places at = {.devices = root, .groups = root};
        pid_t child = fork();
        if (child == 0) {
            _exit(told_without_rights(&at, rows[i].stays_root, rows[i].word));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        one_handed_over(root, 0, false);
        assert_int_equal(rmdir(device), 0);
        assert_int_equal(rmdir(root), 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_reach_the_thread_that_owns_their_port),
        cmocka_unit_test(a_port_of_nobody_is_answered_once),
        cmocka_unit_test(too_long_is_no_news_about_the_peer),
        cmocka_unit_test(chosen_ports_are_free_on_the_device),
        cmocka_unit_test(a_thread_that_does_not_keep_up_loses_its_own_packets_only),
        cmocka_unit_test(a_port_belongs_to_one_io),
        cmocka_unit_test(foreign_buffers_are_copied),
        cmocka_unit_test(checksums_can_be_left_out),
        cmocka_unit_test(settings_are_refused_by_name),
        cmocka_unit_test(a_pci_device_that_cannot_be_had_is_explained),
        cmocka_unit_test(a_function_without_a_right_to_it_is_explained),
        cmocka_unit_test(memory_lies_where_the_kernel_says),
        cmocka_unit_test(a_process_that_may_not_choose_nodes_does_without_them),
    };
    return cmocka_run_group_tests(tests, hosts_start, NULL);
}
