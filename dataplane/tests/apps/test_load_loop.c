// SPDX-License-Identifier: Apache-2.0
// The loop of bobtail-load: what is offered when, whatever the service does, and how a run ends.
#include "load_bed.h"

#include "shell/stop.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(void)
{
    load_bed_open(1, 1);
    load_loop(&bed.app);
}

static void requests_leave_at_fixed_times_and_those_of_the_warmup_do_not_count(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    app->opt.warmup_ns = 10 * MS;
    uint64_t start = bed.now;
    run();
    assert_int_equal(bed.sent, 109); // after 1, 2 … 109 ms; the one after 110 ms is past the end
    for (unsigned i = 0; i < bed.sent; i++) {
        assert_int_equal(bed.when[i], start + (i + 1) * MS);
    }
    assert_int_equal(app->tally.offered, 100); // from 10 ms on
    assert_int_equal(app->tally.completed, 100);
    assert_int_equal(app->hist.bucket[bt_hist_index(MS)], 100);
    assert_int_equal(app->start_ns, start);
    assert_int_equal(app->measure_ns, start + 10 * MS);
    assert_int_equal(app->end_ns, start + 110 * MS);
    assert_true(app->stopping);
    assert_int_equal(app->second.offered, 0); // reported
    load_bed_close();
}

// The gaps of a Poisson process have the mean that was asked for, and as often as not are shorter than 0.69 of it.
static void gaps_are_exponential_when_asked_for(void **state)
{
    struct load_app *app = &bed.app;
    unsigned shorter = 0;
    (void)state;
    load_bed_new();
    app->opt.arrivals = ARRIVALS_POISSON;
    app->opt.duration_ns = 3000 * MS;
    uint64_t before = bed.now;
    run();
    assert_in_range(bed.sent, 2800, 3200); // the seed is fixed
    for (unsigned i = 0; i < bed.sent; i++) {
        shorter += bed.when[i] - before < 693147;
        before = bed.when[i];
    }
    assert_in_range(shorter, bed.sent * 45 / 100, bed.sent * 55 / 100);
    load_bed_close();
}

static void a_slow_service_is_offered_no_less(void **state)
{
    (void)state;
    load_bed_new();
    bed.takes_ns = 50 * MS;
    bed.app.opt.timeout_ns = 60 * MS;
    run();
    assert_int_equal(bed.app.tally.offered, 99);
    assert_int_equal(bed.app.tally.completed, 99); // those of the end were waited for
    assert_int_equal(bed.app.hist.bucket[bt_hist_index(50 * MS)], 99);
    load_bed_close();
    load_bed_new();
    bed.peer = PEER_IS_SILENT;
    run();
    assert_int_equal(bed.app.tally.offered, 99);
    assert_int_equal(bed.app.tally.timeouts, 99);
    assert_int_equal(bed.app.hist.inf, 99);
    load_bed_close();
}

static void sleep_late(unsigned n)
{
    if (n == 20) {
        bed.now += 70 * MS;
    }
}

// A generator that was away sends all that was due meanwhile, and their latency counts from when they were due.
static void what_was_due_while_it_was_away_is_sent_and_was_late(void **state)
{
    (void)state;
    load_bed_new();
    bed.on_wait = sleep_late;
    bed.app.opt.pending = 200;
    run();
    assert_int_equal(bed.app.tally.offered, 99);
    assert_int_equal(bed.app.tally.completed, 99);
    uint64_t late = 0;
    for (uint32_t i = bt_hist_index(60 * MS); i < BT_HIST_BUCKETS; i++) {
        late += bed.app.hist.bucket[i];
    }
    assert_in_range(late, 9, 13);
    load_bed_close();
}

static unsigned in_one_turn;

static void count_turn(unsigned n)
{
    static unsigned before;
    unsigned sent = bed.sent - (n == 1 ? 0 : before);
    before = bed.sent;
    in_one_turn = sent > in_one_turn ? sent : in_one_turn;
    bed.now += n == 1 ? 99 * MS : 0;
}

static void at_most_64_leave_before_replies_are_looked_at(void **state)
{
    (void)state;
    load_bed_new();
    bed.on_wait = count_turn;
    bed.app.opt.pending = 200;
    run();
    assert_int_equal(bed.app.tally.offered, 99);
    assert_int_equal(in_one_turn, 64);
    load_bed_close();
}

