// SPDX-License-Identifier: Apache-2.0
// See switch_software.h.
#include "switch_software.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "buffers.h"
#include "router/router.h"
#include "stream.h"
#include "switch_reports.h"
#include "switch_requests.h"
#include "wire/r2p2.h"

#define ROUTER  UINT32_C(0x0a000001)
#define CLIENT  UINT32_C(0x0a000101)
#define WORKER  UINT32_C(0x0a010000) /* the first one */
#define UNIT_NS UINT64_C(1000)
#define HOUR_NS UINT64_C(3600000000000)

enum {
    REQUEST_PORT = 8000,
    FEEDBACK_PORT = 9000,
    WORKER_PORT = 8100,
    CLIENT_PORT = 40000,
    WORKERS_MAX = 40, /* three rows of a switch */
    DEPTH_MAX = 4,
    LIMIT_MAX = 24,
    IDS = 65536,
    FLIGHT_MAX = WORKERS_MAX * DEPTH_MAX,
    PACKETS = LIMIT_MAX + 8,
    EPISODE = 3000,
    REST_EVERY = 300,
    REST_ROUNDS = 4,
    LOSS = 1 << 16, /* in units; much longer than between two rests */
};

struct worker {
    struct sim_report says;
    uint64_t older_received, older_served; /* what it said last but one */
};

/* A request that a worker has. */
struct flight {
    uint64_t id;
    uint32_t worker;
};

struct story {
    struct bt_rng rng;
    FILE *out;
    struct sim_buffers buffers;
    struct sim_holder holder;
    struct bt_router *router;
    void *mem;
    size_t mem_n;
    uint32_t workers, depth, limit, patience;
    struct worker worker[WORKERS_MAX];
    struct flight flight[FLIGHT_MAX];
    uint32_t flying;
    uint64_t id_of[IDS]; /* by the client's number */
    uint64_t now, told, next_id;
    uint64_t waits_since; /* something waits without interruption; 0: nothing does */
    uint32_t life;
};

static uint32_t below(struct story *s, uint32_t n)
{
    return sim_below(&s->rng, n);
}

static bool once_in(struct story *s, uint32_t n)
{
    return below(s, n) == 0;
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

static void begin_line(struct story *s, char kind)
{
    s->told++;
    fprintf(s->out, "%c %u", kind, (uint32_t)s->now);
}

static void hex(const struct story *s, const uint8_t *p, uint32_t n)
{
    fputc(' ', s->out);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(s->out, "%02x", p[i]);
    }
    if (n == 0) {
        fputc('-', s->out);
    }
}

static struct bt_router_stats stats(const struct story *s)
{
    struct bt_router_stats all;
    bt_router_read_stats(s->router, s->now * UNIT_NS, &all);
    return all;
}

static void tell_known(struct story *s)
{
    struct bt_router_stats all = stats(s);
    fprintf(s->out, "O %llu %llu\n", (unsigned long long)all.outstanding, (unsigned long long)all.held);
    s->waits_since = all.held == 0 ? 0 : s->waits_since != 0 ? s->waits_since : s->now;
}

/* --- the router -------------------------------------------------------------------------------------------------- */

static struct bt_pkt *packet(struct story *s, const uint8_t *p, uint32_t n)
{
    struct bt_pkt *pkt = bt_pool_get(&s->holder.pool);
    uint8_t *to = pkt != NULL ? bt_pkt_append(pkt, n) : NULL;
    if (to == NULL) {
        abort();
    }
    memcpy(to, p, n);
    pkt->t_rx_ns = s->now * UNIT_NS;
    return pkt;
}

static struct bt_addr worker_addr(uint32_t w)
{
    return bt_addr_v4u(WORKER + w, WORKER_PORT);
}

