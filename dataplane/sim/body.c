// SPDX-License-Identifier: Apache-2.0
// What simulated messages carry: number, its complement, one more number, and a pattern to the end,
// so that any byte out of place in reassembly is seen.
#include "base/bytes.h"
#include "rpc/msg.h"
#include "world.h"

#include <string.h>

enum { HEAD = 16 };

/* Depends on both numbers of the head, so that parts of two replies to one request do not match. */
static uint8_t pattern(uint32_t request, uint64_t extra, uint32_t i)
{
    return (uint8_t)(request * 31u + (uint32_t)extra * 101u + i * 7u + (i >> 8) * 13u);
}

uint32_t sim_body_write(uint8_t *out, uint32_t len, uint32_t request, uint64_t extra)
{
    bt_put32(out, request);
    bt_put32(out + 4, ~request);
    bt_put64(out + 8, extra);
    if (len == HEAD) { /* figures: nothing to loop over */
        return len;
    }
    for (uint32_t i = HEAD; i < len; i++) {
        out[i] = pattern(request, extra, i);
    }
    return len;
}

uint32_t sim_body_read(const uint8_t *p, uint32_t len, uint64_t *extra)
{
    if (len < HEAD) {
        return UINT32_MAX;
    }
    uint32_t request = bt_get32(p);
    if (bt_get32(p + 4) != ~request) {
        return UINT32_MAX;
    }
    uint64_t value = bt_get64(p + 8);
    if (extra != NULL) {
        *extra = value;
    }
    for (uint32_t i = HEAD; i < len; i++) {
        if (p[i] != pattern(request, value, i)) {
            return UINT32_MAX;
        }
    }
    return request;
}

uint32_t sim_body_of(struct sim_world *w, const struct bt_msg *msg, uint64_t *extra)
{
    if (msg->packets == 1) { /* read where it lies */
        return sim_body_read(msg->head->data, msg->len, extra);
    }
    size_t len = bt_msg_copy(msg, w->scratch, SIM_BODY_MAX);
    return len == msg->len ? sim_body_read(w->scratch, (uint32_t)len, extra) : UINT32_MAX;
}
