// SPDX-License-Identifier: Apache-2.0
// How the router's program gets into the kernel, and what is said where it does not. The linker puts these in front of
// the calls that load and attach it (--wrap): no program is loaded here.
#include "unit.h"

#include "fast/fast_internal.h"

#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STATE_FD = 71, LOG_FD = 72, PROGRAM_FD = 73, ETH = 5, LOOPBACK = 1 };

static struct {
    int open, value, load, link, map, list; // an errno of the call of that name; 0: it works
    bool no_map;
    unsigned opened, closed, mapped, unmapped, freed, silenced;
    int link_fd;
    unsigned attached_to;
    size_t bytes;
    struct bt_delegation_place place;
} kernel;

static int thing; // an object, a map, a program: nobody looks into them
static struct bt_delegation_log log_memory;

struct bpf_object *__wrap_bpf_object__open_mem(const void *bytes, size_t len, const struct bpf_object_open_opts *opts);
struct bpf_map *__wrap_bpf_object__find_map_by_name(const struct bpf_object *o, const char *name);
int __wrap_bpf_map__set_initial_value(struct bpf_map *m, const void *data, size_t len);
int __wrap_bpf_object__load(struct bpf_object *o);
struct bpf_program *__wrap_bpf_object__find_program_by_name(const struct bpf_object *o, const char *name);
int __wrap_bpf_program__fd(const struct bpf_program *p);
int __wrap_bpf_object__find_map_fd_by_name(const struct bpf_object *o, const char *name);
void __wrap_bpf_object__close(struct bpf_object *o);
int __wrap_bpf_link_create(int program, int target, enum bpf_attach_type type, const struct bpf_link_create_opts *opts);
libbpf_print_fn_t __wrap_libbpf_set_print(libbpf_print_fn_t print);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len);
int __wrap_getifaddrs(struct ifaddrs **all);
void __wrap_freeifaddrs(struct ifaddrs *all);
unsigned __wrap_if_nametoindex(const char *name);

struct bpf_object *__wrap_bpf_object__open_mem(const void *bytes, size_t len, const struct bpf_object_open_opts *opts)
{
    (void)opts;
    assert_true(len > 1000 && memcmp(bytes, "\177ELF", 4) == 0);
    errno = kernel.open;
    kernel.opened += kernel.open == 0;
    return kernel.open != 0 ? NULL : (struct bpf_object *)(void *)&thing;
}

struct bpf_map *__wrap_bpf_object__find_map_by_name(const struct bpf_object *o, const char *name)
{
    assert_ptr_equal(o, &thing);
    assert_string_equal(name, ".rodata");
    return kernel.no_map ? NULL : (struct bpf_map *)(void *)&thing;
}

int __wrap_bpf_map__set_initial_value(struct bpf_map *m, const void *data, size_t len)
{
    assert_ptr_equal(m, &thing);
    assert_int_equal(len, sizeof kernel.place);
    memcpy(&kernel.place, data, len);
    return -kernel.value;
}

int __wrap_bpf_object__load(struct bpf_object *o)
{
    assert_ptr_equal(o, &thing);
    return -kernel.load;
}

struct bpf_program *__wrap_bpf_object__find_program_by_name(const struct bpf_object *o, const char *name)
{
    assert_ptr_equal(o, &thing);
    assert_string_equal(name, "jbsq_router");
    return (struct bpf_program *)(void *)&thing;
}

int __wrap_bpf_program__fd(const struct bpf_program *p)
{
    assert_ptr_equal(p, &thing);
    return PROGRAM_FD;
}

int __wrap_bpf_object__find_map_fd_by_name(const struct bpf_object *o, const char *name)
{
    assert_ptr_equal(o, &thing);
    return strcmp(name, "state_map") == 0 ? STATE_FD : strcmp(name, "log_map") == 0 ? LOG_FD : -1;
}

void __wrap_bpf_object__close(struct bpf_object *o)
{
    kernel.closed += o != NULL;
}

