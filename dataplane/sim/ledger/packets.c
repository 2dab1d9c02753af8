// SPDX-License-Identifier: Apache-2.0
// The ledger's look at packets on the wire, and at the truth only a simulation has: where every packet is at this very
// moment.
#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/book.h"
#include "router/router_config.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "world.h"

#define MS 1000000ULL

void sim_ledger_init(struct sim_world *w)
{
    struct sim_ledger *l = &w->ledger;
    memset(l, 0, sizeof *l);
    l->credit = calloc((size_t)w->s->routers * w->s->workers, sizeof *l->credit);
    l->book = calloc((size_t)w->s->routers * w->s->workers, sizeof *l->book);
    l->refusals = calloc(w->s->workers, sizeof *l->refusals);
    l->last_arrival = calloc(w->s->routers, sizeof *l->last_arrival);
    l->promise = calloc(w->s->routers, sizeof *l->promise);
    if (l->credit == NULL || l->book == NULL || l->refusals == NULL || l->last_arrival == NULL || l->promise == NULL) {
        abort();
    }
    bool sriov = w->s->device == BT_DEVICE_SRIOV;
    l->t_loss_ns = sriov ? 2 * MS : 200 * MS;      /* */
    l->t_dead_ns = sriov ? 30 * MS : 1000 * MS;    /* */
    l->margin_ns = sriov ? 30 * MS : 300 * MS;     /* three periodic FEEDBACKs */
    l->quarantine_ns = sriov ? 16 * MS : 800 * MS; /* 2 × 4 RTO */
}

void sim_ledger_free(struct sim_world *w)
{
    for (size_t i = 0; i < (size_t)w->s->routers * w->s->workers; i++) {
        free(w->ledger.book[i].ring);
    }
    free(w->ledger.book);
    free(w->ledger.credit);
    free(w->ledger.refusals);
    free(w->ledger.last_arrival);
    free(w->ledger.promise);
}

static struct sim_credit *credit_of(struct sim_world *w, uint32_t router, uint32_t server)
{
    return &w->ledger.credit[(size_t)router * w->s->workers + server];
}

static void excuse(struct sim_world *w, struct sim_credit *c, uint64_t until)
{
    (void)w;
    if (until > c->excused_until) {
        c->excused_until = until;
    }
}

/* After a restart of either side the router knows a worker again when REQ0s of the old life have
 * arrived or been written off and one more FEEDBACK has told so. */
void sim_check_restart(struct sim_world *w, uint32_t router, uint32_t server)
{
    struct sim_credit *c = credit_of(w, router, server);
    excuse(w, c, w->agenda.now + 2 * w->ledger.t_loss_ns + w->ledger.margin_ns);
    c->received = c->served = 0;
    c->left = false;
}

void sim_check_disturbed(struct sim_world *w, uint32_t node, uint64_t until)
{
    enum sim_role role = sim_net_role(&w->net, node);
    uint32_t i = node - w->net.first[role];
    uint32_t others = role == SIM_ROUTER ? w->s->workers : role == SIM_SERVER ? w->s->routers : 0;
    for (uint32_t k = 0; k < others; k++) {
        excuse(w, role == SIM_ROUTER ? credit_of(w, i, k) : credit_of(w, k, i),
               until + 2 * w->ledger.t_loss_ns + w->ledger.margin_ns);
    }
}

uint64_t sim_check_doubted(struct sim_world *w, uint32_t server)
{
    uint64_t until = w->agenda.now + w->ledger.t_dead_ns + w->ledger.margin_ns;
    for (uint32_t r = 0; r < w->s->routers; r++) {
        excuse(w, credit_of(w, r, server), until + 2 * w->ledger.t_loss_ns + w->ledger.margin_ns);
    }
    return until;
}

/* `before` had the id last; only requests that ended release one. */
void sim_check_id(struct sim_world *w, uint32_t client, uint16_t id)
{
    const struct sim_client *c = &w->client[client];
    uint32_t before = c->by_id[id] - 1;
    uint64_t now = sim_node_now(&c->n), ago = now > c->freed[id] ? now - c->freed[id] : 0;
    w->net.seen.id_wraps++;
    sim_checked(&w->ledger.verdict, SIM_INV_ID_REUSE);
    if (w->request[before].endings == 0) {
        sim_breach(w, SIM_INV_ID_REUSE, "client %u uses id %u for two requests at once", client, id);
    } else if (ago < w->ledger.quarantine_ns) {
        sim_breach(w, SIM_INV_ID_REUSE, "client %u uses id %u again after %.3f ms", client, id, (double)ago / 1e6);
    }
}

