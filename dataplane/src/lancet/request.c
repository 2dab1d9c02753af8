// SPDX-License-Identifier: Apache-2.0
#include "lancet/request.h"

#include "base/bytes.h"

#include <endian.h>
#include <string.h>

#define SORTED_SET "bobtail-ycsb-e"

enum { BINARY_HEADER = 24, MAGIC_REQUEST = 0x80, OP_GET = 0, OP_SET = 1, OVERHEAD = 512 };

size_t bt_request_max(const struct bt_workload *w)
{
    return (w->protocol == BT_REPLY_HTTP ? sizeof w->path + sizeof w->host : BT_BODY_MAX + BT_KEY_MAX) + OVERHEAD;
}

struct writer {
    uint8_t *at;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
    memcpy(w->at, bytes, n);
    w->at += n;
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_filler(struct writer *w, size_t n)
{
    memset(w->at, 'v', n);
    w->at += n;
}

static void put_decimal(struct writer *w, uint64_t v)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[sizeof digits - ++n] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    put(w, digits + sizeof digits - n, n);
}

static void put_le64(struct writer *w, uint64_t v)
{
    v = htole64(v);
    put(w, &v, sizeof v);
}

// "$<n>\r\n<bytes>\r\n"
static void put_bulk(struct writer *w, const char *text, size_t n)
{
    put_text(w, "$");
    put_decimal(w, n);
    put_text(w, "\r\n");
    put(w, text, n);
    put_text(w, "\r\n");
}

static void write_redis_get(struct writer *w, const char *key, size_t n)
{
    put_text(w, "*2\r\n$3\r\nGET\r\n");
    put_bulk(w, key, n);
}

static void write_redis_set(struct writer *w, const char *key, size_t n, size_t value)
{
    put_text(w, "*3\r\n$3\r\nSET\r\n");
    put_bulk(w, key, n);
    put_text(w, "$");
    put_decimal(w, value);
    put_text(w, "\r\n");
    put_filler(w, value);
    put_text(w, "\r\n");
}

// Members of one score are kept in the order of their bytes, so a scan is a range from a key on.
static void write_redis_scan(struct writer *w, const char *key, size_t n, uint64_t length)
{
    char from[BT_KEY_MAX + 1];
    char digits[20];
    struct writer d = {(uint8_t *)digits};
    from[0] = '[';
    memcpy(from + 1, key, n);
    put_decimal(&d, length);
    put_text(w, "*7\r\n$11\r\nZRANGEBYLEX\r\n");
    put_bulk(w, SORTED_SET, strlen(SORTED_SET));
    put_bulk(w, from, n + 1);
    put_text(w, "$1\r\n+\r\n$5\r\nLIMIT\r\n$1\r\n0\r\n");
    put_bulk(w, digits, (size_t)(d.at - (uint8_t *)digits));
}

// The value stands behind the key in the member itself, so that scans bring it.
static void write_redis_insert(struct writer *w, const char *key, size_t n, size_t value)
{
    put_text(w, "*4\r\n$4\r\nZADD\r\n");
    put_bulk(w, SORTED_SET, strlen(SORTED_SET));
    put_text(w, "$1\r\n0\r\n$");
    put_decimal(w, n + 1 + value);
    put_text(w, "\r\n");
    put(w, key, n);
    put_text(w, ":");
    put_filler(w, value);
    put_text(w, "\r\n");
}

static void write_text(struct writer *w, const char *key, size_t n, bool set, size_t value)
{
    put_text(w, set ? "set " : "get ");
    put(w, key, n);
    if (set) {
        put_text(w, " 0 0 ");
        put_decimal(w, value);
        put_text(w, "\r\n");
        put_filler(w, value);
    }
    put_text(w, "\r\n");
}

static void write_binary(struct writer *w, const char *key, size_t n, bool set, size_t value, uint32_t opaque)
{
    uint8_t h[BINARY_HEADER] = {MAGIC_REQUEST, set ? OP_SET : OP_GET};
    const uint8_t extras[8] = {0}; // of set: flags and expiry
    uint32_t extra = set ? sizeof extras : 0;
    bt_put16(h + 2, (uint16_t)n);
    h[4] = (uint8_t)extra;
    bt_put32(h + 8, (uint32_t)(extra + n + (set ? value : 0)));
    bt_put32(h + 12, opaque);
    put(w, h, sizeof h);
    put(w, extras, extra);
    put(w, key, n);
    if (set) {
        put_filler(w, value);
    }
}

static void write_http(struct writer *w, const struct bt_workload *load)
{
    put_text(w, "GET ");
    put_text(w, load->path);
    put_text(w, " HTTP/1.1\r\nHost: ");
    put_text(w, load->host);
    put_text(w, "\r\nUser-Agent: bobtail-load\r\n\r\n");
}

