// SPDX-License-Identifier: Apache-2.0
// The server's I/O loop when requests hold every packet buffer, and when it loses its processor: under a clock and a
// network of the test's own, whose pool is so small that it can be emptied.
#include "unit.h"

#include "bobtail-serve/serve_app.h"
#include "shell/pool.h"
#include "shell/stop.h"
#include "wire/r2p2.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

enum { BUFFERS = 16, LATER = 5, TURNS_MAX = 20000 };

struct bed {
    struct bt_io io; // first
    struct serve_app app;
    struct bt_pool_mapped pool;
    struct bt_addr local, router;
    uint64_t now;
    unsigned turns, sent, wanted; // requests that arrived, requests to arrive
    bool work;                    // the worker thread's part is done
    unsigned replies, drops, answered[BUFFERS + LATER];
    unsigned looks; // rx calls of the message in two parts
};

static struct bed bed;

// Requests until the buffers are used up, each of one packet with a byte of payload.
static unsigned bed_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    unsigned n = 0;
    (void)io;
    (void)local;
    while (n < max && bed.sent < bed.wanted) {
        struct bt_pkt *p = bt_pool_get(&bed.pool.pool);
        if (p == NULL) {
            break;
        }
        struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
        h.req_id = (uint16_t)bed.sent++;
        *bt_pkt_append(p, 1) = 'x';
        assert_true(bt_r2p2_push_header(p, &h));
        p->src = bt_addr_v4u(0x7f000001, 40000);
        p->dst = bed.local;
        p->t_rx_ns = bed.now;
        pkts[n++] = p;
    }
    return n;
}

static void bed_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        struct bt_r2p2_hdr h;
        assert_int_equal(bt_r2p2_decode(p->data, p->len, BT_ROLE_ANY, &h), BT_M_OK);
        if (h.type == BT_REPLY || h.type == BT_DROP) {
            assert_in_range(h.req_id, 0, BUFFERS + LATER - 1);
            bed.answered[h.req_id]++;
            bed.replies += h.type == BT_REPLY;
            bed.drops += h.type == BT_DROP;
        }
        bt_pool_put(&bed.pool.pool, p);
    }
}

// Between two turns: time passes, the worker serves what it has, and the story goes on.
static void bed_wait(struct bt_io *io, uint64_t until_ns)
{
    struct serve_worker *w = &bed.app.worker[0];
    (void)io;
    bed.now += until_ns > bed.now + MS ? MS : until_ns > bed.now ? until_ns - bed.now : 1;
    bed.work |= bed.sent == BUFFERS; // not before nothing is left to answer with
    for (struct serve_job *job; bed.work && (job = bt_spsc_pop(&w->todo)) != NULL;) {
        bt_spsc_push(&w->done, job);
    }
    bool settled = bed.sent == bed.wanted && serve_backlog(&bed.app) == 0 && bed.pool.in_use == 0;
    if (settled && bed.wanted == BUFFERS) {
        bed.wanted += LATER;
    } else if (settled || ++bed.turns == TURNS_MAX) {
        raise(SIGTERM);
        raise(SIGTERM); // without draining
    }
}

static uint64_t bed_now(struct bt_io *io)
{
    (void)io;
    return bed.now;
}

static void bed_wake(struct bt_io *io)
{
    (void)io;
}

static void no_letter(void *arg)
{
    (void)arg;
}

static const struct bt_io_ops bed_ops = {
    .rx = bed_rx, .tx = bed_tx, .wait = bed_wait, .now = bed_now, .wake = bed_wake};