static void configure(struct story *s)
{
    struct bt_addr members[WORKERS_MAX];
    for (uint32_t w = 0; w < s->workers; w++) {
        members[w] = worker_addr(w);
    }
    struct bt_router_config config = {.policy = BT_ROUTER_JBSQ,
                                      .forwarding = BT_FORWARD_TRANSPARENT,
                                      .device = BT_DEVICE_KERNEL,
                                      .depth = s->depth,
                                      .central_limit = s->limit,
                                      .max_queue_ns = s->patience * UNIT_NS,
                                      .request_timeout_ns = HOUR_NS / 6,
                                      .timers = {.loss_ns = LOSS * UNIT_NS, .leak_ns = HOUR_NS, .dead_ns = HOUR_NS},
                                      .max_payload = SIM_REQUEST_MOST,
                                      .members = members,
                                      .members_n = s->workers};
    if (!bt_router_apply(s->router, s->now * UNIT_NS, &config, NULL)) {
        abort();
    }
}

static void fresh_router(struct story *s)
{
    struct bt_router_setup setup = {.max_members = WORKERS_MAX,
                                    .max_pairs = 1024,
                                    .max_hedges = 1,
                                    .no_histograms = true,
                                    .seed = 1 + below(s, 1000000),
                                    .pool = &s->holder.pool,
                                    .request_addr = bt_addr_v4u(ROUTER, REQUEST_PORT),
                                    .feedback_addr = bt_addr_v4u(ROUTER, FEEDBACK_PORT)};
    if (s->router != NULL) {
        bt_router_discard_held(s->router);
    } else {
        s->mem_n = bt_router_bytes(&setup);
        s->mem = sim_memory(s->mem_n);
    }
    s->router = bt_router_init(s->mem, s->mem_n, &setup, s->now * UNIT_NS);
    if (s->router == NULL) {
        abort();
    }
    configure(s);
}

/* --- what leaves it ---------------------------------------------------------------------------------------------- */

static uint32_t worker_of(const struct bt_pkt *pkt)
{
    return bt_get32(pkt->dst.ip + 12) - WORKER;
}

static bool is_drop(const struct bt_pkt *pkt)
{
    return pkt->data[2] >> 4 == BT_DROP;
}

/* Who has it, for later; a request that is lost nobody has. */
static void arrives(struct story *s, uint64_t id, uint32_t w)
{
    s->flight[s->flying++] = (struct flight){id, w};
    s->worker[w].says.received++;
}

static void leave(struct story *s, struct bt_txq *q)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(q)) != NULL) {
        uint64_t id = s->id_of[bt_get16(pkt->data + BT_R2P2_REQ_ID_AT)];
        fprintf(s->out, "%c %llu", is_drop(pkt) ? 'L' : 'G', (unsigned long long)id);
        if (!is_drop(pkt)) {
            fprintf(s->out, " %u", worker_of(pkt));
            arrives(s, id, worker_of(pkt));
        }
        hex(s, pkt->data, pkt->len);
        fputc('\n', s->out);
        bt_pool_put(&s->holder.pool, pkt);
    }
}

/* --- FEEDBACK ---------------------------------------------------------------------------------------------------- */

static void give_report(struct story *s, uint32_t w, const uint8_t *p, uint32_t n, struct bt_txq *q)
{
    struct bt_pkt *pkt = packet(s, p, n);
    pkt->src = worker_addr(w);
    pkt->dst = bt_addr_v4u(ROUTER, FEEDBACK_PORT);
    pkt->local = BT_ROUTER_PORT_FEEDBACK;
    bt_router_feedback(s->router, s->now * UNIT_NS, pkt, q);
}

static void report(struct story *s, uint32_t w, uint8_t flags, struct bt_txq *q)
{
    uint8_t p[SIM_REPORT_MOST];
    give_report(s, w, p, sim_report_write(&s->worker[w].says, flags, p), q);
}

