// SPDX-License-Identifier: Apache-2.0
// The kernel's and the device's stamps (SO_TIMESTAMPING, L-50): which there are on the way to a target,
// and reading them. Only differences of two stamps of the same clock are used, so it does not matter
// that the kernel stamps by the wall clock and a device by its own.
#include "agent/agent.h"

#include "io/udp_internal.h" // socket addresses

#include <errno.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_FLAGS   (SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define HARDWARE_FLAGS (SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE)
#define QUEUE_FLAGS    (SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY)

const char *const agent_stamps_name[] = {"auto", "software", "kernel", "hardware"};

// The device whose address a socket to the target would get.
static bool route_device(const struct bt_addr *target, char name[IFNAMSIZ])
{
    union bt_udp_sa sa;
    union bt_udp_sa own;
    socklen_t len;
    socklen_t own_len = sizeof own;
    struct ifaddrs *list = NULL;
    sa_family_t family = bt_addr_is_v4(target) ? AF_INET : AF_INET6;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = false;
    if (fd >= 0 && bt_udp_to_sockaddr(target, family, &sa, &len) == 0 && connect(fd, &sa.sa, len) == 0 &&
        getsockname(fd, &own.sa, &own_len) == 0 && getifaddrs(&list) == 0) {
        struct bt_addr local = bt_udp_from_sockaddr(&own);
        for (const struct ifaddrs *i = list; i != NULL && !found; i = i->ifa_next) {
            if (i->ifa_addr != NULL && i->ifa_addr->sa_family == family) {
                union bt_udp_sa one;
                memcpy(&one, i->ifa_addr, family == AF_INET ? sizeof one.v4 : sizeof one.v6);
                struct bt_addr a = bt_udp_from_sockaddr(&one);
                found = bt_addr_ip_eq(&a, &local);
                if (found) {
                    snprintf(name, IFNAMSIZ, "%s", i->ifa_name);
                }
            }
        }
        freeifaddrs(list);
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

// SO_TIMESTAMPING flags the device can do; 0 when it does not say.
static uint32_t device_can(const char *device, struct ethtool_ts_info *info)
{
    struct ifreq rq = {.ifr_data = (void *)info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memset(info, 0, sizeof *info);
    info->cmd = ETHTOOL_GET_TS_INFO;
    memcpy(rq.ifr_name, device, strnlen(device, IFNAMSIZ - 1));
    bool ok = fd >= 0 && ioctl(fd, SIOCETHTOOL, &rq) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok ? info->so_timestamping : 0;
}

// Tells the device to stamp every frame in both directions; an errno value, 0 when it does.
static int switch_device_on(const char *device)
{
    struct hwtstamp_config config = {.tx_type = HWTSTAMP_TX_ON, .rx_filter = HWTSTAMP_FILTER_ALL};
    struct ifreq rq = {.ifr_data = (void *)&config};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(rq.ifr_name, device, strnlen(device, IFNAMSIZ - 1));
    int error = fd < 0 || ioctl(fd, SIOCSHWTSTAMP, &rq) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    // A driver may choose a wider filter than it was asked for, never none.
    return error != 0 ? error : config.rx_filter == HWTSTAMP_FILTER_ALL ? 0 : EOPNOTSUPP;
}

// NULL, or why the device cannot stamp by hardware.
static const char *hardware_missing(const char *device, const struct ethtool_ts_info *info, uint32_t can)
{
    const uint32_t all = UINT32_C(1) << HWTSTAMP_FILTER_ALL;
    if ((can & HARDWARE_FLAGS) != HARDWARE_FLAGS) {
        return "has no clock that stamps packets";
    }
    if ((info->tx_types & (UINT32_C(1) << HWTSTAMP_TX_ON)) == 0 || (info->rx_filters & all) == 0) {
        return "cannot stamp every frame";
    }
    int error = switch_device_on(device);
    return error == 0 ? NULL : strerror(error);
}

bool agent_stamps_choose(struct agent *a, const struct bt_addr *target, struct bt_ctl_error *e)
{
    struct ethtool_ts_info info;
    char *device = a->config.device;
    int wanted = a->config.stamps;
    a->stamps = AGENT_STAMPS_SOFTWARE;
    if (wanted == AGENT_STAMPS_SOFTWARE || a->config.role == AGENT_THROUGHPUT) {
        return true;
    }
    if (device[0] == '\0' && !route_device(target, device)) {
        return wanted == AGENT_STAMPS_AUTO || bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps",
                                                            "there is no device toward the target; name it: device");
    }
    uint32_t can = device_can(device, &info);
    if (wanted != AGENT_STAMPS_KERNEL) {
        const char *why = hardware_missing(device, &info, can);
        if (why == NULL) {
            a->stamps = AGENT_STAMPS_HARDWARE;
            return true;
        }
        if (wanted == AGENT_STAMPS_HARDWARE) {
            return bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps", "hardware: device %s: %s; use kernel or software",
                                 device, why);
        }
    }
    if ((can & KERNEL_FLAGS) == KERNEL_FLAGS) {
        a->stamps = AGENT_STAMPS_KERNEL;
        return true;
    }
    return wanted == AGENT_STAMPS_AUTO ||
           bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps",
                         "kernel: the driver of device %s does not stamp both directions; use software", device);
}

