// SPDX-License-Identifier: Apache-2.0
// A simulated client: the shipped bt_client under an open-loop application that fails over.
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "world.h"

enum { STRIKES = 3 }; /* consecutive timeouts before the next router is tried */
enum { MANY = 256, CALLS_OF_MANY = 1 << 20 };

/* How many requests a client may have open when the scenario does not say: ample. Of many clients each has few, and a
 * large table for each would fill the memory. */
static uint32_t calls(const struct sim_world *w)
{
    if (w->s->client_calls > 0) {
        return w->s->client_calls;
    }
    if (w->s->clients > MANY) {
        return CALLS_OF_MANY / w->s->clients;
    }
    return w->requests_wanted > 20000 ? 32768 : 4096;
}

static uint32_t replies(const struct sim_world *w)
{
    if (w->s->client_replies > 0) {
        return w->s->client_replies;
    }
    return w->s->clients > MANY ? 16 : 512;
}

static struct sim_client *at(const struct sim_world *w, uint32_t i)
{
    return &w->client[i];
}

/* Fail-over: the next router of the list. */
static void move_on(struct sim_client *c)
{
    struct sim_world *w = c->n.world;
    c->strikes = 0;
    if (w->s->routers < 2) {
        return;
    }
    c->router = (c->router + 1) % w->s->routers;
    w->net.seen.failovers++;
}

static void end_request(struct sim_client *c, uint64_t cookie, enum sim_outcome outcome)
{
    struct sim_world *w = c->n.world;
    struct sim_request *r = &w->request[cookie];
    sim_checked(&w->ledger.verdict, SIM_INV_EXACTLY_ONCE);
    if (++r->endings > 1) {
        sim_breach(w, SIM_INV_EXACTLY_ONCE, "request %u of client %u ended %u times (now %d, before %d)",
                   (unsigned)cookie, c->n.index, r->endings, outcome, r->outcome);
        return;
    }
    sim_integrate(w);
    w->in_system--;
    w->requests_ended++;
    c->open--;
    if (c->freed != NULL) {
        c->freed[r->id] = sim_node_now(&c->n);
    }
    r->outcome = (uint8_t)outcome;
    r->ended_ns = w->agenda.now;
    if (outcome == SIM_SUCCESS && w->window_from_ns != 0 && w->window_to_ns == 0) {
        w->window_done++;
    }
    if ((r->flags & SIM_RQ_DIRECT) != 0) {
        return;
    }
    c->strikes = outcome == SIM_TIMEOUT ? c->strikes + 1 : 0;
    if (c->strikes >= STRIKES) {
        move_on(c);
    }
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct sim_client *c = arg;
    struct sim_world *w = c->n.world;
    const struct sim_request *r = &w->request[cookie];
    uint32_t want = (r->flags & SIM_RQ_LONG_REPLY) != 0 ? w->s->long_bytes : w->s->reply_bytes;
    sim_checked(&w->ledger.verdict, SIM_INV_CONTENT);
    uint32_t number = sim_body_of(w, reply, NULL);
    if (reply->len != want || number != cookie || info->req_id != r->id) {
        sim_breach(w, SIM_INV_CONTENT, "request %u got a reply of %u bytes (want %u) that says %u", (unsigned)cookie,
                   reply->len, want, number);
    }
    bt_client_done(c->core, reply);
    end_request(c, cookie, SIM_SUCCESS);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    end_request(arg, cookie, SIM_TIMEOUT);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    end_request(arg, cookie, code == BT_RPC_DROPPED ? SIM_DROPPED : SIM_ERROR);
}

void sim_client_start(struct sim_world *w, uint32_t i)
{
    struct sim_client *c = at(w, i);
    sim_node_init(w, &c->n, SIM_CLIENT, i);
    c->router = i % w->s->routers;
    c->extensions = sim_uniform(&w->stream[SIM_STREAM_CLIENT]) >= w->s->plain_share;
    struct bt_client_cfg cfg = {
        .local = sim_addr(w, SIM_CLIENT, i, 0),
        .mtu = 1500,
        .max_pending = calls(w),
        .max_assemblies = replies(w),
        .max_message = SIM_BODY_MAX,
        .extensions = c->extensions,
        .timers = bt_rpc_timers_for((enum bt_device)w->s->device),
        .seed = bt_rng_next(&w->stream[SIM_STREAM_CHOICE]),
        .pool = sim_node_pool(&c->n),
        .ops = {on_success, on_timeout, on_error, c},
    };
    c->n.mem_n = bt_client_bytes(&cfg);
    c->n.mem = sim_memory(c->n.mem_n);
    c->core = bt_client_init(&cfg, c->n.mem, c->n.mem_n, sim_node_now(&c->n));
    c->by_id = calloc(65536, sizeof *c->by_id);
    c->freed = w->watching ? calloc(65536, sizeof *c->freed) : NULL;
    if (w->s->client_packets > 0) {
        w->net.holder[c->n.node].limit = w->s->client_packets;
    }
    if (c->core == NULL || c->by_id == NULL || (w->watching && c->freed == NULL)) {
        sim_breach(w, SIM_INV_PROGRESS, "client %u could not be built", i);
    }
}

void sim_client_run(struct sim_node *n, uint64_t now, struct bt_pkt *p)
{
    struct sim_client *c = (struct sim_client *)(void *)n;
    struct bt_txq q;
    bt_txq_init(&q);
    if (p != NULL) {
        bt_client_rx(c->core, now, p, &q);
    }
    uint64_t next = bt_client_next(c->core);
    if (next <= now) {
        bt_client_tick(c->core, now, &q);
        next = bt_client_next(c->core);
    }
    if (n->world->watching) {
        sim_check_client_step(n->world, n->index);
    }
    sim_node_after(n, &q, next);
}

