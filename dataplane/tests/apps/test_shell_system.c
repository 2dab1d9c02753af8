// SPDX-License-Identifier: Apache-2.0
// What the programs ask of the system: CPUs and networks of Linux sockets; and the lines of their logs.
#include "unit.h"

#include "captured.h"
#include "shell/cpus.h"
#include "shell/log.h"
#include "shell/network.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const struct bt_cli program = {.name = "program"};
static char said[2000];

static bool reads(const char *text, unsigned threads, struct bt_cpus *out)
{
    struct captured c = captured_begin(2);
    bool good = bt_cpus_read(&program, text, threads, out);
    captured_end(&c, said, sizeof said);
    return good;
}

static void refused(const char *text, unsigned threads, const char *why)
{
    struct bt_cpus cpus;
    char want[400];
    assert_false(reads(text, threads, &cpus));
    snprintf(want, sizeof want, "program: --cpus: %s; got \"%s\"\nTry 'program --help'.\n", why, text);
    assert_string_equal(said, want);
}

// The process may run on one CPU only while the test lasts.
static unsigned one_cpu(cpu_set_t *before)
{
    unsigned cpu = 0;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    while (!CPU_ISSET(cpu, before)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    return cpu;
}

static void a_list_of_cpus_is_of_those_it_may_run_on(void **state)
{
    static const char *const bad[] = {"", "x", "1,", ",1", "1-", "2-1", "-1", "1 ", "0x1", "1,,2"};
    cpu_set_t before;
    struct bt_cpus cpus;
    char text[40], why[200];
    unsigned cpu = one_cpu(&before);
    (void)state;
    assert_true(reads(NULL, 5, &cpus)); // nobody is pinned
    assert_int_equal(cpus.n, 0);
    snprintf(text, sizeof text, "%u", cpu);
    assert_true(reads(text, 1, &cpus));
    assert_int_equal(cpus.n, 1);
    assert_int_equal(cpus.cpu[0], cpu);
    refused(text, 2, "must name a CPU for each of the 2 threads");
    snprintf(text, sizeof text, "%u-%u", cpu, cpu);
    assert_true(reads(text, 1, &cpus));
    snprintf(text, sizeof text, "%u,%u", cpu, cpu);
    snprintf(why, sizeof why, "names CPU %u twice, two threads would wait for each other", cpu);
    refused(text, 1, why);
    snprintf(text, sizeof text, "%u-%u", cpu, cpu + 1);
    snprintf(why, sizeof why, "CPU %u is not one this process may run on, which are %u", cpu + 1, cpu);
    refused(text, 1, why);
    snprintf(why, sizeof why, "CPU 1024 is not one this process may run on, which are %u", cpu);
    refused("1024", 1, why);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (cpu == 1 && bad[i][0] == '1') {
            continue; // refused for what stands behind it all the same, but who asks first differs
        }
        assert_false(reads(bad[i], 1, &cpus));
    }
    refused("x", 1, "must be numbers of CPUs, such as 2,3 or 4-7");
    assert_true(bt_cpus_allowed(text, sizeof text) >= -1);
    snprintf(why, sizeof why, "%u", cpu);
    assert_string_equal(text, why);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void a_thread_is_pinned_to_its_cpu_or_it_is_told(void **state)
{
    cpu_set_t before, now;
    struct bt_cpus cpus = {.n = 0};
    (void)state;
    unsigned cpu = one_cpu(&before);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(bt_cpus_pin(&cpus, 0, pthread_self())); // nothing was asked for
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &before));
    cpus = (struct bt_cpus){.n = 2, .cpu = {1023, (uint16_t)cpu}};
    struct captured c = captured_begin(2);
    bool first = bt_cpus_pin(&cpus, 0, pthread_self()), second = bt_cpus_pin(&cpus, 1, pthread_self());
    captured_end(&c, said, sizeof said);
    assert_true(!first && second);
    assert_non_null(strstr(said, "error: --cpus: thread 0 cannot be pinned to CPU 1023: Invalid argument\n"));
    char line[80];
    snprintf(line, sizeof line, "info: thread 1 stays on CPU %u\n", cpu);
    assert_non_null(strstr(said, line));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_COUNT(&now) == 1 && CPU_ISSET(cpu, &now));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void a_list_of_cpus_is_written_as_far_as_it_fits(void **state)
{
    const struct bt_cpus cpus = {.n = 3, .cpu = {4, 5, 17}}, none = {.n = 0};
    char text[10];
    (void)state;
    bt_cpus_text(&cpus, text, sizeof text);
    assert_string_equal(text, "4,5,17");
    bt_cpus_text(&cpus, text, 4);
    assert_string_equal(text, "4,5");
    bt_cpus_text(&none, text, sizeof text);
    assert_string_equal(text, "");
}

