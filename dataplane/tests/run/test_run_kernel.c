// SPDX-License-Identifier: Apache-2.0
// Connections of the kernel at a home played by hand: how they end, and how that is counted, whichever comes first;
// over IPv4 and IPv6. What several threads make of them is test_serve_tcp.c's.
#include "starve.h"
#include "unit.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/run_internal.h"
#include "run/tcp_wire.h"

enum { CONNECTIONS = 3, BODY = 20, REQUEST = BODY + 4, MUCH = 40000 };

static struct bt_run *run;
static unsigned handled;
static int resets; // the connection that is reset while its request 'r' is executed

/* A close that is a reset. */
static void reset(int fd)
{
    struct linger none = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
    close(fd);
}

/* A request that begins with 'm' is answered with much, any other one with itself. */
static void handle(void *arg, struct bobtail_request *request)
{
    static const char much[MUCH];
    char body[REQUEST];
    (void)arg;
    handled++;
    assert_int_equal(bobtail_request_length(request), REQUEST);
    assert_int_equal(bobtail_request_copy(request, body, sizeof body), REQUEST);
    if (body[4] == 'r') {
        reset(resets);
    }
    if (body[4] == 'p') { // a part of itself, which stays where it is until it was sent
        int n = 0;
        const struct bobtail_bytes *all = bobtail_request_bytes(request, &n);
        const uint8_t *at = all->at;
        assert_int_equal(n, 1);
        assert_int_equal(bobtail_reply(request, at + 4, BODY), 0);
        assert_true(request->reply == at + 4 && request->reply_len == BODY && request->heap == NULL);
        assert_int_equal(bobtail_reply(request, at + 4, BODY), -1); // once
        return;
    }
    if (body[4] == 's') { // for a short answer nothing is allocated but where it waits for its client
        starve_after(0);
    }
    assert_int_equal(body[4] == 'm' ? bobtail_reply(request, much, MUCH) : bobtail_reply(request, body, REQUEST), 0);
}

static struct bt_run *open_run(const struct bt_addr *at, char *why, size_t n)
{
    struct bt_run_tcp tcp = {.local = *at, .framing = BT_FRAMING_U32, .max_message = MUCH, .connections = CONNECTIONS};
    struct bt_run_setup setup = {.mode = BT_SCHED_RUN_TO_COMPLETION,
                                 .threads = 1,
                                 .batch = 64,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .name = "kernel",
                                 .handler = handle,
                                 .tcp = &tcp};
    return bt_run_open(&setup, why, n);
}

/* At some port that nobody has. */
static struct bt_addr begin_at(const char *address)
{
    struct bt_addr at;
    char why[256] = "";
    run = NULL;
    handled = 0;
    assert_int_equal(bt_addr_parse(address, 1, &at), 0);
    for (unsigned tries = 0; run == NULL && tries < 64; tries++) {
        at.port = (uint16_t)(20000 + (unsigned)(getpid() * 8) % 10000 + tries * 16);
        run = open_run(&at, why, sizeof why);
    }
    if (run == NULL) {
        fail_msg("%s", why);
    }
    return at;
}

static int dial(const struct bt_addr *to)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(to->port)};
    bool is_v4 = bt_addr_is_v4(to);
    memcpy(&v4.sin_addr, to->ip + 12, 4);
    memcpy(&v6.sin6_addr, to->ip, 16);
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        is_v4 ? connect(fd, (struct sockaddr *)&v4, sizeof v4) : connect(fd, (struct sockaddr *)&v6, sizeof v6), 0);
    return fd;
}

static void say(int fd, char mark, unsigned requests)
{
    uint8_t one[REQUEST] = {0, 0, 0, BODY, (uint8_t)mark};
    for (unsigned i = 0; i < requests; i++) {
        assert_int_equal(send(fd, one, sizeof one, MSG_NOSIGNAL), sizeof one);
    }
}

static void look(bool poll)
{
    assert_true(bt_sched_take(run->lane[0].sched, 0));
    run_home_turn(&run->home[0], NULL, poll);
}

static uint64_t counted(enum bt_run_tcp_counter which)
{
    uint64_t counts[BT_RUN_TCP_COUNTERS];
    bt_run_read_tcp(run, counts);
    return counts[which];
}

static const struct run_tcp *tcp(void)
{
    return run->home[0].tcp;
}

static void until(enum bt_run_tcp_counter which, uint64_t n)
{
    while (counted(which) < n) { // the test's own time limit ends it
        look(true);
    }
    assert_int_equal(counted(which), n);
}

static void execute(void)
{
    run_core_some(&run->core[0], 16);
}