static void tell(struct story *s, uint32_t w, uint32_t flags)
{
    const struct sim_report *k = &s->worker[w].says;
    struct bt_txq q;
    bt_txq_init(&q);
    begin_line(s, 'N');
    fprintf(s->out, " %u %u %u %u\n", w, k->n, flags | (k->leaving ? BT_FEEDBACK_LEAVE : 0u), k->life);
    report(s, w, (uint8_t)flags, &q);
    leave(s, &q);
}

/* --- events ------------------------------------------------------------------------------------------------------ */

static bool has_room(const struct story *s)
{
    uint64_t room = 0;
    for (uint32_t w = 0; w < s->workers; w++) {
        struct bt_router_member_stats m;
        if (bt_router_member(s->router, s->now * UNIT_NS, w, &m) && m.eligible && m.outstanding < m.n) {
            room++;
        }
    }
    return room > 0 && !bt_router_holds(s->router);
}

static enum sim_request_kind draw_kind(struct story *s)
{
    uint32_t dice = below(s, 100);
    if (dice < 70) {
        return SIM_REQUEST_WHOLE;
    }
    if (dice < 93 || !has_room(s)) {
        return dice < 82 ? SIM_REQUEST_ONE : SIM_REQUEST_TWO;
    }
    return (enum sim_request_kind)(SIM_REQUEST_UNREAD + below(s, 3));
}

static const char *drop_word(const struct bt_router_stats *was, const struct bt_router_stats *is)
{
#define WORD(name, word) word,
    static const char *const words[] = {BT_ROUTER_DROP_TABLE(WORD)};
#undef WORD
    for (unsigned i = 0; i < BT_RC_DROPS_END - BT_RC_DROPS_FIRST; i++) {
        if (is->counter[BT_RC_DROPS_FIRST + i] != was->counter[BT_RC_DROPS_FIRST + i]) {
            return words[i];
        }
    }
    return "none";
}

static const char *silent_word(const struct bt_router_stats *was, const struct bt_router_stats *is)
{
    for (unsigned m = 0; m < BT_M_COUNT; m++) {
        if (is->malformed[m] != was->malformed[m]) {
            return bt_mcase_name((enum bt_mcase)m);
        }
    }
    return "none";
}

/* What only the software router takes is served at once: both have the same room again. */
static void serve_sticky(struct story *s, uint32_t w)
{
    struct bt_txq q;
    bt_txq_init(&q);
    s->worker[w].says.received++;
    s->worker[w].says.served++;
    report(s, w, 0, &q);
    leave(s, &q);
}

static void forwarded(struct story *s, const struct sim_request *r, uint64_t id, bool lost, const struct bt_pkt *pkt)
{
    uint32_t w = worker_of(pkt);
    fprintf(s->out, " F %u", w);
    hex(s, pkt->data, pkt->len);
    fputc('\n', s->out);
    if (r->kind == SIM_REQUEST_STICKY) {
        serve_sticky(s, w);
    } else if (r->kind != SIM_REQUEST_LONG && !lost) {
        arrives(s, id, w);
    }
}

static void verdict(struct story *s, const struct sim_request *r, uint64_t id, bool lost)
{
    struct bt_txq q;
    struct bt_router_stats was = stats(s), is;
    struct bt_pkt *pkt = packet(s, r->bytes, r->n);
    pkt->src = bt_addr_v4u(r->ip, r->port);
    pkt->dst = bt_addr_v4u(ROUTER, REQUEST_PORT);
    pkt->local = BT_ROUTER_PORT_REQUEST;
    bt_txq_init(&q);
    bt_router_request(s->router, s->now * UNIT_NS, pkt, &q);
    is = stats(s);
    pkt = bt_txq_pop(&q);
    if (pkt == NULL && is.held > was.held) {
        fputs(" H\n", s->out);
    } else if (pkt == NULL) {
        fprintf(s->out, " S %s\n", silent_word(&was, &is));
    } else if (is_drop(pkt)) {
        fprintf(s->out, " D %s", drop_word(&was, &is));
        hex(s, pkt->data, pkt->len);
        fputc('\n', s->out);
    } else {
        forwarded(s, r, id, lost, pkt);
    }
    if (pkt != NULL) {
        bt_pool_put(&s->holder.pool, pkt);
    }
}

