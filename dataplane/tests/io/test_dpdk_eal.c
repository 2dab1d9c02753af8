// SPDX-License-Identifier: Apache-2.0
// The arguments that DPDK's environment is started with. The linker puts these in front of DPDK's start and of what is
// asked about hugepages (--wrap): the arguments are looked at here, and nothing is started.
#include "unit.h"

#include "io/dpdk_internal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static struct {
    uint64_t free, usable;
    bool may_choose_nodes;
} machine;

static struct {
    char args[2000]; // with a blank behind each
    int n, starts, result;
} given;

static char said[400];

int __wrap_rte_eal_init(int argc, char **argv);
uint64_t __wrap_bt_dpdk_free_hugepages(void);
uint64_t __wrap_bt_dpdk_usable_hugepages(uint64_t want_mib);
bool __wrap_bt_dpdk_may_choose_nodes(void);

int __wrap_rte_eal_init(int argc, char **argv)
{
    size_t at = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < argc; i++) {
        at += (size_t)snprintf(given.args + at, sizeof given.args - at, "%s ", argv[i]);
    }
    assert_null(argv[argc]);
    for (unsigned c = 0; c < CPU_SETSIZE; c++) { // DPDK leaves the thread on a CPU of its own choice
        CPU_ZERO(&one);
        CPU_SET(c, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) {
            break;
        }
    }
    given.n = argc;
    given.starts++;
    rte_errno = ENODEV;
    return given.result;
}

uint64_t __wrap_bt_dpdk_free_hugepages(void)
{
    return machine.free;
}

uint64_t __wrap_bt_dpdk_usable_hugepages(uint64_t want_mib)
{
    return machine.usable < want_mib ? machine.usable : want_mib;
}

bool __wrap_bt_dpdk_may_choose_nodes(void)
{
    return machine.may_choose_nodes;
}

static void say(const char *line)
{
    snprintf(said, sizeof said, "%s", line);
}

// A start that DPDK refuses, after which another one may be tried.
static void start_refused(struct bt_dpdk_eal cfg, char err[600])
{
    given.args[0] = said[0] = err[0] = '\0';
    given.n = given.starts = 0;
    given.result = -1;
    cfg.log = say;
    assert_int_equal(bt_dpdk_start(&cfg, err, 600), -1);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

static void assert_has_not(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" is in \"%s\"", part, text);
    }
}

// The CPUs of this thread as DPDK is told of them.
static void lcores_here(char text[6 * CPU_SETSIZE])
{
    cpu_set_t may;
    size_t at = (size_t)sprintf(text, "--lcores=0@(");
    const char *comma = "";
    assert_int_equal(sched_getaffinity(0, sizeof may, &may), 0);
    for (unsigned c = 0; c < CPU_SETSIZE; c++) {
        if (CPU_ISSET(c, &may)) {
            at += (size_t)sprintf(text + at, "%s%u", comma, c);
            comma = ",";
        }
    }
    sprintf(text + at, ") ");
}

static void only_the_device_asked_for_is_looked_at(void **state)
{
    static const struct {
        const char *port, *has, *has_not;
    } rows[] = {
        {"net_memif0,role=client", "--no-pci --iova-mode=va ", "--allow"},
        {"0000:05:00.0,arg=1", "--allow=0000:05:00.0 ", "--no-pci"},
        {"05:00.1", "--allow=05:00.1 ", "--iova-mode"},
        {NULL, "--no-pci ", "--allow"},
    };
    char err[600];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start_refused(
            (struct bt_dpdk_eal){.port = rows[i].port != NULL ? rows[i].port : "", .hugepages = BT_DPDK_HUGEPAGES_OFF},
            err);
        assert_memory_equal(given.args, "bobtail --no-telemetry --log-level=*:error ", 43);
        assert_has(given.args, rows[i].has);
        assert_has_not(given.args, rows[i].has_not);
    }
}