static void end(uint64_t reset_ones)
{
    assert_int_equal(counted(BT_RUN_TCP_RESET), reset_ones);
    assert_int_equal(counted(BT_RUN_TCP_MALFORMED) + counted(BT_RUN_TCP_TOO_LONG) + counted(BT_RUN_TCP_CUT), 0);
    assert_int_equal(counted(BT_RUN_TCP_REFUSED) + counted(BT_RUN_TCP_MEMORY), 0);
    bt_run_close(run);
}

static void a_request_is_answered_at(const char *address)
{
    char answer[REQUEST];
    struct bt_addr at = begin_at(address);
    int fd = dial(&at);
    say(fd, 'e', 1);
    until(BT_RUN_TCP_REQUESTS, 1);
    execute();
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    assert_memory_equal(answer, "\0\0\0\24e", 5);
    close(fd);
    while (tcp()->open != 0) { // the test's own time limit ends it
        look(true);
    }
    assert_int_equal(handled, 1);
    end(0);
}

static void a_request_is_answered_with_a_part_of_itself(void **state)
{
    char answer[BODY];
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    say(fd, 'p', 1);
    until(BT_RUN_TCP_REQUESTS, 1);
    execute();
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    assert_memory_equal(answer, "p\0\0\0", 4);
    close(fd);
    assert_int_equal(handled, 1);
    end(0);
}

static void requests_are_answered_over_ipv4(void **state)
{
    (void)state;
    a_request_is_answered_at("127.0.0.1");
}

static void requests_are_answered_over_ipv6(void **state)
{
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool none = fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0;
    (void)state;
    close(fd);
    if (none) {
        skip(); // a machine without IPv6
    }
    a_request_is_answered_at("::1");
}

static void a_reset_is_read(void **state)
{
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    until(BT_RUN_TCP_ACCEPTED, 1);
    reset(fd);
    until(BT_RUN_TCP_RESET, 1);
    assert_int_equal(tcp()->open, 0);
    end(1);
}

/* It has as many requests as it may have: nothing is read of it, and its end is noticed all the same. */
static void a_reset_of_one_that_is_not_read_is_noticed(void **state)
{
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    say(fd, 'e', RUN_TCP_PER_TURN + 1);
    until(BT_RUN_TCP_REQUESTS, RUN_TCP_PER_TURN);
    reset(fd);
    until(BT_RUN_TCP_RESET, 1);
    assert_int_equal(tcp()->open, 1); // until its requests are over
    look(true);
    assert_false(run->home[0].tcp->wire->poll(run->home[0].tcp)); // and told of once only
    execute();
    assert_int_equal(handled, RUN_TCP_PER_TURN);
    assert_int_equal(tcp()->open, 0);
    assert_int_equal(counted(BT_RUN_TCP_REQUESTS), RUN_TCP_PER_TURN);
    end(1);
}

static void a_reset_is_noticed_by_the_answer(void **state)
{
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    resets = dial(&at);
    say(resets, 'r', 1);
    until(BT_RUN_TCP_REQUESTS, 1);
    execute();
    assert_int_equal(handled, 1);
    assert_int_equal(counted(BT_RUN_TCP_RESET), 1);
    assert_int_equal(tcp()->open, 0);
    end(1);
}

/* What does not go at once goes when the client takes it; meanwhile nothing more of it is executed than has a bound. */
static void answers_wait_for_their_client(void **state)
{
    enum { REQUESTS = 1000 };
    static char heard[65536];
    size_t n = 0;
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    say(fd, 'm', REQUESTS);
    unsigned before = 0;
    do { // until its client's taking nothing keeps it from going on
        before = handled;
        for (unsigned i = 0; i < 200; i++) {
            look(true);
            execute();
        }
    } while (handled != before || handled == 0);
    assert_true(handled < REQUESTS);
    assert_int_equal(bt_run_tcp_backlog(run), 1);
    while (n < (size_t)REQUESTS * MUCH) { // the test's own time limit ends it
        ssize_t k = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
        assert_true(k > 0 || (k < 0 && errno == EAGAIN));
        n += k > 0 ? (size_t)k : 0;
        look(true);
        execute();
    }
    assert_int_equal(n, (size_t)REQUESTS * MUCH);
    assert_int_equal(handled, REQUESTS);
    assert_int_equal(bt_run_tcp_backlog(run), 0);
    close(fd);
    end(0);
}

static void one_too_many_is_closed(void **state)
{
    char end_of[1];
    int fd[CONNECTIONS + 1];
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    for (unsigned i = 0; i <= CONNECTIONS; i++) {
        fd[i] = dial(&at);
    }
    until(BT_RUN_TCP_FULL, 1);
    assert_int_equal(counted(BT_RUN_TCP_ACCEPTED), CONNECTIONS);
    assert_int_equal(recv(fd[CONNECTIONS], end_of, 1, 0), 0);
    for (unsigned i = 0; i <= CONNECTIONS; i++) {
        close(fd[i]);
    }
    end(0);
}

