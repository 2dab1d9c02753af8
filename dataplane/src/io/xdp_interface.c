// SPDX-License-Identifier: Apache-2.0
// See xdp_interface.h: three requests of rtnetlink, and a name among the abstract sockets.
#include "io/xdp_interface.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// One request about one interface; its attributes follow.
struct request {
    struct nlmsghdr head;
    struct ifinfomsg link;
    _Alignas(NLMSG_ALIGNTO) uint8_t attributes[128];
};

static struct request request_of(uint16_t type, unsigned ifindex)
{
    return (struct request){.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                                     .nlmsg_type = type,
                                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
                            .link = {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex}};
}

// Returns where its value is, so that nested ones can follow.
static struct rtattr *add(struct request *r, uint16_t type, const void *value, size_t len)
{
    struct rtattr *a = (struct rtattr *)(void *)((uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(len);
    if (len != 0) {
        memcpy(RTA_DATA(a), value, len);
    }
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
    return a;
}

// Sends it and reads the first answer, an error of 0 among them, into `answer`. Bytes read, or a negative errno.
static ssize_t ask(const struct request *r, void *answer, size_t room)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return -errno;
    }
    ssize_t got = send(fd, r, r->head.nlmsg_len, 0);
    if (got >= 0) {
        do {
            got = recv(fd, answer, room, 0);
        } while (got < 0 && errno == EINTR);
    }
    got = got < 0 ? -errno : got;
    close(fd);
    return got;
}

// What the kernel said of a request that changes something.
static int change(const struct request *r)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[4096];
    } answer;
    ssize_t got = ask(r, &answer, sizeof answer);
    if (got < 0) {
        return (int)got;
    }
    if ((size_t)got < NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.head.nlmsg_type != NLMSG_ERROR) {
        return -EPROTO;
    }
    return ((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
}

static const struct rtattr *next(const struct rtattr *a, int *left)
{
    int step = (int)RTA_ALIGN(a->rta_len);
    *left -= step;
    return (const struct rtattr *)(const void *)((const uint8_t *)a + step);
}

static void look_at_xdp(const struct rtattr *outer, struct bt_xdp_interface *found)
{
    int left = (int)RTA_PAYLOAD(outer);
    for (const struct rtattr *a = RTA_DATA(outer); RTA_OK(a, left); a = next(a, &left)) {
        if (a->rta_type == IFLA_XDP_PROG_ID && RTA_PAYLOAD(a) >= sizeof found->program) {
            memcpy(&found->program, RTA_DATA(a), sizeof found->program);
        }
    }
}

static void look_at_alias(const struct rtattr *a, struct bt_xdp_interface *found)
{
    size_t len = strnlen(RTA_DATA(a), RTA_PAYLOAD(a));
    found->marked = len == strlen(BT_XDP_MARK) && memcmp(RTA_DATA(a), BT_XDP_MARK, len) == 0;
    found->named = len != 0 && !found->marked;
}

int bt_xdp_look(unsigned ifindex, struct bt_xdp_interface *found)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[16384];
    } answer;
    struct request r = request_of(RTM_GETLINK, ifindex);
    ssize_t got = ask(&r, &answer, sizeof answer);
    *found = (struct bt_xdp_interface){0};
    if (got < 0) {
        return (int)got;
    }
    if (!NLMSG_OK(&answer.head, (unsigned)got) || answer.head.nlmsg_type != RTM_NEWLINK) {
        bool error = (size_t)got >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) && answer.head.nlmsg_type == NLMSG_ERROR;
        return error ? ((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error : -EPROTO;
    }
    int left = (int)IFLA_PAYLOAD(&answer.head);
    for (const struct rtattr *a = IFLA_RTA(NLMSG_DATA(&answer.head)); RTA_OK(a, left); a = next(a, &left)) {
        if ((a->rta_type & NLA_TYPE_MASK) == IFLA_XDP) {
            look_at_xdp(a, found);
        } else if (a->rta_type == IFLA_IFALIAS) {
            look_at_alias(a, found);
        }
    }
    return 0;
}

int bt_xdp_mark(unsigned ifindex, bool on)
{
    struct request r = request_of(RTM_SETLINK, ifindex);
    add(&r, IFLA_IFALIAS, BT_XDP_MARK, on ? strlen(BT_XDP_MARK) : 0);
    return change(&r);
}

int bt_xdp_detach(unsigned ifindex)
{
    const int none = -1;
    struct request r = request_of(RTM_SETLINK, ifindex);
    struct rtattr *outer = add(&r, IFLA_XDP | NLA_F_NESTED, NULL, 0);
    const struct rtattr *inner = add(&r, IFLA_XDP_FD, &none, sizeof none);
    outer->rta_len = (uint16_t)((const uint8_t *)inner - (const uint8_t *)outer + RTA_ALIGN(inner->rta_len));
    return change(&r);
}

int bt_xdp_claim(unsigned ifindex)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s-%u", BT_XDP_MARK, ifindex);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (bind(fd, (const struct sockaddr *)&name, size) != 0) {
        int failed = -errno;
        close(fd);
        return failed;
    }
    return fd;
}
