// SPDX-License-Identifier: Apache-2.0
// bobtail/serve.h over loopback: who executes what, what a handler may and may not do, what is counted, how it ends.
// The tests wait for events; none has a time in which something must have happened.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "unit.h"

#include "serve_bed.h"

enum { BIG = 300000 };

static struct {
    _Atomic int gate;   // handlers that wait for it go on when it is up
    _Atomic int inside; // handlers that wait
    _Atomic int most;   // that ever did at once
    _Atomic int ended;  // requests that end their thread
    _Atomic int named;  // calls of slow()
    _Atomic int thread; // it was told then
    char name[32];
} story;

enum what { ECHO = 1, WAIT = 1000, LEAVE = 2000, SILENT = 3000, TWICE = 4000, HUGE = 5000, WRITE = 6000, SPIN = 7000 };

static void wait_inside(void)
{
    int now = ++story.inside;
    if (now > story.most) {
        story.most = now;
    }
    while (!story.gate) {
        sched_yield();
    }
    story.inside--;
}

static void write_to(const struct bobtail_bytes *piece)
{
    *(volatile char *)(uintptr_t)piece->at = 'x';
}

static void handle(void *arg, struct bobtail_request *request)
{
    uint64_t serial = 0;
    int n;
    (void)arg;
    bobtail_request_copy(request, &serial, sizeof serial);
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    if (serial / 1000 == WAIT / 1000) {
        wait_inside();
    } else if (serial / 1000 == LEAVE / 1000) {
        story.ended++;
        pthread_exit(NULL);
    } else if (serial / 1000 == SILENT / 1000) {
        return;
    } else if (serial / 1000 == TWICE / 1000) {
        assert_int_equal(bobtail_reply(request, &serial, sizeof serial), 0);
        assert_int_equal(bobtail_reply(request, "no", 2), -1);
        return;
    } else if (serial / 1000 == HUGE / 1000) {
        static const char much[BIG * 2];
        assert_int_equal(bobtail_reply(request, much, sizeof much), -1);
        return;
    } else if (serial / 1000 == SPIN / 1000) {
        bed_spin(2000000);
    } else if (serial / 1000 == WRITE / 1000) {
        write_to(piece);
    }
    bobtail_reply_pieces(request, piece, n);
}

// Threads may be named at the same time.
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

static void slow(void *arg, const char *name, unsigned thread)
{
    (void)arg;
    pthread_mutex_lock(&naming);
    snprintf(story.name, sizeof story.name, "%s", name);
    story.thread = (int)thread;
    story.named++;
    pthread_mutex_unlock(&naming);
}

static struct bobtail_server_config config(enum bobtail_mode mode, uint16_t threads)
{
    memset(&story, 0, sizeof story);
    return (struct bobtail_server_config){.threads = threads,
                                          .mode = (uint8_t)mode,
                                          .queue_depth = 64,
                                          .max_message = BIG,
                                          .seed = 7,
                                          .name = "story",
                                          .slow = slow,
                                          .handler = handle};
}

static void until(struct bed_client *c, _Atomic int *what, int least)
{
    while (*what < least) {
        r2p2_endpoint_wait(c->ep, 1000);
        r2p2_endpoint_poll(c->ep);
    }
}

// Z-03: what arrives is executed and answered, of one packet and of many.
static void answers_of_every_size(enum bobtail_mode mode)
{
    static const char rest[BIG - 8];
    struct bed_client client;
    uint16_t port;
    struct bobtail_server *server = bed_serve(config(mode, 2), &port);
    bed_open(&client, false);
    for (size_t len = 0; len <= sizeof rest; len = len * 3 + 1) {
        assert_true(bed_call(&client, port, ECHO, rest, len));
        bed_await(&client, 0);
    }
    assert_int_equal(client.wrong + client.refused + client.late, 0);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

static void test_z03_answers_to_completion(void **state)
{
    (void)state;
    answers_of_every_size(BOBTAIL_RUN_TO_COMPLETION);
}

static void test_z20_answers_with_stealing(void **state)
{
    (void)state;
    answers_of_every_size(BOBTAIL_WORK_STEALING);
}

// Z-20, D-2: one port, one home; with k threads k requests are inside handlers at once, and the k-th is the last.
static void test_z20_every_thread_helps(void **state)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(BOBTAIL_WORK_STEALING, 3), &port);
    bed_open(&client, false);
    for (uint64_t i = 0; i < 5; i++) {
        assert_true(bed_call(&client, port, WAIT + i, NULL, 0));
    }
    until(&client, &story.inside, 3);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(story.most, 3);
    assert_int_equal(client.answered, 5);
    bobtail_server_read_counts(server, &counts);
    assert_true(counts.stolen > 0);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

