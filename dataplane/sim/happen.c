// SPDX-License-Identifier: Apache-2.0
// What a scenario's events do while the load runs, and how they end.
#include "world.h"

enum { DRIFT_SLOWEST = 960 }; /* of 1024; 2 are added for each unit of value: 0.94 to 1.06 */

static void back_later(struct sim_world *w, const struct sim_happening *h)
{
    uint32_t number = (uint32_t)(h - w->s->event);
    sim_agenda_push(&w->agenda, w->agenda.now + h->for_ns, (struct sim_event){.node = number, .kind = SIM_EVENT_BACK});
}

static void restarted(struct sim_world *w, bool router, uint32_t i)
{
    uint32_t others = router ? w->s->workers : w->s->routers;
    for (uint32_t k = 0; k < others; k++) {
        sim_check_restart(w, router ? i : k, router ? k : i);
    }
}

static uint32_t count_of(const struct sim_world *w, uint32_t role)
{
    return w->net.first[role + 1] - w->net.first[role];
}

/* --- nodes that come and go ----------------------------------------------------------------------- */

static bool begin_server(struct sim_world *w, const struct sim_happening *h, uint32_t i)
{
    struct sim_server *v = &w->server[i];
    if (!v->up) {
        return false; /* two events may name one worker */
    }
    switch (h->kind) {
    case SIM_EV_CRASH_SERVER:
    case SIM_EV_SET_BACK_SERVER:
        sim_server_stop(w, i);
        return true;
    case SIM_EV_LEAVE_SERVER:
        if (v->leaving) {
            return false;
        }
        sim_server_leave(w, i);
        return true;
    case SIM_EV_SET_DEPTH:
        if (h->value == 0) {
            return false;
        }
        sim_server_depth(w, i, h->value);
        return true;
    case SIM_EV_SLOW_SERVER:
        v->slow = h->value > 1 ? h->value : 2;
        return true;
    case SIM_EV_STALL_SERVER:
        v->stalled_until = w->agenda.now + h->for_ns;
        return true;
    default:
        v->refusing = true;
        return true;
    }
}

static void end_server(struct sim_world *w, const struct sim_happening *h, uint32_t i)
{
    struct sim_server *v = &w->server[i];
    switch (h->kind) {
    case SIM_EV_CRASH_SERVER:
    case SIM_EV_SET_BACK_SERVER:
        w->net.seen.restarts++;
        restarted(w, false, i);
        if (h->kind == SIM_EV_CRASH_SERVER) {
            sim_server_start(w, i);
            break;
        }
        v->doubted_until = sim_check_doubted(w, i);
        sim_server_start_older(w, i);
        break;
    case SIM_EV_LEAVE_SERVER:
        if (v->up && v->leaving) {
            sim_server_leave(w, i);
        }
        break;
    case SIM_EV_SLOW_SERVER:
        v->slow = 1;
        break;
    case SIM_EV_REFUSE_SERVER:
        v->refusing = false;
        break;
    default:
        break;
    }
}

static bool begin_router(struct sim_world *w, const struct sim_happening *h, uint32_t i)
{
    if (!w->router[i].up) {
        return false;
    }
    switch (h->kind) {
    case SIM_EV_CRASH_ROUTER:
        sim_router_stop(w, i);
        return true;
    case SIM_EV_UNREACHABLE:
        sim_say_unreachable(w, sim_node_of(w, SIM_ROUTER, i), sim_node_of(w, SIM_SERVER, h->value % w->s->workers),
                            w->agenda.now);
        return true;
    case SIM_EV_PAUSE_THREAD:
        if (!w->router[i].form->bursts) {
            return false;
        }
        sim_threads_pause(&w->router[i], h->value % 2, w->agenda.now + h->for_ns);
        sim_check_disturbed(w, w->router[i].n.node, w->agenda.now + h->for_ns);
        return true;
    default:
        if (h->value == 0) {
            return false;
        }
        sim_router_configure(w, i, h->value);
        sim_router_run(&w->router[i].n, sim_node_now(&w->router[i].n), NULL);
        return true;
    }
}

static void end_router(struct sim_world *w, const struct sim_happening *h, uint32_t i)
{
    if (h->kind != SIM_EV_CRASH_ROUTER) {
        return;
    }
    w->net.seen.restarts++;
    restarted(w, true, i);
    w->ledger.last_arrival[i] = 0;
    sim_router_start(w, i);
}

/* --- partitions ----------------------------------------------------------------------------------- */

static void cut(struct sim_world *w, uint32_t event, uint32_t one, enum sim_role role, enum sim_role others,
                enum sim_direction direction)
{
    uint32_t a = sim_node_of(w, role, one), b = w->net.first[others], b_end = w->net.first[others + 1];
    if (direction != SIM_BACK_ONLY) {
        sim_cut_add(&w->net.cuts, &(struct sim_cut){a, a + 1, b, b_end, event});
    }
    if (direction != SIM_FORTH_ONLY) {
        sim_cut_add(&w->net.cuts, &(struct sim_cut){b, b_end, a, a + 1, event});
    }
}

