// SPDX-License-Identifier: Apache-2.0
#include "tcp/crab_probe.h"

#include "base/bytes.h"
#include "wire/checksum.h"
#include "wire/frame.h"

#include <string.h>

enum { LOOKS = 256, WINDOW = 1024 };

_Static_assert(BT_CRAB_PROBE_MOST == BT_IP6_HEAD + BT_TCP_HEAD + BT_CRAB_PADDED6, "the longest probe must fit");

static struct bt_crab_probe_config filled_in(const struct bt_crab_probe_config *cfg)
{
    struct bt_crab_probe_config c = *cfg;
    c.interval_ns = c.interval_ns != 0 ? c.interval_ns : UINT64_C(1000000000);
    c.timeout_ns = c.timeout_ns != 0 ? c.timeout_ns : UINT64_C(500000000);
    c.timeout_ns = c.timeout_ns < c.interval_ns ? c.timeout_ns : c.interval_ns;
    c.failures = c.failures != 0 ? c.failures : 3;
    c.successes = c.successes != 0 ? c.successes : 2;
    c.encoding.kind = c.encoding.kind != 0 ? c.encoding.kind : BT_CRAB_KIND;
    return c;
}

void bt_crab_prober_init(struct bt_crab_prober *p, struct bt_crab_probed *mem,
                         const struct bt_crab_probe_target *targets, uint32_t n, const struct bt_crab_probe_config *cfg,
                         uint64_t now)
{
    *p = (struct bt_crab_prober){.cfg = filled_in(cfg), .probed = mem, .n = n};
    bt_rng_seed(&p->rng, cfg->seed);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t wait = p->cfg.interval_ns / n * i;
        mem[i] = (struct bt_crab_probed){.target = targets[i], .due_ns = now + wait, .health = BT_CRAB_DOWN};
        mem[i].run = p->cfg.successes - 1; // nobody counted on it yet: the first answer will do
    }
}

// --- judging

static void set_health(struct bt_crab_prober *p, struct bt_crab_probed *t, enum bt_crab_health health)
{
    p->changes += t->health != health;
    t->health = (uint8_t)health;
    t->run = 0;
}

// C-52: up after two answers, a change of capability at once.
static void answered(struct bt_crab_prober *p, struct bt_crab_probed *t, bool capable)
{
    enum bt_crab_health now = capable ? BT_CRAB_UP_CAPABLE : BT_CRAB_UP_PLAIN;
    p->answered++;
    if (t->health != BT_CRAB_DOWN || ++t->run >= p->cfg.successes) {
        set_health(p, t, now);
    }
}

static void failed(struct bt_crab_prober *p, struct bt_crab_probed *t)
{
    if (t->health == BT_CRAB_DOWN) {
        t->run = 0;
    } else if (++t->run >= p->cfg.failures) {
        set_health(p, t, BT_CRAB_DOWN);
    }
}

// The probe under way has ended; the next one keeps the rhythm.
static void over(struct bt_crab_prober *p, struct bt_crab_probed *t, uint64_t now)
{
    uint64_t sent = t->due_ns - p->cfg.timeout_ns, next = sent + p->cfg.interval_ns;
    t->waiting = false;
    t->due_ns = next > now ? next : now;
}

// --- writing

static const struct bt_addr *own_for(const struct bt_crab_prober *p, const struct bt_crab_probed *t)
{
    return bt_addr_is_v4(&t->target.dip) ? &p->cfg.own4 : &p->cfg.own6;
}

// Writes what stands in front of a segment's options and returns where they begin.
static uint8_t *write_head(const struct bt_crab_prober *p, const struct bt_crab_probed *t, uint8_t *out,
                           uint32_t tcp_head, uint32_t seq, uint8_t flags)
{
    const struct bt_addr *src = own_for(p, t), *dst = &t->target.dip;
    uint8_t *tcp = out + (bt_addr_is_v4(dst) ? BT_IP4_HEAD : BT_IP6_HEAD);
    if (bt_addr_is_v4(dst)) {
        bt_ip4_write(out, src, dst, BT_PROTO_TCP, BT_TTL, tcp_head);
    } else {
        bt_ip6_write(out, src, dst, BT_PROTO_TCP, BT_TTL, tcp_head);
    }
    memset(tcp, 0, BT_TCP_HEAD);
    bt_put16(tcp, (uint16_t)(BT_CRAB_PROBE_PORT + (uint32_t)(t - p->probed)));
    bt_put16(tcp + 2, t->target.port);
    bt_put32(tcp + 4, seq);
    tcp[12] = (uint8_t)(tcp_head / 4 << 4);
    tcp[13] = flags;
    bt_put16(tcp + 14, WINDOW);
    return tcp + BT_TCP_HEAD;
}