// Z-03: without stealing a thread executes what came to its own port, one after the other, though another one is idle.
static void test_z03_nobody_helps_to_completion(void **state)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(BOBTAIL_RUN_TO_COMPLETION, 2), &port);
    bed_open(&client, false);
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(bed_call(&client, port, WAIT + i, NULL, 0));
    }
    until(&client, &story.inside, 1);
    assert_true(bed_call(&client, (uint16_t)(port + 1), ECHO, NULL, 0)); // the other one does its own meanwhile
    bed_await(&client, 4);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(story.most, 1);
    bobtail_server_read_counts(server, &counts);
    assert_int_equal(counts.stolen, 0);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

// While all threads are in handlers the server's own one serves the network: a request of many packets is asked for
// its others, which only a server that reads its port can do.
static void helper_serves(enum bobtail_mode mode)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    struct bobtail_server *server = bed_serve(config(mode, 1), &port);
    bed_open(&client, false);
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    until(&client, &story.inside, 1);
    do {
        bobtail_server_read_counts(server, &counts);
        r2p2_endpoint_wait(client.ep, 1000);
        r2p2_endpoint_poll(client.ep);
    } while (counts.assisted < 3);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(client.answered, 1);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

static void test_d2_the_network_is_served_while_all_are_in_handlers(void **state)
{
    (void)state;
    helper_serves(BOBTAIL_WORK_STEALING);
    helper_serves(BOBTAIL_RUN_TO_COMPLETION);
}

// Z-02: a handler over 10 ms is counted and named while it runs, once.
static void test_z02_a_slow_handler_is_named(void **state)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(BOBTAIL_WORK_STEALING, 1), &port);
    bed_open(&client, false);
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    until(&client, &story.named, 1);
    assert_int_equal(story.inside, 1);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(story.named, 1);
    assert_string_equal(story.name, "story");
    assert_int_equal(story.thread, 0);
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    bed_await(&client, 0);
    do { // it is counted, then named
        bobtail_server_read_counts(server, &counts);
    } while (counts.slow != (uint64_t)story.named);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

// A handler that ends its thread costs its request, and no other one.
static void thread_ends(enum bobtail_mode mode)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    struct bobtail_server *server = bed_serve(config(mode, 2), &port);
    bed_open(&client, false);
    for (uint64_t i = 0; i < 60; i++) {
        assert_true(bed_call(&client, port, i % 6 == 0 ? LEAVE + i : ECHO, NULL, 0));
    }
    bed_await(&client, 0);
    bobtail_server_read_counts(server, &counts);
    assert_int_equal(story.ended, 10);
    assert_int_equal(counts.died, 10);
    assert_int_equal(client.refused, 10);
    assert_int_equal(client.answered, 50);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

static void test_a_thread_that_ends_is_replaced(void **state)
{
    (void)state;
    thread_ends(BOBTAIL_RUN_TO_COMPLETION);
    thread_ends(BOBTAIL_WORK_STEALING);
}

// A handler that does not reply, that replies twice, that replies too much.
static void test_replies_that_are_none(void **state)
{
    struct bed_client client;
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(BOBTAIL_WORK_STEALING, 2), &port);
    bed_open(&client, false);
    assert_true(bed_call(&client, port, SILENT, NULL, 0));
    assert_true(bed_call(&client, port, HUGE, NULL, 0));
    bed_await(&client, 0);
    assert_int_equal(client.refused, 2);
    assert_true(bed_call(&client, port, TWICE, NULL, 0));
    bed_await(&client, 0);
    assert_int_equal(client.answered, 1);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

