// SPDX-License-Identifier: Apache-2.0
// One home and its cores by hand, without threads: what a CANCEL does to a request that waits, that is executed by a
// thief, and that is over; who is woken for what waits; and how n follows the threads.
#include "unit.h"

#include <string.h>
#include <unistd.h>

#include "bed_port.h"
#include "run/run_internal.h"
#include "wire/r2p2.h"

enum { PACKETS = 256 };

struct net {
    struct bt_io io; // first
    struct bt_pool_fixed pool;
    struct bt_pkt *in[16];
    unsigned n_in;
    unsigned replies, drops, feedback, cancelled;
};

static struct net net;
static struct bt_run *run;
static int handled;
static uint64_t now;
static bool starves;                           // the handler takes every packet there is
static struct bt_pkt *taken;                   // these
static const struct bobtail_request *unwanted; // the handler's answer to bobtail_request_cancelled

static unsigned net_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    unsigned n = net.n_in < max ? net.n_in : max;
    (void)io;
    (void)local;
    memcpy(pkts, net.in, n * sizeof *pkts);
    net.n_in = 0;
    return n;
}

static void net_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        struct bt_r2p2_hdr h;
        if (p->dst.port == 9000) {
            net.feedback++;
            net.cancelled += (p->data[17] & 0x28) == 0x28; // dropped, and taken back
        } else {
            assert_int_equal(bt_r2p2_decode(p->data, p->len, BT_ROLE_ANY, &h), BT_M_OK);
            net.replies += h.type == BT_REPLY;
            net.drops += h.type == BT_DROP;
        }
        bt_pool_put(&net.pool.pool, p);
    }
}

static uint64_t net_now(struct bt_io *io)
{
    (void)io;
    return now;
}

static void net_wait(struct bt_io *io, uint64_t until_ns)
{
    (void)io;
    (void)until_ns;
}

static void net_wake(struct bt_io *io)
{
    (void)io;
}

static const struct bt_io_ops net_ops = {
    .rx = net_rx, .tx = net_tx, .now = net_now, .wait = net_wait, .wake = net_wake};

static void arrive(uint8_t type, uint16_t id, uint32_t copy)
{
    struct bt_pkt *p = bt_pool_get(&net.pool.pool);
    struct bt_r2p2_hdr h = {.type = type, .first = true, .last = true, .ext = true, .count_or_index = 1};
    h.req_id = id;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_COPY;
    h.opt.forwarded = bt_addr_v4u(0x0a000001, 40000);
    h.opt.copy = copy;
    if (type == BT_REQUEST) {
        *bt_pkt_append(p, 1) = 'x';
    }
    assert_true(bt_r2p2_push_header(p, &h));
    p->src = bt_addr_v4u(0x0a000009, 8000); // the router
    p->t_rx_ns = 900;
    net.in[net.n_in++] = p;
}

static unsigned replied[4];     // replies that had left when the handler was called, by how often it had been
static bool origins;            // handlers ask who asked
static struct bt_addr asked_by; // of the request that was executed last
static uint16_t asked_as;
static int asked_at;

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    replied[handled % 4] = net.replies;
    handled++;
    asked_at = bt_run_origin(request, &asked_by, &asked_as);
    for (struct bt_pkt *p; starves && (p = bt_pool_get(&net.pool.pool)) != NULL;) {
        p->next = taken;
        taken = p;
    }
    if (unwanted != NULL) { // its router takes it back meanwhile, and another core has the network
        arrive(BT_CANCEL, 1, 101);
        assert_true(bt_sched_take(run->lane[0].sched, 0));
        run_home_turn(&run->home[0], NULL, true);
        assert_true(bobtail_request_cancelled(request));
    }
    bobtail_reply(request, "y", 1);
}

