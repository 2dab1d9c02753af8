// SPDX-License-Identifier: Apache-2.0
// Loans given and taken back on one processor while the program runs on another, and what it may be loaded with.
#include "fast/twins.h"

#include <bpf/bpf.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct twins twins;

static int open_twins(void **state)
{
    (void)state;
    twins_set_up(&twins, false);
    return 0;
}

static int close_twins(void **state)
{
    (void)state;
    twins_tear_down(&twins);
    return 0;
}

/* Programs on one processor against loans given and taken back on another: when a loan is back, what the kernel knows
 * is what the router knows, note by note. */
static atomic_bool stop;

static void *pester(void *arg)
{
    (void)arg;
    uint8_t frame[FRAME_MAX];
    uint32_t len = twins_request_frame(&twins, frame, BT_UDP_SUM_FULL);
    while (!stop) {
        uint8_t out[FRAME_MAX];
        LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = len, .data_out = out,
                    .data_size_out = FRAME_MAX, .repeat = 1);
        (void)bpf_prog_test_run_opts(bt_fast_program(twins.fast), &run);
    }
    return NULL;
}

/* All requests given so far are served. */
static void serve_all(uint64_t served[4])
{
    struct bed *b = &twins.lending;
    for (uint32_t w = 0; w < 4; w++) {
        uint64_t sent = bed_row(b, w).sent;
        if (sent != served[w]) {
            served[w] = sent;
            bed_feedback(b, w,
                         &(struct bed_report){.received = sent, .served = sent, .n = 3, .incarnation = 1, .flags = 0});
        }
    }
}

/* Until the other thread got so many decided, or has had the time. */
static void await_requests(uint64_t n)
{
    uint64_t until = twins_clock() + 20u * MS;
    while (twins.fast->log->head - twins.fast->tail < n && twins_clock() < until) {
        sched_yield();
    }
}

static void loans_race(void **state)
{
    (void)state;
    twins_need_program(&twins);
    pthread_t thread;
    uint64_t served[4] = {0}, most = 0;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, pester, NULL), 0);
    for (unsigned i = 0; i < SEEDS(1000u); i++) {
        twins.lending.now = twins_clock();
        bt_fast_turn(twins.fast, twins.lending.r, twins.lending.now, &twins.lending.out);
        await_requests(1u + i % 8u);
        twins.lending.now = twins_clock();
        bt_fast_take_back(twins.fast, twins.lending.r, twins.lending.now, &twins.lending.out);
        for (uint32_t w = 0; w < 4; w++) {
            struct bt_router_member_stats row = bed_row(&twins.lending, w);
            most = row.outstanding > most ? row.outstanding : most;
            if (twins.fast->cut_short) {
                assert_int_equal(twins.fast->seen.d.worker[w].given - twins.fast->seen.d.worker[w].served,
                                 row.outstanding);
            }
        }
        serve_all(served);
        bed_discard(&twins.lending);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(twins.fast->disagreed, 0);
    assert_int_equal(bed_counter(&twins.lending, BT_RC_FORWARDED), twins.fast->log->counters.requests);
    print_message("%llu requests in %llu loans\n", (unsigned long long)twins.fast->log->counters.requests,
                  (unsigned long long)twins.fast->loans);
    assert_in_range(most, 1, 3);
}

static bool keep_only(uint64_t capabilities)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    for (unsigned i = 0; i < 2; i++) {
        data[i].effective = data[i].permitted = (uint32_t)(capabilities >> 32u * i);
    }
    return syscall(SYS_capset, &head, data) == 0;
}

/* In a process of its own with these capabilities and no other: whether the program is loaded. */
static bool loads_with(uint64_t capabilities)
{
    pid_t child = fork();
    if (child == 0) {
        char why[256];
        const struct bt_fast_setup setup = {
            .request = twins.whole.requests, .feedback = twins.whole.feedback, .detached = true};
        _exit(keep_only(capabilities) && bt_fast_new(&setup, why, sizeof why) != NULL ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

/* What docs/guides/operations.md says of capabilities: no CAP_PERFMON, no CAP_SYS_ADMIN. */
static void two_capabilities(void **state)
{
    (void)state;
    twins_need_program(&twins);
    const uint64_t bpf = UINT64_C(1) << CAP_BPF, net = UINT64_C(1) << CAP_NET_ADMIN;
    assert_true(loads_with(bpf | net));
    assert_false(loads_with(bpf));
    assert_false(loads_with(net));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_capabilities, open_twins, close_twins),
        cmocka_unit_test_setup_teardown(loans_race, open_twins, close_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
