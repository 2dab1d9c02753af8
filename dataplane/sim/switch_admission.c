// SPDX-License-Identifier: Apache-2.0
// See switch_admission.h.
#include "switch_admission.h"

#include <string.h>

#include "base/bytes.h"
#include "stream.h"
#include "wire/options.h"

enum { PRIORITY_FIRST = 4, RATE_SHIFT = 12 /* from 2^-28 to 2^-16 */ };

/* CRC-16 (0x8005, from 0) and the CRC-32 of Ethernet, both reflected, a bit at a time: other code than the checker's.
 */
static uint32_t crc(const uint8_t *p, uint32_t n, uint32_t polynomial, uint32_t first)
{
    uint32_t v = first;
    for (uint32_t i = 0; i < n * 8u; i++) {
        uint32_t bit = (v ^ (uint32_t)p[i / 8u] >> i % 8u) & 1u;
        v = v >> 1 ^ (bit != 0 ? polynomial : 0);
    }
    return v;
}

static struct sim_shed_pair *place_of(struct sim_shed *s, const struct sim_shed_key *key, uint32_t *print)
{
    uint8_t p[8];
    bt_put32(p, key->client);
    bt_put16(p + 4, key->port);
    bt_put16(p + 6, key->req_id);
    *print = ~crc(p, sizeof p, 0xedb88320u, UINT32_MAX);
    return &s->pairs[crc(p, sizeof p, 0xa001u, 0)];
}

void sim_shed_init(struct sim_shed *s, uint64_t seed, uint32_t objective, FILE *out)
{
    struct bt_admission_config c = {.mode = BT_ADMISSION_REJECT,
                                    .controller = BT_CONTROL_AIAD,
                                    .slo_ns = objective * SIM_SHED_UNIT_NS,
                                    .per_100k = 50000,
                                    .droppable = BT_ADMISSION_DROPPABLE_DEFAULT};
    memset(s, 0, sizeof *s);
    sim_stream_seed(&s->rng, seed, SIM_STREAM_SHAPE);
    s->out = out;
    bt_admission_init(&s->software, seed, NULL);
    bt_admission_apply(&s->software, &c, 0);
}

/* The rates as the controller would write them: every class that a switch tells apart, and until when they count. */
static void write_rates(struct sim_shed *s, uint32_t now)
{
    uint32_t level = bt_admission_level(&s->software, s->clock);
    s->until = now + SIM_SHED_VALID;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c += c == 0 ? PRIORITY_FIRST : 1) {
        s->rate[c] = bt_admission_share(&s->software, level, c) >> RATE_SHIFT;
        fprintf(s->out, "R %u %u %u\n", c, s->rate[c], s->until);
    }
}

void sim_shed_pass(struct sim_shed *s, uint32_t now, uint32_t units)
{
    s->clock += units * SIM_SHED_UNIT_NS;
    s->dead |= sim_chance(&s->rng, 0.0002);
    if (!s->dead && s->clock >= bt_admission_next(&s->software)) {
        bt_admission_tick(&s->software, s->clock);
        write_rates(s, now);
    }
}

/* A class option, or none; some ask for a class there is not, or not to be refused. */
static uint32_t draw_label(struct sim_shed *s)
{
    uint32_t class = sim_below(&s->rng, 10);
    if (sim_below(&s->rng, 3) == 0) {
        return 0;
    }
    return (class == 9 ? 200 : class) << 8 | (sim_below(&s->rng, 8) == 0 ? BT_CLASS_NON_DROPPABLE : 0);
}

static unsigned class_of(uint32_t label)
{
    uint32_t class = label >> 8;
    return class < PRIORITY_FIRST ? 0 : class < BT_ADMISSION_CLASSES ? class : BT_ADMISSION_CLASSES - 1u;
}

/* The die that bt_admission_refuse is about to cast, of sixteen bits. One that only the bits below them would decide is
 * cast again. */
static uint32_t cast(struct sim_shed *s, unsigned class)
{
    for (;;) {
        struct bt_rng next = s->software.rng;
        uint32_t die = bt_rng_below(&next, BT_ADMISSION_ONE) >> RATE_SHIFT;
        if (die != s->rate[class]) {
            return die;
        }
        s->software.rng = next;
    }
}

bool sim_shed_refuses(struct sim_shed *s, uint32_t now)
{
    uint32_t label = draw_label(s);
    unsigned class = class_of(label);
    bool spared = (label & BT_CLASS_NON_DROPPABLE) != 0;
    uint32_t die = cast(s, class);
    fprintf(s->out, "C %u %u\n", label, die);
    bool lapsed = (int32_t)(s->until - now) < 0; /* sooner than in software, which freezes and lets go */
    return bt_admission_refuse(&s->software, s->clock, class, spared || lapsed);
}

static void told(const struct sim_shed *s, enum sim_shed_note note, uint32_t latency)
{
    fprintf(s->out, "T %d %u\n", note, latency);
}

void sim_shed_remember(struct sim_shed *s, uint32_t now, const struct sim_shed_key *key)
{
    uint32_t print;
    struct sim_shed_pair *p = place_of(s, key, &print);
    if (p->print == print) {
        p->time = 0;
        told(s, SIM_SHED_AGAIN, 0);
        return;
    }
    told(s, p->print == 0 ? SIM_SHED_KNOWN : SIM_SHED_LOST, 0);
    *p = (struct sim_shed_pair){print, now};
}

void sim_shed_recall(struct sim_shed *s, uint32_t now, const struct sim_shed_key *key, bool dropped)
{
    uint32_t print;
    struct sim_shed_pair *p = place_of(s, key, &print);
    uint32_t since = p->print == print ? p->time : 0;
    if (p->print == print) {
        *p = (struct sim_shed_pair){0};
    }
    if (since == 0) {
        bt_admission_unknown(&s->software);
        told(s, SIM_SHED_UNSEEN, 0);
    } else if (dropped) {
        bt_admission_dropped(&s->software);
        told(s, SIM_SHED_DROPPED, 0);
    } else {
        bt_admission_served(&s->software, 0, false, (now - since) * SIM_SHED_UNIT_NS);
        told(s, SIM_SHED_MEASURED, now - since);
    }
}

void sim_shed_tell(const struct sim_shed *s)
{
    struct bt_admission_class_stats c;
    for (unsigned k = 0; k < BT_ADMISSION_CLASSES; k += k == 0 ? PRIORITY_FIRST : 1) {
        bt_admission_class_stats(&s->software, s->clock, k, &c);
        fprintf(s->out, "K %u %llu %llu\n", k, (unsigned long long)c.arrived, (unsigned long long)c.refused);
    }
    bt_admission_class_stats(&s->software, s->clock, 0, &c);
    fprintf(s->out, "M %llu %llu %llu %llu\n", (unsigned long long)c.within, (unsigned long long)c.exceeded,
            (unsigned long long)s->software.unknown, (unsigned long long)s->software.dropped);
}
