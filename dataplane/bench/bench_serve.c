// SPDX-License-Identifier: Apache-2.0
// What a request costs a server's thread, in instructions: the loop of bobtail-serve as it stood before there were
// threads that take and answer requests themselves, kept here, and a thread of src/run. Both echo bodies of 64 bytes
// from a network in memory that brings BURST packets at a time.
//
//   bench_serve before|to-completion|stealing REQUESTS BURST    for callgrind: counted are before_loop and thread_loop
//   bench_serve spin THREADS MILLISECONDS                       how often plain threads spin for 200 us, for comparison
//
// bobtail-serve's loop had one worker, one I/O thread, no service time and an open control socket; what it did is
// below, line by line. What the network costs here is in both alike, so that their difference is what was added.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/mailbox.h"
#include "kept.h"
#include "run/run_internal.h"
#include "wire/r2p2.h"

enum { BUFFERS = 1024, BODY = 64, PENDING = 2048 };

struct net {
    struct bt_io io; // first
    struct bt_pool_fixed pool;
    struct bt_addr local;
    uint64_t wanted, sent, answered;
    unsigned burst;
    struct bt_run *run; // to be stopped at the end
    bool over;
};

static struct net net;

static unsigned net_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    unsigned n = 0, most = max < net.burst ? max : net.burst;
    (void)io;
    (void)local;
    for (; n < most && net.sent < net.wanted && net.sent - net.answered < net.burst; n++) {
        struct bt_pkt *p = bt_pool_get(&net.pool.pool);
        struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
        h.req_id = (uint16_t)net.sent++;
        memset(bt_pkt_append(p, BODY), 'x', BODY);
        bt_r2p2_push_header(p, &h);
        p->src = bt_addr_v4u(0x7f000001, (uint16_t)(40000 + net.sent / 65536));
        p->dst = net.local;
        p->t_rx_ns = 1000 + net.sent;
        pkts[n] = p;
    }
    return n;
}

static void net_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        net.answered++;
        bt_pool_put(&net.pool.pool, p);
    }
    if (net.answered == net.wanted) {
        net.over = true;
        if (net.run != NULL) {
            atomic_store(&net.run->stop, true);
        }
    }
}

static void net_wait(struct bt_io *io, uint64_t until_ns)
{
    (void)io;
    (void)until_ns;
}

static uint64_t net_now(struct bt_io *io)
{
    (void)io;
    return 1000 + net.sent;
}

static void net_wake(struct bt_io *io)
{
    (void)io;
}

static const struct bt_io_ops net_ops = {
    .rx = net_rx, .tx = net_tx, .wait = net_wait, .now = net_now, .wake = net_wake};

static struct bt_server_cfg server_config(void)
{
    return (struct bt_server_cfg){.local = net.local,
                                  .mtu = 1500,
                                  .n = 64,
                                  .feedback_port = 9000,
                                  .max_pending = PENDING,
                                  .max_assemblies = 64,
                                  .max_done = 8192,
                                  .max_held = 256,
                                  .max_message = 1048576,
                                  .incarnation = 7,
                                  .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                  .seed = {1, 2},
                                  .pool = &net.pool.pool};
}

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    return p != NULL ? memset(p, 0, bytes) : NULL;
}

// --- the loop as it stood ---------------------------------------------------

struct job {
    struct job *next;
    uint64_t handle;
    struct bt_msg msg;
};

struct before {
    struct bt_io *io;
    struct bt_server *server;
    struct bt_txq txq;
    struct job *free, *waiting, *done, *asleep;
    struct iovec iov[64];
    struct bt_mailbox mailbox;
    int executions;
    double service[3];
    uint64_t starved_ns;
};

static bool before_answer(struct before *b, uint64_t handle, const struct bt_msg *msg, struct bt_txq *txq)
{
    uint64_t now = bt_io_now(b->io);
    int n = bt_msg_iov(msg, b->iov, 64);
    int result = n <= 64 ? bt_server_reply(b->server, now, handle, b->iov, n, txq) : BT_RPC_TOO_LARGE;
    if (result == BT_RPC_TOO_LARGE) {
        bt_server_drop(b->server, now, handle, txq);
    }
    return result != BT_RPC_NO_BUFFER;
}

static void before_on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct before *b = arg;
    if (b->free == NULL) {
        bt_server_drop(b->server, bt_io_now(b->io), rq->handle, txq);
        return;
    }
    if (b->executions >= 0) {
        abort();
    }
    if (b->service[0] <= 0 && b->service[1] <= 0 && b->service[2] <= 0 && before_answer(b, rq->handle, &rq->msg, txq)) {
        return;
    }
    abort(); // nothing takes time here, and buffers are enough
}