/* Shape and size of the next request, from streams no policy touches. */
static uint8_t shape(struct sim_world *w)
{
    const struct sim_scenario *s = w->s;
    struct bt_rng *g = &w->stream[SIM_STREAM_SHAPE];
    uint8_t flags = 0;
    if (sim_chance(g, s->long_requests)) {
        flags |= SIM_RQ_LONG_REQUEST;
    }
    if (sim_chance(g, s->long_replies)) {
        flags |= SIM_RQ_LONG_REPLY;
    }
    if (sim_chance(g, s->sticky)) {
        flags |= SIM_RQ_STICKY;
    }
    if (sim_chance(g, s->direct)) {
        flags |= SIM_RQ_DIRECT;
    }
    if (s->spared > 0 && sim_chance(g, s->spared)) {
        flags |= SIM_RQ_SPARED;
    }
    return flags;
}

/* What a request is, before it is sent. Every draw is from the streams of its kind, in this order. */
static void draw_request(struct sim_world *w, struct sim_request *r, uint32_t number, bool probe)
{
    if (!probe && !w->unshaped) {
        r->flags = shape(w);
        if (w->s->prioritised > 0 && sim_chance(&w->stream[SIM_STREAM_SHAPE], w->s->prioritised)) {
            r->asked = (uint8_t)(4 + number % 4);
        }
    }
    r->service_ns = sim_service_ns(w, number);
    if (probe) {
        r->flags = (uint8_t)(SIM_RQ_PROBE | (w->s->admission_mode != 0 ? SIM_RQ_SPARED : 0));
        r->service_ns = (uint64_t)(w->s->service.mean_ns / 10) + 1; /* only a lost credit may delay it */
    }
}

static void note_started(struct sim_world *w, struct sim_client *c, uint32_t number, int id)
{
    struct sim_request *r = &w->request[number];
    if (id < 0) {
        r->outcome = SIM_REFUSED;
        r->ended_ns = w->agenda.now;
        w->requests_ended++;
        return;
    }
    r->id = (uint16_t)id;
    if (w->watching && c->by_id[id] != 0) {
        sim_check_id(w, c->n.index, r->id);
    }
    c->by_id[id] = number + 1;
    c->open++;
    sim_integrate(w);
    w->in_system++;
}

static void start_request(struct sim_world *w, struct sim_client *c, uint32_t number, bool probe)
{
    struct sim_request *r = &w->request[number];
    *r = (struct sim_request){.sent_ns = w->agenda.now, .client = (uint16_t)c->n.index};
    draw_request(w, r, number, probe);
    uint32_t len = (r->flags & SIM_RQ_LONG_REQUEST) != 0 ? w->s->long_bytes : w->s->request_bytes;
    struct iovec iov = {w->scratch, sim_body_write(w->scratch, len, number, r->service_ns)};
    uint32_t direct = w->unshaped ? 0 : sim_below(&w->stream[SIM_STREAM_SHAPE], w->s->workers);
    bool spared = (r->flags & SIM_RQ_SPARED) != 0;
    struct bt_request rq = {
        .iov = &iov,
        .iovcnt = 1,
        .dst = (r->flags & SIM_RQ_DIRECT) != 0 ? w->server[direct].n.io.port[0] : w->router[c->router].n.io.port[0],
        .timeout_ns = probe ? w->s->timeout_ns + 1000000000 : w->s->timeout_ns,
        .cookie = number,
        .policy = (r->flags & SIM_RQ_STICKY) != 0,
        .with_class = r->asked != 0 || spared,
        .class_id = r->asked,
        .class_flags = spared ? BT_CLASS_NON_DROPPABLE : 0,
    };
    struct bt_txq q;
    bt_txq_init(&q);
    note_started(w, c, number, bt_client_send(c->core, sim_node_now(&c->n), &rq, &q));
    sim_node_after(&c->n, &q, bt_client_next(c->core));
}

void sim_client_load(struct sim_world *w)
{
    uint32_t number = (uint32_t)w->requests_made++;
    uint32_t who = sim_below(&w->stream[SIM_STREAM_CLIENT], w->s->clients);
    start_request(w, at(w, who), number, number >= w->requests_main);
}

uint64_t sim_client_state(const struct sim_world *w, uint32_t i)
{
    const struct sim_client *c = at(w, i);
    return (uint64_t)bt_client_pending(c->core) * 0x9e3779b97f4a7c15ULL ^ bt_client_next(c->core) ^
           (uint64_t)w->net.holder[c->n.node].count << 40;
}

void sim_client_stop(struct sim_world *w, uint32_t i)
{
    struct sim_client *c = at(w, i);
    sim_memory_free(c->n.mem, c->n.mem_n);
    free(c->by_id);
    free(c->freed);
}

void sim_client_unreachable(struct sim_world *w, uint32_t i, uint32_t router)
{
    if (at(w, i)->router != router) {
        return; /* of a packet to another */
    }
    w->net.seen.icmp_client++;
    move_on(at(w, i));
}

void sim_client_harvest(struct sim_world *w, uint32_t i)
{
    const uint64_t *n = bt_client_counters(at(w, i)->core);
    uint64_t *full = w->net.seen.full;
    full[SIM_FULL_CLIENT_CALLS] += n[BT_CLIENT_REFUSED_TABLE];
    full[SIM_FULL_CLIENT_IDS] += n[BT_CLIENT_REFUSED_ID];
    full[SIM_FULL_CLIENT_REPLIES] += n[BT_M24];
    full[SIM_FULL_CLIENT_BUFFERS] += n[BT_CLIENT_NO_BUFFER];
}
