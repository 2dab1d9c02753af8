// SPDX-License-Identifier: Apache-2.0
// See hostile.h.
#include "hostile.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct lab lab;
static uint8_t *before;
static uint64_t counters_before[BT_M_COUNT + 64];
uint8_t raw[4096];
size_t raw_len;

// --- snapshots ------------------------------------------------------------------

struct side server_side(void)
{
    return (struct side){lab.server_mem, lab.server_bytes, bt_server_counters(lab.server), BT_SERVER_COUNTERS,
                         lab_inject_server};
}

struct side client_side(void)
{
    return (struct side){lab.client_mem, lab.client_bytes, bt_client_counters(lab.client), BT_CLIENT_COUNTERS,
                         lab_inject_client};
}

void expect(const struct side *d, const char *what, const struct bt_addr *src, unsigned counter)
{
    size_t at = (size_t)((const uint8_t *)d->counters - d->mem), len = d->n * sizeof(uint64_t);
    before = realloc(before, d->bytes);
    memcpy(before, d->mem, d->bytes);
    memcpy(counters_before, d->counters, len);
    uint32_t left = lab.pool.left + lab.flights;
    d->inject(&lab, raw, raw_len, src);
    if (d->counters[counter] != counters_before[counter] + 1) {
        for (unsigned i = 0; i < d->n; i++) {
            if (d->counters[i] != counters_before[i]) {
                fail_msg("%s: counter %u (%s) moved, want %u", what, i, bt_mcase_name((enum bt_mcase)i), counter);
            }
        }
    }
    if (d->counters[counter] != counters_before[counter] + 1) {
        fail_msg("%s: counter %u did not move", what, counter);
    }
    if (memcmp(before, d->mem, at) || memcmp(before + at + len, d->mem + at + len, d->bytes - at - len)) {
        fail_msg("%s: state changed", what);
    }
    lab_flush(&lab);
    assert_int_equal(lab.pool.left, left);
}

// --- packets --------------------------------------------------------------------

void write_packet(const struct hostile_packet *o)
{
    uint8_t h[8] = {0xcc,
                    8,
                    (uint8_t)(o->type << 4 | o->policy),
                    (uint8_t)o->flags,
                    (uint8_t)(o->id >> 8),
                    (uint8_t)o->id,
                    (uint8_t)(o->count >> 8),
                    (uint8_t)o->count};
    memcpy(raw, h, 8);
    memset(raw + 8, o->fill, o->payload);
    raw_len = 8 + o->payload;
}

void hex(const char *text)
{
    raw_len = strlen(text) / 2;
    for (size_t i = 0; i < raw_len; i++) {
        unsigned v = 0;
        for (int k = 0; k < 2; k++) {
            char c = text[2 * i + (size_t)k];
            v = v * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        raw[i] = (uint8_t)v;
    }
}

void sack(unsigned id, unsigned what, unsigned base, unsigned nbits, size_t bytes)
{
    packet(BT_SACK, 0, F | L | X, id, 1, 6 + bytes, 0xff);
    raw[8] = (uint8_t)what;
    raw[9] = 0;
    bt_put16(raw + 10, (uint16_t)base);
    bt_put16(raw + 12, (uint16_t)nbits);
}

static uint16_t last_id;

void spy_id(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    (void)pkt;
    if (h->type == BT_REQUEST && h->first) {
        last_id = h->req_id;
    }
}

uint16_t start_call(uint32_t len, uint64_t timeout)
{
    assert_true(lab_call(&lab, len, 8, timeout) >= 0);
    lab_flush(&lab);
    return last_id;
}

static const char *const malformed[][2] = {
    {"", "M-1"},
    {"cc0800c0000700", "M-1"},
    {"00080060000f0001", "M-2"},
    {"cc070060000f0001", "M-3"},
    {"cc0c0060000f0001", "M-3"},
    {"cc0820c0000f0001aa", "M-5"},
    {"cc08a0c0000f0001", "M-5"},
    {"cc0850c0000f0001", "M-26"},
    {"cc0a00c0000f00010000", "OPT-SIZE"},
    {"cc0c00c0000f000103080000", "OPT-TRUNCATED"},
    {"cc0c00c0000f000103030000", "OPT-LENGTH"},
    {"cc1000c0000f00010304000003040000", "OPT-DUPLICATE"},
    {"cc080080000f0000", "M-7"},
    {"cc0800c0000f0000", "M-7"},
    {"cc0800c0000f0002", "M-8"},
    {"cc080000000f0000", "M-9"},
};

static unsigned case_of(const char *name)
{
    for (unsigned m = 1; m < BT_M_COUNT; m++) {
        if (strcmp(bt_mcase_name((enum bt_mcase)m), name) == 0) {
            return m;
        }
    }
    fail_msg("no case %s", name);
    return 0;
}

// Type nibble of REQUEST-only samples is moved to what this side accepts.
void malformed_everywhere(const struct side *d, const struct bt_addr *src, uint8_t legal_type)
{
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        hex(malformed[i][0]);
        if (raw_len >= 8 && raw[2] == 0) {
            raw[2] = (uint8_t)(legal_type << 4);
        }
        expect(d, malformed[i][0], src, case_of(malformed[i][1]));
    }
}

void bad_sources(const struct side *d, const struct bt_addr *own)
{
    struct bt_addr src[] = {
        bt_addr_v4u(0xe0000001, 5),  bt_addr_v4u(0xffffffff, 5), bt_addr_v4u(0, 5), bt_addr_v4u(0x0a000009, 0), *own,
        {.ip = {0xff, 2}, .port = 9}};
    for (size_t i = 0; i < sizeof src / sizeof *src; i++) {
        packet(BT_REQUEST, 0, F | L, 15, 1, 4, 0);
        expect(d, "bad source", &src[i], BT_M23);
    }
}

int free_snapshot(void **state)
{
    (void)state;
    free(before);
    return 0;
}