static void open_bed(enum bt_sched_mode mode, uint32_t threads)
{
    static uint8_t mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)] __attribute__((aligned(64)));
    char why[256];
    net = (struct net){.io = {&net_ops}};
    handled = 0;
    now = 1000;
    starves = false;
    unwanted = NULL;
    bt_pool_fixed_init(&net.pool, mem, PACKETS);
    struct bt_run_port port[4];
    for (uint32_t i = 0; i < threads; i++) {
        port[i] = small_port(&net.io, i, &net.pool.pool);
    }
    struct bt_run_setup setup = {.mode = mode,
                                 .threads = threads,
                                 .batch = 64,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .name = "bed",
                                 .origins = origins,
                                 .handler = handle,
                                 .port = port};
    run = bt_run_open(&setup, why, sizeof why);
    assert_non_null(run);
    struct bt_server_router router = {.request = bt_addr_v4u(0x0a000009, 8000),
                                      .feedback = bt_addr_v4u(0x0a000009, 9000)};
    assert_int_equal(bt_server_set_routers(run->home[0].server, 1000, &router, 1, &run->home[0].txq), 0);
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, false);
    net.feedback = net.cancelled = 0;
}

static void close_bed(void)
{
    bt_run_close(run);
    assert_int_equal(net.pool.left, PACKETS); // every packet came back
}

/* The core does what the scheduler says until there is nothing; returns how many times it executed. */
static void play(uint32_t core)
{
    run_core_some(&run->core[core], 8);
}

static uint64_t cancels(enum bt_server_counter which)
{
    return bt_server_counters(run->home[0].server)[which];
}

// one that waits never runs, its place is free at once, and its router learns it.
static void test_r272_waiting(void **state)
{
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, 2);
    arrive(BT_REQUEST, 1, 101);
    arrive(BT_REQUEST, 2, 102);
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
    arrive(BT_CANCEL, 1, 101);
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
    assert_int_equal(cancels(BT_SERVER_CANCELS_REMOVED), 1);
    assert_int_equal(net.cancelled, 1);
    play(0);
    assert_int_equal(handled, 1);
    assert_int_equal(net.replies, 1);
    close_bed();
}

// Its place in the server's table is used again while the old request is still in a queue: the new one runs, once.
static void test_r272_the_place_is_used_again(void **state)
{
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, 2);
    arrive(BT_REQUEST, 1, 101);
    arrive(BT_CANCEL, 1, 101);
    arrive(BT_REQUEST, 3, 103);
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
    assert_int_equal(cancels(BT_SERVER_CANCELS_REMOVED), 1);
    play(1);
    assert_int_equal(handled, 1);
    assert_int_equal(net.replies, 1);
    close_bed();
}

// One that a thief executes keeps its bytes until its handler ends; then it is given up, without a reply.
static void executed(enum bt_sched_mode mode, uint32_t core)
{
    open_bed(mode, 2);
    arrive(BT_REQUEST, 1, 101);
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
    unwanted = run->home[0].jobs;
    play(core);
    assert_int_equal(handled, 1);
    assert_int_equal(net.replies + net.drops, 0);
    assert_int_equal(cancels(BT_SERVER_CANCELS_STOPPED), 1);
    assert_int_equal(net.cancelled, 1);
    assert_int_equal(bt_server_backlog(run->home[0].server), 0);
    close_bed();
}

static void test_r272_stolen(void **state)
{
    (void)state;
    executed(BT_SCHED_WORK_STEALING, 1);
}

static void test_r272_executed_at_home(void **state)
{
    (void)state;
    executed(BT_SCHED_RUN_TO_COMPLETION, 0);
}

// In a batch that its own core took (Z-03), one that waits is taken back, too.
static void test_r272_in_a_batch(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        origins = asked != 0;
        open_bed(BT_SCHED_RUN_TO_COMPLETION, 1);
        arrive(BT_REQUEST, 1, 101);
        arrive(BT_REQUEST, 2, 102);
        arrive(BT_CANCEL, 2, 102);
        play(0);
        assert_int_equal(handled, 1);
        assert_int_equal(net.replies, 1);
        assert_int_equal(cancels(BT_SERVER_CANCELS_REMOVED), 1);
        close_bed();
    }
    origins = false;
}

