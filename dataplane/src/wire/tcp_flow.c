// SPDX-License-Identifier: Apache-2.0
// See tcp_flow.h. Every length is looked at before what is behind it: these bytes come from anywhere.
#include "wire/tcp_flow.h"

#include "base/bytes.h"

enum { END = 0, NOP = 1, SCALE = 3, LENGTH = 5 };

struct option {
    uint8_t kind, len; // len: all of it, 0 behind the last one
    const uint8_t *at;
};

/* The option at *from, which moves behind it. False: the options end in garbage. */
static bool next(const uint8_t *options, uint32_t n, uint32_t *from, struct option *o)
{
    uint32_t at = *from;
    while (at < n && options[at] == NOP) {
        at++;
    }
    *o = (struct option){0};
    *from = n;
    if (at >= n || options[at] == END) {
        return true;
    }
    if (n - at < 2 || options[at + 1] < 2 || options[at + 1] > n - at) {
        return false;
    }
    *o = (struct option){options[at], options[at + 1], options + at};
    *from = at + o->len;
    return true;
}

enum bt_tcp_flow bt_tcp_flow_read(const uint8_t *options, uint32_t n)
{
    enum bt_tcp_flow said = BT_TCP_FLOW_NONE;
    struct option o;
    for (uint32_t at = 0; at < n;) {
        if (!next(options, n, &at, &o)) {
            return BT_TCP_FLOW_MALFORMED;
        }
        bool ours = o.len >= LENGTH - 1 && o.kind == BT_TCP_FLOW_KIND && bt_get16(o.at + 2) == BT_TCP_FLOW_EXPERIMENT;
        if (ours && said != BT_TCP_FLOW_ASKED) {
            bool known = o.len == LENGTH && o.at[4] == BT_TCP_FLOW_VERSION;
            said = known ? BT_TCP_FLOW_ASKED : BT_TCP_FLOW_UNKNOWN;
        }
    }
    return said;
}

bool bt_tcp_flow_scaled(const uint8_t *options, uint32_t n)
{
    struct option o;
    for (uint32_t at = 0; at < n;) {
        if (!next(options, n, &at, &o)) {
            return false;
        }
        if (o.len == 3 && o.kind == SCALE && o.at[2] != 0) {
            return true;
        }
    }
    return false;
}

void bt_tcp_flow_write(uint8_t *at)
{
    at[0] = BT_TCP_FLOW_KIND;
    at[1] = LENGTH;
    bt_put16(at + 2, BT_TCP_FLOW_EXPERIMENT);
    at[4] = BT_TCP_FLOW_VERSION;
    at[5] = at[6] = at[7] = NOP;
}
