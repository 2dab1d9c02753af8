// SPDX-License-Identifier: Apache-2.0
#include "tcp/crab.h"

#include "base/mem.h"
#include "tcp/crab_hash.h"
#include "tcp/crab_recent.h"

enum { BUCKETS = 2 * BT_CRAB_MAX_VIPS, DEFAULT_SETS = 16384 };

#define DEFAULT_STALE_NS UINT64_C(3000000000)

struct vip {
    struct bt_crab_vip_config cfg;
    struct bt_crab_pool *pool; // NULL: nobody
    _Atomic uint64_t own_cursor;
};

struct bt_crab {
    struct bt_crab_encoding encoding;
    struct vip *vips;
    uint16_t buckets[BUCKETS]; // by address and port: index plus 1
    struct bt_crab_recent recent;
    struct bt_crab_chooser chooser; // but for the cursor, which is the VIP's
    uint64_t counters[BT_CRAB_COUNTERS];
};

#define DROPPED(value)  {"crab_dropped_total", "reason", value}
#define FALLBACK(value) {"crab_fallback_total", "reason", value}

static const struct bt_counter_desc counter_descs[BT_CRAB_COUNTERS] = {
    [BT_CRAB_RX] = {"crab_segments_total", NULL, NULL},
    [BT_CRAB_REDIRECTED] = {"crab_redirected_total", NULL, NULL},
    [BT_CRAB_INSERTED] = {"crab_inserted_total", NULL, NULL},
    [BT_CRAB_REPEATED] = {"crab_repeated_total", NULL, NULL},
    [BT_CRAB_FALLBACK_SYN] = FALLBACK("client"),
    [BT_CRAB_FALLBACK_NO_CAPABLE] = FALLBACK("servers"),
    [BT_CRAB_FALLBACK_NO_SPACE] = FALLBACK("option_space"),
    [BT_CRAB_FALLBACK_OTHER] = FALLBACK("not_syn"),
    [BT_CRAB_FOREIGN_ADDRESS] = {"crab_foreign_address_total", NULL, NULL},
    [BT_CRAB_DUPLICATE_OPTIONS] = {"crab_duplicate_options_total", NULL, NULL},
    [BT_CRAB_MALFORMED_OPTIONS] = {"crab_malformed_options_total", NULL, NULL},
    [BT_CRAB_DROP_TRUNCATED] = DROPPED("truncated"),
    [BT_CRAB_DROP_HEADER] = DROPPED("header"),
    [BT_CRAB_DROP_IP_SUM] = DROPPED("ip_checksum"),
    [BT_CRAB_DROP_FRAGMENT] = DROPPED("fragment"),
    [BT_CRAB_DROP_EXTENSION] = DROPPED("extension_header"),
    [BT_CRAB_DROP_TTL] = DROPPED("ttl"),
    [BT_CRAB_DROP_NOT_A_VIP] = DROPPED("not_a_vip"),
    [BT_CRAB_DROP_NO_SERVER] = DROPPED("no_server"),
    [BT_CRAB_DROP_FALLBACK] = DROPPED("fallback"),
};

static const enum bt_crab_counter reason_of[] = {
    [BT_CRAB_SEGMENT_TRUNCATED] = BT_CRAB_DROP_TRUNCATED, [BT_CRAB_SEGMENT_HEADER] = BT_CRAB_DROP_HEADER,
    [BT_CRAB_SEGMENT_IP_SUM] = BT_CRAB_DROP_IP_SUM,       [BT_CRAB_SEGMENT_FRAGMENT] = BT_CRAB_DROP_FRAGMENT,
    [BT_CRAB_SEGMENT_EXTENSION] = BT_CRAB_DROP_EXTENSION,
};

// --- setting up

