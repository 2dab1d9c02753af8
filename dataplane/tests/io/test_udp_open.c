// SPDX-License-Identifier: Apache-2.0
// Ports that cannot be opened: which of them, why, and what to do about it. The linker puts these in front of the
// kernel's calls (--wrap), of which one is refused.
#include "udp_bed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    int bind, name, fragment, raw; // an errno; 0: it works
    unsigned no_memory;            // the call that gets none, from 1
    unsigned allocated;
    int opened, closed; // descriptors
} kernel;

int __real_bind(int fd, const struct sockaddr *a, socklen_t len);
int __real_getsockname(int fd, struct sockaddr *a, socklen_t *len);
int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __real_socket(int domain, int type, int protocol);
int __real_close(int fd);
void *__real_calloc(size_t n, size_t size);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_getsockname(int fd, struct sockaddr *a, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_close(int fd);
void *__wrap_calloc(size_t n, size_t size);

static int instead(int error)
{
    errno = error;
    return -1;
}

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len)
{
    return kernel.bind != 0 ? instead(kernel.bind) : __real_bind(fd, a, len);
}

int __wrap_getsockname(int fd, struct sockaddr *a, socklen_t *len)
{
    return kernel.name != 0 ? instead(kernel.name) : __real_getsockname(fd, a, len);
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    bool fragment = level == SOL_IP && option == IP_MTU_DISCOVER;
    return fragment && kernel.fragment != 0 ? instead(kernel.fragment)
                                            : __real_setsockopt(fd, level, option, value, len);
}

int __wrap_socket(int domain, int type, int protocol)
{
    if (kernel.raw != 0 && protocol == IPPROTO_RAW) {
        return instead(kernel.raw);
    }
    kernel.opened++;
    return __real_socket(domain, type, protocol);
}

int __wrap_close(int fd)
{
    kernel.closed++;
    return __real_close(fd);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ++kernel.allocated == kernel.no_memory ? NULL : __real_calloc(n, size);
}

static struct bt_io *open_two(char err[256])
{
    struct bt_addr locals[] = {bt_addr_v4u(0x7f000001, 0), bt_addr_v4u(0x7f000001, 0)};
    struct bt_udp_config cfg = {.locals = locals, .n_locals = 2};
    kernel.opened = kernel.closed = 0;
    kernel.allocated = 0;
    err[0] = '\0';
    return bt_udp_open(&cfg, err, 256);
}

static void a_refusal_names_the_port_and_the_remedy(void **state)
{
    static const struct {
        int *call, error;
        const char *says;
    } rows[] = {
        {&kernel.bind, EADDRINUSE, "Address already in use; another process has this port, choose another one"},
        {&kernel.bind, EADDRNOTAVAIL, "Cannot assign requested address; this host does not have that address"},
        {&kernel.bind, EACCES, "Permission denied; ports below 1024 need CAP_NET_BIND_SERVICE"},
        {&kernel.bind, EMFILE, "Too many open files; raise the limit of open files (ulimit -n)"},
        {&kernel.bind, EIO, "Input/output error"},
        {&kernel.name, ENOBUFS, "No buffer space available"},
        {&kernel.fragment, ENOPROTOOPT, "Protocol not available"}, // nothing may be cut apart on its way
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char err[256];
        char want[256];
        memset(&kernel, 0, sizeof kernel);
        *rows[i].call = rows[i].error;
        assert_null(open_two(err));
        snprintf(want, sizeof want, "cannot bind UDP 127.0.0.1:0: %s", rows[i].says);
        assert_string_equal(err, want);
        assert_int_equal(kernel.opened, 1);
        assert_int_equal(kernel.closed, 1 + 3); // the socket, and the event loop's own
    }
}

static void without_memory_nothing_is_opened(void **state)
{
    char err[256];
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    for (kernel.no_memory = 1; kernel.no_memory <= 2; kernel.no_memory++) {
        assert_null(open_two(err));
        assert_string_equal(err, "out of memory for 2 ports");
        assert_int_equal(kernel.opened + kernel.closed, 0);
    }
}

static void without_a_raw_socket_nothing_is_transparent(void **state)
{
    static const struct {
        int error;
        const char *says;
    } rows[] = {
        {EPERM,
         "Transparent forwarding needs a raw socket: Operation not permitted; give the process CAP_NET_RAW or use "
         "Encapsulated forwarding"},
        {EMFILE, "Transparent forwarding needs a raw socket: Too many open files"},
    };
    char err[256];
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    struct bt_io *io = open_two(err);
    assert_non_null(io);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kernel.raw = rows[i].error;
        assert_int_equal(bt_udp_allow_transparent(io, err, sizeof err), -1);
        assert_string_equal(err, rows[i].says);
        assert_true(((struct bt_udp *)io)->raw_fd[0] < 0);
    }
    io->ops->close(io);
    assert_int_equal(kernel.opened, 2);
    assert_int_equal(kernel.closed, 2 + 3); // each once
}

static void so_many_ports_and_no_more(void **state)
{
    static struct bt_addr locals[BT_UDP_MAX_LOCALS + 1];
    char err[256];
    char want[100];
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    static const unsigned refused[] = {0, BT_UDP_MAX_LOCALS + 1};
    for (unsigned i = 0; i < 2; i++) {
        assert_null(bt_udp_open(&(struct bt_udp_config){.locals = locals, .n_locals = refused[i]}, err, sizeof err));
        snprintf(want, sizeof want, "needs 1..%u local ports; got %u", BT_UDP_MAX_LOCALS, refused[i]);
        assert_string_equal(err, want);
        assert_int_equal(kernel.allocated, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_names_the_port_and_the_remedy),
        cmocka_unit_test(without_memory_nothing_is_opened),
        cmocka_unit_test(without_a_raw_socket_nothing_is_transparent),
        cmocka_unit_test(so_many_ports_and_no_more),
    };
    return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
