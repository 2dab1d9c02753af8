// SPDX-License-Identifier: Apache-2.0
// Links with seeded faults. Packets between two nodes keep their order unless a rule reorders them.
#include "net.h"

#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_PORT = 8000, FEEDBACK_PORT = 9000, CLIENT_PORT = 20000 };

#define DUPLICATE_BIT (1ULL << 63)

static void note_delays(struct sim_net *n, const struct sim_delays *d)
{
    for (int to = 0; to < SIM_ROLES; to++) {
        n->delay_ns[SIM_CLIENT][to] = to == SIM_ROUTER ? d->client_router_ns : d->client_server_ns;
        n->delay_ns[SIM_ROUTER][to] = to == SIM_SERVER ? d->router_server_ns : d->client_router_ns;
        n->delay_ns[SIM_SERVER][to] = to == SIM_ROUTER ? d->server_router_ns : d->server_client_ns;
    }
}

/* Whether packets may go straight from node to node, and how long they take. */
static void note_direct(struct sim_net *n)
{
    const struct sim_scenario *s = n->s;
    bool limited = s->client_packets > 0 || s->router_packets > 0 || s->server_packets > 0;
    n->direct = !n->disturbed && !limited && s->settle_ms == 0 && s->garbage_per_second <= 0 &&
                s->half_open_sources == 0 && s->racks <= 1;
    n->instant = n->direct;
    for (int a = 0; a < SIM_ROLES; a++) {
        for (int b = 0; b < SIM_ROLES; b++) {
            n->direct_ns[a][b] = n->delay_ns[a][b] + s->same_rack_ns;
            n->instant = n->instant && n->direct_ns[a][b] == 0;
        }
    }
}

/* Clients, which come first, say nothing to each other, so a row of theirs is short: of thousands of clients a square
 * would not fit. Should one write to another all the same, its last place is for that. */
static size_t paths(const struct sim_net *n)
{
    size_t clients = n->first[SIM_ROUTER], others = n->first[SIM_ROLES] - clients;
    return clients * (others + 1) + others * n->first[SIM_ROLES];
}

static struct sim_path *path_of(const struct sim_net *n, uint32_t from, uint32_t to)
{
    size_t clients = n->first[SIM_ROUTER], others = n->first[SIM_ROLES] - clients;
    if (from < clients) {
        return &n->path[from * (others + 1) + (to < clients ? others : to - clients)];
    }
    return &n->path[clients * (others + 1) + (from - clients) * n->first[SIM_ROLES] + to];
}

void sim_net_init(struct sim_net *n, const struct sim_scenario *s, struct sim_agenda *agenda,
                  struct sim_buffers *buffers, uint16_t arrive_kind)
{
    memset(n, 0, sizeof *n);
    n->s = s;
    n->agenda = agenda;
    n->buffers = buffers;
    n->late_ns = UINT64_MAX;
    sim_holder_init(&n->wire, buffers);
    n->arrive_kind = arrive_kind;
    n->first[SIM_ROUTER] = s->clients;
    n->first[SIM_SERVER] = s->clients + s->routers;
    n->first[SIM_ROLES] = s->clients + s->routers + s->workers;
    size_t nodes = n->first[SIM_ROLES];
    n->role = calloc(nodes, sizeof *n->role);
    n->path = calloc(paths(n), sizeof *n->path);
    n->busy_until = calloc(nodes, sizeof *n->busy_until);
    n->holder = calloc(nodes, sizeof *n->holder);
    if (n->role == NULL || n->path == NULL || n->busy_until == NULL || n->holder == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu nodes\n", nodes);
        abort();
    }
    for (size_t i = 0; i < nodes; i++) {
        n->role[i] = i >= n->first[SIM_SERVER] ? SIM_SERVER : i >= n->first[SIM_ROUTER] ? SIM_ROUTER : SIM_CLIENT;
        sim_holder_init(&n->holder[i], buffers);
    }
    note_delays(n, &s->delay);
    n->link_of = sim_link_table(n);
    n->disturbed = s->faults_n > 0 || s->events_n > 0 || s->delay.jitter_ns > 0 || s->links_n > 0 || s->checks;
    note_direct(n);
    sim_stream_seed(&n->fault, s->seed, SIM_STREAM_FAULT);
    sim_stream_seed(&n->jitter, s->seed, SIM_STREAM_JITTER);
}

void sim_net_free(struct sim_net *n)
{
    free(n->role);
    free(n->path);
    free(n->link_of);
    free(n->busy_until);
    free(n->holder);
}

struct bt_addr sim_net_addr(const struct sim_net *n, uint32_t node, uint32_t port)
{
    enum sim_role role = sim_net_role(n, node);
    uint32_t i = node - n->first[role];
    uint16_t number = role == SIM_CLIENT ? CLIENT_PORT : port == 0 ? REQUEST_PORT : FEEDBACK_PORT;
    if (role != SIM_ROUTER && port != 0) {
        number = 0;
    }
    struct bt_addr none = {0};
    uint32_t ip = 10u << 24 | ((uint32_t)role + 1) << 16 | (i + 1);
    return number == 0 ? none : bt_addr_v4u(ip, number);
}