#ifndef __SANITIZE_THREAD__ // which does not let a process go on after fork with threads
// Z-07: a request's bytes are the network's. Writing to them ends the process, and not somebody else's request.
static void test_z07_requests_are_read_only(void **state)
{
    int status = 0;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct bed_client client;
        uint16_t port;
        struct bobtail_server *server = bed_serve(config(BOBTAIL_RUN_TO_COMPLETION, 1), &port);
        signal(SIGSEGV, SIG_DFL);
        bed_open(&client, false);
        bed_call(&client, port, WRITE, NULL, 0);
        bed_await(&client, 0);
        bobtail_server_close(server);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
#endif

// Drain: what was taken is answered, then there is nothing left; with a handler that does not end it says so.
static void test_drain_during_stealing(void **state)
{
    struct bed_client client;
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(BOBTAIL_WORK_STEALING, 3), &port);
    bed_open(&client, false);
    for (uint64_t i = 0; i < 40; i++) {
        assert_true(bed_call(&client, port, i < 2 ? WAIT : ECHO, NULL, 0));
    }
    until(&client, &story.inside, 2);
    assert_int_equal(bobtail_server_drain(server, 1), 0);
    story.gate = 1;
    assert_int_equal(bobtail_server_drain(server, 3600000), 1);
    bed_await(&client, 0);
    assert_int_equal(client.answered, 40);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

// Z-15, Z-16: threads are parked when there is nothing to do, and run again when requests wait; meanwhile every request
// is answered once. n follows them (D-3).
static void test_z15_threads_follow_the_load(void **state)
{
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    struct bobtail_server_config c = config(BOBTAIL_WORK_STEALING, 2);
    (void)state;
    c.min_threads = 1;
    struct bobtail_server *server = bed_serve(c, &port);
    bed_open(&client, false);
    do { // idle
        assert_true(bed_call(&client, port, ECHO, NULL, 0));
        bed_await(&client, 0);
        r2p2_endpoint_wait(client.ep, 20000);
        bobtail_server_read_counts(server, &counts);
    } while (counts.active != 1);
    assert_true(counts.parks >= 1);
    uint64_t i = 0;
    do { // more than one thread can do
        for (; client.under_way < 32; i++) {
            assert_true(bed_call(&client, port, SPIN + i % 1000, NULL, 0));
        }
        bed_await(&client, 16);
        bobtail_server_read_counts(server, &counts);
    } while (counts.active != 2);
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    until(&client, &story.inside, 2);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(client.wrong + client.refused + client.late, 0);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

static bool any_answered(struct bed_client *c, unsigned n)
{
    bool any = false;
    for (unsigned i = 0; i < n; i++) {
        r2p2_endpoint_wait(c[i].ep, 1000);
        r2p2_endpoint_poll(c[i].ep);
        any |= c[i].answered != 0;
    }
    return any;
}

// D-4: in order by client, what a client sent waits for what it sent before, while a thread is idle and executes what
// others send. Of four others at most three could share its flow by chance.
static void test_d4_one_after_the_other_by_client(void **state)
{
    enum { OTHERS = 4 };
    struct bed_client client, other[OTHERS];
    uint16_t port;
    struct bobtail_server_config c = config(BOBTAIL_WORK_STEALING, 2);
    (void)state;
    c.order = BOBTAIL_PER_CLIENT;
    struct bobtail_server *server = bed_serve(c, &port);
    bed_open(&client, false);
    assert_true(bed_call(&client, port, WAIT, NULL, 0));
    until(&client, &story.inside, 1);
    assert_true(bed_call(&client, port, ECHO, NULL, 0));
    for (unsigned i = 0; i < OTHERS; i++) {
        bed_open(&other[i], false);
        assert_true(bed_call(&other[i], port, ECHO, NULL, 0));
    }
    while (!any_answered(other, OTHERS)) {
    }
    r2p2_endpoint_poll(client.ep);
    assert_int_equal(client.answered, 0);
    story.gate = 1;
    bed_await(&client, 0);
    assert_int_equal(client.answered, 2);
    for (unsigned i = 0; i < OTHERS; i++) {
        bed_await(&other[i], 0);
        r2p2_endpoint_close(other[i].ep);
    }
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_z03_answers_to_completion),
        cmocka_unit_test(test_z20_answers_with_stealing),
        cmocka_unit_test(test_z20_every_thread_helps),
        cmocka_unit_test(test_z03_nobody_helps_to_completion),
        cmocka_unit_test(test_d2_the_network_is_served_while_all_are_in_handlers),
        cmocka_unit_test(test_z02_a_slow_handler_is_named),
        cmocka_unit_test(test_a_thread_that_ends_is_replaced),
        cmocka_unit_test(test_replies_that_are_none),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_z07_requests_are_read_only),
#endif
        cmocka_unit_test(test_drain_during_stealing),
        cmocka_unit_test(test_z15_threads_follow_the_load),
        cmocka_unit_test(test_d4_one_after_the_other_by_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
