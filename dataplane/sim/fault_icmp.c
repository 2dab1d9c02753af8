// SPDX-License-Identifier: Apache-2.0
// Port unreachable: a dead process on a living host answers by ICMP, to whoever the packet names as its sender.
#include "world.h"

void sim_say_unreachable(struct sim_world *w, uint32_t whom, uint32_t about, uint64_t at_ns)
{
    sim_agenda_push(&w->agenda, at_ns,
                    (struct sim_event){.node = whom, .kind = SIM_EVENT_UNREACHABLE, .arg = (uint16_t)about});
}

void sim_nobody_there(struct sim_world *w, const struct bt_pkt *p)
{
    uint32_t whom = sim_net_node(&w->net, &p->src), about = sim_net_node(&w->net, &p->dst);
    if (w->s->unreachable <= 0 || whom == UINT32_MAX || about == UINT32_MAX ||
        !sim_chance(&w->stream[SIM_STREAM_EVENT], w->s->unreachable)) {
        return;
    }
    uint64_t back = w->net.delay_ns[sim_net_role(&w->net, about)][sim_net_role(&w->net, whom)];
    if (!sim_cut_between(&w->net.cuts, about, whom)) {
        sim_say_unreachable(w, whom, about, w->agenda.now + back);
    }
}

void sim_hear_unreachable(struct sim_world *w, uint32_t whom, uint32_t about)
{
    enum sim_role a = sim_net_role(&w->net, whom), b = sim_net_role(&w->net, about);
    uint32_t i = whom - w->net.first[a], peer = about - w->net.first[b];
    if (a == SIM_CLIENT && b == SIM_ROUTER) {
        sim_client_unreachable(w, i, peer);
    }
    if (a == SIM_ROUTER && b == SIM_SERVER) {
        sim_router_unreachable(w, i, peer);
    }
}