bool agent_stamps_enable(const struct agent *a, int fd)
{
    const uint32_t flags = QUEUE_FLAGS | (a->stamps == AGENT_STAMPS_HARDWARE ? HARDWARE_FLAGS : KERNEL_FLAGS);
    return a->stamps == AGENT_STAMPS_SOFTWARE || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0;
}

// The stamp in use among the three a control message has.
static uint64_t stamp_of(const struct agent *a, const struct cmsghdr *m)
{
    struct scm_timestamping t;
    memcpy(&t, CMSG_DATA(m), sizeof t);
    const struct timespec *ts = &t.ts[a->stamps == AGENT_STAMPS_HARDWARE ? 2 : 0];
    uint64_t ns = (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
    return ns != 0 ? ns : BT_NO_STAMP;
}

static bool is_stamp(const struct cmsghdr *m)
{
    return m->cmsg_level == SOL_SOCKET && m->cmsg_type == SO_TIMESTAMPING &&
           m->cmsg_len >= CMSG_LEN(sizeof(struct scm_timestamping));
}

long agent_stamps_read(const struct agent *a, int fd, void *buf, size_t n, struct bt_addr *from, uint64_t *stamp_ns)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[256];
    } control;
    union bt_udp_sa sa;
    struct iovec iov = {buf, n};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_name = from != NULL ? &sa : NULL,
                       .msg_namelen = from != NULL ? sizeof sa : 0,
                       .msg_control = a->stamps != AGENT_STAMPS_SOFTWARE ? &control : NULL,
                       .msg_controllen = a->stamps != AGENT_STAMPS_SOFTWARE ? sizeof control : 0};
    ssize_t got = recvmsg(fd, &h, MSG_DONTWAIT);
    *stamp_ns = BT_NO_STAMP;
    for (struct cmsghdr *m = got > 0 ? CMSG_FIRSTHDR(&h) : NULL; m != NULL; m = CMSG_NXTHDR(&h, m)) {
        if (is_stamp(m)) {
            *stamp_ns = stamp_of(a, m);
        }
    }
    if (got >= 0 && from != NULL) {
        *from = bt_udp_from_sockaddr(&sa);
    }
    return got;
}

bool agent_stamps_sent(const struct agent *a, int fd, uint32_t *id, uint64_t *ns)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[512];
    } control;
    uint8_t nothing[1];
    struct iovec iov = {nothing, sizeof nothing};
    // An entry may be an ICMP error instead of a stamp: the next one is looked at.
    for (;;) {
        struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        bool found = false;
        *ns = BT_NO_STAMP;
        if (recvmsg(fd, &h, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return false;
        }
        for (struct cmsghdr *m = CMSG_FIRSTHDR(&h); m != NULL; m = CMSG_NXTHDR(&h, m)) {
            if (is_stamp(m)) {
                *ns = stamp_of(a, m);
            } else if ((m->cmsg_level == SOL_IP && m->cmsg_type == IP_RECVERR) ||
                       (m->cmsg_level == SOL_IPV6 && m->cmsg_type == IPV6_RECVERR)) {
                struct sock_extended_err err;
                memcpy(&err, CMSG_DATA(m), sizeof err);
                found = err.ee_errno == ENOMSG && err.ee_origin == SO_EE_ORIGIN_TIMESTAMPING &&
                        err.ee_info == SCM_TSTAMP_SND;
                *id = err.ee_data;
            }
        }
        if (found && *ns != BT_NO_STAMP) {
            return true;
        }
    }
}
