// SPDX-License-Identifier: Apache-2.0
#include "lancet/request_internal.h"

#include <string.h>

enum { OVERHEAD = 512 };

static const struct {
    bt_request_writer *write;
    bool keys;
} protocols[BT_REPLY_PROTOCOLS] = {
#define PROTOCOL(name, word, read, write, keys) [BT_REPLY_##name] = {write, keys},
    BT_LANCET_PROTOCOL_TABLE(PROTOCOL)};

size_t bt_request_max(const struct bt_workload *w)
{
    return (w->protocol == BT_REPLY_HTTP ? sizeof w->path + sizeof w->host : BT_BODY_MAX + BT_KEY_MAX) + OVERHEAD;
}

void bt_request_put(struct bt_request *r, const void *bytes, size_t n)
{
    memcpy(r->at, bytes, n);
    r->at += n;
}

void bt_request_put_text(struct bt_request *r, const char *text)
{
    bt_request_put(r, text, strlen(text));
}

void bt_request_put_filler(struct bt_request *r, size_t n)
{
    memset(r->at, 'v', n);
    r->at += n;
}

void bt_request_put_decimal(struct bt_request *r, uint64_t v)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[sizeof digits - ++n] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    bt_request_put(r, digits + sizeof digits - n, n);
}

bool bt_workload_has_keys(const struct bt_workload *w)
{
    return protocols[w->protocol].keys;
}

const char *bt_workload_key_order(bool scans)
{
    return scans ? "zipf:0.99" : "uni"; // the constant of YCSB (SoCC'10)
}

// One operation on a key.
static void choose_key(struct bt_request *r, uint64_t number, enum bt_operation op)
{
    struct bt_request_stream *s = r->stream;
    r->op = op;
    r->key_bytes = bt_key_write(&r->load->keys, number, r->key);
    if (op == BT_OP_WRITE || op == BT_OP_INSERT) {
        r->value_bytes = (size_t)bt_dist_draw(&r->load->value_bytes, &s->rng, &s->value_turn, 0, BT_BODY_MAX);
    }
}

static enum bt_operation choose_operation(struct bt_request *r)
{
    struct bt_request_stream *s = r->stream;
    bool scans = r->load->scans;
    bool read = bt_rng_unit(&s->rng) < r->load->read_ratio;
    uint64_t key = bt_keys_draw(&r->load->keys, &s->rng, &s->key_turn);
    enum bt_operation op = read ? (scans ? BT_OP_SCAN : BT_OP_READ) : (scans ? BT_OP_INSERT : BT_OP_WRITE);
    if (op == BT_OP_INSERT) { // beyond the keys there are
        key = r->load->keys.n + bt_rng_next(&s->rng) % (UINT32_MAX - r->load->keys.n);
    }
    choose_key(r, key, op);
    return op;
}

static size_t write_request(struct bt_request *r, const uint8_t *from)
{
    protocols[r->load->protocol].write(r);
    r->stream->serial++;
    return (size_t)(r->at - from);
}

size_t bt_request_next(struct bt_request_stream *s, uint8_t *out, struct bt_expect *expect, enum bt_operation *op)
{
    struct bt_request r = {.stream = s, .load = s->workload, .expect = expect, .at = out};
    *expect = (struct bt_expect){0};
    *op = bt_workload_has_keys(s->workload) ? choose_operation(&r) : BT_OP_READ;
    return write_request(&r, out);
}

size_t bt_request_store(struct bt_request_stream *s, uint64_t key, uint8_t *out, struct bt_expect *expect)
{
    struct bt_request r = {.stream = s, .load = s->workload, .expect = expect, .at = out};
    *expect = (struct bt_expect){0};
    if (!bt_workload_has_keys(s->workload)) {
        return 0;
    }
    choose_key(&r, key, s->workload->scans ? BT_OP_INSERT : BT_OP_WRITE);
    return write_request(&r, out);
}
