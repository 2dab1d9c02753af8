// SPDX-License-Identifier: Apache-2.0
// What the kernel is asked about an interface, and what is made of its answers, the broken ones too. The linker puts
// these in front of the calls that speak to it (--wrap).
#include "unit.h"

#include "io/xdp_interface.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INTERFACE = 7 };

static struct {
    int socket, send, recv; // an errno; 0: it works
    unsigned interrupted;   // reads that a signal ends
    uint8_t answer[600], asked[300];
    size_t answer_len, asked_len;
    unsigned sent, received;
    int fd;
} kernel;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);

int __wrap_socket(int domain, int type, int protocol)
{
    errno = kernel.socket;
    kernel.fd = kernel.socket != 0 ? -1 : __real_socket(domain, type, protocol);
    return kernel.fd;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    assert_true(fd == kernel.fd && flags == 0 && len <= sizeof kernel.asked);
    kernel.sent++;
    memcpy(kernel.asked, data, len);
    kernel.asked_len = len;
    errno = kernel.send;
    return kernel.send != 0 ? -1 : (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    assert_true(fd == kernel.fd && flags == 0 && len >= sizeof kernel.answer);
    kernel.received++;
    if (kernel.interrupted > 0) {
        kernel.interrupted--;
        errno = EINTR;
        return -1;
    }
    errno = kernel.recv;
    memcpy(data, kernel.answer, kernel.answer_len);
    return kernel.recv != 0 ? -1 : (ssize_t)kernel.answer_len;
}

static void answer_error(int error)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
    } a = {.head = {.nlmsg_len = sizeof a, .nlmsg_type = NLMSG_ERROR}, .error = {.error = error}};
    memset(&kernel, 0, sizeof kernel);
    memcpy(kernel.answer, &a, sizeof a);
    kernel.answer_len = sizeof a;
}

static size_t put_attribute(size_t at, uint16_t type, const void *value, uint16_t len)
{
    struct rtattr a = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len)};
    memcpy(kernel.answer + at, &a, sizeof a);
    memcpy(kernel.answer + at + RTA_LENGTH(0), value, len);
    return at + RTA_ALIGN(a.rta_len);
}

// An interface with this alias (NULL: none), and these attributes of XDP.
static void answer_interface(const char *alias, const void *xdp, uint16_t xdp_len)
{
    static const char name[] = "eth7";
    size_t at = NLMSG_LENGTH(sizeof(struct ifinfomsg));
    memset(&kernel, 0, sizeof kernel);
    at = put_attribute(at, IFLA_IFNAME, name, sizeof name);
    if (alias != NULL) {
        at = put_attribute(at, IFLA_IFALIAS, alias, (uint16_t)(strlen(alias) + 1));
    }
    at = put_attribute(at, IFLA_XDP | NLA_F_NESTED, xdp, xdp_len);
    at = put_attribute(at, IFLA_QDISC, name, sizeof name);
    struct nlmsghdr head = {.nlmsg_len = (uint32_t)at, .nlmsg_type = RTM_NEWLINK};
    memcpy(kernel.answer, &head, sizeof head);
    kernel.answer_len = at;
}