static bool begin_cut(struct sim_world *w, const struct sim_happening *h)
{
    static const enum sim_role ends[][2] = {
        [SIM_CLIENT_ROUTER] = {SIM_CLIENT, SIM_ROUTER},
        [SIM_CLIENT_SERVER] = {SIM_CLIENT, SIM_SERVER},
        [SIM_ROUTER_SERVER] = {SIM_ROUTER, SIM_SERVER},
    };
    uint32_t event = h->number;
    if (h->kind == SIM_EV_PARTITION) {
        cut(w, event, h->target % w->s->workers, SIM_SERVER, SIM_ROUTER, SIM_BOTH_WAYS);
        return true;
    }
    enum sim_role one = ends[h->between][0], others = ends[h->between][1];
    cut(w, event, h->target % count_of(w, one), one, others, (enum sim_direction)h->direction);
    return true;
}

/* --- clocks, processes, buffers ------------------------------------------------------------------- */

static bool begin_node(struct sim_world *w, const struct sim_happening *h)
{
    uint32_t i = h->target % count_of(w, h->role);
    struct sim_node *n = sim_node_by(w, (enum sim_role)h->role, i);
    struct sim_holder *buffers = &w->net.holder[n->node];
    uint64_t now = w->agenda.now;
    bool router = h->role == SIM_WHO_ROUTER;
    switch (h->kind) {
    case SIM_EV_CLOCK_LEAP:
        sim_clock_step(&n->clock, now, (int64_t)h->for_ns);
        break;
    case SIM_EV_CLOCK_DRIFT:
        sim_clock_run(&n->clock, now, DRIFT_SLOWEST + 2 * h->value);
        break;
    case SIM_EV_CLOCK_BACK: /* the ledger tells a router's order of arrival by its clock */
        if (!router) {
            sim_clock_step(&n->clock, now, -(int64_t)h->for_ns);
            break;
        }
        sim_clock_run(&n->clock, now, 0);
        break;
    case SIM_EV_CLOCK_STOP:
        sim_clock_run(&n->clock, now, 0);
        break;
    case SIM_EV_PAUSE:
        n->frozen_until = now + h->for_ns;
        break;
    default:
        buffers->limit = h->value + (router ? w->s->central_limit : 2);
        break;
    }
    sim_check_disturbed(w, n->node, now + h->for_ns);
    sim_node_run(w, n->node);
    return true;
}

static void end_node(struct sim_world *w, const struct sim_happening *h)
{
    uint32_t i = h->target % count_of(w, h->role);
    struct sim_node *n = sim_node_by(w, (enum sim_role)h->role, i);
    static const uint32_t none = UINT32_MAX;
    const struct sim_scenario *s = w->s;
    uint32_t own = h->role == SIM_WHO_CLIENT   ? s->client_packets
                   : h->role == SIM_WHO_ROUTER ? s->router_packets
                                               : s->server_packets;
    if (h->kind == SIM_EV_STARVE) {
        w->net.holder[n->node].limit = own > 0 ? own : none;
    } else if (h->kind != SIM_EV_PAUSE && h->kind != SIM_EV_CLOCK_LEAP) {
        sim_clock_run(&n->clock, w->agenda.now, SIM_CLOCK_TRUE);
    }
    sim_check_disturbed(w, n->node, w->agenda.now);
    sim_node_run(w, n->node);
}

/* --- all of them ---------------------------------------------------------------------------------- */

enum sort { OF_SERVER, OF_ROUTER, OF_NETWORK, OF_NODE };

static enum sort sort_of(enum sim_event_kind kind)
{
    switch (kind) {
    case SIM_EV_CRASH_ROUTER:
    case SIM_EV_RECONFIGURE:
    case SIM_EV_UNREACHABLE:
    case SIM_EV_PAUSE_THREAD:
        return OF_ROUTER;
    case SIM_EV_PARTITION:
    case SIM_EV_CUT:
        return OF_NETWORK;
    case SIM_EV_PAUSE:
    case SIM_EV_CLOCK_LEAP:
    case SIM_EV_CLOCK_STOP:
    case SIM_EV_CLOCK_DRIFT:
    case SIM_EV_CLOCK_BACK:
    case SIM_EV_STARVE:
        return OF_NODE;
    default:
        return OF_SERVER;
    }
}

void sim_happen(struct sim_world *w, const struct sim_happening *h)
{
    bool took_effect = false;
    switch (sort_of(h->kind)) {
    case OF_SERVER:
        took_effect = begin_server(w, h, h->target % w->s->workers);
        break;
    case OF_ROUTER:
        took_effect = begin_router(w, h, h->target % w->s->routers);
        break;
    case OF_NETWORK:
        took_effect = begin_cut(w, h);
        break;
    default:
        took_effect = begin_node(w, h);
        break;
    }
    if (!took_effect) {
        return;
    }
    w->net.seen.happened[h->kind]++;
    back_later(w, h);
}

void sim_come_back(struct sim_world *w, const struct sim_happening *h)
{
    switch (sort_of(h->kind)) {
    case OF_SERVER:
        end_server(w, h, h->target % w->s->workers);
        break;
    case OF_ROUTER:
        end_router(w, h, h->target % w->s->routers);
        break;
    case OF_NETWORK:
        sim_cut_end(&w->net.cuts, h->number);
        break;
    default:
        end_node(w, h);
        break;
    }
}