static void look(void)
{
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, true);
}

static void give_back_taken(void)
{
    bt_pool_put_chain(&net.pool.pool, taken);
    taken = NULL;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A reply without a buffer waits for one, and is tried again each millisecond.
static void starved(enum bt_sched_mode mode)
{
    const uint64_t ms = 1000000;
    struct run_home *home;
    open_bed(mode, 2);
    home = &run->home[0];
    starves = true;
    arrive(BT_REQUEST, 1, 101);
    look();
    play(0);
    assert_int_equal(handled, 1);
    assert_int_equal(net.replies + net.drops, 0);
    assert_non_null(home->stuck.first);
    assert_true(atomic_load(&home->due_ns) <= now + ms);
    now += 15 * ms;
    look();
    assert_true(atomic_load(&home->due_ns) == sooner(bt_server_next(home->server), now + ms));
    assert_int_equal(net.replies + net.drops, 0);
    assert_true(home->starved_ns == 1000); // since the first time
    give_back_taken();
    look();
    assert_int_equal(net.replies, 1);
    assert_null(home->stuck.first);
    assert_true(home->starved_ns == 0);
    assert_int_equal(bt_server_backlog(home->server), 0);
    arrive(BT_REQUEST, 2, 102); // another time begins anew
    now += 15 * ms;
    look();
    play(0);
    assert_true(home->starved_ns == now);
    assert_non_null(home->stuck.first);
    now += 20 * ms - 1;
    look();
    assert_non_null(home->stuck.first);
    assert_int_equal(bt_server_backlog(home->server), 1);
    now += 1; // it holds buffers itself: it is given up
    look();
    assert_null(home->stuck.first);
    assert_int_equal(bt_server_backlog(home->server), 0);
    assert_int_equal(net.replies, 1);
    assert_true(home->starved_ns == 0);
    give_back_taken();
    close_bed();
}

static void test_replies_wait_for_buffers_to_completion(void **state)
{
    (void)state;
    starved(BT_SCHED_RUN_TO_COMPLETION);
}

static void test_replies_wait_for_buffers_with_stealing(void **state)
{
    (void)state;
    starved(BT_SCHED_WORK_STEALING);
}

// Requests that were taken back leave their places here when a core comes to them: twice as many as may wait have one,
// and what comes beyond is refused.
static void test_r272_places_are_bounded(void **state)
{
    enum { PLACES = 128 };
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, 2);
    for (uint16_t id = 1; id <= PLACES; id++) {
        arrive(BT_REQUEST, id, 100u + id);
        look();
        arrive(BT_CANCEL, id, 100u + id);
        look();
    }
    assert_int_equal(cancels(BT_SERVER_CANCELS_REMOVED), PLACES);
    assert_int_equal(net.drops, 0);
    arrive(BT_REQUEST, 1000, 5000);
    look();
    assert_int_equal(net.drops, 1);
    assert_int_equal(bt_server_backlog(run->home[0].server), 0);
    run_core_some(&run->core[0], 2 * PLACES);
    assert_int_equal(handled, 0);
    arrive(BT_REQUEST, 1001, 5001);
    look();
    play(0);
    assert_int_equal(handled, 1);
    assert_int_equal(net.replies, 1);
    assert_int_equal(net.drops, 1);
    close_bed();
}

static void refused_with(struct bt_run_setup setup, const char *words)
{
    char why[256] = "";
    assert_null(bt_run_open(&setup, why, sizeof why));
    assert_string_equal(why, words);
}