static void ask(struct story *s)
{
    static const struct sim_request_ends ends = {CLIENT, ROUTER, CLIENT_PORT, FEEDBACK_PORT};
    struct sim_request r;
    uint64_t id = s->next_id++;
    enum sim_request_kind kind = draw_kind(s);
    bool lost = kind == SIM_REQUEST_WHOLE && once_in(s, 100) && has_room(s);
    sim_request_draw(&r, &s->rng, kind, (uint16_t)id, &ends);
    s->id_of[(uint16_t)id] = id;
    begin_line(s, 'Q');
    fprintf(s->out, " %llu %s %d %u %u", (unsigned long long)id, sim_request_kind_name(kind), lost, r.ip, r.port);
    hex(s, r.bytes, r.n);
    verdict(s, &r, id, lost);
}

static const char *const hows[] = {"once", "twice", "older", "told"};
enum { ONCE, TWICE, OLDER, TOLD, HOWS };

static void give_older(struct story *s, uint32_t w, struct bt_txq *q)
{
    struct sim_report was = s->worker[w].says;
    uint8_t p[SIM_REPORT_MOST];
    was.received = s->worker[w].older_received;
    was.served = s->worker[w].older_served;
    give_report(s, w, p, sim_report_write(&was, BT_FEEDBACK_PAIR, p), q);
}

static void serve(struct story *s)
{
    uint32_t at = below(s, s->flying), how = below(s, 2) == 0 ? ONCE : below(s, HOWS);
    struct flight f = s->flight[at];
    struct worker *w = &s->worker[f.worker];
    struct bt_router_stats was = stats(s), is;
    struct bt_txq q;
    bt_txq_init(&q);
    s->flight[at] = s->flight[--s->flying];
    begin_line(s, 'B');
    w->says.served++;
    report(s, f.worker, how == TOLD ? 0 : BT_FEEDBACK_PAIR, &q);
    if (how == TWICE) {
        report(s, f.worker, BT_FEEDBACK_PAIR, &q);
    } else if (how == OLDER) {
        give_older(s, f.worker, &q);
    }
    is = stats(s);
    fprintf(s->out, " %llu %s %llu %llu\n", (unsigned long long)f.id, hows[how],
            (unsigned long long)(is.counter[BT_RC_FEEDBACK] - was.counter[BT_RC_FEEDBACK]),
            (unsigned long long)(is.counter[BT_RC_FEEDBACK_STALE] - was.counter[BT_RC_FEEDBACK_STALE]));
    w->older_received = w->says.received;
    w->older_served = w->says.served;
    leave(s, &q);
}

static void mislead(struct story *s)
{
    uint8_t p[SIM_REPORT_MOST];
    uint32_t w = below(s, s->workers + 1);
    const struct sim_report stranger = {.n = 60, .life = 1 << 30, .received = 9, .served = 7};
    uint32_t n = sim_report_write(w < s->workers ? &s->worker[w].says : &stranger, BT_FEEDBACK_JOIN, p);
    struct bt_router_stats was = stats(s), is;
    struct bt_txq q;
    bt_txq_init(&q);
    n = w < s->workers ? sim_report_spoil(&s->rng, p, n) : n;
    begin_line(s, 'X');
    fprintf(s->out, " %u", w);
    hex(s, p, n);
    give_report(s, w, p, n, &q);
    is = stats(s);
    fprintf(s->out, " %s\n", silent_word(&was, &is));
    leave(s, &q);
}

static void pass_time(struct story *s)
{
    struct bt_txq q;
    bt_txq_init(&q);
    s->now += s->patience + 1;
    begin_line(s, 'K');
    fputc('\n', s->out);
    bt_router_tick(s->router, s->now * UNIT_NS, &q);
    leave(s, &q);
}

