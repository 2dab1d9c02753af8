// SPDX-License-Identifier: Apache-2.0
// Items on several processes: what a worker that crashes, cannot be replaced or loses its parent leaves behind.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "parallel.h"

enum { ITEMS = 8, CRASHES = 3, NOBODY = 65534 };

static void crash_on_one(const void *ctx, uint32_t i, void *result)
{
    (void)ctx;
    if (i == CRASHES) {
        abort();
    }
    *(uint32_t *)result = i * i;
}

static void a_crashing_item_loses_itself_only(void **state)
{
    (void)state;
    uint32_t out[ITEMS];
    int signals[ITEMS];
    assert_int_equal(
        sim_parallel(2, &(struct sim_items){.n = ITEMS, .size = sizeof out[0], .fn = crash_on_one, .ctx = NULL}, out,
                     signals),
        1);
    for (uint32_t i = 0; i < ITEMS; i++) {
        assert_int_equal(signals[i], i == CRASHES ? SIGABRT : 0);
        if (i != CRASHES) {
            assert_int_equal(out[i], i * i);
        }
    }
}

/* Sees to it that the parent can have no other child, and crashes. */
static void crash_for_good(const void *ctx, uint32_t i, void *result)
{
    const struct rlimit none = {0, 0};
    if (i == CRASHES && prlimit(getppid(), RLIMIT_NPROC, &none, NULL) != 0) {
        return; // the test fails: nothing was lost
    }
    crash_on_one(ctx, i, result);
}

/* The exit code: 0 if what was not run is known as such. */
static int lose_the_last_worker(void)
{
    uint32_t out[ITEMS];
    int signals[ITEMS];
    if (geteuid() == 0 && setuid(NOBODY) != 0) { // root has no such limit
        return 1;
    }
    if (sim_parallel(1, &(struct sim_items){.n = ITEMS, .size = sizeof out[0], .fn = crash_for_good, .ctx = NULL}, out,
                     signals) != ITEMS - CRASHES) {
        return 2;
    }
    for (int i = 0; i < ITEMS; i++) {
        if (signals[i] != (i < CRASHES ? 0 : i == CRASHES ? SIGABRT : -1)) {
            return 3 + i;
        }
    }
    return 0;
}

static void what_no_process_ran_is_not_taken_for_done(void **state)
{
    int status = -1;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(lose_the_last_worker());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void tell_and_hang(const void *ctx, uint32_t i, void *result)
{
    volatile pid_t *worker = *(volatile pid_t *const *)ctx;
    (void)i;
    (void)result;
    *worker = getpid();
    alarm(60); // whatever the test finds, it leaves nothing behind
    pause();
}

/* Tries until it becomes true, ten seconds at most. */
static bool soon(bool (*is)(const void *), const void *ctx)
{
    for (int i = 0; i < 10000 && !is(ctx); i++) {
        usleep(1000);
    }
    return is(ctx);
}

static bool is_known(const void *ctx)
{
    return *(volatile const pid_t *)ctx != 0;
}

struct gone {
    pid_t pid;
    int *status;
};

static bool is_gone(const void *ctx)
{
    const struct gone *g = ctx;
    static pid_t reaped;
    if (reaped != g->pid && waitpid(g->pid, g->status, WNOHANG) == g->pid) {
        reaped = g->pid;
    }
    return reaped == g->pid;
}

/* A time-out kills the program; its workers must not go on without it. */
static void workers_die_with_their_parent(void **state)
{
    pid_t *worker = sim_shared(sizeof *worker);
    int status = 0;
    (void)state;
    assert_non_null(worker);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1UL), 0); // orphans become ours
    pid_t middle = fork();
    assert_true(middle >= 0);
    if (middle == 0) {
        uint32_t out;
        sim_parallel(1, &(struct sim_items){.n = 1, .size = sizeof out, .fn = tell_and_hang, .ctx = &worker}, &out,
                     NULL);
        _exit(0);
    }
    assert_true(soon(is_known, worker));
    assert_int_equal(kill(middle, SIGKILL), 0);
    assert_int_equal(waitpid(middle, &status, 0), middle);
    struct gone gone = {*worker, &status};
    if (!soon(is_gone, &gone)) {
        kill(*worker, SIGKILL);
        fail_msg("process %d outlived its parent", (int)*worker);
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crashing_item_loses_itself_only),
        cmocka_unit_test(what_no_process_ran_is_not_taken_for_done),
        cmocka_unit_test(workers_die_with_their_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