enum sim_packet sim_packet_of(const struct bt_pkt *p)
{
    if (p->len < 8) {
        return SIM_PKT_ANY;
    }
    switch (p->data[2] >> 4) {
    case 0:
        return (p->data[3] & 0x80) != 0 ? SIM_PKT_REQ0 : SIM_PKT_REQN;
    case 1:
        return SIM_PKT_REPLY;
    case 2:
        return SIM_PKT_FEEDBACK;
    case 3:
        return SIM_PKT_REQRDY;
    case 4:
        return SIM_PKT_DROP;
    case 8:
        return SIM_PKT_SACK;
    case 9:
        return SIM_PKT_CANCEL;
    default:
        return SIM_PKT_ANY;
    }
}

struct bt_pkt *sim_net_copy(struct sim_net *n, const struct bt_pkt *p)
{
    struct bt_pkt *c = bt_pool_get(&n->wire.pool);
    if (c == NULL) {
        return NULL;
    }
    uint8_t *at = bt_pkt_append(c, p->len);
    if (at == NULL) {
        sim_net_bury(n, c);
        return NULL;
    }
    memcpy(at, p->data, p->len);
    c->src = p->src;
    c->dst = p->dst;
    c->local = p->local;
    c->tx_as_src = p->tx_as_src;
    c->mark = p->mark & SIM_MARK_CORRUPTED; /* bytes nobody may believe are none to believe in the copy */
    n->made++;
    return c;
}

/* What the rules decided for one packet. */
struct fate {
    bool lost, twice, free_order, resend;
    uint64_t extra_ns, twin_ns, resend_ns;
};

static void apply_rules(struct sim_net *n, struct bt_pkt *p, uint32_t to, struct fate *f)
{
    enum sim_packet kind = sim_packet_of(p);
    uint64_t since = n->agenda->now - n->load_start_ns;
    for (uint32_t i = 0; i < n->s->faults_n && !f->lost; i++) {
        const struct sim_fault *r = &n->s->fault[i];
        if (r->packet != kind && r->packet != SIM_PKT_ANY) {
            continue;
        }
        if (since < r->from_ns || since >= r->until_ns || !sim_chance(&n->fault, r->probability)) {
            continue;
        }
        switch (r->kind) {
        case SIM_FAULT_LOSS:
            f->lost = true;
            n->lost++;
            n->seen.lost[kind]++;
            break;
        case SIM_FAULT_DUPLICATE:
            f->twice = true;
            f->twin_ns = (uint64_t)(sim_uniform(&n->fault) * (double)r->extra_ns);
            break;
        case SIM_FAULT_REORDER:
            f->free_order = true;
            f->extra_ns += (uint64_t)(sim_uniform(&n->fault) * (double)r->extra_ns);
            break;
        case SIM_FAULT_DELAY:
            p->mark |= SIM_MARK_DELAYED;
            f->extra_ns += (uint64_t)((0.5 + sim_uniform(&n->fault) / 2) * (double)r->extra_ns);
            break;
        case SIM_FAULT_RESEND:
            f->resend = true;
            f->resend_ns = (uint64_t)(sim_uniform(&n->fault) * (double)r->extra_ns);
            break;
        default:
            f->lost = sim_damage(n, p, r->kind, to);
            break;
        }
    }
}

static void deliver(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t number, uint64_t at)
{
    p->t_rx_ns = number; /* ours while in flight; the driver sets the real one on arrival */
    sim_agenda_push(n->agenda, at,
                    (struct sim_event){.ptr = p, .node = to, .kind = n->arrive_kind, .arg = (uint16_t)from});
}

void sim_net_bury(struct sim_net *n, struct bt_pkt *p)
{
    bt_pool_put(&n->wire.pool, p);
}

static void tell(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t arrives_ns)
{
    if (n->watch != NULL) {
        n->watch(n->watch_ctx, from, to, p, arrives_ns);
    }
}

/* Late or early, it arrives. */
static void arrive(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t number, uint64_t at)
{
    if (at - n->agenda->now >= n->late_ns) {
        p->mark |= SIM_MARK_LATE;
    }
    tell(n, from, to, p, at);
    deliver(n, from, to, p, number, at);
}

static void lose(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    tell(n, from, to, p, UINT64_MAX);
    sim_net_bury(n, p);
}