static void open_worker(struct serve_app *app)
{
    struct serve_worker *w = &app->worker[0];
    w->app = app;
    w->txq = &app->txq;
    w->jobs = calloc(SERVE_PENDING, sizeof *w->jobs);
    assert_non_null(w->jobs);
    assert_true(bt_spsc_open(&w->todo, SERVE_PENDING) && bt_spsc_open(&w->done, SERVE_PENDING));
    assert_int_equal(sem_init(&w->work, 0, 0), 0);
    for (unsigned i = 0; i < SERVE_PENDING; i++) {
        w->jobs[i].next = w->free_jobs;
        w->free_jobs = &w->jobs[i];
    }
    struct bt_server_cfg cfg = {.local = bed.local,
                                .mtu = 1500,
                                .n = 64,
                                .feedback_port = 9000,
                                .max_pending = 64,
                                .max_assemblies = 4,
                                .max_done = 256,
                                .max_held = 4,
                                .max_message = 65536,
                                .incarnation = 7,
                                .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                .seed = {1, 2},
                                .pool = &bed.pool.pool,
                                .ops = {.on_request = serve_on_request, .arg = w}};
    size_t bytes = bt_server_bytes(&cfg);
    app->server_mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    w->server = bt_server_init(&cfg, app->server_mem, bytes, bed.now);
    assert_non_null(w->server);
    // A router from before tags: every request without a mark is taken for its own.
    struct bt_server_router router = {.request = bed.router, .feedback = bt_addr_v4u(0x7f000003, 9000), .legacy = true};
    assert_int_equal(bt_server_set_routers(w->server, bed.now, &router, 1, &app->txq), 0);
}

static void open_bed(void)
{
    struct serve_app *app = &bed.app;
    bed.io.ops = &bed_ops;
    bed.now = 1000 * MS;
    bed.wanted = BUFFERS;
    bed.local = bt_addr_v4u(0x7f000002, 8000);
    bed.router = bt_addr_v4u(0x7f000003, 8000);
    assert_true(bt_pool_mapped_open(&bed.pool, BUFFERS));
    app->io = &bed.io;
    app->pool = &bed.pool.pool;
    app->opt.workers = 1;
    app->opt.occupy = OCCUPY_SPIN; // the thread's part is the bed's
    app->opt.reply_size = 8;
    assert_true(service_time_parse("fixed:1ms", &app->opt.service));
    app->iov_max = 1;
    app->iov = calloc(1, sizeof *app->iov);
    app->reply = calloc(1, app->opt.reply_size);
    app->executions = -1;
    bt_txq_init(&app->txq);
    bt_mailbox_init(&app->mailbox, no_letter, NULL);
    open_worker(app);
    bt_stop_install(&bed.io);
}

static void close_bed(void)
{
    struct serve_app *app = &bed.app;
    struct serve_worker *w = &app->worker[0];
    bt_mailbox_close(&app->mailbox);
    bt_mailbox_destroy(&app->mailbox);
    bt_spsc_close(&w->todo);
    bt_spsc_close(&w->done);
    sem_destroy(&w->work);
    free(w->jobs);
    free(app->server_mem);
    free(app->iov);
    free(app->reply);
    bt_pool_mapped_close(&bed.pool);
}

/* every request ends once, as a reply or a DROP, with the credit given back; then all is as before. */
static void r38_requests_that_hold_every_buffer_end_and_are_counted(void **state)
{
    struct bt_server_router_state router;
    (void)state;
    open_bed();
    serve_loop(&bed.app);
    const struct bt_server *s = bed.app.worker[0].server;
    const uint64_t *count = bt_server_counters(s);
    assert_true(bed.turns < TURNS_MAX);
    assert_int_equal(bed.sent, BUFFERS + LATER);
    for (unsigned i = 0; i < BUFFERS + LATER; i++) {
        assert_int_equal(bed.answered[i], 1);
    }
    assert_true(bed.drops >= 1 && bed.drops < BUFFERS); // one freed buffer is enough for the others
    assert_int_equal(count[BT_SERVER_DROP_APP], bed.drops);
    assert_int_equal(count[BT_SERVER_REPLIES], bed.replies);
    assert_int_equal(count[BT_SERVER_REQUESTS], bed.sent);
    assert_true(count[BT_SERVER_NO_BUFFER] > 0);
    assert_true(bt_server_router_state(s, 0, &router));
    assert_int_equal(router.received, bed.sent);
    assert_int_equal(router.served, bed.sent);
    assert_int_equal(bed.pool.in_use, 0);
    close_bed();
}