// One lcore over all CPUs of the thread, or over those that are named; and the thread has afterwards what it had.
static void the_thread_keeps_its_cpus(void **state)
{
    char lcores[6 * CPU_SETSIZE];
    char after[6 * CPU_SETSIZE];
    char err[600];
    (void)state;
    lcores_here(lcores);
    start_refused((struct bt_dpdk_eal){.port = "net_ring", .cpus = ""}, err);
    assert_has(given.args, lcores);
    lcores_here(after);
    assert_string_equal(after, lcores);
    start_refused((struct bt_dpdk_eal){.port = "net_ring", .cpus = "2,3"}, err);
    assert_has(given.args, "--lcores=0@(2,3) ");
    assert_has_not(given.args, lcores);
    lcores_here(after);
    assert_string_equal(after, lcores);
}

static void memory_is_of_hugepages_where_they_are_granted(void **state)
{
    static const struct {
        enum bt_dpdk_hugepages mode;
        uint64_t free, usable;
        bool nodes;
        const char *args, *says; // args NULL: refused
    } rows[] = {
        {BT_DPDK_HUGEPAGES_AUTO, 100, 100, true, "--in-memory -m 100 ", "DPDK: 100 MiB of hugepages"},
        {BT_DPDK_HUGEPAGES_ON, 100, 100, false, "--in-memory -m 100 ",
         "DPDK: 100 MiB of hugepages, on the NUMA nodes that the kernel chooses"},
        {BT_DPDK_HUGEPAGES_OFF, 500, 500, true, "--no-huge --no-shconf -m 100 ",
         "DPDK: 100 MiB of ordinary memory (as told)"},
        {BT_DPDK_HUGEPAGES_AUTO, 99, 99, true, "--no-huge --no-shconf -m 100 ",
         "DPDK: 100 MiB of ordinary memory (not enough hugepages are free)"},
        {BT_DPDK_HUGEPAGES_AUTO, 100, 99, true, "--no-huge --no-shconf -m 100 ",
         "DPDK: 100 MiB of ordinary memory (100 MiB of hugepages are free, and 99 MiB of the 100 wanted are granted: "
         "the cgroup's limit is lower, or others have reserved them)"},
        {BT_DPDK_HUGEPAGES_ON, 100, 99, true, NULL,
         "100 MiB of hugepages are wanted, 100 MiB are free and 99 MiB granted to this process; reserve more"},
        {BT_DPDK_HUGEPAGES_ON, 99, 500, true, NULL, "100 MiB of hugepages are wanted, 99 MiB are free and 99 MiB "},
    };
    char err[600];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        machine.free = rows[i].free;
        machine.usable = rows[i].usable;
        machine.may_choose_nodes = rows[i].nodes;
        start_refused((struct bt_dpdk_eal){.port = "net_ring", .hugepages = rows[i].mode, .memory_mib = 100}, err);
        assert_int_equal(given.starts, rows[i].args != NULL);
        if (rows[i].args != NULL) {
            assert_has(given.args, rows[i].args);
            assert_string_equal(said, rows[i].says);
        } else {
            assert_has(err, rows[i].says);
        }
    }
}

// Of so many buffers, or of as many as a device has by itself: an ordinary page holds one.
static void memory_is_as_much_as_the_buffers_need(void **state)
{
    char err[600];
    (void)state;
    assert_int_equal(bt_dpdk_memory(256, false), 1 + 24);
    assert_int_equal(bt_dpdk_memory(257, false), 2 + 24);
    assert_int_equal(bt_dpdk_memory(0, false), BT_DPDK_DEFAULT_BUFFERS / 256 + 24);
    assert_int_equal(bt_dpdk_memory(0, true), bt_dpdk_memory(BT_DPDK_DEFAULT_BUFFERS, true));
    size_t least = sizeof(struct rte_mbuf) + BT_DPDK_PRIV_BYTES + RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER;
    size_t bytes = ((size_t)bt_dpdk_memory(1u << 20, true) - 24) << 20;
    assert_in_range(bytes >> 20, least + 64, least + 300); // with what DPDK adds to each
    machine.free = machine.usable = 0;
    start_refused((struct bt_dpdk_eal){.port = "net_ring", .buffers = 512}, err);
    assert_has(given.args, "-m 26 ");
    machine.free = machine.usable = 10000;
    uint32_t wanted = bt_dpdk_memory(512, true);
    char memory[40];
    snprintf(memory, sizeof memory, "--in-memory -m %u ", wanted);
    start_refused((struct bt_dpdk_eal){.port = "net_ring", .buffers = 512}, err);
    assert_has(given.args, memory);
    assert_int_equal(bt_dpdk_hugepages_mib(), wanted);
}