// Replies that had come when the loop was away for longer than the timeout are no timeouts.
static void away_for_long(unsigned n)
{
    if (bed.sent == 5 && bed.answers.head != NULL) {
        bed.now += 30 * MS;
    }
    (void)n;
}

static void an_answer_that_is_here_does_not_time_out(void **state)
{
    (void)state;
    load_bed_new();
    bed.on_wait = away_for_long;
    run();
    assert_int_equal(bed.app.tally.timeouts, 0);
    assert_int_equal(bed.app.tally.completed, 99);
    load_bed_close();
}

static void new_routers_and_lost_ones_are_followed(void **state)
{
    struct load_app *app = &bed.app;
    (void)state;
    load_bed_new();
    load_bed_open(1, 1);
    app->resolver.list.n = 2;
    app->resolver.list.addr[0] = load_bed_router(1);
    app->resolver.list.addr[1] = load_bed_router(2);
    app->resolver.version = 1;
    load_loop(app);
    assert_int_equal(app->list_version, 1);
    assert_int_equal(app->list.n, 2);
    assert_int_equal(app->moves, 1);
    assert_int_equal(app->routers[0].sent, 1); // before the new list was looked at
    assert_int_equal(app->routers[1].sent, 98);
    load_bed_close();
    load_bed_new();
    load_bed_open(1, 2);
    bed.event[0] = bed.event[1] = (struct bt_io_event){.peer = load_bed_router(0)};
    bed.events = 2;
    load_loop(app);
    assert_int_equal(app->moves, 1);
    assert_int_equal(app->routers[1].sent, 99);
    load_bed_close();
}

static void a_report_is_made_every_second(void **state)
{
    struct load_app *app = &bed.app;
    char text[8000] = "";
    (void)state;
    load_bed_new();
    app->opt.duration_ns = 2500 * MS;
    app->slices_file = tmpfile();
    assert_non_null(app->slices_file);
    run();
    rewind(app->slices_file);
    assert_true(fread(text, 1, sizeof text - 1, app->slices_file) > 0);
    fclose(app->slices_file);
    static const char *const lines[] = {"{\"second\":1.000,\"offered\":1000,\"sent\":1000,\"completed\":999,",
                                        "{\"second\":2.000,\"offered\":1000,\"sent\":1000,\"completed\":1000,",
                                        "{\"second\":2.500,\"offered\":499,\"sent\":499,\"completed\":500,"};
    const char *at = text;
    for (unsigned i = 0; i < 3; i++) {
        if (at == NULL || strncmp(at, lines[i], strlen(lines[i])) != 0) {
            fail_msg("%s", text);
        }
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    load_bed_close();
}

// --- signals: in processes of their own, since a program is told to stop but once

static unsigned signals;

static void told_to_stop(unsigned n)
{
    if (n == 30) {
        for (unsigned i = 0; i < signals; i++) {
            raise(SIGTERM);
        }
    }
}

// 0 as it should be.
static int stopped_story(void)
{
    load_bed_new();
    bed.on_wait = told_to_stop;
    bed.takes_ns = 7 * MS;
    bt_stop_install(&bed.io);
    run();
    const struct load_tally *t = &bed.app.tally;
    bool waited = t->completed == t->offered && t->errors == 0;
    bool at_once = t->errors == 7 && bed.app.error_codes[-BT_RPC_CANCELLED] == 7;
    bool early = t->offered < 50 && bed.app.end_ns < bed.app.start_ns + 50 * MS;
    load_bed_close();
    return !early ? 1 : signals == 1 ? !waited : !at_once;
}

static void one_signal_ends_the_offers_and_a_second_one_the_waiting(void **state)
{
    (void)state;
    for (signals = 1; signals <= 2; signals++) {
        int status = -1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(stopped_story());
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_leave_at_fixed_times_and_those_of_the_warmup_do_not_count),
        cmocka_unit_test(gaps_are_exponential_when_asked_for),
        cmocka_unit_test(a_slow_service_is_offered_no_less),
        cmocka_unit_test(what_was_due_while_it_was_away_is_sent_and_was_late),
        cmocka_unit_test(at_most_64_leave_before_replies_are_looked_at),
        cmocka_unit_test(an_answer_that_is_here_does_not_time_out),
        cmocka_unit_test(new_routers_and_lost_ones_are_followed),
        cmocka_unit_test(a_report_is_made_every_second),
        cmocka_unit_test(one_signal_ends_the_offers_and_a_second_one_the_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