/* What it was answered comes before the end, though it goes on to speak: an end with bytes unread would be a reset. */
static void one_that_says_nonsense_hears_its_answer_and_then_the_end(void **state)
{
    static const uint8_t too_long[4 + 30000] = {0xff, 0xff, 0xff, 0xff};
    char answer[REQUEST + 1];
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    say(fd, 'e', 1);
    assert_int_equal(send(fd, too_long, sizeof too_long, MSG_NOSIGNAL), sizeof too_long);
    for (int unread = 1; unread != 0;) { // all of it is here
        assert_int_equal(ioctl(fd, SIOCOUTQ, &unread), 0);
    }
    until(BT_RUN_TCP_TOO_LONG, 1);
    assert_int_equal(tcp()->open, 1);
    execute();
    while (tcp()->open != 0) { // the test's own time limit ends it
        look(true);
    }
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), REQUEST);
    assert_memory_equal(answer, "\0\0\0\24e", 5);
    assert_int_equal(recv(fd, answer, 1, 0), 0);
    assert_int_equal(counted(BT_RUN_TCP_TOO_LONG), 1);
    assert_int_equal(counted(BT_RUN_TCP_RESET) + counted(BT_RUN_TCP_REFUSED) + counted(BT_RUN_TCP_CUT), 0);
    close(fd);
    bt_run_close(run);
}

static void one_that_ends_inside_a_request_is_counted(void **state)
{
    char end_of[1];
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    int fd = dial(&at);
    assert_int_equal(send(fd, "\0\0", 2, MSG_NOSIGNAL), 2);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    until(BT_RUN_TCP_CUT, 1);
    assert_int_equal(tcp()->open, 0);
    assert_int_equal(recv(fd, end_of, 1, 0), 0);
    assert_int_equal(counted(BT_RUN_TCP_REQUESTS) + counted(BT_RUN_TCP_RESET), 0);
    close(fd);
    bt_run_close(run);
}

/* Its client is told by the end, and others are served. */
static void a_client_for_which_there_is_no_memory_is_given_up(void **state)
{
    char end_of[1];
    struct bt_addr at = begin_at("127.0.0.1");
    (void)state;
    for (uint64_t i = 1; i <= 2; i++) { // before its request, and behind it
        int fd = dial(&at);
        until(BT_RUN_TCP_ACCEPTED, i);
        say(fd, 's', 1);
        if (i == 1) {
            starve_after(0);
        }
        while (tcp()->open != 0) { // the test's own time limit ends it
            look(true);
            execute();
        }
        assert_true(starve_ended());
        assert_int_equal(recv(fd, end_of, 1, 0), 0);
        assert_int_equal(counted(BT_RUN_TCP_MEMORY), i);
        assert_int_equal(handled, i - 1);
        close(fd);
    }
    assert_int_equal(counted(BT_RUN_TCP_RESET) + counted(BT_RUN_TCP_REFUSED), 0);
    bt_run_close(run);
    a_request_is_answered_at("127.0.0.1");
}

static void without_memory_nobody_listens(void **state)
{
    struct bt_addr at = bt_addr_v4u(0x7f000001, 0);
    char why[256];
    unsigned n = 0;
    (void)state;
    for (run = NULL; run == NULL; n++) {
        starve_after(n);
        run = open_run(&at, why, sizeof why);
        assert_true(starve_ended() == (run == NULL));
        assert_true(run != NULL || strcmp(why, "out of memory for 1 threads") == 0);
    }
    assert_true(n > 6);
    bt_run_close(run);
}

static void an_address_of_others_is_refused(void **state)
{
    struct bt_addr at;
    char why[256] = "";
    (void)state;
    assert_int_equal(bt_addr_parse("192.0.2.77", 1, &at), 0);
    at.port = 7000;
    assert_null(open_run(&at, why, sizeof why));
    assert_string_equal(why, "cannot listen on TCP 192.0.2.77:7000: Cannot assign requested address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered_over_ipv4),
        cmocka_unit_test(requests_are_answered_over_ipv6),
        cmocka_unit_test(a_request_is_answered_with_a_part_of_itself),
        cmocka_unit_test(a_reset_is_read),
        cmocka_unit_test(a_reset_of_one_that_is_not_read_is_noticed),
        cmocka_unit_test(a_reset_is_noticed_by_the_answer),
        cmocka_unit_test(answers_wait_for_their_client),
        cmocka_unit_test(one_too_many_is_closed),
        cmocka_unit_test(one_that_says_nonsense_hears_its_answer_and_then_the_end),
        cmocka_unit_test(one_that_ends_inside_a_request_is_counted),
        cmocka_unit_test(a_client_for_which_there_is_no_memory_is_given_up),
        cmocka_unit_test(without_memory_nobody_listens),
        cmocka_unit_test(an_address_of_others_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
