// SPDX-License-Identifier: Apache-2.0
// What the writers of the protocols' requests share.
#ifndef BT_LANCET_REQUEST_INTERNAL_H
#define BT_LANCET_REQUEST_INTERNAL_H

#include "lancet/request.h"

// A request being written.
struct bt_request {
    struct bt_request_stream *stream;
    const struct bt_workload *load;
    struct bt_expect *expect;
    uint8_t *at; // the next byte
    // Of protocols with keys.
    enum bt_operation op;
    char key[BT_KEY_MAX];
    size_t key_bytes, value_bytes; // value: of writes and inserts
};

// One protocol's writer.
typedef void bt_request_writer(struct bt_request *r);
#define BT_LANCET_PROTOCOL_WRITER(name, word, read, write, keys) bt_request_writer write;
BT_LANCET_PROTOCOL_TABLE(BT_LANCET_PROTOCOL_WRITER)

void bt_request_put(struct bt_request *r, const void *bytes, size_t n);
void bt_request_put_text(struct bt_request *r, const char *text);
void bt_request_put_filler(struct bt_request *r, size_t n);
void bt_request_put_decimal(struct bt_request *r, uint64_t v);

#endif
