// SPDX-License-Identifier: Apache-2.0
// A router's credit by the letter of its rules, kept beside the router and compared with its row. `sent`, `done`, n and
// the incarnation are known to the last digit. What is lost is known within bounds: the rule
// takes what was sent T_loss ago, and a router need not remember each moment of the past. No bound depends on a fault:
// a book knows only what its router could know, by the same clock.
#include "ledger/book.h"

#include <stdlib.h>

#include "router/router_config.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "world.h"

#define MS UINT64_C(1000000)

/* R-110; the router's T_leak is never shorter, and doubles with each credit that it takes back, so many times at most.
 */
enum { LEAK_MS = 100, LEAK_DOUBLINGS = 8 };

/* --- the book ----------------------------------------------------------------------------------------------------- */

static uint64_t clock_of(const struct sim_world *w, uint32_t router)
{
    return sim_node_now(&w->router[router].n);
}

static struct sim_book *book_of(const struct sim_world *w, uint32_t router, uint32_t server)
{
    struct sim_book *b = &w->ledger.book[(size_t)router * w->s->workers + server];
    if (b->life != w->router[router].life) {
        struct sim_sent *ring = b->ring;
        uint32_t ring_n = b->ring_n;
        *b = (struct sim_book){.life = w->router[router].life, .ring = ring, .ring_n = ring_n};
    }
    return b;
}

