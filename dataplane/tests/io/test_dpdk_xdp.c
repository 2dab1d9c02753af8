// SPDX-License-Identifier: Apache-2.0
// Whose a port's interface is, before af_xdp gets it and after. The linker puts these in front of the calls that ask
// the kernel (--wrap): an interface here is what a row says of it.
#include "unit.h"

#include "io/dpdk_internal.h"
#include "io/xdp_interface.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT "net_af_xdp0,iface=eth7,start_queue=1"

enum { INTERFACE = 7 };

static struct {
    struct bt_xdp_interface found;
    int claim; // 0: a descriptor is given
    int look, detach, mark;
    unsigned detached, marked, unmarked;
    bool memory_refused, disk_full;
    int memory; // the last file in memory
} kernel;

unsigned __wrap_if_nametoindex(const char *name);
int __wrap_bt_xdp_claim(unsigned interface);
int __wrap_bt_xdp_look(unsigned interface, struct bt_xdp_interface *out);
int __wrap_bt_xdp_detach(unsigned interface);
int __wrap_bt_xdp_mark(unsigned interface, bool on);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

unsigned __wrap_if_nametoindex(const char *name)
{
    return strcmp(name, "eth7") == 0 ? INTERFACE : 0;
}

int __wrap_bt_xdp_claim(unsigned interface)
{
    assert_int_equal(interface, INTERFACE);
    return kernel.claim != 0 ? kernel.claim : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bt_xdp_look(unsigned interface, struct bt_xdp_interface *out)
{
    assert_int_equal(interface, INTERFACE);
    *out = kernel.found;
    return kernel.look;
}

int __wrap_bt_xdp_detach(unsigned interface)
{
    assert_int_equal(interface, INTERFACE);
    kernel.detached++;
    return kernel.detach;
}

int __wrap_bt_xdp_mark(unsigned interface, bool on)
{
    assert_int_equal(interface, INTERFACE);
    *(on ? &kernel.marked : &kernel.unmarked) += 1;
    return kernel.mark;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    errno = ENFILE;
    kernel.memory = kernel.memory_refused ? -1 : __real_memfd_create(name, flags);
    return kernel.memory;
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    bool full = kernel.disk_full && fd == kernel.memory;
    ssize_t n = __real_write(fd, data, full ? len - 1 : len);
    errno = full ? ENOSPC : errno;
    return n;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void nothing_stands_on_another_port(void **state)
{
    static const char *const ports[] = {"net_ring0", "net_af_packet0,iface=eth7", "net_af_xdp0,iface=eth8",
                                        "net_af_xdp0,iface=eth7,xdp_prog=/mine", "net_af_xdp0"};
    (void)state;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        struct bt_dpdk_device dev = {.xdp_interface = 99};
        char with[100];
        char err[400] = "";
        memset(&kernel, 0, sizeof kernel);
        assert_int_equal(bt_dpdk_xdp_prepare(&dev, ports[i], with, sizeof with, err, sizeof err), 0);
        assert_string_equal(with, ports[i]);
        assert_true(dev.xdp_interface == 0 && dev.xdp_claim == -1 && dev.xdp_object == -1);
        bt_dpdk_xdp_close(&dev);
        assert_int_equal(kernel.marked + kernel.unmarked + kernel.detached, 0);
    }
}

// The port gets the program as a file; the mark stays while it is open, and all is given back after that.
static void a_free_interface_is_taken_and_given_back(void **state)
{
    struct bt_dpdk_device dev = {0};
    char with[200];
    char want[200];
    char err[400] = "";
    struct stat object;
    unsigned char head[4] = {0};
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, sizeof with, err, sizeof err), 0);
    snprintf(want, sizeof want, PORT ",xdp_prog=/proc/self/fd/%d", dev.xdp_object);
    assert_string_equal(with, want);
    assert_int_equal(pread(dev.xdp_object, head, sizeof head, 0), sizeof head);
    assert_memory_equal(head, "\177ELF", sizeof head);
    assert_true(fstat(dev.xdp_object, &object) == 0 && object.st_size > 500);
    assert_true(fcntl(dev.xdp_object, F_GETFD) & FD_CLOEXEC);
    assert_true(kernel.marked == 1 && kernel.unmarked == 0 && kernel.detached == 0);
    int claim = dev.xdp_claim;
    int file = dev.xdp_object;
    assert_true(is_open(claim));
    bt_dpdk_xdp_close(&dev);
    assert_false(is_open(claim));
    assert_false(is_open(file));
    assert_true(kernel.marked == 1 && kernel.unmarked == 1);
}

// What a killed process left there goes; a mark that cannot be told from another's name is not made.
static void what_a_killed_process_left_is_detached(void **state)
{
    static const struct {
        struct bt_xdp_interface found, left;
        int looked_again;
        unsigned detached, marked, unmarked;
    } rows[] = {
        {{.program = 5, .marked = true}, {0}, 0, 1, 1, 1},
        {{.named = true}, {0}, 0, 0, 0, 0},
        {{0}, {.program = 6, .marked = true}, 0, 0, 1, 0}, // the driver could not detach it
        {{0}, {0}, -ENODEV, 0, 1, 0},                      // the interface is gone
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk_device dev = {0};
        char with[200];
        char err[400] = "";
        memset(&kernel, 0, sizeof kernel);
        kernel.found = rows[i].found;
        assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, sizeof with, err, sizeof err), 0);
        kernel.found = rows[i].left;
        kernel.look = rows[i].looked_again;
        bt_dpdk_xdp_close(&dev);
        assert_int_equal(kernel.detached, rows[i].detached);
        assert_int_equal(kernel.marked, rows[i].marked);
        assert_int_equal(kernel.unmarked, rows[i].unmarked);
    }
}

