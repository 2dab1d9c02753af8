// SPDX-License-Identifier: Apache-2.0
#include "agent/device.h"

#include "io/udp_internal.h" // socket addresses
#include "shell/log.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool agent_device_toward(const struct bt_addr *target, char name[IFNAMSIZ])
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

// Asks the driver; an errno value, 0 when it answered.
static int ask(unsigned long request, const char *name, void *data)
{
    struct ifreq rq = {.ifr_data = data};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(rq.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
    int error = fd < 0 || ioctl(fd, request, &rq) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return error;
}

uint32_t agent_device_can(const char *name, struct ethtool_ts_info *info)
{
    *info = (struct ethtool_ts_info){.cmd = ETHTOOL_GET_TS_INFO};
    return ask(SIOCETHTOOL, name, info) == 0 ? info->so_timestamping : 0;
}

// The one-step kinds stamp all that is sent, too, and do more to PTP.
static bool stamps_all(const struct hwtstamp_config *c)
{
    return c->tx_type != HWTSTAMP_TX_OFF && c->rx_filter == HWTSTAMP_FILTER_ALL;
}

bool agent_device_switch_on(struct agent_device *d, const char *name, char why[AGENT_DEVICE_WHY])
{
    struct hwtstamp_config before = {0};
    struct hwtstamp_config taken = {.tx_type = HWTSTAMP_TX_ON, .rx_filter = HWTSTAMP_FILTER_ALL};
    int silent = ask(SIOCGHWTSTAMP, name, &before);
    if (silent == 0 && stamps_all(&before)) {
        return true; // somebody wants it so: it stays, and to find it so takes no privilege
    }
    int error = ask(SIOCSHWTSTAMP, name, &taken);
    if (error == EPERM) {
        snprintf(why, AGENT_DEVICE_WHY, "does not stamp every frame yet, and to switch it on takes CAP_NET_ADMIN");
        return false;
    }
    if (error != 0) {
        snprintf(why, AGENT_DEVICE_WHY, "refuses to stamp every frame: %s", strerror(error));
        return false;
    }
    if (silent == 0) {
        snprintf(d->name, sizeof d->name, "%s", name);
        d->before = before;
        d->after = taken;
        (void)ask(SIOCGHWTSTAMP, name, &d->after); // as it will be told again, should that differ from the answer
    } else {
        bt_log_warn("agent: device %s does not tell how it stamped before (%s); it is left stamping every frame", name,
                    strerror(silent));
    }
    // A driver may choose a wider filter than it was asked for. There is none wider, and a narrower one leaves samples
    // without stamps.
    if (!stamps_all(&taken)) {
        agent_device_put_back(d);
        snprintf(why, AGENT_DEVICE_WHY,
                 "was asked to stamp every frame and stamps only some (tx_type %d, rx_filter %d)", taken.tx_type,
                 taken.rx_filter);
        return false;
    }
    return true;
}

void agent_device_put_back(struct agent_device *d)
{
    struct hwtstamp_config now = {0};
    if (d->name[0] == '\0') {
        return;
    }
    int error = ask(SIOCGHWTSTAMP, d->name, &now);
    if (error == 0 && memcmp(&now, &d->after, sizeof now) != 0) {
        bt_log_info("agent: device %s was switched by somebody else meanwhile (tx_type %d, rx_filter %d); it stays so",
                    d->name, now.tx_type, now.rx_filter);
    } else if (error != 0 || (error = ask(SIOCSHWTSTAMP, d->name, &d->before)) != 0) {
        bt_log_warn("agent: device %s cannot be put back to how it stamped before: %s", d->name, strerror(error));
    }
    d->name[0] = '\0';
}
