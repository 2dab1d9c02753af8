// SPDX-License-Identifier: Apache-2.0
// Loading and attaching the program (see fast.h). Its object is part of this one, so that nothing has to be found at
// run time.
#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fast/fast_internal.h"

// After a loan ended the router keeps its decisions for so long: what ended it seldom comes alone.
#define REST_NS UINT64_C(1000000)

#define TCX_INGRESS ((enum bpf_attach_type)46) // newer than the headers this may be built with

static const unsigned char object[] __attribute__((aligned(16))) = {
#include "jbsq_router_object.inc"
};

static __attribute__((format(printf, 3, 4))) bool fail(char *why, size_t len, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, len, format, args);
    va_end(args);
    return false;
}

static const char *hint(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
        return ": it needs CAP_BPF and CAP_NET_ADMIN";
    case EINVAL:
        return ": it needs Linux 6.6";
    default:
        return "";
    }
}

static int silent(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level;
    (void)format;
    (void)args;
    return 0;
}

static uint32_t ipv4_of(const struct sockaddr *a)
{
    struct sockaddr_in in;
    memcpy(&in, a, sizeof in);
    return in.sin_addr.s_addr;
}

// It has the address: as its own, or, of the loopback device, as any of its network.
static bool has_address(const struct ifaddrs *a, uint32_t ip)
{
    if (a->ifa_addr == NULL || a->ifa_netmask == NULL || a->ifa_addr->sa_family != AF_INET) {
        return false;
    }
    uint32_t mask = (a->ifa_flags & IFF_LOOPBACK) != 0 ? ipv4_of(a->ifa_netmask) : UINT32_MAX;
    return ((ipv4_of(a->ifa_addr) ^ ip) & mask) == 0;
}

// The device of the router's address. Loopback is where the workers are, too.
static bool find_device(struct bt_fast *f, unsigned *index, char *why, size_t len)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) {
        return fail(why, len, "cannot list network devices: %s", strerror(errno));
    }
    *index = 0;
    for (const struct ifaddrs *a = all; a != NULL && *index == 0; a = a->ifa_next) {
        if (has_address(a, f->place.ip)) {
            snprintf(f->device, sizeof f->device, "%s", a->ifa_name);
            *index = if_nametoindex(a->ifa_name);
            f->place.out = (a->ifa_flags & IFF_LOOPBACK) != 0 ? 0 : *index;
        }
    }
    freeifaddrs(all);
    return *index != 0 || fail(why, len, "no network device has the router's address");
}

static bool load(struct bt_fast *f, char *why, size_t len)
{
    libbpf_set_print(silent);
    f->object = bpf_object__open_mem(object, sizeof object, NULL);
    if (f->object == NULL) {
        return fail(why, len, "cannot read the program: %s", strerror(errno));
    }
    struct bpf_map *fixed = bpf_object__find_map_by_name(f->object, ".rodata");
    if (fixed == NULL || bpf_map__set_initial_value(fixed, &f->place, sizeof f->place) != 0) {
        return fail(why, len, "cannot set the program's constants");
    }
    int error = bpf_object__load(f->object);
    if (error != 0) {
        return fail(why, len, "the kernel refused the program: %s%s", strerror(-error), hint(-error));
    }
    f->program_fd = bpf_program__fd(bpf_object__find_program_by_name(f->object, "jbsq_router"));
    f->state_fd = bpf_object__find_map_fd_by_name(f->object, "state_map");
    return true;
}

static bool map_log(struct bt_fast *f, char *why, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    f->log_bytes = (sizeof *f->log + page - 1u) / page * page;
    void *at = mmap(NULL, f->log_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    bpf_object__find_map_fd_by_name(f->object, "log_map"), 0);
    if (at == MAP_FAILED) {
        return fail(why, len, "cannot map the program's notes: %s", strerror(errno));
    }
    f->log = at;
    return true;
}

static bool attach(struct bt_fast *f, unsigned index, char *why, size_t len)
{
    f->link_fd = bpf_link_create(f->program_fd, (int)index, TCX_INGRESS, NULL);
    return f->link_fd >= 0 ||
           fail(why, len, "cannot attach the program to %s: %s%s", f->device, strerror(-f->link_fd), hint(-f->link_fd));
}

static bool build(struct bt_fast *f, const struct bt_fast_setup *setup, char *why, size_t len)
{
    unsigned index = 0;
    if (!bt_addr_is_v4(&setup->request)) {
        return fail(why, len, "the router's address is not an IPv4 address");
    }
    memcpy(&f->place.ip, setup->request.ip + 12, sizeof f->place.ip);
    f->place.request_port = htobe16(setup->request.port);
    f->place.feedback_port = htobe16(setup->feedback.port);
    f->place.out = setup->out;
    f->rest_ns = setup->rest_ns != 0 ? setup->rest_ns : REST_NS;
    return (setup->detached || find_device(f, &index, why, len)) && load(f, why, len) && map_log(f, why, len) &&
           (setup->detached || attach(f, index, why, len));
}

struct bt_fast *bt_fast_new(const struct bt_fast_setup *setup, char *why, size_t why_len)
{
    struct bt_fast *f = calloc(1, sizeof *f);
    if (f == NULL) {
        fail(why, why_len, "out of memory");
        return NULL;
    }
    f->link_fd = -1;
    if (!build(f, setup, why, why_len)) {
        bt_fast_free(f);
        return NULL;
    }
    return f;
}

void bt_fast_free(struct bt_fast *f)
{
    if (f == NULL) {
        return;
    }
    if (f->link_fd >= 0) {
        close(f->link_fd);
    }
    if (f->log != NULL) {
        munmap(f->log, f->log_bytes);
    }
    bpf_object__close(f->object);
    free(f);
}

const char *bt_fast_device(const struct bt_fast *f)
{
    return f->device;
}

int bt_fast_program(const struct bt_fast *f)
{
    return f->program_fd;
}
