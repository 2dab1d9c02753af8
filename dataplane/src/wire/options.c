// SPDX-License-Identifier: Apache-2.0
// Option parsing and writing. Order on the wire is order of kind.
#include "wire/options.h"

#include "base/bytes.h"

static const uint8_t known_max = BT_OPTION_FLOW;

static enum bt_mcase read_forwarded(const uint8_t *v, size_t len, struct bt_options *o)
{
    if (len != 8 && len != 20) {
        return BT_M_OPT_LENGTH;
    }
    uint16_t port = bt_get16(v);
    if (len == 8) {
        o->forwarded = bt_addr_v4(v + 2, port);
    } else {
        memset(&o->forwarded, 0, sizeof o->forwarded);
        memcpy(o->forwarded.ip, v + 2, 16);
        o->forwarded.port = port;
    }
    return BT_M_OK;
}

// v: value, len: whole option.
static enum bt_mcase read_known(uint8_t kind, const uint8_t *v, size_t len, size_t offset, struct bt_options *o)
{
    static const uint8_t size[] = {0, 0, 12, 4, 10, 6, 6, 18, 4};
    if (kind == BT_OPTION_FORWARDED) {
        return read_forwarded(v, len, o);
    }
    if (len != size[kind]) {
        return BT_M_OPT_LENGTH;
    }
    switch (kind) {
    case BT_OPTION_TAG:
        o->key_id = v[0];
        o->tag_flags = v[1];
        o->tag_offset = (uint16_t)(offset + 2);
        memcpy(o->tag, v + 2, 8);
        break;
    case BT_OPTION_CLASS:
        o->class_id = v[0];
        o->class_flags = v[1];
        break;
    case BT_OPTION_TRACE:
        o->trace = bt_get64(v);
        break;
    case BT_OPTION_COPY:
        o->copy = bt_get32(v);
        break;
    case BT_OPTION_SESSION:
        o->session = bt_get64(v);
        o->session_seq = bt_get64(v + 8);
        break;
    case BT_OPTION_FLOW:
        o->flow = bt_get16(v);
        break;
    default:
        o->router_id = bt_get32(v);
        break;
    }
    return BT_M_OK;
}

enum bt_mcase bt_options_decode(const uint8_t *p, size_t n, size_t header_offset, struct bt_options *out)
{
    enum bt_mcase result = BT_M_OK;
    memset(out, 0, sizeof *out);
    for (size_t at = 0; at < n;) {
        uint8_t kind = p[at];
        if (kind == BT_OPTION_PAD) {
            at++;
            continue;
        }
        if (n - at < 2 || p[at + 1] < 2 || p[at + 1] > n - at) {
            return BT_M_OPT_TRUNCATED;
        }
        size_t len = p[at + 1];
        if (kind <= known_max) {
            if (out->present & (1u << kind)) {
                return BT_M_OPT_DUPLICATE;
            }
            out->present |= 1u << kind;
            enum bt_mcase m = read_known(kind, p + at + 2, len, header_offset + at + 2, out);
            if (m) {
                return m;
            }
        } else if (kind & BT_OPTION_CRITICAL) {
            result = BT_M_OPT_CRITICAL; // read on: a DROP must find the client
        }
        at += len;
    }
    return result;
}

size_t bt_options_sum(const struct bt_options *o)
{
    size_t n = 0;
    if (o->present & BT_HAS_FORWARDED) {
        n += bt_addr_is_v4(&o->forwarded) ? 8 : 20;
    }
    if (o->present & BT_HAS_TAG) {
        n += 12;
    }
    if (o->present & BT_HAS_CLASS) {
        n += 4;
    }
    if (o->present & BT_HAS_TRACE) {
        n += 10;
    }
    if (o->present & BT_HAS_ROUTER) {
        n += 6;
    }
    if (o->present & BT_HAS_COPY) {
        n += 6;
    }
    if (o->present & BT_HAS_SESSION) {
        n += 18;
    }
    if (o->present & BT_HAS_FLOW) {
        n += 4;
    }
    return (n + 3) & ~(size_t)3;
}

static uint8_t *begin(uint8_t *p, uint8_t kind, uint8_t len)
{
    p[0] = kind;
    p[1] = len;
    return p + 2;
}

static uint8_t *write_forwarded(uint8_t *p, const struct bt_addr *a)
{
    bool v4 = bt_addr_is_v4(a);
    p = begin(p, BT_OPTION_FORWARDED, v4 ? 8 : 20);
    bt_put16(p, a->port);
    size_t n = v4 ? 4 : 16;
    memcpy(p + 2, a->ip + 16 - n, n);
    return p + 2 + n;
}

size_t bt_options_encode(uint8_t *start, size_t header_offset, struct bt_options *o)
{
    size_t size = bt_options_size(o);
    uint8_t *p = start;
    if (o->present & BT_HAS_FORWARDED) {
        p = write_forwarded(p, &o->forwarded);
    }
    if (o->present & BT_HAS_TAG) {
        p = begin(p, BT_OPTION_TAG, 12);
        p[0] = o->key_id;
        p[1] = o->tag_flags;
        o->tag_offset = (uint16_t)(header_offset + (size_t)(p + 2 - start));
        memcpy(p + 2, o->tag, 8);
        p += 10;
    }
    if (o->present & BT_HAS_CLASS) {
        p = begin(p, BT_OPTION_CLASS, 4);
        p[0] = o->class_id;
        p[1] = o->class_flags;
        p += 2;
    }
    if (o->present & BT_HAS_TRACE) {
        p = begin(p, BT_OPTION_TRACE, 10);
        bt_put64(p, o->trace);
        p += 8;
    }
    if (o->present & BT_HAS_ROUTER) {
        p = begin(p, BT_OPTION_ROUTER, 6);
        bt_put32(p, o->router_id);
        p += 4;
    }
    if (o->present & BT_HAS_COPY) {
        p = begin(p, BT_OPTION_COPY, 6);
        bt_put32(p, o->copy);
        p += 4;
    }
    if (o->present & BT_HAS_SESSION) {
        p = begin(p, BT_OPTION_SESSION, 18);
        bt_put64(p, o->session);
        bt_put64(p + 8, o->session_seq);
        p += 16;
    }
    if (o->present & BT_HAS_FLOW) {
        p = begin(p, BT_OPTION_FLOW, 4);
        bt_put16(p, o->flow);
        p += 2;
    }
    memset(p, BT_OPTION_PAD, size - (size_t)(p - start));
    return size;
}

void bt_options_set_class_flags(uint8_t *p, size_t n, uint8_t flags)
{
    for (size_t at = 0; at + 1 < n; at += p[at] == BT_OPTION_PAD ? 1 : p[at + 1]) {
        if (p[at] == BT_OPTION_CLASS) {
            p[at + 3] = flags;
            return;
        }
    }
}

uint32_t bt_router_id(const struct bt_addr *request_addr)
{
    uint8_t b[18];
    memcpy(b, request_addr->ip, 16);
    bt_put16(b + 16, request_addr->port);
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < sizeof b; i++) {
        h = (h ^ b[i]) * 0x01000193u;
    }
    return h;
}