/* The request a REQ0 on its way from a router carries, NULL when it cannot be told. */
static struct sim_request *forwarded_request(struct sim_world *w, const struct bt_pkt *p)
{
    struct bt_r2p2_hdr h;
    if (bt_r2p2_decode(p->data, p->len, BT_ROLE_SERVER, &h) != BT_M_OK) {
        return NULL;
    }
    bool carried = (h.opt.present & BT_HAS_FORWARDED) != 0;
    uint32_t number = sim_request_of(w, carried ? &h.opt.forwarded : &p->src, h.req_id);
    return number == UINT32_MAX ? NULL : &w->request[number];
}

/* A copy the network made before the router goes to the same worker again: the worker will not
 * count it, so it is no backlog. */
static bool is_copy(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_pkt *p)
{
    const struct sim_request *r = forwarded_request(w, p);
    return r != NULL &&
           ((r->router == router + 1 && r->at == server) || (r->router2 == router + 1 && r->at2 == server));
}

static void note_forward(struct sim_world *w, uint32_t router, uint32_t server, struct bt_pkt *p, uint64_t arrives_ns)
{
    struct sim_request *r = forwarded_request(w, p);
    struct sim_credit *c = credit_of(w, router, server);
    bool copy = is_copy(w, router, server, p);
    if (arrives_ns == UINT64_MAX) {
        if (r != NULL && !copy) {
            r->router = 0;
        }
        return;
    }
    if (copy) {
        p->mark |= SIM_MARK_COPY;
        if (r->arrives_ns > w->agenda.now) {
            excuse(w, c, r->arrives_ns + MS); /* which of the two counts is open */
        }
        return;
    }
    c->in_flight++;
    if (r == NULL) {
        return;
    }
    r->router2 = r->router;
    r->at2 = r->at;
    r->router = (uint16_t)(router + 1);
    r->at = (uint16_t)server;
    r->arrives_ns = arrives_ns;
}

/* sim_net.watch: every packet as it leaves, with its time of arrival. */
void sim_check_watch(void *ctx, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t arrives_ns)
{
    struct sim_world *w = ctx;
    enum sim_role a = sim_net_role(&w->net, from), b = sim_net_role(&w->net, to);
    bool out = a == SIM_ROUTER && b == SIM_SERVER, back = a == SIM_SERVER && b == SIM_ROUTER;
    if (!out && !back) {
        return;
    }
    uint32_t router = (out ? from : to) - w->net.first[SIM_ROUTER];
    uint32_t server = (out ? to : from) - w->net.first[SIM_SERVER];
    bool twin = (p->mark & SIM_MARK_DUPLICATE) != 0;
    if (out && !twin && sim_packet_of(p) == SIM_PKT_REQ0) {
        note_forward(w, router, server, p, arrives_ns);
    }
    /* What is late says what was true T_loss ago: R-111 then takes a request on its way for lost. */
    if (arrives_ns != UINT64_MAX && (p->mark & SIM_MARK_LATE) != 0) {
        excuse(w, credit_of(w, router, server), arrives_ns + w->ledger.t_loss_ns + w->ledger.margin_ns);
    }
}

void sim_check_req0_gone(struct sim_world *w, uint32_t from, uint32_t to, const struct bt_pkt *p)
{
    if (!w->watching || from == UINT16_MAX || (p->mark & SIM_MARK_COPY) != 0 || sim_packet_of(p) != SIM_PKT_REQ0) {
        return;
    }
    if (sim_net_role(&w->net, from) != SIM_ROUTER || sim_net_role(&w->net, to) != SIM_SERVER) {
        return;
    }
    struct sim_credit *c = credit_of(w, from - w->net.first[SIM_ROUTER], to - w->net.first[SIM_SERVER]);
    if ((p->mark & SIM_MARK_DUPLICATE) == 0) {
        c->in_flight--;
    } else { /* counted, it stands for a request still on its way, until that comes and its router hears of it */
        excuse(w, c, w->agenda.now + w->ledger.margin_ns);
    }
}

static void check_true_bound(struct sim_world *w, uint32_t router, uint32_t server, uint32_t n, uint32_t more)
{
    struct sim_credit *c = credit_of(w, router, server);
    uint64_t received = 0, served = 0;
    if (w->agenda.now < c->excused_until || server < w->s->legacy_workers || !w->server[server].up) {
        return;
    }
    if (!sim_server_counts(w, server, router, &received, &served)) {
        return;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_TRUE_BOUND);
    uint64_t backlog = received - served + c->in_flight + more;
    if (backlog > n) {
        sim_breach(w, SIM_INV_TRUE_BOUND,
                   "router %u has %llu requests at worker %u, n is %u (%llu on the way, %llu received, %llu served)",
                   router, (unsigned long long)backlog, server, n, (unsigned long long)c->in_flight,
                   (unsigned long long)received, (unsigned long long)served);
    }
}