/* Serial arithmetic. */
static bool older(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/* Of its requests, those that the worker does not owe any more. */
static uint64_t settled(const struct sim_book *b)
{
    return b->known ? b->served - b->base + b->lost : b->done + b->reclaimed;
}

static struct sim_sent *sent_as(const struct sim_book *b, uint64_t number)
{
    return &b->ring[number & (b->ring_n - 1)];
}

static void grow(struct sim_book *b)
{
    uint32_t n = b->ring_n > 0 ? b->ring_n * 2 : 64;
    struct sim_sent *ring = malloc(n * sizeof *ring);
    if (ring == NULL) {
        abort();
    }
    for (uint64_t i = b->first; i != b->sent; i++) {
        ring[i & (n - 1)] = *sent_as(b, i);
    }
    free(b->ring);
    b->ring = ring;
    b->ring_n = n;
}

/* What a FEEDBACK will call it: its client, whatever the router writes as the source, and its id. */
static uint32_t who_sent(struct sim_world *w, const struct bt_pkt *p)
{
    struct bt_r2p2_hdr h;
    if (bt_r2p2_decode(p->data, p->len, BT_ROLE_SERVER, &h) != BT_M_OK) {
        return UINT32_MAX;
    }
    return sim_net_node(&w->net, (h.opt.present & BT_HAS_FORWARDED) != 0 ? &h.opt.forwarded : &p->src) << 16 | h.req_id;
}

void sim_book_sent(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_pkt *p)
{
    struct sim_book *b = book_of(w, router, server);
    uint64_t now = clock_of(w, router);
    if (b->sent - b->first == b->ring_n) {
        grow(b);
    }
    if ((int64_t)(b->sent - settled(b)) <= 0) {
        b->busy_ns = now;
    }
    *sent_as(b, b->sent++) = (struct sim_sent){.at_ns = now, .who = who_sent(w, p)};
}

/* --- what was sent T_loss ago ------------------------------------------------------------------------------ */

/* The newest of that name, which is the youngest that the router can take it for. */
static void end_pair(struct sim_world *w, struct sim_book *b, const struct bt_feedback *fb)
{
    uint32_t who = sim_net_node(&w->net, &fb->client) << 16 | fb->req_id;
    if ((fb->flags & BT_FEEDBACK_PAIR) == 0) {
        return;
    }
    for (uint64_t i = b->sent; i-- != b->first;) {
        struct sim_sent *s = sent_as(b, i);
        if (s->who != who || s->ended) {
            continue;
        }
        s->ended = true;
        b->ended++;
        return;
    }
}

/* A router looks at `sent` with a FEEDBACK, and again with the first that comes T_loss/8 later or more. So whenever it
 * read one, it had looked since T_loss/8 before that, and it saw what had been sent by then. */
static void put_mark(struct sim_book *b, uint64_t came_ns, uint64_t now, uint64_t t_loss)
{
    const struct sim_mark *newest = &b->mark[(b->mark_first + b->marks - 1) % SIM_MARKS];
    if (b->marks == SIM_MARKS || (b->marks > 0 && now - newest->at_ns < t_loss / 8)) {
        return;
    }
    while (b->behind != b->sent && sent_as(b, b->behind)->at_ns + t_loss / 8 <= came_ns) {
        b->behind++;
    }
    b->mark[(b->mark_first + b->marks++) % SIM_MARKS] = (struct sim_mark){now, b->behind};
}

/* FEEDBACK that came then is read now. */
static void look_back(struct sim_book *b, uint64_t came_ns, uint64_t now, uint64_t t_loss)
{
    for (; b->marks > 0 && b->mark[b->mark_first].at_ns + t_loss <= came_ns; b->marks--) {
        uint64_t sent = b->mark[b->mark_first].sent;
        b->least_past = older(b->least_past, sent) ? sent : b->least_past;
        b->mark_first = (b->mark_first + 1) % SIM_MARKS;
    }
    put_mark(b, came_ns, now, t_loss);
    for (; b->first != b->sent && sent_as(b, b->first)->at_ns + t_loss <= now; b->first++) {
        b->ended -= sent_as(b, b->first)->ended;
    }
    b->behind = older(b->behind, b->first) ? b->first : b->behind;
}

/* lost = max(0, sent as of T_loss ago − received), as decision 0002 reads it: what was found once stays, requests that
 * are known to have been received although they are younger are not among those T_loss old, and what was received is
 * not lost. */
static void expect_lost(struct sim_book *b, bool taken)
{
    int64_t least = (int64_t)b->lost, most = (int64_t)b->lost;
    int64_t found = (int64_t)(b->least_past + b->base - b->received);
    int64_t findable = (int64_t)(b->first + b->base + b->ended - b->received);
    int64_t missing = (int64_t)(b->sent + b->base - b->received);
    least = taken && found > least ? found : least;
    most = findable > most ? findable : most;
    b->lost_least = least < missing ? least : missing;
    b->lost_most = most < missing ? most : missing;
    b->due = true;
}

/* --- what FEEDBACK does ------------------------------------------------------------------------------------------- */

enum heard {
    REFUSED,  /* M-22: it contradicts itself or what is known */
    OUTDATED, /* older than known */
    TAKEN,
    NEW_LIFE, /* */
};

/* An older incarnation is believed when nothing was heard for T_dead. On two threads it is open how late the FEEDBACK
 * before this one was noticed: where that matters, the row tells, which has been written. */
static bool silent(const struct sim_world *w, uint32_t router, uint32_t server, const struct bt_feedback *fb,
                   uint64_t came_ns)
{
    const struct sim_book *b = book_of(w, router, server);
    const uint64_t now = clock_of(w, router);
    struct bt_router_member_stats m;
    if ((int64_t)(came_ns - b->heard_read_ns) >= (int64_t)w->ledger.t_dead_ns) {
        return true;
    }
    if (now - b->heard_came_ns < w->ledger.t_dead_ns) {
        return false;
    }
    return sim_router_row(w, router, server, &m) && m.incarnation == fb->incarnation;
}

static enum heard judge_counters(const struct sim_world *w, uint32_t router, uint32_t server,
                                 const struct bt_feedback *fb, uint64_t came_ns)
{
    const struct sim_book *b = book_of(w, router, server);
    if (fb->n > BT_ROUTER_DEPTH_MAX || older(fb->received, fb->served)) {
        return REFUSED;
    }
    if (!b->known || (int32_t)(fb->incarnation - b->incarnation) > 0) {
        return NEW_LIFE;
    }
    if (fb->incarnation != b->incarnation) {
        return silent(w, router, server, fb, came_ns) ? NEW_LIFE : REFUSED;
    }
    bool less = older(fb->received, b->received) || older(fb->served, b->served);
    bool more = older(b->received, fb->received) || older(b->served, fb->served);
    return !less ? TAKEN : more ? REFUSED : OUTDATED;
}

/* the worker's backlog is as it says, and what was sent before is of the past. */
static void begin_life(struct sim_book *b, const struct bt_feedback *fb, uint64_t now)
{
    b->known = true;
    b->incarnation = fb->incarnation;
    b->base = fb->received - b->sent;
    b->first = b->behind = b->least_past = b->sent;
    b->ended = 0;
    b->mark[0] = (struct sim_mark){now, b->sent};
    b->mark_first = 0;
    b->marks = 1;
    b->lost = 0;
}

static void hear_counters(struct sim_world *w, uint32_t router, uint32_t server, struct sim_book *b,
                          const struct bt_feedback *fb, uint64_t came_ns)
{
    uint64_t now = clock_of(w, router);
    enum heard how = judge_counters(w, router, server, fb, came_ns);
    if (how == REFUSED) {
        return;
    }
    if (how == NEW_LIFE) {
        begin_life(b, fb, now);
    }
    if (how != OUTDATED) {
        b->received = fb->received;
        b->served = fb->served;
        b->n = fb->n;
        b->heard = true;
        b->heard_came_ns = came_ns;
        b->heard_read_ns = b->busy_ns = now;
        look_back(b, came_ns, now, w->ledger.t_loss_ns);
    }
    end_pair(w, b, fb); /* news even when the counters are old */
    if (older(b->sent + b->base,
              b->received)) { /* a copy the network made, or from before: it will be served as well */
        b->base = b->received - b->sent;
    }
    expect_lost(b, how == TAKEN);
}

/* one more is done, when there was one. */
static void hear_legacy(struct sim_world *w, uint32_t router, struct sim_book *b)
{
    b->heard = true;
    b->done += b->sent != b->done + b->reclaimed;
    b->busy_ns = clock_of(w, router);
    b->reclaims = 0;
}

static void look(struct sim_world *w, uint32_t router, uint32_t server)
{
    struct bt_router_member_stats m;
    if (sim_router_row(w, router, server, &m)) {
        sim_book_check(w, router, server, &m);
    }
}

void sim_book_heard(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_feedback *fb,
                    uint64_t came_ns)
{
    struct sim_book *b = book_of(w, router, server);
    bool read = w->router[router].form->bursts;
    if (!read) {
        look(w, router, server); /* what the router gave up meanwhile */
    }
    if (fb->version > 0) {
        hear_counters(w, router, server, b, fb, came_ns);
    } else if (w->s->legacy_workers > 0) {
        hear_legacy(w, router, b);
    }
    if (read) {
        look(w, router, server);
    }
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

/* a worker that is given up owes nothing, but for what was sent since. */
static bool given_up(const struct sim_book *b, const struct bt_router_member_stats *m)
{
    uint64_t owed = b->sent + b->base - b->served - m->lost;
    return (!m->joined || m->legacy) && m->lost >= b->lost && owed <= b->sent - b->sent_then;
}

static void check_lost(struct sim_world *w, uint32_t router, uint32_t server, struct sim_book *b,
                       const struct bt_router_member_stats *m)
{
    int64_t lost = (int64_t)m->lost, back = (int64_t)(m->reclaimed - b->reclaimed);
    if (!b->due) {
        b->lost_least = b->lost_most = (int64_t)b->lost + back;
    }
    if (lost >= b->lost_least && lost <= b->lost_most) {
        b->due = false;
        return;
    }
    if (given_up(b, m)) {
        b->busy_ns = clock_of(w, router);
    } else {
        sim_breach(w, SIM_INV_LOST, "router %u holds %lld to be lost at worker %u, it must be %lld to %lld", router,
                   (long long)lost, server, (long long)b->lost_least, (long long)b->lost_most);
    }
    b->due = false;
}

/* credit comes back after T_leak without an answer, each time after twice as long, and then what stands above
 * n − 1, or one where n is no limit. On two threads the times of requests are known a little later. */
static void check_reclaimed(struct sim_world *w, uint32_t router, uint32_t server, struct sim_book *b,
                            const struct bt_router_member_stats *m)
{
    uint64_t back = m->reclaimed - b->reclaimed, now = clock_of(w, router), leak = LEAK_MS * MS;
    uint64_t quiet = now - b->busy_ns, longest = w->s->request_timeout_ns > leak ? w->s->request_timeout_ns : leak;
    uint64_t least = (leak << b->reclaims) / (w->router[router].form->bursts ? 2 : 1);
    bool excess = w->s->policy == BT_ROUTER_JBSQ && b->owed > m->n;
    if (back > 0 && (quiet < least || back > b->owed || back != (excess ? b->owed - m->n + 1 : 1))) {
        sim_breach(w, SIM_INV_LEGACY,
                   "router %u takes back %llu of %u requests at worker %u, n is %u, after %.3f ms, %u times before",
                   router, (unsigned long long)back, b->owed, server, m->n, (double)quiet / 1e6, b->reclaims);
    }
    if (back > 0) {
        b->busy_ns = now;
        b->reclaims = b->reclaims < LEAK_DOUBLINGS ? b->reclaims + 1 : LEAK_DOUBLINGS;
    } else if (m->outstanding > 0 && m->joined && !w->router[router].form->bursts &&
               quiet > (longest << b->reclaims) + 2 * leak) {
        sim_breach(w, SIM_INV_LEGACY, "router %u waits for worker %u, which owes %u and is silent for %.3f ms", router,
                   server, m->outstanding, (double)quiet / 1e6);
    }
}

/* A worker that was never heard, or speaks the 16-byte form: nothing of it is known but that it answers. */
static void check_uncounted(struct sim_world *w, uint32_t router, uint32_t server, const struct sim_book *b,
                            const struct bt_router_member_stats *m)
{
    uint32_t n = b->heard ? w->router[router].depth : 1;
    if (m->done != b->done || m->lost != 0 || (m->joined && m->n != n)) {
        sim_breach(w, SIM_INV_LEGACY,
                   "router %u counts %llu done and %llu lost at worker %u, n %u, which answered %llu times", router,
                   (unsigned long long)m->done, (unsigned long long)m->lost, server, m->n, (unsigned long long)b->done);
    }
}

/* what the newest FEEDBACK said, no more and no less. */
static void check_counted(struct sim_world *w, uint32_t router, uint32_t server, const struct sim_book *b,
                          const struct bt_router_member_stats *m)
{
    uint32_t depth = w->router[router].depth, n = b->n < depth ? b->n : depth;
    sim_checked(&w->ledger.verdict, SIM_INV_AS_TOLD);
    if (m->done + b->base != b->served || m->incarnation != b->incarnation || (!m->legacy && m->n != n)) {
        sim_breach(w, SIM_INV_AS_TOLD,
                   "router %u has done %llu, n %u, incarnation %u of worker %u; it was told %llu of %llu, %u, %u",
                   router, (unsigned long long)(m->done + b->base), m->n, m->incarnation, server,
                   (unsigned long long)b->served, (unsigned long long)b->received, n, b->incarnation);
    }
}

void sim_book_check(struct sim_world *w, uint32_t router, uint32_t server, const struct bt_router_member_stats *m)
{
    struct sim_book *b = book_of(w, router, server);
    int64_t left = (int64_t)(m->sent - m->done - (b->known ? m->lost : m->reclaimed));
    uint32_t owed = left > 0 ? (uint32_t)left : 0;
    sim_checked(&w->ledger.verdict, SIM_INV_ARITHMETIC);
    if (m->outstanding != owed || m->sent != b->sent) {
        sim_breach(w, SIM_INV_ARITHMETIC,
                   "router %u counts %u outstanding at worker %u: sent %llu (%llu left it), done %llu, lost %llu",
                   router, m->outstanding, server, (unsigned long long)m->sent, (unsigned long long)b->sent,
                   (unsigned long long)m->done, (unsigned long long)m->lost);
    }
    if (b->known) {
        check_counted(w, router, server, b, m);
        sim_checked(&w->ledger.verdict, SIM_INV_LOST);
        check_lost(w, router, server, b, m);
    } else {
        check_uncounted(w, router, server, b, m);
    }
    if (m->legacy && w->s->legacy_workers > 0) {
        sim_checked(&w->ledger.verdict, SIM_INV_LEGACY);
        check_reclaimed(w, router, server, b, m);
    }
    b->lost = m->lost;
    b->reclaimed = m->reclaimed;
    b->owed = m->outstanding;
    b->sent_then = b->sent;
}
