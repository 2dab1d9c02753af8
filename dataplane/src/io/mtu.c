// SPDX-License-Identifier: Apache-2.0
// See mtu.h. The kernel is asked twice: which MTU an interface has, and, by connecting a UDP socket,
// which sends nothing, what a route takes and which address it leaves from.
#include "io/mtu.h"

#include "io/udp_internal.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define UNKNOWN 0u

static uint32_t smaller(uint32_t a, uint32_t b)
{
    if (a == UNKNOWN || b == UNKNOWN) {
        return a == UNKNOWN ? b : a;
    }
    return a < b ? a : b;
}

static uint16_t clamp(uint32_t mtu)
{
    if (mtu == UNKNOWN || mtu > BT_MTU_MAX) {
        return BT_MTU_MAX;
    }
    return (uint16_t)(mtu < BT_MTU_MIN ? BT_MTU_MIN : mtu);
}

static bool unspecified(const struct bt_addr *a)
{
    static const uint8_t zero[16];
    return bt_addr_is_v4(a) ? memcmp(a->ip + 12, zero, 4) == 0 : memcmp(a->ip, zero, 16) == 0;
}

static struct bt_addr ip_of(const struct sockaddr *from)
{
    union bt_udp_sa sa;
    memset(&sa, 0, sizeof sa);
    if (from->sa_family == AF_INET || from->sa_family == AF_INET6) {
        memcpy(&sa, from, from->sa_family == AF_INET ? sizeof sa.v4 : sizeof sa.v6);
    }
    return bt_udp_from_sockaddr(&sa);
}

// A loopback interface has every IPv4 address of its network, not only the one it was given.
static bool owns(const struct ifaddrs *i, const struct bt_addr *ip)
{
    struct bt_addr have = ip_of(i->ifa_addr);
    if (bt_addr_ip_eq(&have, ip)) {
        return true;
    }
    if ((i->ifa_flags & IFF_LOOPBACK) == 0 || i->ifa_netmask == NULL || i->ifa_addr->sa_family != AF_INET ||
        !bt_addr_is_v4(ip)) {
        return false;
    }
    uint8_t mask[4];
    struct sockaddr_in m;
    memcpy(&m, i->ifa_netmask, sizeof m);
    memcpy(mask, &m.sin_addr, sizeof mask);
    for (unsigned b = 0; b < sizeof mask; b++) {
        if ((have.ip[12 + b] & mask[b]) != (ip->ip[12 + b] & mask[b])) {
            return false;
        }
    }
    return true;
}

static uint32_t interface_mtu(const char *name)
{
    struct ifreq r;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint32_t mtu = UNKNOWN;
    if (fd < 0) { // a host with IPv6 only
        fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    }
    memset(&r, 0, sizeof r);
    strncpy(r.ifr_name, name, sizeof r.ifr_name - 1);
    if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &r) == 0 && r.ifr_mtu > 0) {
        mtu = (uint32_t)r.ifr_mtu;
    }
    if (fd >= 0) {
        close(fd);
    }
    return mtu;
}

unsigned bt_interface_of(const struct bt_addr *ip)
{
    struct ifaddrs *all;
    unsigned found = 0;
    if (getifaddrs(&all) != 0) {
        return 0;
    }
    for (const struct ifaddrs *i = all; i != NULL && found == 0; i = i->ifa_next) {
        if (i->ifa_addr != NULL && owns(i, ip)) {
            found = if_nametoindex(i->ifa_name);
        }
    }
    freeifaddrs(all);
    return found;
}

static uint32_t mtu_of_owner(const struct bt_addr *ip)
{
    struct ifaddrs *all;
    uint32_t mtu = UNKNOWN;
    if (getifaddrs(&all) != 0) {
        return UNKNOWN;
    }
    for (const struct ifaddrs *i = all; i != NULL && mtu == UNKNOWN; i = i->ifa_next) {
        if (i->ifa_addr != NULL && owns(i, ip)) {
            mtu = interface_mtu(i->ifa_name);
        }
    }
    freeifaddrs(all);
    return mtu;
}

// What the route to `target` takes, and in *from the address it leaves from. False: no route.
static bool ask_route(const struct bt_addr *local, const struct bt_addr *target, struct bt_addr *from, uint32_t *mtu)
{
    sa_family_t family = bt_addr_is_v4(target) ? AF_INET : AF_INET6;
    union bt_udp_sa sa;
    socklen_t len;
    int value = 0;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0;
    if (found && local != NULL && !unspecified(local)) {
        struct bt_addr any_port = *local;
        any_port.port = 0;
        found = bt_udp_to_sockaddr(&any_port, family, &sa, &len) == 0 && bind(fd, &sa.sa, len) == 0;
    }
    found = found && bt_udp_to_sockaddr(target, family, &sa, &len) == 0 && connect(fd, &sa.sa, len) == 0;
    len = sizeof sa;
    found = found && getsockname(fd, &sa.sa, &len) == 0;
    if (found) {
        *from = bt_udp_from_sockaddr(&sa);
        len = sizeof value;
        *mtu = getsockopt(fd, family == AF_INET ? SOL_IP : SOL_IPV6, family == AF_INET ? IP_MTU : IPV6_MTU, &value,
                          &len) == 0 &&
                       value > 0
                   ? (uint32_t)value
                   : UNKNOWN;
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

// An address of documentation (RFC 5737, RFC 3849): only the default route leads there.
static struct bt_addr anywhere(const struct bt_addr *like)
{
    struct bt_addr a = {.ip = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, .port = 9};
    return bt_addr_is_v4(like) ? bt_addr_v4u(0xc0000201, 9) : a;
}

uint16_t bt_mtu_of(const struct bt_addr *local)
{
    struct bt_addr far = anywhere(local);
    struct bt_addr from;
    uint32_t route = UNKNOWN;
    uint32_t mtu = UNKNOWN;
    if (unspecified(local)) {
        return bt_mtu_toward(local, &far);
    }
    mtu = mtu_of_owner(local);
    if (ask_route(NULL, &far, &from, &route) && bt_addr_ip_eq(&from, local)) {
        mtu = smaller(mtu, route);
    }
    return clamp(mtu);
}

uint16_t bt_mtu_toward(const struct bt_addr *local, const struct bt_addr *target)
{
    struct bt_addr from;
    uint32_t mtu = UNKNOWN;
    if (ask_route(local, target, &from, &mtu)) {
        mtu = smaller(mtu, mtu_of_owner(&from));
    }
    return clamp(mtu);
}