static void assert_asked(uint16_t type, size_t attributes, const void *wanted)
{
    struct nlmsghdr head;
    struct ifinfomsg link;
    memcpy(&head, kernel.asked, sizeof head);
    memcpy(&link, kernel.asked + NLMSG_HDRLEN, sizeof link);
    assert_int_equal(kernel.sent, 1);
    assert_int_equal(head.nlmsg_len, kernel.asked_len);
    assert_int_equal(kernel.asked_len, NLMSG_LENGTH(sizeof link) + attributes);
    assert_int_equal(head.nlmsg_type, type);
    assert_int_equal(head.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
    assert_int_equal(link.ifi_family, AF_UNSPEC);
    assert_int_equal(link.ifi_index, INTERFACE);
    assert_memory_equal(kernel.asked + NLMSG_LENGTH(sizeof link), wanted, attributes);
}

static void an_interface_is_marked_and_unmarked(void **state)
{
    struct {
        struct rtattr head;
        char mark[40];
    } want = {.head = {.rta_len = RTA_LENGTH(sizeof BT_XDP_MARK - 1), .rta_type = IFLA_IFALIAS}, .mark = BT_XDP_MARK};
    (void)state;
    answer_error(0);
    assert_int_equal(bt_xdp_mark(INTERFACE, true), 0);
    assert_asked(RTM_SETLINK, RTA_ALIGN(want.head.rta_len), &want);
    assert_true(fcntl(kernel.fd, F_GETFD) < 0); // nothing stays open
    answer_error(-EPERM);
    want.head.rta_len = RTA_LENGTH(0);
    assert_int_equal(bt_xdp_mark(INTERFACE, false), -EPERM);
    assert_asked(RTM_SETLINK, RTA_LENGTH(0), &want);
}

static void a_program_is_detached_by_one_that_is_none(void **state)
{
    const struct {
        struct rtattr outer, inner;
        int none;
    } want = {{sizeof want, IFLA_XDP | NLA_F_NESTED}, {RTA_LENGTH(sizeof want.none), IFLA_XDP_FD}, -1};
    (void)state;
    answer_error(-EBUSY);
    assert_int_equal(bt_xdp_detach(INTERFACE), -EBUSY);
    assert_asked(RTM_SETLINK, sizeof want, &want);
    answer_error(0);
    assert_int_equal(bt_xdp_detach(INTERFACE), 0);
}

static void whose_an_interface_is_is_read(void **state)
{
    const struct {
        struct rtattr head;
        uint32_t value;
    } attached = {{8, IFLA_XDP_ATTACHED}, 2}, program = {{8, IFLA_XDP_PROG_ID}, 4711};
    const struct {
        struct rtattr head;
        uint16_t value, rest;
    } little = {{6, IFLA_XDP_PROG_ID}, 9, 0};
    uint8_t both[16];
    struct bt_xdp_interface found;
    (void)state;
    memcpy(both, &attached, 8);
    memcpy(both + 8, &program, 8);
    answer_interface(BT_XDP_MARK, both, sizeof both);
    assert_int_equal(bt_xdp_look(INTERFACE, &found), 0);
    assert_asked(RTM_GETLINK, 0, NULL);
    assert_true(found.program == 4711 && found.marked && !found.named);
    assert_true(fcntl(kernel.fd, F_GETFD) < 0);
    answer_interface(BT_XDP_MARK "2", &attached, 8);
    assert_int_equal(bt_xdp_look(INTERFACE, &found), 0);
    assert_true(found.program == 0 && !found.marked && found.named);
    answer_interface("uplink-of-north", &little, 8); // no number is as short as that
    assert_int_equal(bt_xdp_look(INTERFACE, &found), 0);
    assert_true(found.program == 0 && !found.marked && found.named);
    answer_interface("", &attached, 8);
    assert_int_equal(bt_xdp_look(INTERFACE, &found), 0);
    assert_false(found.marked || found.named);
    answer_interface(NULL, &program, 8);
    assert_int_equal(bt_xdp_look(INTERFACE, &found), 0);
    assert_true(found.program == 4711 && !found.marked && !found.named);
}

// What cannot be asked, is refused or is no answer at all.
static void a_refusal_is_told(void **state)
{
    struct bt_xdp_interface found;
    (void)state;
    answer_error(-ENODEV);
    assert_int_equal(bt_xdp_look(INTERFACE, &found), -ENODEV);
    assert_true(found.program == 0 && !found.marked && !found.named);
    for (unsigned change = 0; change < 2; change++) {
        static int *const fails[] = {&kernel.socket, &kernel.send, &kernel.recv};
        for (size_t i = 0; i < sizeof fails / sizeof fails[0]; i++) {
            answer_error(0);
            *fails[i] = EIO;
            assert_int_equal(change ? bt_xdp_mark(INTERFACE, true) : bt_xdp_look(INTERFACE, &found), -EIO);
            assert_int_equal(kernel.received, i == 2); // nothing is waited for that was not asked
            assert_true(fcntl(kernel.fd, F_GETFD) < 0);
        }
        answer_error(-ENODEV);
        kernel.interrupted = 2;
        assert_int_equal(change ? bt_xdp_mark(INTERFACE, true) : bt_xdp_look(INTERFACE, &found), -ENODEV);
        assert_int_equal(kernel.received, 3);
        answer_error(-ENODEV);
        kernel.answer_len--;
        assert_int_equal(change ? bt_xdp_mark(INTERFACE, true) : bt_xdp_look(INTERFACE, &found), -EPROTO);
        answer_error(-ENODEV);
        kernel.answer[offsetof(struct nlmsghdr, nlmsg_type)] = NLMSG_NOOP;
        assert_int_equal(change ? bt_xdp_mark(INTERFACE, true) : bt_xdp_look(INTERFACE, &found), -EPROTO);
    }
    answer_interface("", "", 0); // no answer to who wanted a change
    assert_int_equal(bt_xdp_mark(INTERFACE, true), -EPROTO);
    answer_interface("", "", 0);
    kernel.answer_len -= 1; // cut short
    assert_int_equal(bt_xdp_look(INTERFACE, &found), -EPROTO);
}

// One process has an interface, until it closes what it got for it.
static void an_interface_is_claimed_once(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    unsigned ours = 1000000u + (unsigned)getpid(); // no interface of this machine
    int first = bt_xdp_claim(ours);
    assert_true(first >= 0 && first == kernel.fd);
    assert_true((fcntl(first, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(bt_xdp_claim(ours), -EADDRINUSE);
    assert_true(fcntl(kernel.fd, F_GETFD) < 0);
    int other = bt_xdp_claim(ours + 1000000u);
    assert_true(other >= 0);
    close(other);
    close(first);
    first = bt_xdp_claim(ours);
    assert_true(first >= 0);
    close(first);
    kernel.socket = EMFILE;
    assert_int_equal(bt_xdp_claim(ours), -EMFILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_is_marked_and_unmarked),
        cmocka_unit_test(a_program_is_detached_by_one_that_is_none),
        cmocka_unit_test(whose_an_interface_is_is_read),
        cmocka_unit_test(a_refusal_is_told),
        cmocka_unit_test(an_interface_is_claimed_once),
    };
    return cmocka_run_group_tests_name("xdp interface", tests, NULL, NULL);
}
