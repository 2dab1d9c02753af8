// SPDX-License-Identifier: Apache-2.0
// The kernel's and the device's stamps (SO_TIMESTAMPING, L-50): which there are on the way to a target,
// and reading them. Only differences of two stamps of the same clock are used, so it does not matter
// that the kernel stamps by the wall clock and a device by its own.
#include "agent/agent.h"

#include "io/udp_internal.h" // socket addresses

#include <errno.h>
#include <linux/errqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define KERNEL_FLAGS   (SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define HARDWARE_FLAGS (SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE)
#define QUEUE_FLAGS    (SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY)

const char *const agent_stamps_name[] = {"auto", "software", "kernel", "hardware"};

// False with the reason when the device cannot stamp by hardware, or is not let to.
static bool hardware(struct agent *a, const struct ethtool_ts_info *info, uint32_t can, char why[AGENT_DEVICE_WHY])
{
    const uint32_t all = UINT32_C(1) << HWTSTAMP_FILTER_ALL;
    if ((can & HARDWARE_FLAGS) != HARDWARE_FLAGS) {
        snprintf(why, AGENT_DEVICE_WHY, "has no clock that stamps packets");
        return false;
    }
    if ((info->tx_types & (UINT32_C(1) << HWTSTAMP_TX_ON)) == 0 || (info->rx_filters & all) == 0) {
        snprintf(why, AGENT_DEVICE_WHY, "cannot stamp every frame");
        return false;
    }
    return agent_device_switch_on(&a->device, a->config.device, why);
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
    if (device[0] == '\0' && !agent_device_toward(target, device)) {
        return wanted == AGENT_STAMPS_AUTO || bt_ctl_refuse(e, AGENT_UNSUPPORTED, "timestamps",
                                                            "there is no device toward the target; name it: device");
    }
    uint32_t can = agent_device_can(device, &info);
    if (wanted != AGENT_STAMPS_KERNEL) {
        char why[AGENT_DEVICE_WHY];
        if (hardware(a, &info, can, why)) {
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