/* R-105, by the clock that the thread which sends it looked at. With one thread a tick may be 2 ms late. */
static void check_hold_time(struct sim_world *w, uint32_t router, const struct bt_pkt *p, unsigned place)
{
    const struct sim_router *r = &w->router[router];
    uint64_t held = r->form->held(r, p, place), longest = w->s->max_queue_ns + (uint64_t)r->form->hold_slack_ns;
    sim_checked(&w->ledger.verdict, SIM_INV_HOLD_TIME);
    if (held > longest) {
        sim_breach(w, SIM_INV_HOLD_TIME, "router %u held a request for %.3f ms", router, (double)held / 1e6);
    }
}

static void check_order(struct sim_world *w, uint32_t router, const struct bt_pkt *p)
{
    uint64_t *last = &w->ledger.last_arrival[router];
    sim_checked(&w->ledger.verdict, SIM_INV_FIFO);
    if (p->t_rx_ns < *last) {
        sim_breach(w, SIM_INV_FIFO, "router %u sent a request %.3f ms older than the one before", router,
                   (double)(*last - p->t_rx_ns) / 1e6);
    }
    *last = p->t_rx_ns;
}

static void note_handed(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_pkt *p)
{
    struct sim_request *r = forwarded_request(w, p);
    if (r == NULL) {
        return;
    }
    r->handed = r->handed < UINT8_MAX ? r->handed + 1 : UINT8_MAX;
    r->handed_by = (uint16_t)(router + 1);
    r->handed_to = (uint16_t)server;
}

/* What left later in the same step, sticky requests among them. */
static uint32_t left_behind(const struct bt_pkt *p)
{
    uint32_t behind = 0;
    for (const struct bt_pkt *x = p->next; x != NULL; x = x->next) {
        behind += bt_addr_eq(&x->dst, &p->dst) && sim_packet_of(x) == SIM_PKT_REQ0;
    }
    return behind;
}

/* A REQ0 among what a router sends in one step. */
struct leaving {
    const struct bt_pkt *p;
    uint32_t server, more; /* more: how many of the step went to that worker so far */
    bool second;           /* a copy */
    unsigned place;        /* in the step */
};

static void check_forward(struct sim_world *w, uint32_t router, const struct leaving *sent)
{
    const struct bt_pkt *p = sent->p;
    const uint32_t server = sent->server, more = sent->more;
    const bool second = sent->second;
    struct bt_router_member_stats m;
    if (!sim_router_row(w, router, server, &m)) {
        sim_breach(w, SIM_INV_MEMBERSHIP, "router %u sent to worker %u, which is no member", router, server);
        return;
    }
    if (more == 1) { /* the first of the step */
        sim_book_check(w, router, server, &m);
    }
    bool sticky = (p->data[2] & 0x0F) == BT_POLICY_STICKY;
    sim_checked(&w->ledger.verdict, SIM_INV_MEMBERSHIP);
    if ((!m.joined && !m.legacy) || m.leaving || credit_of(w, router, server)->left) {
        sim_breach(w, SIM_INV_MEMBERSHIP, "router %u sent to worker %u, joined %d, leaving %d, said LEAVE %d", router,
                   server, m.joined, m.leaving, credit_of(w, router, server)->left);
    }
    if (!second) {
        note_handed(w, router, server, p); /* by every policy: what the network repeats is counted */
    }
    if (sticky || w->s->policy != BT_ROUTER_JBSQ) {
        return;
    }
    if (!second) {
        check_order(w, router, p);
        check_hold_time(w, router, p, sent->place);
    } else {
        sim_check_hedged(w, router, p);
    }
    sim_checked(&w->ledger.verdict, SIM_INV_OWN_BOUND);
    uint32_t beyond = w->s->hedging_cancellation == BT_HEDGING_CANCEL_PREEMPTIVE; /* in place of what is taken back */
    uint32_t behind = left_behind(p);
    if (m.outstanding > m.n + beyond + behind) {
        sim_breach(w, SIM_INV_OWN_BOUND, "router %u counts %u outstanding at worker %u, n is %u", router,
                   m.outstanding - behind, server, m.n);
    }
    if (!is_copy(w, router, server, p)) {
        check_true_bound(w, router, server, m.n + beyond, more);
    }
}