static struct bt_crab *lay_out(struct bt_mem *m, const struct bt_crab_config *cfg)
{
    uint32_t sets = cfg->recent_sets != 0 ? cfg->recent_sets : DEFAULT_SETS;
    struct bt_crab *c = bt_mem_take(m, sizeof *c);
    struct vip *vips = bt_mem_take(m, cfg->n_vips * sizeof *vips);
    void *recent = bt_mem_take(m, bt_crab_recent_bytes(sets));
    if (m->base == NULL || m->overflowed) {
        return NULL;
    }
    c->vips = vips;
    bt_crab_recent_init(&c->recent, recent, sets);
    return c;
}

size_t bt_crab_bytes(const struct bt_crab_config *cfg)
{
    struct bt_mem m;
    bt_mem_init(&m, NULL, 0);
    lay_out(&m, cfg);
    return m.used;
}

static uint32_t bucket_of(const struct bt_addr *addr)
{
    return (uint32_t)(bt_maglev_mix(bt_crab_hash_addr(addr), addr->port) % BUCKETS);
}

static void file_vip(struct bt_crab *c, unsigned i)
{
    uint32_t at = bucket_of(&c->vips[i].cfg.addr);
    while (c->buckets[at] != 0) {
        at = at + 1 == BUCKETS ? 0 : at + 1;
    }
    c->buckets[at] = (uint16_t)(i + 1);
}

struct bt_crab *bt_crab_init(void *mem, size_t bytes, const struct bt_crab_config *cfg)
{
    struct bt_mem m;
    bt_mem_init(&m, mem, bytes);
    struct bt_crab *c = lay_out(&m, cfg);
    if (c == NULL) {
        return NULL;
    }
    c->encoding = cfg->encoding;
    if (c->encoding.kind == 0) {
        c->encoding.kind = BT_CRAB_KIND;
    }
    for (unsigned i = 0; i < cfg->n_vips; i++) {
        c->vips[i].cfg = cfg->vips[i];
        if (c->vips[i].cfg.cursor == NULL) {
            c->vips[i].cfg.cursor = &c->vips[i].own_cursor;
        }
        file_vip(c, i);
    }
    bt_rng_seed(&c->chooser.rng, cfg->seed);
    c->chooser.stale_ns = cfg->report_stale_ns != 0 ? cfg->report_stale_ns : DEFAULT_STALE_NS;
    return c;
}

struct bt_crab_pool *bt_crab_swap(struct bt_crab *c, unsigned vip, struct bt_crab_pool *pool)
{
    struct bt_crab_pool *old = c->vips[vip].pool;
    c->vips[vip].pool = pool;
    return old;
}

// --- a segment

static struct vip *find_vip(struct bt_crab *c, const struct bt_addr *addr)
{
    for (uint32_t at = bucket_of(addr); c->buckets[at] != 0; at = at + 1 == BUCKETS ? 0 : at + 1) {
        struct vip *v = &c->vips[c->buckets[at] - 1];
        if (bt_addr_eq(&v->cfg.addr, addr)) {
            return v;
        }
    }
    return NULL;
}

static bool drop(struct bt_crab *c, enum bt_crab_counter why)
{
    c->counters[why]++;
    return false;
}

// C-41: by the hash of the connection, which needs no memory; addresses stay as they are (C-42).
static bool fall_back(struct bt_crab *c, struct vip *v, struct bt_crab_packet *pkt, struct bt_crab_segment *s,
                      uint64_t hash, enum bt_crab_counter why)
{
    uint16_t i = v->pool != NULL ? bt_maglev_find(&v->pool->by_hash, hash) : BT_MAGLEV_NOBODY;
    if (i == BT_MAGLEV_NOBODY) {
        return drop(c, BT_CRAB_DROP_NO_SERVER);
    }
    if (v->cfg.fallback == BT_CRAB_FALLBACK_DROP) {
        return drop(c, BT_CRAB_DROP_FALLBACK);
    }
    c->counters[why]++;
    bt_crab_pass_on(pkt->p, s);
    pkt->hop = v->pool->backends[i].ip;
    return true;
}

