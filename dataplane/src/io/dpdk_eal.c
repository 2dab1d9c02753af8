// SPDX-License-Identifier: Apache-2.0
// Starting DPDK's environment: its arguments are put together here, so that a user gives a port and nothing else.
// No file is left behind, no telemetry socket opened, no PCI device but the one asked for is looked at, and the
// calling thread may use the CPUs it could use before.
#include "io/dpdk_internal.h"

#include <ctype.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 64
#define MIB      (1024u * 1024u)

struct args {
    char *v[MAX_ARGS];
    int n;
    char refused[80]; // the first that had no place
};

static bool eal_started;
static uint32_t eal_hugepages_mib;

void bt_dpdk_say(bt_dpdk_log log, const char *format, ...)
{
    char line[400];
    va_list args;
    if (log == NULL) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log(line);
}

// "0000:05:00.0" or "05:00.0", then nothing or ",arguments".
bool bt_dpdk_is_pci(const char *port)
{
    unsigned v[4];
    int end = 0;
    if (port == NULL) {
        return false;
    }
    bool full = sscanf(port, "%4x:%2x:%2x.%1u%n", &v[0], &v[1], &v[2], &v[3], &end) == 4;
    if (!full) {
        full = sscanf(port, "%2x:%2x.%1u%n", &v[0], &v[1], &v[2], &end) == 3;
    }
    return full && (port[end] == '\0' || port[end] == ',');
}

bool bt_dpdk_is_interface(const char *port)
{
    return port != NULL && strncmp(port, "net_af_xdp", 10) == 0;
}

bool bt_dpdk_interface_name(const char *port, char *name, size_t len)
{
    const char *at = strstr(port, ",iface=");
    if (at == NULL) {
        return false;
    }
    at += strlen(",iface=");
    snprintf(name, len, "%.*s", (int)strcspn(at, ","), at);
    return true;
}

uint32_t bt_dpdk_memory(uint32_t buffers, bool huge)
{
    // One buffer with its headers, which never crosses a page; and what ports, rings and the heap itself take.
    const size_t bytes = sizeof(struct rte_mbuf) + BT_DPDK_PRIV_BYTES + RTE_PKTMBUF_HEADROOM + BT_PKT_BUFFER + 192;
    const size_t one = huge ? bytes : 4096;
    return (uint32_t)((one * (buffers != 0 ? buffers : BT_DPDK_DEFAULT_BUFFERS) + MIB - 1) / MIB) + 24;
}

static void add(struct args *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct args *a, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
    }
    va_end(args);
    if (text != NULL && a->n < MAX_ARGS - 1) {
        a->v[a->n++] = text;
        return;
    }
    if (a->refused[0] == '\0') {
        snprintf(a->refused, sizeof a->refused, "%s", text != NULL ? text : format);
    }
    free(text);
}

// One lcore that floats over the CPUs this thread may use, or over those of --cpus: DPDK would pin it to one of its own
// choice. Its own threads go where no lcore is, if there is such a place.
static void add_lcore(struct args *a, const char *cpus, const cpu_set_t *may)
{
    char list[6 * CPU_SETSIZE] = ""; // all of them with their commas
    size_t n = 0;
    if (cpus != NULL && cpus[0] != '\0') {
        add(a, "--lcores=0@(%s)", cpus);
        return;
    }
    for (unsigned c = 0; c < CPU_SETSIZE; c++) {
        if (CPU_ISSET(c, may)) {
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%u", n != 0 ? "," : "", c);
        }
    }
    if (n != 0) {
        add(a, "--lcores=0@(%s)", list);
    }
}

// What the machine has free, and this process gets of it.
struct pages {
    uint64_t free, usable;
};

static struct pages look_for_pages(uint32_t want)
{
    struct pages p = {.free = bt_dpdk_free_hugepages()};
    p.usable = p.free >= want ? bt_dpdk_usable_hugepages(want) : p.free;
    return p;
}

static const char *why_no_pages(const struct bt_dpdk_eal *cfg, const struct pages *p, uint32_t want, char text[200])
{
    if (cfg->hugepages == BT_DPDK_HUGEPAGES_OFF) {
        return "as told";
    }
    if (p->free < want) {
        return "not enough hugepages are free";
    }
    snprintf(text, 200,
             "%" PRIu64 " MiB of hugepages are free, and %" PRIu64
             " MiB of the %u wanted are granted: the cgroup's limit "
             "is lower, or others have reserved them",
             p->free, p->usable, want);
    return text;
}