static bool before_take_packets(struct before *b)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(b->io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_server_rx(b->server, pkts[i]->t_rx_ns, pkts[i], &b->txq);
    }
    return n == BT_IO_BATCH;
}

static uint64_t before_tick(struct before *b, uint64_t now)
{
    if (bt_server_next(b->server) <= now) {
        bt_server_tick(b->server, now, &b->txq);
    }
    return bt_server_next(b->server);
}

KEPT void before_loop(struct before *b)
{
    uint64_t until = 0;
    unsigned packet_turns = 0;
    while (!net.over) { // a look at a counter of signals, once
        bt_io_wait(b->io, until);
        uint64_t looked = bt_io_now(b->io);
        bool more = before_take_packets(b);
        uint64_t wake = b->asleep == NULL ? UINT64_MAX : bt_io_now(b->io);
        if (b->waiting != NULL || b->done != NULL) {
            abort();
        }
        bt_mailbox_poll(&b->mailbox);
        uint64_t now = bt_io_now(b->io);
        packet_turns = more || now - looked > BT_IO_PAUSE_NS ? packet_turns + 1 : 0;
        until = packet_turns % BT_IO_TURNS_BEFORE_TIMERS != 0 ? 0 : before_tick(b, now);
        until = wake < until ? wake : until;
        bt_io_tx(b->io, &b->txq);
        (void)bt_io_now(b->io);
    }
}

static void no_wake(void *arg)
{
    (void)arg;
}

static void run_before(void)
{
    static struct before b;
    static struct job job;
    struct bt_server_cfg cfg = server_config();
    cfg.ops = (struct bt_server_ops){.on_request = before_on_request, .arg = &b};
    size_t bytes = bt_server_bytes(&cfg);
    b.io = &net.io;
    b.free = &job;
    b.executions = -1;
    bt_txq_init(&b.txq);
    bt_mailbox_init(&b.mailbox, no_wake, NULL);
    b.server = bt_server_init(&cfg, zeroed(bytes), bytes, 1);
    before_loop(&b);
}

// --- a thread of src/run ----------------------------------------------------

static void echo(void *arg, struct bobtail_request *request)
{
    int n;
    (void)arg;
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    bobtail_reply_pieces(request, piece, n);
}

KEPT void thread_loop(struct run_core *core)
{
    run_core_run(core);
}

static void run_thread(enum bt_sched_mode mode)
{
    char why[256];
    struct bt_run_port port = {.io = &net.io, .server = server_config()};
    struct bt_run_setup setup = {.mode = mode,
                                 .threads = 1,
                                 .batch = BT_IO_BATCH,
                                 .spin_ns = 1000000000,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .handler = echo,
                                 .port = &port};
    net.run = bt_run_open(&setup, why, sizeof why);
    if (net.run == NULL) {
        fprintf(stderr, "bench_serve: %s\n", why);
        exit(1);
    }
    thread_loop(&net.run->core[0]);
    bt_run_close(net.run);
}

// --- plain threads that spin -------------------------------------------------

#define CHUNK_NS UINT64_C(200000)

static _Atomic bool spun;

static void *spin(void *arg)
{
    _Atomic uint64_t *chunks = arg;
    while (!atomic_load(&spun)) {
        uint64_t until = run_clock_ns() + CHUNK_NS;
        while (run_clock_ns() < until) {
        }
        atomic_fetch_add(chunks, 1);
    }
    return NULL;
}

static int run_spinners(unsigned threads, unsigned milliseconds)
{
    static _Atomic uint64_t chunks;
    pthread_t thread[BT_RUN_THREADS_MAX];
    unsigned n = threads < BT_RUN_THREADS_MAX ? threads : BT_RUN_THREADS_MAX;
    for (unsigned i = 0; i < n; i++) {
        if (pthread_create(&thread[i], NULL, spin, (void *)&chunks) != 0) {
            return 1;
        }
    }
    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L}, NULL);
    uint64_t done = chunks;
    atomic_store(&spun, true);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
    }
    printf("{\"chunks\": %lu}\n", done);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "to-completion";
    if (strcmp(what, "spin") == 0 && argc > 3) {
        return run_spinners((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
    }
    net.io.ops = &net_ops;
    net.local = bt_addr_v4u(0x7f000002, 8000);
    net.wanted = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    net.burst = argc > 3 ? (unsigned)atoi(argv[3]) : 16;
    bt_pool_fixed_init(&net.pool, zeroed(bt_pool_fixed_bytes(BUFFERS)), BUFFERS);
    if (strcmp(what, "before") == 0) {
        run_before();
    } else {
        run_thread(strcmp(what, "stealing") == 0 ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION);
    }
    printf("{\"requests\": %lu, \"answered\": %lu}\n", net.wanted, net.answered);
    return net.answered != net.wanted;
}