static struct bt_pkt *part_of_message(unsigned index)
{
    struct bt_pkt *p = bt_pool_get(&bed.pool.pool);
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = index == 0, .last = index == 1, .ext = true};
    assert_non_null(p);
    h.count_or_index = index == 0 ? 2 : 1;
    *bt_pkt_append(p, 1) = 'x';
    assert_true(bt_r2p2_push_header(p, &h));
    p->src = bt_addr_v4u(0x7f000001, 40000);
    p->dst = bed.local;
    p->t_rx_ns = bed.now;
    return p;
}

// The first part; then the thread is away for longer than the server waits for the second one, which arrives
// meanwhile, right after the socket was found empty.
static unsigned paused_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    (void)io;
    (void)local;
    (void)max;
    switch (bed.looks++) {
    case 0:
        pkts[0] = part_of_message(0);
        return 1;
    case 1:
        bed.now += 2 * bt_rpc_timers_for(BT_DEVICE_KERNEL).gc_ns;
        return 0;
    case 2:
        pkts[0] = part_of_message(1);
        return 1;
    default:
        return 0;
    }
}

static void paused_wait(struct bt_io *io, uint64_t until_ns)
{
    (void)io;
    bed.now += until_ns > bed.now + MS ? MS : until_ns > bed.now ? until_ns - bed.now : 1;
    if (bed.looks == 8) {
        raise(SIGTERM);
        raise(SIGTERM);
    }
}

// What came of it: 0 as it should. In a process of its own, since a program is told to stop but once.
static int pause_story(void)
{
    static const struct bt_io_ops paused_ops = {
        .rx = paused_rx, .tx = bed_tx, .wait = paused_wait, .now = bed_now, .wake = bed_wake};
    open_bed();
    bed.io.ops = &paused_ops;
    bed.app.opt.service = (struct service_time){0};
    serve_loop(&bed.app);
    uint64_t given_up = bt_server_counters(bed.app.worker[0].server)[BT_SERVER_COLLECTED];
    return given_up != 0 ? 1 : bed.replies != 1 ? 2 : 0;
}

/* a message is given up for want of packets, not because its reader was away. */
static void r20_a_pause_of_the_servers_own_gives_nothing_up(void **state)
{
    int status = -1;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(pause_story());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* a worker that sleeps does one job at a time, in order, and none before its time. */
static void r48_a_sleeping_worker_takes_its_jobs_one_after_the_other(void **state)
{
    (void)state;
    open_bed();
    struct serve_worker *w = &bed.app.worker[0];
    struct serve_job *job = w->jobs;
    uint64_t now = bed.now;
    assert_true(service_time_parse("fixed:3ms", &bed.app.opt.degraded));
    job[1].degraded = true;
    assert_int_equal(serve_sleepers_run(&bed.app, now), UINT64_MAX); // nothing to do
    for (unsigned i = 0; i < 2; i++) {
        assert_true(bt_spsc_push(&w->todo, &job[i]));
        serve_sleeper_begin(w, now);
    }
    assert_int_equal(serve_sleepers_run(&bed.app, now + MS - 1), now + MS);
    assert_null(bt_spsc_pop(&w->done));
    assert_int_equal(serve_sleepers_run(&bed.app, now + 2 * MS), now + 5 * MS); // late by 1 ms; the next begins now
    assert_ptr_equal(bt_spsc_pop(&w->done), &job[0]);
    assert_null(bt_spsc_pop(&w->done));
    assert_int_equal(serve_sleepers_run(&bed.app, now + 5 * MS), UINT64_MAX);
    assert_ptr_equal(bt_spsc_pop(&w->done), &job[1]);
    close_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r48_a_sleeping_worker_takes_its_jobs_one_after_the_other),
        cmocka_unit_test(r20_a_pause_of_the_servers_own_gives_nothing_up),
        cmocka_unit_test(r38_requests_that_hold_every_buffer_end_and_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
