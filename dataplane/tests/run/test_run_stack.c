// SPDX-License-Identifier: Apache-2.0
// Homes with a TCP stack of their own, on a port made by hand: packets that are not TCP are counted and given back, and
// threads sleep on the port's descriptors instead of looking at it all the time, but for the port's own timers.
#include "unit.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/run_internal.h"
#include "run/tcp_stack.h"

#define SOON_NS UINT64_C(2000000)

enum { PACKETS = 64, ROUNDS = 20 };

struct port {
    struct bt_io io; // first
    struct bt_pool_fixed pool;
    atomic_bool waits;    // a packet
    int fd;               // readable when one does; below 0: it has none
    _Atomic uint64_t due; // its own timers
    atomic_uint looks;    // after they were due; then they are due again
};

static struct port port;
static struct bt_run *run;

/* Packets are for no port of the stack's. */
static unsigned port_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    (void)io;
    (void)local;
    if (run_clock_ns() >= atomic_load(&port.due)) {
        atomic_store(&port.due, run_clock_ns() + SOON_NS);
        atomic_fetch_add(&port.looks, 1);
    }
    if (max == 0 || !atomic_exchange(&port.waits, false)) {
        return 0;
    }
    struct bt_pkt *p = bt_pool_get(&port.pool.pool);
    assert_non_null(p);
    p->local = BT_RUN_TCP_LOCAL - 1u;
    *bt_pkt_append(p, 1) = 'x';
    pkts[0] = p;
    return 1;
}

static void port_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        bt_pool_put(&port.pool.pool, p);
    }
}

static uint64_t port_now(struct bt_io *io)
{
    (void)io;
    return run_clock_ns();
}

static uint64_t port_next(struct bt_io *io)
{
    (void)io;
    return atomic_load(&port.due);
}

static unsigned port_watch(struct bt_io *io, int *fds, unsigned max)
{
    (void)io;
    if (port.fd < 0 || max == 0) {
        return 0;
    }
    fds[0] = port.fd;
    return 1;
}

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    bobtail_reply(request, "y", 1);
}

/* A server of one thread; true: its port has a descriptor. */
static void begin(bool has_descriptor)
{
    static const struct bt_io_ops ops = {
        .rx = port_rx, .tx = port_tx, .now = port_now, .watch = port_watch, .next = port_next};
    static uint8_t mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)] __attribute__((aligned(64)));
    static struct bt_io *io = &port.io;
    char why[256] = "";
    port = (struct port){.io = {&ops}, .fd = -1, .due = UINT64_MAX};
    port.fd = has_descriptor ? eventfd(0, EFD_NONBLOCK) : -1;
    bt_pool_fixed_init(&port.pool, mem, PACKETS);
    struct bt_run_tcp tcp = {.local = bt_addr_v4u(0x0a000002, 7000),
                             .framing = BT_FRAMING_U32,
                             .max_message = 1024,
                             .connections = 4,
                             .wire = &bt_run_wire_stack,
                             .io = &io,
                             .pool = &port.pool.pool,
                             .mtu = 1500};
    struct bt_run_setup setup = {.mode = BT_SCHED_RUN_TO_COMPLETION,
                                 .threads = 1,
                                 .batch = 64,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .name = "stack",
                                 .handler = handle,
                                 .tcp = &tcp};
    run = bt_run_open(&setup, why, sizeof why);
    if (run == NULL) {
        fail_msg("%s", why);
    }
}

static void end(void)
{
    bt_run_close(run);
    if (port.fd >= 0) {
        close(port.fd);
    }
    assert_int_equal(port.pool.left, PACKETS); // every packet came back
}

static uint64_t not_tcp(void)
{
    uint64_t counts[BT_RUN_TCP_COUNTERS];
    bt_run_read_tcp(run, counts);
    return counts[BT_RUN_TCP_NOT_TCP];
}

/* A turn, as the thread itself has them. */
static void take_turn(void)
{
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
}

static void what_is_not_tcp_is_counted_and_given_back(void **state)
{
    (void)state;
    begin(false);
    for (unsigned i = 0; i < 2 * PACKETS; i++) {
        atomic_store(&port.waits, true);
        take_turn();
        assert_int_equal(not_tcp(), i + 1u);
    }
    end();
}

/* Where it has descriptors, when its own timers want it; without them it cannot wake anybody and is looked at often. */
static void how_often_a_port_is_looked_at(void **state)
{
    (void)state;
    begin(true);
    assert_true(run->home[0].look_ns == 0);
    take_turn();
    assert_true(atomic_load(&run->home[0].due_ns) == UINT64_MAX); // no connection, no timer
    atomic_store(&port.due, UINT64_MAX - 1);
    take_turn();
    assert_true(atomic_load(&run->home[0].due_ns) == UINT64_MAX - 1);
    end();
    begin(false);
    assert_true(run->home[0].look_ns != 0 && run->home[0].look_ns < 1000000);
    end();
}

/* No timer is due: a thread that the descriptor does not wake sees nothing of this. */
static void a_descriptor_wakes_its_thread(void **state)
{
    char why[256] = "";
    (void)state;
    begin(true);
    if (!bt_run_start(run, why, sizeof why)) {
        fail_msg("%s", why);
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t one = 1;
        atomic_store(&port.waits, true);
        assert_int_equal(write(port.fd, &one, sizeof one), sizeof one);
        while (not_tcp() != i + 1u) { // the test's own time limit ends it
            usleep(1000);
        }
    }
    end();
}

/* No packet comes: the timers wake the thread, each time anew. */
static void the_ports_timers_wake_its_thread(void **state)
{
    char why[256] = "";
    (void)state;
    begin(true);
    atomic_store(&port.due, run_clock_ns() + SOON_NS);
    if (!bt_run_start(run, why, sizeof why)) {
        fail_msg("%s", why);
    }
    while (atomic_load(&port.looks) < ROUNDS) { // the test's own time limit ends it
        usleep(1000);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_tcp_is_counted_and_given_back),
        cmocka_unit_test(how_often_a_port_is_looked_at),
        cmocka_unit_test(a_descriptor_wakes_its_thread),
        cmocka_unit_test(the_ports_timers_wake_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