/* The same workers, who still have what they have. */
static void restart(struct story *s)
{
    begin_line(s, 'Z');
    fputc('\n', s->out);
    fresh_router(s);
    for (uint32_t w = 0; w < s->workers; w++) {
        tell(s, w, BT_FEEDBACK_JOIN);
    }
}

/* --- rest -------------------------------------------------------------------------------------------------------- */

static void change(struct story *s, uint32_t w)
{
    struct sim_report *k = &s->worker[w].says;
    k->leaving = once_in(s, 6);
    k->n = 1 + below(s, s->depth);
    if (once_in(s, 3)) {
        s->worker[w] = (struct worker){.says = {.n = k->n, .life = ++s->life}};
    }
    tell(s, w, k->leaving ? 0u : BT_FEEDBACK_JOIN);
}

/* Everything is served, what waits for ever is refused, and what got lost is found; then workers change. */
static void rest(struct story *s)
{
    while (s->flying > 0) {
        serve(s);
        tell_known(s);
    }
    if (bt_router_holds(s->router)) {
        pass_time(s);
        tell_known(s);
    }
    for (uint32_t i = 0; i < REST_ROUNDS; i++) {
        s->now += LOSS + 1;
        for (uint32_t w = 0; w < s->workers; w++) {
            tell(s, w, 0);
        }
    }
    tell_known(s);
    for (uint32_t w = 0; w < s->workers; w++) {
        if (once_in(s, 4) || s->worker[w].says.leaving) {
            change(s, w);
        }
    }
    tell_known(s);
}

static void happen(struct story *s, uint32_t load)
{
    uint32_t dice = below(s, 100);
    if (s->waits_since != 0 && s->now - s->waits_since > s->patience / 2) {
        pass_time(s);
    } else if (dice < load) {
        ask(s);
    } else if (dice < 95 && s->flying > 0) {
        serve(s);
    } else if (once_in(s, 100)) {
        restart(s);
    } else {
        mislead(s);
    }
    tell_known(s);
}

static void begin(struct story *s)
{
    s->workers = 1 + below(s, once_in(s, 2) ? 8 : WORKERS_MAX);
    s->depth = 1 + below(s, DEPTH_MAX);
    s->limit = 1 + below(s, LIMIT_MAX);
    s->patience = 301 + 2 * below(s, 1000); /* odd */
    s->now = (s->now | 0xffffu) + 2u * below(s, 100000);
    s->flying = 0;
    s->waits_since = 0;
    fprintf(s->out, "E %u %u %u %u %u\n", s->workers, s->depth, s->limit, s->patience, LOSS);
    fresh_router(s);
    for (uint32_t w = 0; w < s->workers; w++) {
        s->worker[w] = (struct worker){.says = {.n = 1 + below(s, s->depth), .life = ++s->life}};
        tell(s, w, BT_FEEDBACK_JOIN);
    }
    tell_known(s);
}

void sim_switch_software(uint64_t seed, uint64_t events, FILE *out)
{
    struct story *s = sim_zeroed(sizeof *s);
    s->out = out;
    sim_stream_seed(&s->rng, seed, SIM_STREAM_GARBAGE);
    sim_buffers_init(&s->buffers, PACKETS);
    sim_holder_init(&s->holder, &s->buffers);
    s->now = UINT32_MAX - 1000000u; /* a switch's clock wraps soon */
    uint32_t load = 0;
    for (uint64_t i = 0; s->told < events; i++) {
        if (i % EPISODE == 0) {
            begin(s);
        } else if (i % REST_EVERY == 0) {
            rest(s);
        }
        load = i % REST_EVERY == 0 ? 40 + below(s, 40) : load;
        s->now += once_in(s, 2) ? 2 * below(s, 4) : 0;
        happen(s, load);
    }
    bt_router_discard_held(s->router);
    sim_memory_free(s->mem, s->mem_n);
    sim_buffers_free(&s->buffers);
    free(s);
}