/* The worker that p is a request to, UINT32_MAX: it is none. */
static uint32_t request_to(struct sim_world *w, const struct bt_pkt *p)
{
    uint32_t node = sim_packet_of(p) == SIM_PKT_REQ0 ? sim_net_node(&w->net, &p->dst) : UINT32_MAX;
    return node != UINT32_MAX && sim_net_role(&w->net, node) == SIM_SERVER ? node - w->net.first[SIM_SERVER]
                                                                           : UINT32_MAX;
}

void sim_check_router_tx(struct sim_world *w, uint32_t router, const struct bt_txq *q)
{
    if (!w->watching) {
        return;
    }
    unsigned place = 0;
    for (const struct bt_pkt *p = q->head; p != NULL; p = p->next) {
        uint32_t server = request_to(w, p);
        if (server != UINT32_MAX) {
            sim_book_sent(w, router, server, p);
        }
    }
    for (const struct bt_pkt *p = q->head; p != NULL; p = p->next, place++) {
        uint32_t node = sim_net_node(&w->net, &p->dst);
        if (sim_packet_of(p) != SIM_PKT_REQ0 || node == UINT32_MAX) {
            continue;
        }
        if (sim_net_role(&w->net, node) != SIM_SERVER) {
            sim_breach(w, SIM_INV_MEMBERSHIP, "router %u sent a request to a node that is no worker", router);
            continue;
        }
        uint32_t more = 1;
        for (const struct bt_pkt *x = q->head; x != p; x = x->next) {
            more += bt_addr_eq(&x->dst, &p->dst) && sim_packet_of(x) == SIM_PKT_REQ0;
        }
        bool second = place + w->ledger.promise[router].new_copies >= q->n;
        const struct leaving sent = {
            .p = p, .server = node - w->net.first[SIM_SERVER], .more = more, .second = second, .place = place};
        check_forward(w, router, &sent);
    }
}

static void check_counts(struct sim_world *w, uint32_t server, uint32_t router, const struct bt_feedback *fb)
{
    struct sim_credit *c = credit_of(w, router, server);
    sim_checked(&w->ledger.verdict, SIM_INV_SERVED);
    if (fb->served > fb->received || fb->served < c->served || fb->received < c->received) {
        sim_breach(w, SIM_INV_SERVED, "worker %u told router %u received %llu served %llu after %llu and %llu", server,
                   router, (unsigned long long)fb->received, (unsigned long long)fb->served,
                   (unsigned long long)c->received, (unsigned long long)c->served);
    }
    c->received = fb->received;
    c->served = fb->served;
}

/* no more than the share of a router while others were heard within the second. */
static void check_share(struct sim_world *w, uint32_t server, uint32_t router, const struct bt_feedback *fb)
{
    uint32_t active = 1, depth = w->server[server].depth;
    for (uint32_t r = 0; r < w->s->routers; r++) {
        active += r != router && sim_server_heard(w, server, r);
    }
    uint32_t share = depth / active > 0 ? depth / active : 1;
    sim_checked(&w->ledger.verdict, SIM_INV_SHARE);
    if (fb->n > share || (fb->n == 0 && !w->server[server].leaving)) {
        sim_breach(w, SIM_INV_SHARE, "worker %u with n %u grants %u to router %u while %u are active", server, depth,
                   fb->n, router, active);
    }
}

static void check_reply_first(struct sim_world *w, uint32_t server, const struct bt_feedback *fb)
{
    if ((fb->flags & BT_FEEDBACK_PAIR) == 0 || (fb->flags & (BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED)) != 0) {
        return;
    }
    uint32_t number = sim_request_of(w, &fb->client, fb->req_id);
    if (number == UINT32_MAX) {
        return;
    }
    const struct sim_request *r = &w->request[number];
    sim_checked(&w->ledger.verdict, SIM_INV_REPLY_FIRST);
    if ((r->flags & SIM_RQ_REPLIED) == 0) {
        sim_breach(w, SIM_INV_REPLY_FIRST, "worker %u sent FEEDBACK for request %u before the end of its reply", server,
                   number);
    }
}

static void note_reply(struct sim_world *w, const struct bt_pkt *p)
{
    if ((p->data[3] & 0x40) == 0) {
        return;
    }
    uint32_t number = sim_request_of(w, &p->dst, (uint16_t)(p->data[4] << 8 | p->data[5]));
    if (number != UINT32_MAX) {
        w->request[number].flags |= SIM_RQ_REPLIED;
    }
}

