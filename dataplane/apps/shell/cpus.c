// SPDX-License-Identifier: Apache-2.0
// See cpus.h.
#include "shell/cpus.h"

#include "shell/log.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 512, NODES = 64 };

// The CPUs this process may run on, as a list for a message: "0-3,6".
static void allowed_text(const cpu_set_t *set, char *text, size_t len)
{
    size_t n = 0;
    text[0] = '\0';
    for (unsigned c = 0; c < CPU_SETSIZE && n < len; c++) {
        unsigned first = c;
        if (!CPU_ISSET(c, set)) {
            continue;
        }
        while (c + 1 < CPU_SETSIZE && CPU_ISSET(c + 1, set)) {
            c++;
        }
        const char *comma = n != 0 ? "," : "";
        n += (size_t)(first == c ? snprintf(text + n, len - n, "%s%u", comma, c)
                                 : snprintf(text + n, len - n, "%s%u-%u", comma, first, c));
    }
}

// A number at the front of *text, which is moved on; false if there is none.
static bool number(const char **text, unsigned long *v)
{
    char *end;
    if (**text < '0' || **text > '9') {
        return false;
    }
    *v = strtoul(*text, &end, 10);
    *text = end;
    return true;
}

static bool add(const struct bt_cli *p, const char *text, const cpu_set_t *allowed, unsigned long cpu,
                struct bt_cpus *out)
{
    char may[TEXT];
    if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, allowed)) {
        allowed_text(allowed, may, sizeof may);
        bt_cli_error(p, "cpus", "CPU %lu is not one this process may run on, which are %s; got \"%s\"", cpu, may, text);
        return false;
    }
    for (unsigned i = 0; i < out->n; i++) {
        if (out->cpu[i] == cpu) {
            bt_cli_error(p, "cpus", "names CPU %lu twice, two threads would wait for each other; got \"%s\"", cpu,
                         text);
            return false;
        }
    }
    if (out->n == BT_CPUS_MAX) {
        bt_cli_error(p, "cpus", "must name at most %u CPUs; got \"%s\"", BT_CPUS_MAX, text);
        return false;
    }
    out->cpu[out->n++] = (uint16_t)cpu;
    return true;
}

bool bt_cpus_read(const struct bt_cli *p, const char *text, unsigned threads, struct bt_cpus *out)
{
    cpu_set_t allowed;
    const char *at = text;
    *out = (struct bt_cpus){0};
    if (text == NULL) {
        return true;
    }
    CPU_ZERO(&allowed);
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    for (bool more = true; more;) {
        unsigned long first = 0;
        bool good = number(&at, &first);
        unsigned long last = first;
        if (good && *at == '-') {
            at++;
            good = number(&at, &last) && last >= first;
        }
        more = *at == ',';
        if (!good || (*at++ != '\0' && !more)) {
            bt_cli_error(p, "cpus", "must be numbers of CPUs, such as 2,3 or 4-7; got \"%s\"", text);
            return false;
        }
        for (unsigned long c = first; c <= last; c++) {
            if (!add(p, text, &allowed, c, out)) {
                return false;
            }
        }
    }
    if (out->n < threads) {
        bt_cli_error(p, "cpus", "must name a CPU for each of the %u threads; got \"%s\"", threads, text);
        return false;
    }
    return true;
}

bool bt_cpus_pin(const struct bt_cpus *c, unsigned i, pthread_t thread)
{
    cpu_set_t set;
    if (c->n == 0) {
        return true;
    }
    CPU_ZERO(&set);
    CPU_SET(c->cpu[i], &set);
    int error = pthread_setaffinity_np(thread, sizeof set, &set);
    if (error != 0) {
        bt_log_error("--cpus: thread %u cannot be pinned to CPU %u: %s", i, c->cpu[i], strerror(error));
        return false;
    }
    bt_log_info("thread %u stays on CPU %u", i, c->cpu[i]);
    return true;
}

void bt_cpus_text(const struct bt_cpus *c, char *text, size_t len)
{
    size_t n = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < c->n && n < len; i++) {
        n += (size_t)snprintf(text + n, len - n, "%s%u", i != 0 ? "," : "", c->cpu[i]);
    }
}

// The NUMA node of a CPU: its folder has a link nodeN; -1: none.
static int node_of(unsigned cpu)
{
    char path[80];
    for (int node = 0; node < NODES; node++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/node%d", cpu, node);
        if (access(path, F_OK) == 0) {
            return node;
        }
    }
    return -1;
}

int bt_cpus_allowed(char *text, size_t len)
{
    cpu_set_t allowed;
    int node = -1;
    bool first = true;
    CPU_ZERO(&allowed);
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    allowed_text(&allowed, text, len);
    for (unsigned c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &allowed)) {
            continue;
        }
        int its = node_of(c);
        if (its < 0 || (!first && its != node)) {
            return -1;
        }
        node = its;
        first = false;
    }
    return node;
}
