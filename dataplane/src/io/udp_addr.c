// SPDX-License-Identifier: Apache-2.0
// Between the kernel's socket addresses and bt_addr: the only place that knows both byte orders.
#include "io/udp_internal.h"

#include <arpa/inet.h>
#include <string.h>

int bt_udp_to_sockaddr(const struct bt_addr *a, sa_family_t family, union bt_udp_sa *out, socklen_t *len)
{
    memset(out, 0, sizeof *out);
    if (family == AF_INET) {
        if (!bt_addr_is_v4(a)) {
            return -1;
        }
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(a->port);
        memcpy(&out->v4.sin_addr, a->ip + 12, 4);
        *len = sizeof out->v4;
        return 0;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(a->port);
    memcpy(&out->v6.sin6_addr, a->ip, 16);
    *len = sizeof out->v6;
    return 0;
}

struct bt_addr bt_udp_from_sockaddr(const union bt_udp_sa *sa)
{
    struct bt_addr a = {0};
    if (sa->sa.sa_family == AF_INET) {
        uint8_t ip[4];
        memcpy(ip, &sa->v4.sin_addr, 4);
        return bt_addr_v4(ip, ntohs(sa->v4.sin_port));
    }
    if (sa->sa.sa_family == AF_INET6) {
        memcpy(a.ip, &sa->v6.sin6_addr, 16);
        a.port = ntohs(sa->v6.sin6_port);
    }
    return a;
}