static void sockets_are_a_network_with_packets_for_each_thread(void **state)
{
    struct bt_network_options o = bt_network_defaults();
    const struct bt_addr own = bt_addr_v4u(0x7f000001, 0);
    struct bt_ctl_device device, looked;
    struct bt_pkt *p[3];
    uint16_t mtu = 9;
    char why[200];
    (void)state;
    struct bt_network *n = bt_network_open(&o, &own, 2, 2);
    assert_non_null(n);
    assert_true(bt_network_pool(n, 0) != bt_network_pool(n, 1));
    p[0] = bt_pool_get(bt_network_pool(n, 0));
    p[1] = bt_pool_get(bt_network_pool(n, 0));
    p[2] = bt_pool_get(bt_network_pool(n, 1));
    assert_non_null(p[2]);
    assert_null(bt_pool_get(bt_network_pool(n, 0))); // so many were asked for
    assert_int_equal(bt_network_in_use(n), 3);
    for (unsigned i = 0; i < 3; i++) {
        bt_pool_put(bt_network_pool(n, i / 2), p[i]);
    }
    assert_int_equal(bt_network_in_use(n), 0);
    assert_true(bt_network_mtu(n, 0, &mtu));
    assert_int_equal(mtu, 0); // only the routes know
    assert_true(bt_network_mtu(n, 1400, &mtu));
    assert_int_equal(mtu, 1400);
    bt_network_describe(n, &o, &device);
    assert_true(device.device_node == -1 && device.memory_node == -1 && device.cpu_node == -1);
    device.mtu = 77;
    bt_network_look(n, &device, &looked);
    assert_int_equal(looked.mtu, 77);
    struct bt_io *io = bt_network_io(n, 1, &(struct bt_network_ports){&own, 1, false}, why, sizeof why);
    assert_non_null(io);
    io->ops->close(io);
    const struct bt_addr foreign = bt_addr_v4u(0xc0000201, 9);
    assert_null(bt_network_io(n, 0, &(struct bt_network_ports){&foreign, 1, false}, why, sizeof why));
    assert_non_null(strstr(why, "192.0.2.1:9"));
    bt_network_close(n);
}

// 0: it was told.
static int without_memory(void)
{
    struct bt_network_options o = bt_network_defaults();
    const struct bt_addr own = bt_addr_v4u(0x7f000001, 0);
    const struct rlimit little = {1 << 30, 1 << 30};
    struct captured c = captured_begin(2);
    if (setrlimit(RLIMIT_AS, &little) != 0 || bt_network_open(&o, &own, 1, 4194304) != NULL) {
        return 1;
    }
    captured_end(&c, said, sizeof said);
    return strstr(said, "error: cannot reserve address space for packet buffers; raise the limit (ulimit -v)\n") ==
           NULL;
}

static void a_network_that_is_too_large_is_refused(void **state)
{
    struct bt_network_options o = bt_network_defaults();
    const struct bt_addr own = bt_addr_v4u(0x7f000001, 0);
    int status = -1;
    (void)state;
    struct captured c = captured_begin(2);
    struct bt_network *n = bt_network_open(&o, &own, BT_NETWORK_THREADS + 1, 1);
    captured_end(&c, said, sizeof said);
    assert_null(n);
    assert_non_null(strstr(said, "error: cannot open a network for 17 threads\n"));
    n = bt_network_open(&o, &own, BT_NETWORK_THREADS, 1);
    assert_non_null(n);
    bt_network_close(n);
#ifndef __SANITIZE_ADDRESS__ // which has terabytes of its own
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(without_memory());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
#else
    (void)status;
    (void)without_memory;
#endif
}

static void a_line_of_text_has_its_time_program_and_level(void **state)
{
    (void)state;
    bt_log_init("some-program", BT_LOG_TEXT);
    struct captured c = captured_begin(2);
    bt_log_info("%d one", 1);
    bt_log_warn("two");
    bt_log_error("three");
    captured_end(&c, said, sizeof said);
    unsigned at[7] = {0};
    int end = 0;
    assert_int_equal(sscanf(said, "20%2u-%2u-%2uT%2u:%2u:%2u.%3uZ some-program info: 1 one%n", &at[0], &at[1], &at[2],
                            &at[3], &at[4], &at[5], &at[6], &end),
                     7);
    assert_int_equal(end, 24 + strlen(" some-program info: 1 one"));
    assert_non_null(strstr(said, "Z some-program warn: two\n20"));
    assert_non_null(strstr(said, "Z some-program error: three\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_cpus_is_of_those_it_may_run_on),
        cmocka_unit_test(a_thread_is_pinned_to_its_cpu_or_it_is_told),
        cmocka_unit_test(a_list_of_cpus_is_written_as_far_as_it_fits),
        cmocka_unit_test(sockets_are_a_network_with_packets_for_each_thread),
        cmocka_unit_test(a_network_that_is_too_large_is_refused),
        cmocka_unit_test(a_line_of_text_has_its_time_program_and_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
