// SPDX-License-Identifier: Apache-2.0
// memcached's requests to get and set one key, in its two protocols.
#include "lancet/request_internal.h"

#include "base/bytes.h"

enum { BINARY_HEADER = 24, MAGIC_REQUEST = 0x80, OP_GET = 0, OP_SET = 1 };

void bt_request_memcached_text(struct bt_request *r)
{
    bool set = r->op != BT_OP_READ;
    r->expect->opcode = set ? OP_SET : OP_GET;
    bt_request_put_text(r, set ? "set " : "get ");
    bt_request_put(r, r->key, r->key_bytes);
    if (set) {
        bt_request_put_text(r, " 0 0 ");
        bt_request_put_decimal(r, r->value_bytes);
        bt_request_put_text(r, "\r\n");
        bt_request_put_filler(r, r->value_bytes);
    }
    bt_request_put_text(r, "\r\n");
}

void bt_request_memcached_binary(struct bt_request *r)
{
    bool set = r->op != BT_OP_READ;
    size_t n = r->key_bytes, value = r->value_bytes;
    uint8_t h[BINARY_HEADER] = {MAGIC_REQUEST, set ? OP_SET : OP_GET};
    const uint8_t extras[8] = {0}; // of set: flags and expiry
    uint32_t extra = set ? sizeof extras : 0;
    bt_put16(h + 2, (uint16_t)n);
    h[4] = (uint8_t)extra;
    bt_put32(h + 8, (uint32_t)(extra + n + (set ? value : 0)));
    r->expect->opcode = h[1];
    r->expect->opaque = (uint32_t)r->stream->serial;
    bt_put32(h + 12, r->expect->opaque);
    bt_request_put(r, h, sizeof h);
    bt_request_put(r, extras, extra);
    bt_request_put(r, r->key, n);
    if (set) {
        bt_request_put_filler(r, value);
    }
}
