// SPDX-License-Identifier: Apache-2.0
// A network device with stamps of its own, played between a program and the kernel (LD_PRELOAD). The device is named by
// NIC_DEVICE. It answers ETHTOOL_GET_TS_INFO, SIOCGHWTSTAMP and SIOCSHWTSTAMP, and does what it was told last: where
// its clock is to stamp, the kernel's stamp is taken in its stead, by a clock of its own and in the place of a
// device's. What was asked of it is written to NIC_LOG, a line each.
//
//   NIC_STATE   file with its tx_type and rx_filter: how it stands, for who looks or changes it
//   NIC_FILTERS bits of the rx_filters it says it has; HWTSTAMP_FILTER_NONE and _ALL
//   NIC_TAKES   rx_filter that it takes whatever it is asked for
//   NIC_SET_ERROR, NIC_GET_ERROR, NIC_BUSY_POLL_ERROR   errno of SIOCSHWTSTAMP, SIOCGHWTSTAMP, SO_BUSY_POLL
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKETS = 65536, KERNEL_IS_AHEAD_S = 1000000000 };

#define BY_KERNEL   (SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define BY_HARDWARE (SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE)

static _Atomic bool stamped[SOCKETS]; // by the device

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

// One write, so that the lines of threads do not mix.
static void note(const char *text)
{
    int fd = open(getenv("NIC_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) {
        abort();
    }
    close(fd);
}

static struct hwtstamp_config stands(void)
{
    struct hwtstamp_config c = {0};
    FILE *f = fopen(getenv("NIC_STATE"), "r");
    if (f == NULL || fscanf(f, "%d %d", &c.tx_type, &c.rx_filter) != 2) {
        abort();
    }
    fclose(f);
    return c;
}

static int fails(int error)
{
    errno = error;
    return -1;
}

static int switch_to(struct hwtstamp_config *c)
{
    char line[64];
    snprintf(line, sizeof line, "set %d %d\n", c->tx_type, c->rx_filter);
    note(line);
    if (number("NIC_SET_ERROR", 0) != 0) {
        return fails(number("NIC_SET_ERROR", 0));
    }
    c->rx_filter = c->rx_filter != HWTSTAMP_FILTER_NONE ? number("NIC_TAKES", c->rx_filter) : c->rx_filter;
    FILE *f = fopen(getenv("NIC_STATE"), "w");
    if (f == NULL || fprintf(f, "%d %d\n", c->tx_type, c->rx_filter) < 0 || fclose(f) != 0) {
        abort();
    }
    return 0;
}

static int describe(struct ethtool_ts_info *info)
{
    info->so_timestamping = BY_KERNEL | BY_HARDWARE;
    info->phc_index = 0;
    info->tx_types = (1u << HWTSTAMP_TX_OFF) | (1u << HWTSTAMP_TX_ON);
    info->rx_filters = (uint32_t)number("NIC_FILTERS", (1 << HWTSTAMP_FILTER_NONE) | (1 << HWTSTAMP_FILTER_ALL));
    return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, ...);
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
    }
    if (request != SIOCETHTOOL && request != SIOCGHWTSTAMP && request != SIOCSHWTSTAMP) {
        return next(fd, request, arg);
    }
    const struct ifreq *rq = arg;
    uint32_t command = ETHTOOL_GET_TS_INFO;
    if (request == SIOCETHTOOL) {
        memcpy(&command, rq->ifr_data, sizeof command);
    }
    if (strcmp(rq->ifr_name, getenv("NIC_DEVICE")) != 0 || command != ETHTOOL_GET_TS_INFO) {
        return next(fd, request, arg);
    }
    if (request == SIOCETHTOOL) {
        return describe((struct ethtool_ts_info *)(void *)rq->ifr_data);
    }
    struct hwtstamp_config *c = (struct hwtstamp_config *)(void *)rq->ifr_data;
    if (request == SIOCSHWTSTAMP) {
        return switch_to(c);
    }
    if (number("NIC_GET_ERROR", 0) != 0) {
        return fails(number("NIC_GET_ERROR", 0));
    }
    *c = stands();
    return 0;
}

// What the kernel is asked for, so that the device seems to do what a socket asks of it.
static uint32_t in_its_stead(int fd, uint32_t asked)
{
    const struct hwtstamp_config c = stands();
    uint32_t flags = asked & ~(uint32_t)BY_HARDWARE;
    if ((asked & SOF_TIMESTAMPING_TX_HARDWARE) != 0 && c.tx_type != HWTSTAMP_TX_OFF) {
        flags |= SOF_TIMESTAMPING_TX_SOFTWARE;
    }
    if ((asked & SOF_TIMESTAMPING_RX_HARDWARE) != 0 && c.rx_filter == HWTSTAMP_FILTER_ALL) {
        flags |= SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    if ((asked & SOF_TIMESTAMPING_RAW_HARDWARE) != 0) {
        flags |= SOF_TIMESTAMPING_SOFTWARE;
    }
    if (fd >= 0 && fd < SOCKETS) {
        atomic_store(&stamped[fd], (asked & SOF_TIMESTAMPING_RAW_HARDWARE) != 0);
    }
    return flags;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    static int (*next)(int, int, int, const void *, socklen_t);
    char line[64];
    uint32_t flags;
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "setsockopt");
    }
    if (level == SOL_SOCKET && name == SO_BUSY_POLL && number("NIC_BUSY_POLL_ERROR", 0) != 0) {
        return fails(number("NIC_BUSY_POLL_ERROR", 0));
    }
    if (level != SOL_SOCKET || name != SO_TIMESTAMPING || len != sizeof flags) {
        return next(fd, level, name, value, len);
    }
    memcpy(&flags, value, sizeof flags);
    snprintf(line, sizeof line, "stamps %u\n", flags);
    note(line);
    flags = in_its_stead(fd, flags);
    return next(fd, level, name, &flags, sizeof flags);
}

ssize_t recvmsg(int fd, struct msghdr *h, int flags)
{
    static ssize_t (*next)(int, struct msghdr *, int);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "recvmsg");
    }
    ssize_t n = next(fd, h, flags);
    if (n < 0 || fd < 0 || fd >= SOCKETS || !atomic_load(&stamped[fd])) {
        return n;
    }
    for (struct cmsghdr *m = CMSG_FIRSTHDR(h); m != NULL; m = CMSG_NXTHDR(h, m)) {
        struct scm_timestamping t;
        if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SO_TIMESTAMPING && m->cmsg_len >= CMSG_LEN(sizeof t)) {
            memcpy(&t, CMSG_DATA(m), sizeof t);
            t.ts[2] = t.ts[0];
            t.ts[2].tv_sec -= KERNEL_IS_AHEAD_S;
            memset(&t.ts[0], 0, sizeof t.ts[0]);
            memcpy(CMSG_DATA(m), &t, sizeof t);
        }
    }
    return n;
}
