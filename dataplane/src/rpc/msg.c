// SPDX-License-Identifier: Apache-2.0
// Message chains, iovec reading, and how a message is cut into packets.
#include "rpc/msg.h"

#include <string.h>

int bt_msg_iov(const struct bt_msg *msg, struct iovec *iov, int max)
{
    int n = 0;
    for (struct bt_pkt *p = msg->head; p; p = p->next) {
        if (p->len == 0) {
            continue;
        }
        if (n < max) {
            iov[n] = (struct iovec){.iov_base = p->data, .iov_len = p->len};
        }
        n++;
    }
    return n;
}

size_t bt_msg_copy(const struct bt_msg *msg, void *dst, size_t n)
{
    size_t done = 0;
    for (struct bt_pkt *p = msg->head; p && done < n; p = p->next) {
        size_t take = p->len < n - done ? p->len : n - done;
        memcpy((uint8_t *)dst + done, p->data, take);
        done += take;
    }
    return done;
}

void bt_msg_free(struct bt_msg *msg, struct bt_pool *pool)
{
    bt_pool_put_chain(pool, msg->head);
    msg->head = NULL;
    msg->len = msg->packets = 0;
}

uint32_t bt_iov_length(const struct iovec *iov, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len > UINT32_MAX - sum) {
            return UINT32_MAX;
        }
        sum += iov[i].iov_len;
    }
    return (uint32_t)sum;
}

void bt_iov_take_pieces(struct bt_iov_cursor *c, struct bt_pkt *pkt, uint32_t n)
{
    while (n > 0 && c->left > 0) {
        size_t have = c->iov->iov_len - c->off;
        uint32_t take = have < n ? (uint32_t)have : n;
        uint8_t *to = take ? bt_pkt_append(pkt, take) : NULL;
        if (to) {
            memcpy(to, (const uint8_t *)c->iov->iov_base + c->off, take);
        }
        n -= take;
        c->off += take;
        if (c->off == c->iov->iov_len) {
            c->iov++;
            c->left--;
            c->off = 0;
        }
    }
}

// Multi-packet messages only: their division is not on the common path.
static struct bt_split cut(uint32_t len, uint32_t first, uint32_t rest)
{
    struct bt_split s = {.count = 1, .first = (uint16_t)first, .rest = (uint16_t)rest};
    if (len > first) {
        uint32_t more = (len - first - 1) / rest + 1;
        s.count = more > 65534 ? 0 : 1 + more;
    }
    return s;
}

struct bt_split bt_split_request(uint32_t len, uint32_t single, uint32_t full)
{
    if (len <= single) {
        return (struct bt_split){.count = 1, .first = (uint16_t)len, .rest = (uint16_t)full};
    }
    return cut(len, BT_SPLIT_FIRST, full);
}

struct bt_split bt_split_reply(uint32_t len, uint32_t first, uint32_t full)
{
    return cut(len, first, full);
}