static int add_memory(struct args *a, const struct bt_dpdk_eal *cfg, char *err, size_t errlen)
{
    uint32_t want = cfg->memory_mib != 0 ? cfg->memory_mib : bt_dpdk_memory(cfg->buffers, true);
    bool off = cfg->hugepages == BT_DPDK_HUGEPAGES_OFF;
    struct pages p = off ? (struct pages){0} : look_for_pages(want);
    char text[200];
    if (cfg->hugepages == BT_DPDK_HUGEPAGES_ON && p.usable < want) {
        snprintf(err, errlen,
                 "%u MiB of hugepages are wanted, %" PRIu64 " MiB are free and %" PRIu64
                 " MiB granted to this process; "
                 "reserve more (sysctl vm.nr_hugepages=N, a pod's limit hugepages-2Mi) or do without hugepages",
                 want, p.free, p.usable);
        return -1;
    }
    if (off || p.usable < want) {
        uint32_t ordinary = cfg->memory_mib != 0 ? want : bt_dpdk_memory(cfg->buffers, false);
        bt_dpdk_say(cfg->log, "DPDK: %u MiB of ordinary memory (%s)", ordinary, why_no_pages(cfg, &p, want, text));
        add(a, "--no-huge");
        add(a, "--no-shconf"); // --in-memory does not go with --no-huge
        add(a, "-m");
        add(a, "%u", ordinary);
    } else {
        bt_dpdk_say(cfg->log, "DPDK: %u MiB of hugepages%s", want,
                    bt_dpdk_may_choose_nodes() ? "" : ", on the NUMA nodes that the kernel chooses");
        eal_hugepages_mib = want;
        add(a, "--in-memory");
        add(a, "-m");
        add(a, "%u", want);
    }
    return 0;
}

uint32_t bt_dpdk_hugepages_mib(void)
{
    return eal_hugepages_mib;
}

static void add_extra(struct args *a, const char *extra)
{
    while (extra != NULL && *extra != '\0') {
        size_t n = strcspn(extra, " \t");
        if (n != 0) {
            add(a, "%.*s", (int)n, extra);
        }
        extra += n;
        extra += strspn(extra, " \t");
    }
}

static void free_args(struct args *a)
{
    for (int i = 0; i < a->n; i++) {
        free(a->v[i]);
    }
}

// Runs DPDK's own start; what the calling thread may use is afterwards what it was before.
static int init(struct args *a, const cpu_set_t *may)
{
    struct args given = *a; // rte_eal_init moves its arguments about
    int result = rte_eal_init(a->n, a->v);
    free_args(&given);
    if (CPU_COUNT(may) != 0) {
        (void)sched_setaffinity(0, sizeof *may, may);
    }
    return result;
}

int bt_dpdk_start(const struct bt_dpdk_eal *cfg, char *err, size_t errlen)
{
    struct args a = {0};
    cpu_set_t may;
    if (eal_started) {
        return 0;
    }
    CPU_ZERO(&may);
    (void)sched_getaffinity(0, sizeof may, &may);
    add(&a, "bobtail");
    add(&a, "--no-telemetry");
    add(&a, "--log-level=*:error");
    if (bt_dpdk_is_pci(cfg->port)) {
        add(&a, "--allow=%.*s", (int)strcspn(cfg->port, ","), cfg->port);
    } else {
        add(&a, "--no-pci");
        add(&a, "--iova-mode=va"); // no device reads memory by its physical address
    }
    add_lcore(&a, cfg->cpus, &may);
    if (add_memory(&a, cfg, err, errlen) != 0) {
        free_args(&a);
        return -1;
    }
    int needed = a.n - 1; // the first is the program's name
    add_extra(&a, cfg->extra);
    if (a.refused[0] != '\0') {
        snprintf(err, errlen,
                 "argument \"%s\" for DPDK is one too many: it is given at most %d, and %d are needed here", a.refused,
                 MAX_ARGS - 2, needed);
        free_args(&a);
        return -1;
    }
    if (init(&a, &may) < 0) {
        char name[RTE_ETH_NAME_MAX_LEN];
        char hint[400] = "";
        bt_dpdk_port_name(cfg->port, name, sizeof name);
        if (bt_dpdk_is_pci(cfg->port)) {
            bt_dpdk_pci_hint(&bt_dpdk_kernel, name, hint, sizeof hint);
        }
        snprintf(err, errlen,
                 "DPDK does not start: %s; its own lines above say more, the extra arguments were \"%s\"%s",
                 rte_strerror(rte_errno), cfg->extra != NULL ? cfg->extra : "", hint);
        return -1;
    }
    eal_started = true;
    return 0;
}