// Further arguments come last, because the last one wins; and what DPDK refuses is told with them.
static void extra_arguments_follow_ours(void **state)
{
    char err[600];
    (void)state;
    struct bt_dpdk_eal cfg = {.port = "net_ring", .hugepages = BT_DPDK_HUGEPAGES_OFF, .memory_mib = 7};
    start_refused(cfg, err);
    int ours = given.n;
    assert_has(err, "DPDK does not start: No such device");
    assert_has(err, "the extra arguments were \"\"");
    cfg.extra = "  --one \t-a two,b=1\t";
    start_refused(cfg, err);
    assert_int_equal(given.n, ours + 3);
    assert_has(given.args, "-m 7 --one -a two,b=1 ");
    assert_has(err, "the extra arguments were \"  --one \t-a two,b=1\t\"");
    assert_has_not(err, "kernel has no");
    cfg.port = "ffff:1f:1f.7,arg=1"; // of a PCI device the kernel is asked what stands against it
    start_refused(cfg, err);
    assert_has(err, "; the kernel has no PCI device ffff:1f:1f.7");
}

// As many arguments as fit, and not one more: the first that had no place is named.
static void an_argument_too_many_is_named(void **state)
{
    enum { MOST = 63 };
    char extra[400] = "";
    char err[600];
    (void)state;
    struct bt_dpdk_eal cfg = {.port = "net_ring", .hugepages = BT_DPDK_HUGEPAGES_OFF, .extra = extra};
    start_refused(cfg, err);
    int ours = given.n;
    for (int i = ours; i < MOST; i++) {
        snprintf(extra + strlen(extra), sizeof extra - strlen(extra), "-x%d ", i);
    }
    start_refused(cfg, err);
    assert_int_equal(given.n, MOST);
    assert_has(given.args, "-x62 ");
    strcat(extra, "--first --second");
    start_refused(cfg, err);
    assert_int_equal(given.starts, 0);
    char want[200];
    snprintf(want, sizeof want,
             "argument \"--first\" for DPDK is one too many: it is given at most 62, and %d are needed here", ours - 1);
    assert_string_equal(err, want);
}

// Last, because nothing is started after that.
static void it_is_started_once(void **state)
{
    char err[600] = "";
    struct bt_dpdk_eal cfg = {.port = "net_ring", .hugepages = BT_DPDK_HUGEPAGES_OFF};
    (void)state;
    given.starts = given.result = 0;
    assert_int_equal(bt_dpdk_start(&cfg, err, sizeof err), 0);
    assert_int_equal(bt_dpdk_start(&cfg, err, sizeof err), 0);
    assert_int_equal(given.starts, 1);
    assert_string_equal(err, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_device_asked_for_is_looked_at),
        cmocka_unit_test(the_thread_keeps_its_cpus),
        cmocka_unit_test(memory_is_of_hugepages_where_they_are_granted),
        cmocka_unit_test(memory_is_as_much_as_the_buffers_need),
        cmocka_unit_test(extra_arguments_follow_ours),
        cmocka_unit_test(an_argument_too_many_is_named),
        cmocka_unit_test(it_is_started_once),
    };
    return cmocka_run_group_tests_name("eal", tests, NULL, NULL);
}