static uint32_t sealed(const struct bt_crab_prober *p, const struct bt_crab_probed *t, uint8_t *out, uint8_t *options,
                       uint32_t tcp_head)
{
    uint8_t *tcp = options - BT_TCP_HEAD;
    uint64_t sum = bt_pseudo_sum(own_for(p, t), &t->target.dip, BT_PROTO_TCP, tcp_head);
    bt_csum_store(tcp + 16, bt_csum_bytes(sum, tcp, tcp_head));
    return (uint32_t)(tcp - out) + tcp_head;
}

static uint32_t write_syn(const struct bt_crab_prober *p, const struct bt_crab_probed *t, uint8_t *out)
{
    uint32_t head = BT_TCP_HEAD + (bt_addr_is_v4(&t->target.vip) ? BT_CRAB_PADDED : BT_CRAB_PADDED6);
    uint8_t *options = write_head(p, t, out, head, t->seq, BT_TCP_SYN);
    bt_crab_write_option(options, &p->cfg.encoding, &t->target.vip);
    return sealed(p, t, out, options, head);
}

static uint32_t write_rst(const struct bt_crab_prober *p, const struct bt_crab_probed *t, uint8_t *out)
{
    uint8_t *options = write_head(p, t, out, BT_TCP_HEAD, t->seq + 1, BT_TCP_RST);
    return sealed(p, t, out, options, BT_TCP_HEAD);
}

uint32_t bt_crab_prober_send(struct bt_crab_prober *p, uint64_t now, uint8_t out[BT_CRAB_PROBE_MOST],
                             struct bt_addr *hop)
{
    for (uint32_t looks = 0; looks < LOOKS && looks < p->n; looks++) {
        struct bt_crab_probed *t = &p->probed[p->at];
        p->at = p->at + 1 == p->n ? 0 : p->at + 1;
        if (t->due_ns > now) {
            continue;
        }
        if (t->waiting) {
            p->silent++;
            failed(p, t);
            over(p, t, now);
            if (t->due_ns > now) {
                continue;
            }
        }
        t->seq = (uint32_t)bt_rng_next(&p->rng);
        t->waiting = true;
        t->due_ns = now + p->cfg.timeout_ns;
        p->sent++;
        *hop = t->target.dip;
        return write_syn(p, t, out);
    }
    return 0;
}

// --- answers

static struct bt_crab_probed *asked(struct bt_crab_prober *p, const struct bt_crab_segment *s, uint32_t ack)
{
    uint32_t i = (uint32_t)s->dst.port - BT_CRAB_PROBE_PORT;
    if (s->dst.port < BT_CRAB_PROBE_PORT || i >= p->n) {
        return NULL;
    }
    struct bt_crab_probed *t = &p->probed[i];
    bool mine = t->waiting && bt_addr_ip_eq(&s->src, &t->target.dip) && s->src.port == t->target.port &&
                bt_addr_ip_eq(&s->dst, own_for(p, t)) && ack == t->seq + 1;
    return mine ? t : NULL;
}

uint32_t bt_crab_prober_take(struct bt_crab_prober *p, uint64_t now, const uint8_t *packet, uint32_t len,
                             uint8_t out[BT_CRAB_PROBE_MOST], struct bt_addr *hop)
{
    struct bt_crab_segment s;
    if (bt_crab_segment_parse(packet, len, true, &p->cfg.encoding, &s) != BT_CRAB_SEGMENT_OK) {
        return 0;
    }
    bool accepts = bt_crab_is_syn_ack(&s);
    bool refuses = (s.flags & (BT_TCP_RST | BT_TCP_ACK)) == (BT_TCP_RST | BT_TCP_ACK);
    struct bt_crab_probed *t = asked(p, &s, bt_get32(packet + s.ip_head + 8));
    if (t == NULL || !(accepts || refuses)) {
        p->unasked++;
        return 0;
    }
    over(p, t, now);
    if (refuses) {
        p->refused++;
        failed(p, t);
        return 0;
    }
    answered(p, t, s.option != 0 && bt_addr_ip_eq(&s.address, &t->target.vip));
    *hop = t->target.dip;
    return write_rst(p, t, out);
}
