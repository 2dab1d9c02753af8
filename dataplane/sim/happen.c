// SPDX-License-Identifier: Apache-2.0
// Crashes, departures, partitions and configuration changes while the load runs.
#include "world.h"

static void back_later(struct sim_world *w, const struct sim_happening *h)
{
    uint32_t number = (uint32_t)(h - w->s->event);
    sim_agenda_push(&w->agenda, w->agenda.now + h->for_ns, (struct sim_event){.node = number, .kind = SIM_EVENT_BACK});
}

static void restarted(struct sim_world *w, bool router, uint32_t i)
{
    uint32_t others = router ? w->s->workers : w->s->routers;
    for (uint32_t k = 0; k < others; k++)
        sim_check_restart(w, router ? i : k, router ? k : i);
}

void sim_happen(struct sim_world *w, const struct sim_happening *h)
{
    struct sim_faults_seen *seen = &w->net.seen;
    uint32_t server = h->target % w->s->workers, router = h->target % w->s->routers;
    switch (h->kind) {
    case SIM_EV_CRASH_SERVER:
        if (!w->server[server].up)
            return; /* two events may name one worker */
        sim_server_stop(w, server);
        seen->crashes++;
        break;
    case SIM_EV_CRASH_ROUTER:
        if (!w->router[router].up)
            return;
        sim_router_stop(w, router);
        seen->crashes++;
        break;
    case SIM_EV_LEAVE_SERVER:
        if (!w->server[server].up || w->server[server].leaving)
            return;
        sim_server_leave(w, server);
        seen->leaves++;
        break;
    case SIM_EV_SET_DEPTH:
        if (!w->server[server].up || h->value == 0)
            return;
        sim_server_depth(w, server, h->value);
        seen->depth_changes++;
        return;
    case SIM_EV_RECONFIGURE:
        if (!w->router[router].up || h->value == 0)
            return;
        sim_router_configure(w, router, h->value);
        sim_router_run(w, router);
        seen->depth_changes++;
        return;
    default:
        w->net.cut[sim_node_of(w, SIM_SERVER, server)] = 1;
        seen->partitions++;
        break;
    }
    back_later(w, h);
}

void sim_come_back(struct sim_world *w, const struct sim_happening *h)
{
    uint32_t server = h->target % w->s->workers, router = h->target % w->s->routers;
    switch (h->kind) {
    case SIM_EV_CRASH_SERVER:
        w->net.seen.restarts++;
        restarted(w, false, server);
        sim_server_start(w, server);
        break;
    case SIM_EV_CRASH_ROUTER:
        w->net.seen.restarts++;
        restarted(w, true, router);
        w->ledger.last_arrival[router] = 0;
        sim_router_start(w, router);
        break;
    case SIM_EV_LEAVE_SERVER:
        if (w->server[server].up && w->server[server].leaving)
            sim_server_leave(w, server);
        break;
    case SIM_EV_PARTITION:
        w->net.cut[sim_node_of(w, SIM_SERVER, server)] = 0;
        break;
    default:
        break;
    }
}
