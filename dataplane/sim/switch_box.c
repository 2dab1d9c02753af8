// SPDX-License-Identifier: Apache-2.0
// See switch_box.h.
#include "switch_box.h"

#include <stdlib.h>
#include <string.h>

#include "replica/box.h"
#include "stream.h"

#define CLIENT  UINT32_C(0x0a000101) /* the first one */
#define UNIT_NS UINT64_C(1000000)

enum {
    CLIENTS = 4,
    IDS = 256,
    STAY = 2048, /* as box.p4 has them */
    LINGER = 16,
    SLOTS_MOST = 64,
    EPISODE = 2000,
    TRIES = 12,
    PORT = 31000,
};

enum state { UNSEEN, PASSED, REFUSED, ANSWERED };

struct pair {
    enum state state;
    uint64_t at, ended;
};

struct story {
    struct bt_rng rng;
    FILE *out;
    struct bt_box_config config;
    struct bt_box *box;
    void *mem;
    uint64_t now; /* in units */
    uint64_t told;
    struct pair pairs[CLIENTS][IDS];
};

static uint32_t below(struct story *s, uint32_t n)
{
    return sim_below(&s->rng, n);
}

static bool once_in(struct story *s, uint32_t n)
{
    return below(s, n) == 0;
}

static void fresh(struct story *s)
{
    free(s->mem);
    s->mem = malloc(bt_box_bytes(&s->config));
    if (s->mem == NULL) {
        abort();
    }
    s->box = bt_box_start(s->mem, &s->config, s->now * UNIT_NS);
    memset(s->pairs, 0, sizeof s->pairs);
}

static void begin(struct story *s)
{
    s->config = (struct bt_box_config){.timeout_ns = STAY * UNIT_NS,
                                       .slow_start_ns = UNIT_NS,
                                       .quarantine_ns = LINGER * UNIT_NS,
                                       .recent_pairs = 4096,
                                       .as_switch = true};
    s->config.limit = 1 + below(s, once_in(s, 3) ? 4 : SLOTS_MOST);
    s->config.seed = 1 + below(s, 1000);
    s->now += STAY + 1;
    fprintf(s->out, "E %u %u\n", s->config.limit, below(s, 65535 - SLOTS_MOST));
    fresh(s);
}

static void tell(struct story *s, char kind, uint32_t client, uint32_t id, const char *what)
{
    s->told++;
    fprintf(s->out, "%c %llu %u %u %u %s\n", kind, (unsigned long long)s->now, CLIENT + client, PORT + client, id,
            what);
}

/* A client takes an id again when nobody can know it any more. */
static bool is_over(const struct story *s, const struct pair *p)
{
    return p->state == UNSEEN || s->now > p->at + STAY || (p->state != PASSED && s->now > p->ended + LINGER);
}

/* A copy of it may still be under way. */
static bool may_come_again(const struct story *s, const struct pair *p)
{
    return p->state != UNSEEN && (s->now < p->at + LINGER || (p->state == PASSED && s->now < p->at + STAY - LINGER));
}

static void ask(struct story *s, uint32_t client, uint32_t id)
{
    struct pair *p = &s->pairs[client][id];
    bool first = is_over(s, p);
    struct bt_addr from = bt_addr_v4u(CLIENT + client, (uint16_t)(PORT + client));
    enum bt_box_verdict v = bt_box_request(s->box, s->now * UNIT_NS, &from, (uint16_t)id);
    tell(s, 'Q', client, id,
         v == BT_BOX_PASS    ? "passed"
         : v == BT_BOX_AGAIN ? "passed_again"
         : first             ? "busy"
                             : "busy_again");
    if (first) {
        *p = (struct pair){.state = v == BT_BOX_PASS ? PASSED : REFUSED, .at = s->now, .ended = s->now};
    }
}

static void say(struct story *s, uint32_t client, uint32_t id)
{
    struct pair *p = &s->pairs[client][id];
    struct bt_addr of = bt_addr_v4u(CLIENT + client, (uint16_t)(PORT + client));
    if (p->state == PASSED && s->now >= p->at + STAY - LINGER && s->now <= p->at + STAY) {
        return;
    }
    bool answered = bt_box_feedback(s->box, s->now * UNIT_NS, &of, (uint16_t)id);
    tell(s, 'F', client, id, answered ? "answered" : "unknown");
    if (answered) {
        p->state = ANSWERED;
        p->ended = s->now;
    }
}

/* Of some pairs the one that fits and came first. */
static bool choose(struct story *s, bool (*fits)(const struct story *, const struct pair *), uint32_t *client,
                   uint32_t *id)
{
    bool found = false;
    for (int i = 0; i < TRIES; i++) {
        uint32_t c = below(s, CLIENTS), n = below(s, IDS);
        const struct pair *p = &s->pairs[c][n];
        if (fits(s, p) && (!found || p->at < s->pairs[*client][*id].at)) {
            *client = c;
            *id = n;
            found = true;
        }
    }
    return found;
}

static bool waits(const struct story *s, const struct pair *p)
{
    return p->state == PASSED && s->now < p->at + STAY - LINGER;
}

static void happen(struct story *s)
{
    uint32_t client = 0, id = 0, what = below(s, 100);
    if (what < 42) {
        if (choose(s, is_over, &client, &id)) {
            ask(s, client, id);
        }
    } else if (what < 56) {
        if (choose(s, may_come_again, &client, &id)) {
            ask(s, client, id);
        }
    } else if (what < 96) {
        if (choose(s, waits, &client, &id)) {
            say(s, client, id);
        }
    } else {
        id = below(s, IDS);
        say(s, below(s, CLIENTS), id); // twice, too late, or of nobody's
    }
}

void sim_switch_box(uint64_t seed, uint64_t events, FILE *out)
{
    static struct story s;
    s = (struct story){.out = out};
    sim_stream_seed(&s.rng, seed, SIM_STREAM_GARBAGE);
    for (uint64_t i = 0; s.told < events; i++) {
        if (i % EPISODE == 0) {
            begin(&s);
        } else if (once_in(&s, 500)) {
            fresh(&s);
            fputs("R\n", out);
        }
        s.now += once_in(&s, 4) ? below(&s, 4) : 0;
        s.now += once_in(&s, 60) ? below(&s, 40) : 0;
        s.now += once_in(&s, 300) ? below(&s, 2 * STAY) : 0;
        happen(&s);
    }
    free(s.mem);
}