static void write_body(struct bt_request_stream *s, struct writer *w, struct bt_expect *expect)
{
    const struct bt_workload *load = s->workload;
    uint64_t service_us = bt_dist_draw(&load->service_ns, &s->rng, &s->service_turn, 0, UINT64_C(60000000000)) / 1000;
    if (load->protocol == BT_REPLY_SYNTHETIC) {
        put_le64(w, service_us);
        return;
    }
    bool echo = load->protocol == BT_REPLY_ECHO;
    uint64_t low = echo ? 1 : 24;
    uint64_t bytes = bt_dist_draw(&load->request_bytes, &s->rng, &s->request_turn, low, BT_BODY_MAX);
    if (echo) {
        uint64_t serial = s->serial;
        expect->bytes = bytes;
        expect->first = serial;
        put(w, &serial, bytes < sizeof serial ? bytes : sizeof serial);
        put_filler(w, bytes < sizeof serial ? 0 : bytes - sizeof serial);
        return;
    }
    expect->bytes = bt_dist_draw(&load->reply_bytes, &s->rng, &s->reply_turn, 0, BT_BODY_MAX);
    put_le64(w, service_us);
    put_le64(w, bytes);
    put_le64(w, expect->bytes);
    put_filler(w, bytes - 24);
}

// One operation on a key, in the words of the protocol.
static void write_key(struct bt_request_stream *s, struct writer *w, uint64_t number, enum bt_operation op,
                      struct bt_expect *expect)
{
    const struct bt_workload *load = s->workload;
    char key[BT_KEY_MAX];
    size_t n = bt_key_write(&load->keys, number, key);
    bool set = op != BT_OP_READ;
    size_t value = 0;
    if (op == BT_OP_WRITE || op == BT_OP_INSERT) {
        value = (size_t)bt_dist_draw(&load->value_bytes, &s->rng, &s->value_turn, 0, BT_BODY_MAX);
    }
    expect->opcode = set ? OP_SET : OP_GET;
    expect->opaque = (uint32_t)s->serial;
    if (load->protocol == BT_REPLY_MEMCACHED_TEXT) {
        write_text(w, key, n, set, value);
    } else if (load->protocol == BT_REPLY_MEMCACHED_BINARY) {
        write_binary(w, key, n, set, value, expect->opaque);
    } else if (op == BT_OP_SCAN) {
        write_redis_scan(w, key, n, bt_dist_draw(&load->scan_length, &s->rng, &s->scan_turn, 1, 10000));
    } else if (op == BT_OP_INSERT) {
        write_redis_insert(w, key, n, value);
    } else if (set) {
        write_redis_set(w, key, n, value);
    } else {
        write_redis_get(w, key, n);
    }
}

bool bt_workload_has_keys(const struct bt_workload *w)
{
    return w->protocol == BT_REPLY_REDIS || w->protocol == BT_REPLY_MEMCACHED_TEXT ||
           w->protocol == BT_REPLY_MEMCACHED_BINARY;
}

const char *bt_workload_key_order(bool scans)
{
    return scans ? "zipf:0.99" : "uni"; // the constant of YCSB (SoCC'10)
}

size_t bt_request_next(struct bt_request_stream *s, uint8_t *out, struct bt_expect *expect, enum bt_operation *op)
{
    const struct bt_workload *load = s->workload;
    struct writer w = {out};
    *expect = (struct bt_expect){0};
    *op = BT_OP_READ;
    if (load->protocol == BT_REPLY_HTTP) {
        write_http(&w, load);
    } else if (bt_workload_has_keys(load)) {
        bool read = bt_rng_unit(&s->rng) < load->read_ratio;
        uint64_t key = bt_keys_draw(&load->keys, &s->rng, &s->key_turn);
        *op = read ? (load->scans ? BT_OP_SCAN : BT_OP_READ) : (load->scans ? BT_OP_INSERT : BT_OP_WRITE);
        if (*op == BT_OP_INSERT) { // beyond the keys there are
            key = load->keys.n + bt_rng_next(&s->rng) % (UINT32_MAX - load->keys.n);
        }
        write_key(s, &w, key, *op, expect);
    } else {
        write_body(s, &w, expect);
    }
    s->serial++;
    return (size_t)(w.at - out);
}

size_t bt_request_store(struct bt_request_stream *s, uint64_t key, uint8_t *out, struct bt_expect *expect)
{
    struct writer w = {out};
    *expect = (struct bt_expect){0};
    if (!bt_workload_has_keys(s->workload)) {
        return 0;
    }
    write_key(s, &w, key, s->workload->scans ? BT_OP_INSERT : BT_OP_WRITE, expect);
    s->serial++;
    return (size_t)(w.at - out);
}