// Refused with the reason and what to do about it; closing gives back what was taken until then.
static void an_interface_that_cannot_be_had_is_explained(void **state)
{
    static const struct {
        int claim, look, detach, mark;
        bool memory_refused, disk_full;
        size_t room;
        struct bt_xdp_interface found;
        const char *says;
    } rows[] = {
        {.claim = -EADDRINUSE, .says = "another process has a port on its interface; one may have several queues"},
        {.claim = -EPERM, .says = "its interface cannot be claimed: Operation not permitted" BT_DPDK_XDP_NEEDS},
        {.look = -EIO, .says = "its interface cannot be looked at: Input/output error"},
        {.found = {.program = 31}, .says = "XDP program 31 on its interface is somebody else's; end what uses it"},
        {.found = {.program = 31, .marked = true},
         .detach = -EBUSY,
         .says = "the program a killed process left there cannot be detached: Device or resource busy"},
        {.mark = -EPERM, .says = "its interface cannot be marked: Operation not permitted" BT_DPDK_XDP_NEEDS},
        {.memory_refused = true, .says = "its XDP program cannot be written down: Too many open files in system"},
        {.disk_full = true, .says = "its XDP program cannot be written down: No space left on device"},
        {.room = sizeof PORT + 10, .says = "too long: File name too long"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bt_dpdk_device dev = {0};
        char with[200];
        char want[600];
        char err[600] = "";
        memset(&kernel, 0, sizeof kernel);
        kernel.claim = rows[i].claim;
        kernel.look = rows[i].look;
        kernel.detach = rows[i].detach;
        kernel.mark = rows[i].mark;
        kernel.memory_refused = rows[i].memory_refused;
        kernel.disk_full = rows[i].disk_full;
        kernel.memory = -1;
        kernel.found = rows[i].found;
        size_t room = rows[i].room != 0 ? rows[i].room : sizeof with;
        assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, room, err, sizeof err), -1);
        int length = snprintf(want, sizeof want, "port \"" PORT "\": %s", rows[i].says);
        assert_int_equal(strncmp(err, want, (size_t)length), 0);
        assert_int_equal(strstr(err, "af_xdp needs") != NULL, strstr(want, "af_xdp needs") != NULL);
        int claim = dev.xdp_claim;
        bt_dpdk_xdp_close(&dev);
        assert_false(is_open(claim));
        assert_false(is_open(kernel.memory));
    }
}

// The room it needs is what the name of the file takes, and its end.
static void a_port_that_just_fits_is_taken(void **state)
{
    struct bt_dpdk_device dev = {0};
    char with[200];
    char err[400] = "";
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, sizeof with, err, sizeof err), 0);
    size_t fits = strlen(with) + 1;
    bt_dpdk_xdp_close(&dev);
    assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, fits, err, sizeof err), 0);
    bt_dpdk_xdp_close(&dev);
    assert_int_equal(bt_dpdk_xdp_prepare(&dev, PORT, with, fits - 1, err, sizeof err), -1);
    bt_dpdk_xdp_close(&dev);
}

// What a port's text says of its kind, and of the interface it stands on.
static void a_port_says_what_it_is(void **state)
{
    static const struct {
        const char *port, *interface; // NULL: none is named
        bool pci, xdp;
    } rows[] = {
        {"0000:05:00.0", NULL, true, false},
        {"05:00.0", NULL, true, false},
        {"05:00.1,a=1", NULL, true, false},
        {"0000:05:00.0,", NULL, true, false},
        {"0000:05:00.0x", NULL, false, false},
        {"05:00.1x", NULL, false, false},
        {"0000:05:00", NULL, false, false},
        {"05:00", NULL, false, false},
        {"net_af_xdp", NULL, false, true},
        {"net_af_xdp1,iface=eth0", "eth0", false, true},
        {"net_af_xd", NULL, false, false},
        {"net_af_packet0,iface=eth1,qpairs=2", "eth1", false, false},
        {"net_af_packet0,a=1,iface=,b=2", "", false, false},
        {"iface=eth0", NULL, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[16] = "?";
        assert_int_equal(bt_dpdk_is_pci(rows[i].port), rows[i].pci);
        assert_int_equal(bt_dpdk_is_interface(rows[i].port), rows[i].xdp);
        assert_int_equal(bt_dpdk_interface_name(rows[i].port, name, sizeof name), rows[i].interface != NULL);
        assert_string_equal(name, rows[i].interface != NULL ? rows[i].interface : "?");
    }
    assert_false(bt_dpdk_is_pci(NULL));
    assert_false(bt_dpdk_is_interface(NULL));
    char cut[5];
    assert_true(bt_dpdk_interface_name("net_x,iface=eth012", cut, sizeof cut));
    assert_string_equal(cut, "eth0"); // no more than there is room for
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_stands_on_another_port),
        cmocka_unit_test(a_free_interface_is_taken_and_given_back),
        cmocka_unit_test(what_a_killed_process_left_is_detached),
        cmocka_unit_test(an_interface_that_cannot_be_had_is_explained),
        cmocka_unit_test(a_port_that_just_fits_is_taken),
        cmocka_unit_test(a_port_says_what_it_is),
    };
    return cmocka_run_group_tests_name("xdp", tests, NULL, NULL);
}