// The server of a new connection, NULL if there is none that echoes the option.
static const struct bt_addr *server_for(struct bt_crab *c, struct vip *v, const struct bt_crab_segment *s,
                                        uint64_t hash, uint64_t now)
{
    uint16_t vip = (uint16_t)(v - c->vips);
    if (v->pool == NULL) {
        return NULL;
    }
    const struct bt_addr *dip = bt_crab_recent_find(&c->recent, s, vip, hash, now);
    if (dip != NULL && bt_crab_pool_find_ready(v->pool, dip) != BT_CRAB_NOBODY) {
        c->counters[BT_CRAB_REPEATED]++;
        return dip;
    }
    c->chooser.cursor = v->cfg.cursor;
    uint32_t i = bt_crab_pool_choose(v->pool, v->cfg.policy, &c->chooser, hash, now);
    if (i == BT_CRAB_NOBODY) {
        return NULL;
    }
    dip = &v->pool->backends[i].ip;
    bt_crab_recent_keep(&c->recent, s, vip, hash, dip, now);
    return dip;
}

static void note_options(struct bt_crab *c, const struct bt_crab_segment *s)
{
    c->counters[BT_CRAB_FOREIGN_ADDRESS] += s->option != 0 && s->named;
    c->counters[BT_CRAB_DUPLICATE_OPTIONS] += s->duplicates != 0;
    c->counters[BT_CRAB_MALFORMED_OPTIONS] += s->malformed;
}

static bool take_syn(struct bt_crab *c, struct vip *v, uint64_t now, struct bt_crab_packet *pkt,
                     struct bt_crab_segment *s, uint64_t hash)
{
    note_options(c, s);
    uint32_t more = s->option == 0 ? bt_crab_insert_bytes(s) : 0;
    if (s->option == 0 && !v->cfg.assume_capable) {
        return fall_back(c, v, pkt, s, hash, BT_CRAB_FALLBACK_SYN);
    }
    if (s->option == 0 &&
        (more == 0 || more > pkt->room + pkt->len - s->total /* Ethernet padding */ || s->malformed)) {
        return fall_back(c, v, pkt, s, hash, BT_CRAB_FALLBACK_NO_SPACE);
    }
    const struct bt_addr *dip = server_for(c, v, s, hash, now);
    if (dip == NULL) {
        return fall_back(c, v, pkt, s, hash, BT_CRAB_FALLBACK_NO_CAPABLE);
    }
    if (s->option != 0) {
        bt_crab_write_address(pkt->p, s, &v->cfg.addr);
    } else {
        bt_crab_insert(pkt->p, s, &c->encoding, &v->cfg.addr);
        c->counters[BT_CRAB_INSERTED]++;
    }
    bt_crab_redirect(pkt->p, s, dip);
    c->counters[BT_CRAB_REDIRECTED]++;
    pkt->hop = *dip;
    return true;
}

bool bt_crab_take(struct bt_crab *c, uint64_t now, struct bt_crab_packet *pkt)
{
    struct bt_crab_segment s;
    c->counters[BT_CRAB_RX]++;
    enum bt_crab_segment_error e = bt_crab_segment_parse(pkt->p, pkt->len, true, &c->encoding, &s);
    if (e != BT_CRAB_SEGMENT_OK) {
        return drop(c, reason_of[e]);
    }
    struct vip *v = find_vip(c, &s.dst);
    if (v == NULL) {
        return drop(c, BT_CRAB_DROP_NOT_A_VIP);
    }
    if (s.ttl <= 1) {
        return drop(c, BT_CRAB_DROP_TTL);
    }
    uint64_t hash = bt_crab_hash_flow(&s.src, &s.dst);
    bool send = bt_crab_is_syn(&s) ? take_syn(c, v, now, pkt, &s, hash)
                                   : fall_back(c, v, pkt, &s, hash, BT_CRAB_FALLBACK_OTHER);
    pkt->len = s.total;
    return send;
}

const uint64_t *bt_crab_counters(const struct bt_crab *c, const struct bt_counter_desc **desc, unsigned *n)
{
    *desc = counter_descs;
    *n = BT_CRAB_COUNTERS;
    return c->counters;
}