int __wrap_bpf_link_create(int program, int target, enum bpf_attach_type type, const struct bpf_link_create_opts *opts)
{
    assert_int_equal(program, PROGRAM_FD);
    assert_int_equal(type, 46); // BPF_TCX_INGRESS
    assert_null(opts);
    kernel.attached_to = (unsigned)target;
    kernel.link_fd = kernel.link != 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    return kernel.link != 0 ? -kernel.link : kernel.link_fd;
}

static int quiet(libbpf_print_fn_t print, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int said = print(LIBBPF_WARN, format, args);
    va_end(args);
    return said;
}

libbpf_print_fn_t __wrap_libbpf_set_print(libbpf_print_fn_t print)
{
    assert_int_equal(quiet(print, "nothing of this is to be seen\n"), 0);
    kernel.silenced++;
    return NULL;
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (fd != LOG_FD) {
        return __real_mmap64(at, len, prot, flags, fd, offset);
    }
    assert_true(prot == (PROT_READ | PROT_WRITE) && flags == MAP_SHARED && offset == 0);
    errno = kernel.map;
    kernel.mapped++;
    kernel.bytes = len;
    return kernel.map != 0 ? MAP_FAILED : &log_memory;
}

int __wrap_munmap(void *at, size_t len)
{
    if (at != &log_memory) {
        return __real_munmap(at, len);
    }
    assert_int_equal(len, kernel.bytes);
    kernel.unmapped++;
    return 0;
}

// A device without an address, loopback, one with IPv6 and IPv4, and one whose address comes too late.
int __wrap_getifaddrs(struct ifaddrs **all)
{
    static struct sockaddr_in six = {.sin_family = AF_INET6}, lo, lo_mask, own, own_mask, late;
    static struct ifaddrs list[] = {
        {.ifa_next = &list[1], .ifa_name = (char *)"wg0"},
        {.ifa_next = &list[2], .ifa_name = (char *)"lo", .ifa_flags = IFF_LOOPBACK},
        {.ifa_next = &list[3], .ifa_name = (char *)"six0"},
        {.ifa_next = &list[4], .ifa_name = (char *)"none0"},
        {.ifa_next = &list[5], .ifa_name = (char *)"eth0"},
        {.ifa_name = (char *)"eth1"},
    };
    lo = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0x7f000001)};
    lo_mask = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0xff000000)};
    own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0x0a000001)};
    own_mask = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0xffffff00)};
    late = own;
    struct sockaddr_in *const addrs[] = {NULL, &lo, &six, &own, &own, &late};
    struct sockaddr_in *const masks[] = {&own_mask, &lo_mask, &own_mask, NULL, &own_mask, &own_mask};
    for (unsigned i = 0; i < sizeof list / sizeof list[0]; i++) {
        list[i].ifa_addr = (struct sockaddr *)(void *)addrs[i];
        list[i].ifa_netmask = (struct sockaddr *)(void *)masks[i];
    }
    *all = list;
    errno = kernel.list;
    return kernel.list != 0 ? -1 : 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
    assert_string_equal(all->ifa_name, "wg0");
    kernel.freed++;
}

unsigned __wrap_if_nametoindex(const char *name)
{
    return strcmp(name, "eth0") == 0 ? ETH : strcmp(name, "lo") == 0 ? LOOPBACK : 99;
}

static struct bt_fast *load_at(uint32_t ip, bool detached, char why[300])
{
    struct bt_fast_setup setup = {
        .request = bt_addr_v4u(ip, 8000), .feedback = bt_addr_v4u(ip, 9000), .detached = detached, .out = 33};
    why[0] = '\0';
    return bt_fast_new(&setup, why, 300);
}