void sim_check_server_tx(struct sim_world *w, uint32_t server, const struct bt_txq *q)
{
    if (!w->watching) {
        return;
    }
    for (const struct bt_pkt *p = q->head; p != NULL; p = p->next) {
        enum sim_packet kind = sim_packet_of(p);
        struct bt_r2p2_hdr h;
        struct bt_feedback fb;
        if (kind == SIM_PKT_REPLY) {
            note_reply(w, p);
        }
        if (kind != SIM_PKT_FEEDBACK) {
            continue;
        }
        if (bt_r2p2_decode(p->data, p->len, BT_ROLE_ROUTER_FEEDBACK, &h) != BT_M_OK ||
            bt_feedback_decode(h.payload, h.payload_len, &fb) != BT_M_OK) {
            sim_breach(w, SIM_INV_SERVED, "worker %u sent a FEEDBACK no router can read", server);
            continue;
        }
        uint32_t node = sim_net_node(&w->net, &p->dst);
        if (fb.version > 0 && node != UINT32_MAX) {
            check_counts(w, server, node - w->net.first[SIM_ROUTER], &fb);
            check_share(w, server, node - w->net.first[SIM_ROUTER], &fb);
        }
        check_reply_first(w, server, &fb);
        w->ledger.refusals[server] += (fb.flags & BT_FEEDBACK_PAIR) != 0 && (fb.flags & BT_FEEDBACK_DROPPED) != 0;
    }
}

/* what a worker said before its LEAVE and comes soon after it changes nothing, unless it is a JOIN. The router
 * waits for T_loss by its own clock; half of that holds whatever its clock does. */
static bool is_straggler(const struct sim_world *w, const struct sim_credit *c)
{
    return w->agenda.now - c->left_at < w->ledger.t_loss_ns / 2 && w->agenda.now >= c->excused_until;
}

/* Whether the worker will leave, as the FEEDBACK says which the router reads now. */
static void note_leaving(struct sim_world *w, struct sim_credit *c, const struct bt_feedback *fb, bool leaves)
{
    if (!leaves) {
        c->left = false;
    } else if ((fb->flags & BT_FEEDBACK_LEAVE) != 0 || fb->n == 0) {
        c->left_at = c->left ? c->left_at : w->agenda.now;
        c->left = true;
    } else {
        c->left = c->left && (fb->flags & BT_FEEDBACK_JOIN) == 0 && is_straggler(w, c);
    }
}

static bool read_feedback(const struct bt_pkt *p, struct bt_feedback *fb)
{
    struct bt_r2p2_hdr h;
    return bt_r2p2_decode(p->data, p->len, BT_ROLE_ROUTER_FEEDBACK, &h) == BT_M_OK &&
           bt_feedback_decode(h.payload, h.payload_len, fb) == BT_M_OK;
}

void sim_check_feedback_in(struct sim_world *w, uint32_t router, const struct bt_pkt *p)
{
    struct bt_feedback fb;
    uint32_t node = sim_net_node(&w->net, &p->src);
    if (!w->watching || w->ledger.bad_packet || node == UINT32_MAX || sim_net_role(&w->net, node) != SIM_SERVER) {
        return;
    }
    if (!read_feedback(p, &fb)) {
        return;
    }
    uint32_t server = node - w->net.first[SIM_SERVER];
    sim_book_heard(w, router, server, &fb, p->t_rx_ns);
    w->ledger.concerned = server + 1;
    if (fb.version == 0) {
        return;
    }
    bool current = fb.incarnation == w->server[server].incarnation;
    struct bt_router_member_stats m;
    if (current && w->agenda.now < w->server[server].doubted_until) { /* it may be refused as too old */
        bool known = sim_router_row(w, router, server, &m) && m.feedback_age_ns != UINT64_MAX;
        w->net.seen.older_refused += known && (int32_t)(fb.incarnation - m.incarnation) < 0;
        return;
    }
    note_leaving(w, credit_of(w, router, server), &fb, current && w->server[server].leaving);
}

void sim_check_ended(struct sim_world *w)
{
    for (uint64_t i = 0; i < w->requests_made; i++) {
        const struct sim_request *r = &w->request[i];
        sim_checked(&w->ledger.verdict, SIM_INV_EXACTLY_ONCE);
        if (r->endings != (r->outcome != SIM_REFUSED)) {
            sim_breach(w, SIM_INV_EXACTLY_ONCE, "request %llu ended %u times", (unsigned long long)i, r->endings);
        }
    }
}
