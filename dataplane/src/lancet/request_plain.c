// SPDX-License-Identifier: Apache-2.0
// Requests without keys: HTTP, an echo's, and those of the servers that spend a given time (L-§7: i64 in little
// endian).
#include "lancet/request_internal.h"

#include <endian.h>

enum { STSS_HEAD = 24 };

static void put_le64(struct bt_request *r, uint64_t v)
{
    v = htole64(v);
    bt_request_put(r, &v, sizeof v);
}

static uint64_t draw_service_us(struct bt_request *r)
{
    struct bt_request_stream *s = r->stream;
    return bt_dist_draw(&r->load->service_ns, &s->rng, &s->service_turn, 0, UINT64_C(60000000000)) / 1000;
}

static uint64_t draw_bytes(struct bt_request *r, uint64_t least)
{
    struct bt_request_stream *s = r->stream;
    return bt_dist_draw(&r->load->request_bytes, &s->rng, &s->request_turn, least, BT_BODY_MAX);
}

void bt_request_http(struct bt_request *r)
{
    bt_request_put_text(r, "GET ");
    bt_request_put_text(r, r->load->path);
    bt_request_put_text(r, " HTTP/1.1\r\nHost: ");
    bt_request_put_text(r, r->load->host);
    bt_request_put_text(r, "\r\nUser-Agent: bobtail-load\r\n\r\n");
}

void bt_request_synthetic(struct bt_request *r)
{
    put_le64(r, draw_service_us(r));
}

void bt_request_echo(struct bt_request *r)
{
    uint64_t serial = r->stream->serial;
    draw_service_us(r); // of no use here, but the numbers that follow are those of the other protocols
    uint64_t bytes = draw_bytes(r, 1);
    r->expect->bytes = bytes;
    r->expect->first = serial;
    bt_request_put(r, &serial, bytes < sizeof serial ? bytes : sizeof serial);
    bt_request_put_filler(r, bytes < sizeof serial ? 0 : bytes - sizeof serial);
}

void bt_request_stss(struct bt_request *r)
{
    struct bt_request_stream *s = r->stream;
    uint64_t service_us = draw_service_us(r), bytes = draw_bytes(r, STSS_HEAD);
    r->expect->bytes = bt_dist_draw(&r->load->reply_bytes, &s->rng, &s->reply_turn, 0, BT_BODY_MAX);
    put_le64(r, service_us);
    put_le64(r, bytes);
    put_le64(r, r->expect->bytes);
    bt_request_put_filler(r, bytes - STSS_HEAD);
}
