// SPDX-License-Identifier: Apache-2.0
// What must hold after every step of fuzz_system, through the public interfaces only.
#include "system.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"

void sys_stats(uint32_t router, struct bt_router_stats *t)
{
    bt_router_read_stats(w.router[router].core, sys_clock(FIRST_ROUTER + router), t);
}

// As the thread knows it that hears workers; when a request has left, the other one knows the same.
static bool row_at(uint32_t router, uint32_t i, struct bt_router_member_stats *m)
{
    return bt_router_member(w.router[router].core, sys_clock(FIRST_ROUTER + router), i, m);
}

static bool row_of(uint32_t router, const struct bt_addr *worker, struct bt_router_member_stats *m)
{
    for (uint32_t i = 0; row_at(router, i, m); i++) {
        if (bt_addr_eq(&m->addr, worker)) {
            return true;
        }
    }
    return false;
}

static void check_forward(uint32_t router, const struct bt_pkt *p, const struct bt_r2p2_hdr *h)
{
    struct bt_router_member_stats m;
    uint32_t behind = 0; // left later in the same burst, sticky requests among them
    for (const struct bt_pkt *x = p->next; x; x = x->next) {
        behind += bt_addr_eq(&x->dst, &p->dst);
    }
    CHECK(h->first && row_of(router, &p->dst, &m));
    CHECK(m.joined && !m.leaving);
    if (h->policy != BT_POLICY_STICKY && w.router[router].policy == BT_ROUTER_JBSQ) {
        CHECK(m.outstanding <= m.n + behind);
    }
}

// what a worker says of itself only grows while it lives.
static void check_feedback(uint32_t server, const struct bt_pkt *p, const struct bt_r2p2_hdr *h)
{
    struct bt_feedback fb;
    struct node_server *s = &w.server[server];
    uint32_t port = 0, router = sys_node(&p->dst, &port) - FIRST_ROUTER;
    CHECK(bt_feedback_decode(h->payload, h->payload_len, &fb) == BT_M_OK);
    CHECK(fb.received >= fb.served && fb.n <= 64);
    if (router >= ROUTERS || fb.incarnation != s->incarnation) {
        return; // a slot that changed its owner counts anew under a moved incarnation
    }
    CHECK(fb.received >= s->received[router] && fb.served >= s->served[router]);
    s->received[router] = fb.received;
    s->served[router] = fb.served;
}

void sys_check_sent(uint32_t node, const struct bt_txq *q)
{
    for (const struct bt_pkt *p = q->head; p; p = p->next) {
        struct bt_r2p2_hdr h;
        CHECK(bt_r2p2_decode(p->data, p->len, BT_ROLE_ANY, &h) == BT_M_OK); // strict in sending
        if (node >= FIRST_SERVER) {
            CHECK(h.type != BT_REQUEST);
            if (h.type == BT_FEEDBACK) {
                check_feedback(node - FIRST_SERVER, p, &h);
            }
        } else if (node >= FIRST_ROUTER) {
            CHECK(h.type == BT_REQUEST || h.type == BT_DROP);
            if (h.type == BT_REQUEST) {
                check_forward(node - FIRST_ROUTER, p, &h);
            }
        } else {
            CHECK(h.type == BT_REQUEST || h.type == BT_SACK);
        }
    }
}

static void check_client(uint32_t i)
{
    const struct node_client *c = &w.client[i];
    const uint64_t *n = bt_client_counters(c->core);
    CHECK(bt_client_pending(c->core) == c->open);
    CHECK(n[BT_CLIENT_STARTED] == c->open + n[BT_CLIENT_SUCCEEDED] + n[BT_CLIENT_TIMED_OUT] + n[BT_CLIENT_DROPPED] +
                                      n[BT_CLIENT_INCOMPLETE] + n[BT_CLIENT_CANCELLED]);
}

static void check_router(uint32_t i)
{
    const struct node_router *r = &w.router[i];
    const struct box *b = &w.box[FIRST_ROUTER + i];
    struct bt_router_stats t;
    sys_stats(i, &t);
    uint64_t drops = bt_router_drops(t.counter);
    uint32_t hoarded = 0;
    for (const struct bt_pkt *p = b->hoard; p; p = p->next) {
        hoarded++;
    }
    CHECK(t.counter[BT_RC_REQUESTS] == t.counter[BT_RC_FORWARDED] + drops + t.held);
    CHECK(t.held <= r->limit);
    CHECK(t.held + r->inbox[0].n + r->inbox[1].n + b->pool.left + hoarded == PACKETS); // a router keeps nothing else
    CHECK(t.pairs <= 16 && t.eligible <= t.joined && t.joined <= t.members);
    CHECK(t.ejected <= SERVERS / 2u || t.joined < 2); // R-139a
}

static void check_server(uint32_t i)
{
    const struct node_server *s = &w.server[i];
    struct bt_server_router_state st;
    uint64_t open = 0;
    for (int k = 0; bt_server_router_state(s->core, k, &st); k++) {
        CHECK(st.received >= st.served);
        open += st.received - st.served;
    }
    CHECK(open <= bt_server_backlog(s->core)); // nothing is owed that is not there
    CHECK(bt_server_backlog(s->core) <= JOBS - 4 && s->jobs <= bt_server_backlog(s->core));
}

void sys_check_node(uint32_t node)
{
    if (node < FIRST_ROUTER) {
        check_client(node);
    } else if (node < FIRST_SERVER) {
        check_router(node - FIRST_ROUTER);
    } else {
        check_server(node - FIRST_SERVER);
    }
    CHECK(w.box[node].pool.left <= PACKETS);
}

// After the faults: every credit is back and every worker is in use again, unless it was ejected.
static void check_credits(uint32_t router)
{
    struct bt_router_member_stats m;
    struct bt_router_stats t;
    sys_stats(router, &t);
    CHECK(t.held == 0);
    CHECK(t.pairs == 0);
    CHECK(t.members == SERVERS);
    for (uint32_t i = 0; row_at(router, i, &m); i++) {
        CHECK(m.outstanding == 0);
        CHECK(m.joined && !m.suspect && !m.leaving && m.n >= 1);
        CHECK(m.eligible || m.ejected);
    }
}

void sys_check_end(void)
{
    struct bt_server_router_state st;
    for (uint32_t i = 0; i < w.calls; i++) {
        CHECK(w.call[i].ends == 1);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        CHECK(w.box[n].pool.left == PACKETS); // no packet is kept for ever
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        CHECK(bt_server_backlog(w.server[i].core) == 0);
        for (int k = 0; bt_server_router_state(w.server[i].core, k, &st); k++) {
            CHECK(st.received == st.served);
        }
    }
    for (uint32_t i = 0; i < ROUTERS && !w.forged; i++) {
        check_credits(i);
    }
}