/* Faults, delay and order of one packet that has a destination and a way there. */
__attribute__((noinline)) static void travel(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    struct fate f = {0};
    if (n->s->faults_n > 0 && !n->calm && p->mark == 0) {
        apply_rules(n, p, to, &f);
    }
    if (f.lost) {
        lose(n, from, to, p);
        return;
    }
    struct sim_path *path = path_of(n, from, to);
    struct sim_passage way = sim_link_pass(n, from, to, p->len);
    if (way.lost) {
        n->lost++;
        n->seen.lost[sim_packet_of(p)]++;
        lose(n, from, to, p);
        return;
    }
    uint64_t at = n->agenda->now + way.delay_ns + way.late_ns + f.extra_ns;
    uint64_t number = ++path->sent;
    if (!f.free_order && !way.free_order) {
        at = at < path->last_ns ? path->last_ns : at;
        path->last_ns = at;
    }
    struct bt_pkt *twin = f.twice || way.twice ? sim_net_copy(n, p) : NULL;
    uint32_t peer = UINT32_MAX;
    struct bt_pkt *again = f.resend ? sim_resent(n, p, &peer) : NULL;
    arrive(n, from, to, p, number, at);
    if (twin != NULL) {
        twin->mark |= SIM_MARK_DUPLICATE;
        arrive(n, from, to, twin, number | DUPLICATE_BIT, at + f.twin_ns);
    }
    if (again != NULL) {
        deliver(n, from, peer, again, DUPLICATE_BIT, at + f.resend_ns);
    }
}

static void send_disturbed(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    if (to == UINT32_MAX) {
        n->seen.to_nowhere++;
        sim_net_bury(n, p);
        return;
    }
    if (n->cuts.n > 0 && sim_cut_between(&n->cuts, from, to)) {
        n->seen.cut_off++;
        tell(n, from, to, p, UINT64_MAX);
        sim_net_bury(n, p);
        return;
    }
    travel(n, from, to, p);
}

void sim_net_enter(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    p->mark = 0;
    sim_buffer_give(p, &n->wire);
    if (to != UINT32_MAX && !n->disturbed) { /* nothing can be lost, reordered or cut off */
        deliver(n, from, to, p, 0, n->agenda->now + sim_link_delay(n, from, to));
    } else {
        send_disturbed(n, from, to, p);
    }
}

void sim_net_send(void *ctx, uint32_t from, struct bt_pkt *p)
{
    sim_net_pass(ctx, from, p);
}

void sim_net_inject(struct sim_net *n, uint32_t to, struct bt_pkt *p)
{
    p->mark = SIM_MARK_GARBAGE;
    n->seen.garbage++;
    n->made++;
    sim_agenda_push(n->agenda, n->agenda->now,
                    (struct sim_event){.ptr = p, .node = to, .kind = n->arrive_kind, .arg = UINT16_MAX});
}

void sim_net_stranger(struct sim_net *n, uint32_t to, struct bt_pkt *p)
{
    p->mark = 0;
    n->made++;
    sim_agenda_push(n->agenda, n->agenda->now,
                    (struct sim_event){.ptr = p, .node = to, .kind = n->arrive_kind, .arg = UINT16_MAX});
}

void sim_net_note_arrival(struct sim_net *n, uint32_t from, uint32_t to, struct bt_pkt *p)
{
    enum sim_packet kind = sim_packet_of(p);
    uint64_t number = p->t_rx_ns;
    struct sim_path *path = path_of(n, from, to);
    if ((p->mark & SIM_MARK_RESENT) != 0) {
        n->seen.resent++;
    } else if ((p->mark & SIM_MARK_DUPLICATE) != 0) {
        n->seen.duplicated[kind]++;
    } else if ((number & DUPLICATE_BIT) == 0) {
        if (number < path->newest) {
            n->seen.reordered[kind]++;
        } else {
            path->newest = number;
        }
    }
    if ((p->mark & SIM_MARK_DELAYED) != 0) {
        n->seen.delayed[kind]++;
    }
    if ((p->mark & SIM_MARK_CORRUPTED) != 0) {
        n->seen.corrupted[kind]++;
    }
}

bool sim_net_conserved(const struct sim_net *n, char *text, size_t text_n)
{
    const struct sim_faults_seen *f = &n->seen;
    uint64_t starved = f->full[SIM_FULL_RECEIVE_BUFFERS];
    uint64_t ends = n->received + n->lost + f->caught + f->cut_off + f->to_the_dead + f->to_nowhere + starved +
                    n->no_port + n->wire.count;
    snprintf(
        text, text_n,
        "%llu sent and %llu copies, but %llu received, %llu lost, %llu caught, %llu cut off, %llu to the dead, %llu "
        "to nowhere, %llu starved, %llu no port, %u in flight",
        (unsigned long long)n->packets, (unsigned long long)n->made, (unsigned long long)n->received,
        (unsigned long long)n->lost, (unsigned long long)f->caught, (unsigned long long)f->cut_off,
        (unsigned long long)f->to_the_dead, (unsigned long long)f->to_nowhere, (unsigned long long)starved,
        (unsigned long long)n->no_port, n->wire.count);
    return ends == n->packets + n->made;
}