static void the_program_is_attached_to_the_routers_device(void **state)
{
    static const struct {
        uint32_t ip;
        bool detached;
        unsigned device, out;
        const char *name;
    } rows[] = {
        {0x0a000001, false, ETH, ETH, "eth0"},
        {0x7f000001, false, LOOPBACK, 0, "lo"},
        {0x7f0a0b0c, false, LOOPBACK, 0, "lo"}, // loopback has them all
        {0x0a000001, true, 0, 33, ""},
    };
    char why[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.link_fd = -1;
        struct bt_fast *f = load_at(rows[i].ip, rows[i].detached, why);
        assert_non_null(f);
        assert_string_equal(why, "");
        assert_int_equal(kernel.attached_to, rows[i].device);
        assert_string_equal(bt_fast_device(f), rows[i].name);
        assert_int_equal(kernel.place.ip, htobe32(rows[i].ip));
        assert_int_equal(kernel.place.request_port, htobe16(8000));
        assert_int_equal(kernel.place.feedback_port, htobe16(9000));
        assert_int_equal(kernel.place.out, rows[i].out);
        assert_int_equal(bt_fast_program(f), PROGRAM_FD);
        assert_true(f->state_fd == STATE_FD && f->log == &log_memory && f->rest_ns == 1000000);
        assert_true(kernel.bytes >= sizeof log_memory && kernel.bytes < sizeof log_memory + 4096 &&
                    kernel.bytes % 4096 == 0);
        assert_int_equal(kernel.freed, !rows[i].detached);
        assert_int_equal(kernel.silenced, 1);
        int link = kernel.link_fd;
        bt_fast_free(f);
        assert_true(kernel.closed == 1 && kernel.unmapped == 1);
        assert_true(fcntl(link, F_GETFD) < 0); // what is closed is attached no more
    }
    bt_fast_free(NULL);
}

static void what_is_missing_is_said(void **state)
{
    static const struct {
        int *fails;
        int error;
        const char *says;
    } rows[] = {
        {&kernel.list, ENOBUFS, "cannot list network devices: No buffer space available"},
        {&kernel.open, ENOMEM, "cannot read the program: Cannot allocate memory"},
        {&kernel.value, EINVAL, "cannot set the program's constants"},
        {&kernel.load, EPERM,
         "the kernel refused the program: Operation not permitted: it needs CAP_BPF and "
         "CAP_NET_ADMIN"},
        {&kernel.load, EACCES, "the kernel refused the program: Permission denied: it needs CAP_BPF and CAP_NET_ADMIN"},
        {&kernel.load, E2BIG, "the kernel refused the program: Argument list too long"},
        {&kernel.map, EPERM, "cannot map the program's notes: Operation not permitted"},
        {&kernel.link, EINVAL, "cannot attach the program to eth0: Invalid argument: it needs Linux 6.6"},
        {&kernel.link, EPERM,
         "cannot attach the program to eth0: Operation not permitted: it needs CAP_BPF and "
         "CAP_NET_ADMIN"},
    };
    char why[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&kernel, 0, sizeof kernel);
        *rows[i].fails = rows[i].error;
        assert_null(load_at(0x0a000001, false, why));
        assert_string_equal(why, rows[i].says);
        assert_int_equal(kernel.closed, kernel.opened); // nothing stays behind
        assert_int_equal(kernel.unmapped, kernel.mapped - (kernel.map != 0));
    }
    memset(&kernel, 0, sizeof kernel);
    kernel.no_map = true;
    assert_null(load_at(0x0a000001, false, why));
    assert_string_equal(why, "cannot set the program's constants");
    memset(&kernel, 0, sizeof kernel);
    assert_null(load_at(0x0a000002, false, why));
    assert_string_equal(why, "no network device has the router's address");
    assert_int_equal(kernel.freed, 1);
    assert_int_equal(kernel.opened, 0);
    struct bt_fast_setup six = {.request = {.ip = {0xfd, [15] = 1}, .port = 8000}};
    assert_null(bt_fast_new(&six, why, sizeof why));
    assert_string_equal(why, "the router's address is not an IPv4 address");
}

// A router that keeps its decisions for another while is told so.
static void the_rest_can_be_set(void **state)
{
    struct bt_fast_setup setup = {.request = bt_addr_v4u(0x0a000001, 1), .detached = true, .rest_ns = 7};
    char why[300];
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    kernel.link_fd = -1;
    struct bt_fast *f = bt_fast_new(&setup, why, sizeof why);
    assert_non_null(f);
    assert_int_equal(f->rest_ns, 7);
    bt_fast_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_is_attached_to_the_routers_device),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(the_rest_can_be_set),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
