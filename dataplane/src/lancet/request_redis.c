// SPDX-License-Identifier: Apache-2.0
// Requests in the Redis serialization protocol: get and set, and YCSB-E's scans and inserts on one sorted set.
#include "lancet/request_internal.h"

#include <string.h>

#define SORTED_SET "bobtail-ycsb-e"

// "$<n>\r\n<bytes>\r\n"
static void put_bulk(struct bt_request *r, const char *text, size_t n)
{
    bt_request_put_text(r, "$");
    bt_request_put_decimal(r, n);
    bt_request_put_text(r, "\r\n");
    bt_request_put(r, text, n);
    bt_request_put_text(r, "\r\n");
}

static void write_redis_get(struct bt_request *r, const char *key, size_t n)
{
    bt_request_put_text(r, "*2\r\n$3\r\nGET\r\n");
    put_bulk(r, key, n);
}

static void write_redis_set(struct bt_request *r, const char *key, size_t n, size_t value)
{
    bt_request_put_text(r, "*3\r\n$3\r\nSET\r\n");
    put_bulk(r, key, n);
    bt_request_put_text(r, "$");
    bt_request_put_decimal(r, value);
    bt_request_put_text(r, "\r\n");
    bt_request_put_filler(r, value);
    bt_request_put_text(r, "\r\n");
}

// Members of one score are kept in the order of their bytes, so a scan is a range from a key on.
static void write_redis_scan(struct bt_request *r, const char *key, size_t n, uint64_t length)
{
    char from[BT_KEY_MAX + 1];
    char digits[20];
    struct bt_request d = {.at = (uint8_t *)digits};
    from[0] = '[';
    memcpy(from + 1, key, n);
    bt_request_put_decimal(&d, length);
    bt_request_put_text(r, "*7\r\n$11\r\nZRANGEBYLEX\r\n");
    put_bulk(r, SORTED_SET, strlen(SORTED_SET));
    put_bulk(r, from, n + 1);
    bt_request_put_text(r, "$1\r\n+\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n");
    put_bulk(r, digits, (size_t)(d.at - (uint8_t *)digits));
}

// The value stands behind the key in the member itself, so that scans bring it.
static void write_redis_insert(struct bt_request *r, const char *key, size_t n, size_t value)
{
    bt_request_put_text(r, "*4\r\n$4\r\nZADD\r\n");
    put_bulk(r, SORTED_SET, strlen(SORTED_SET));
    bt_request_put_text(r, "$1\r\n0\r\n$");
    bt_request_put_decimal(r, n + 1 + value);
    bt_request_put_text(r, "\r\n");
    bt_request_put(r, key, n);
    bt_request_put_text(r, ":");
    bt_request_put_filler(r, value);
    bt_request_put_text(r, "\r\n");
}

void bt_request_redis(struct bt_request *r)
{
    struct bt_request_stream *s = r->stream;
    switch (r->op) {
    case BT_OP_SCAN:
        write_redis_scan(r, r->key, r->key_bytes,
                         bt_dist_draw(&r->load->scan_length, &s->rng, &s->scan_turn, 1, 10000));
        break;
    case BT_OP_INSERT:
        write_redis_insert(r, r->key, r->key_bytes, r->value_bytes);
        break;
    case BT_OP_WRITE:
        write_redis_set(r, r->key, r->key_bytes, r->value_bytes);
        break;
    case BT_OP_READ:
        write_redis_get(r, r->key, r->key_bytes);
        break;
    }
}