// What only those can ask for who are closer to it than bobtail/serve.h.
static void test_what_is_refused(void **state)
{
    const struct bt_run_port port = {.server = {.max_pending = 64}};
    const struct bt_run_tcp tcp = {.connections = 1};
    const struct bt_run_setup good = {
        .mode = BT_SCHED_WORK_STEALING, .threads = 2, .batch = 64, .handler = handle, .port = &port};
    struct bt_run_setup s;
    static const char *const adjustable =
        "adjustable: needs work stealing over R2P2; other threads have ports of their own";
    (void)state;
    s = good, s.mode = (enum bt_sched_mode)7, refused_with(s, "mode: there is none with the number 7");
    s = good, s.adjustable = true, s.mode = BT_SCHED_RUN_TO_COMPLETION, refused_with(s, adjustable);
    s = good, s.adjustable = true, s.tcp = &tcp, refused_with(s, adjustable);
    s = good, s.threads = 0, refused_with(s, "threads: must be 1..64; got 0");
    s = good, s.batch = 0, refused_with(s, "batch: must be 1..1024; got 0");
    s = good, refused_with(s, "a port's server cannot be set up; lower max_pending or max_message");
}

/* How often the core was told since it was last asked here. */
static uint64_t told(uint32_t core)
{
    uint64_t times = 0;
    ssize_t n = read(run->core[core].wake_fd, &times, sizeof times); // it does not block
    return n == (ssize_t)sizeof times ? times : 0;
}

// Z-24: who takes one of several requests wakes a core that sleeps for the next one, and so on, one core at a time.
static void test_z24_a_wake_is_passed_on(void **state)
{
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, 3);
    struct bt_sched *s = run->lane[0].sched;
    play(1);
    play(2);
    (void)(told(0) + told(1) + told(2));
    assert_true(bt_sched_sleep(s, 1) && bt_sched_sleep(s, 2));
    for (uint16_t id = 1; id <= 3; id++) {
        arrive(BT_REQUEST, id, 100u + id);
    }
    assert_true(bt_sched_take(s, 0));
    run_home_turn(&run->home[0], NULL, true);
    assert_int_equal(told(1) + told(2), 0);
    for (uint32_t core = 0; core < 3; core++) {
        for (unsigned steps = 0; handled == (int)core && steps < 8; steps++) { // it may look at its network before
            run_core_some(&run->core[core], 1);
        }
        assert_int_equal(handled, (int)core + 1);
        assert_int_equal(told(1), core == 0);
        assert_int_equal(told(2), core == 1);
    }
    play(0); // a thief's reply leaves from home
    assert_int_equal(net.replies, 3);
    close_bed();
}

// Of those that sleep the first one from there on is woken; where nobody steals, only the one whose port it is.
static void test_z24_who_is_roused(void **state)
{
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, 3);
    struct bt_sched *s = run->lane[0].sched;
    for (uint32_t core = 0; core < 3; core++) {
        play(core);
    }
    (void)(told(0) + told(1) + told(2));
    assert_true(bt_sched_sleep(s, 0) && bt_sched_sleep(s, 1) && bt_sched_sleep(s, 2));
    static const uint32_t order[] = {2, 0, 1};
    for (uint32_t i = 0; i < 4; i++) {
        run_rouse(&run->lane[0], run, 2);
        for (uint32_t core = 0; core < 3; core++) {
            assert_int_equal(told(core), i < 3 && core == order[i]);
        }
    }
    close_bed();
    open_bed(BT_SCHED_RUN_TO_COMPLETION, 2);
    s = run->lane[0].sched;
    play(1);
    (void)(told(0) + told(1));
    assert_true(bt_sched_sleep(s, 1));
    run_rouse(&run->lane[0], run, 0);
    assert_int_equal(told(0) + told(1), 0);
    run_rouse(&run->lane[0], run, 1);
    assert_int_equal(told(1), 1);
    close_bed();
}

// A batch that lasts answers as it goes; one that does not, when all of it was executed.
static void test_a_batch_that_lasts_answers_as_it_goes(void **state)
{
    (void)state;
    for (int lasts = 0; lasts < 2; lasts++) {
        open_bed(BT_SCHED_RUN_TO_COMPLETION, 1);
        run->flush_ticks = lasts ? 0 : UINT64_MAX / 2;
        run->slow_ticks = 0; // every handler is slow
        for (uint16_t id = 1; id <= 3; id++) {
            arrive(BT_REQUEST, id, 100u + id);
        }
        play(0);
        assert_true(handled == 3 && net.replies == 3);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(replied[i], lasts ? i : 0);
        }
        assert_int_equal(atomic_load(&run->core[0].slow), lasts ? 3 : 0); // short ones are not looked at
        assert_int_equal(atomic_load(&run->core[0].longest) != 0, lasts);
        assert_true(atomic_load(&run->core[0].busy_ticks) != 0);
        close_bed();
    }
}

// Its own request, or one that it took of another core: it is idle no more, and a helper that rests is told.
static void test_z14_who_executes_is_idle_no_more(void **state)
{
    (void)state;
    for (uint32_t thief = 0; thief < 2; thief++) {
        for (int rests = 0; rests < 2; rests++) {
            int woken = -1;
            open_bed(thief ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION, 2);
            struct run_core *core = &run->core[thief];
            uint64_t idle = atomic_load(&core->idle_ticks);
            atomic_store(&run->helper_rests, rests != 0);
            atomic_store(&core->idle_since, run_ticks() - 1000);
            play(thief); // there is nothing
            assert_true(atomic_load(&core->idle_since) != 0 && atomic_load(&core->idle_ticks) == idle);
            arrive(BT_REQUEST, 1, 101);
            if (thief) {
                look();
            }
            play(thief);
            assert_int_equal(handled, 1);
            assert_true(atomic_load(&core->idle_since) == 0 && atomic_load(&core->idle_ticks) >= idle + 1000);
            assert_int_equal(sem_getvalue(&run->helper_wake, &woken), 0);
            assert_int_equal(woken, rests);
            play(0);
            close_bed();
        }
    }
}

// Behind a router, too, it is the client who asked.
static void test_a_request_says_who_asked_and_where(void **state)
{
    const struct bt_addr client = bt_addr_v4u(0x0a000001, 40000);
    (void)state;
    origins = true;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, 2);
    origins = false;
    for (uint16_t id = 300; id <= 301; id++) {
        arrive(BT_REQUEST, id, id);
        play(0);
        assert_true(bt_addr_eq(&asked_by, &client) && asked_as == id && asked_at == 8000);
    }
    assert_int_equal(net.replies, 2);
    close_bed();
}

// D-3: n of a lane.
static void test_d3_n_follows_threads_and_time(void **state)
{
    (void)state;
    assert_int_equal(bt_run_depth(1, 15000, 15000), 10);
    assert_int_equal(bt_run_depth(16, 15000, 10000), 48); // the figure of D-3: 16 cores, 15 µs, 10 µs
    assert_int_equal(bt_run_depth(16, 15000, 1000000), 25);
    assert_int_equal(bt_run_depth(16, 15000, 100), 64); // never more than a router gives
    assert_int_equal(bt_run_depth(1, 0, 0), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r272_waiting),
        cmocka_unit_test(test_r272_the_place_is_used_again),
        cmocka_unit_test(test_r272_stolen),
        cmocka_unit_test(test_r272_executed_at_home),
        cmocka_unit_test(test_r272_in_a_batch),
        cmocka_unit_test(test_replies_wait_for_buffers_to_completion),
        cmocka_unit_test(test_replies_wait_for_buffers_with_stealing),
        cmocka_unit_test(test_r272_places_are_bounded),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_z24_a_wake_is_passed_on),
        cmocka_unit_test(test_a_batch_that_lasts_answers_as_it_goes),
        cmocka_unit_test(test_z14_who_executes_is_idle_no_more),
        cmocka_unit_test(test_z24_who_is_roused),
        cmocka_unit_test(test_a_request_says_who_asked_and_where),
        cmocka_unit_test(test_d3_n_follows_threads_and_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
