// SPDX-License-Identifier: Apache-2.0
// See replica_load_wire.h.
#include "replica_load_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { PACKET = 1400 }; /* bytes of a reply in one packet */
#define SERVICE_SEED UINT64_C(0x73657276)

/* --- what a request is --- */

bool sim_load_is_read(const struct load_world *w, uint64_t op)
{
    struct bt_rng g;
    bt_rng_seed(&g, op ^ w->m->seed << 40);
    return bt_rng_unit(&g) < w->m->read_share;
}

uint64_t sim_load_service_ns(const struct load_world *w, uint64_t op)
{
    struct bt_rng g;
    bt_rng_seed(&g, op ^ w->m->seed << 40 ^ SERVICE_SEED);
    return sim_dist_draw(sim_load_is_read(w, op) ? &w->m->read : &w->m->write, &g);
}

struct bt_addr sim_load_client_of(uint64_t op)
{
    return bt_addr_v4u(UINT32_C(0x0a000000) | (uint32_t)(op >> 16 & 0xffffff), 4000);
}

const uint8_t *sim_load_body_of(const struct load_world *w, uint64_t op)
{
    static uint8_t body[LOAD_MESSAGE];
    memset(body, 0, w->m->request_bytes);
    bt_put64(body, op);
    return body;
}

uint64_t sim_load_op_of(const struct bt_entry *e)
{
    if (bt_group_is_request(e)) {
        return bt_get64(e->body + BT_GROUP_META);
    }
    return e->kind == BT_ENTRY_COMMAND ? bt_get64(e->body) : 0;
}

/* --- links --- */

uint64_t sim_load_past(uint64_t *free_at, uint64_t now, double takes)
{
    *free_at = (*free_at > now ? *free_at : now) + (uint64_t)takes;
    return *free_at;
}

double sim_load_wire_ns(const struct load_world *w, size_t bytes)
{
    size_t packets = (bytes + PACKET - 1) / PACKET;
    return (double)(bytes + packets * w->m->costs.header) * w->m->costs.link_bits_ns * 8;
}

/* At the machine's thread of the network, after its link; the packet is the queue's. */
void sim_load_towards(struct load_world *w, uint16_t id, uint64_t at, struct load_packet *p)
{
    uint64_t arrives =
        sim_load_past(&w->machine[id].rx_free, at, sim_load_wire_ns(w, p->op != 0 ? w->m->request_bytes : p->n));
    sim_agenda_push(&w->agenda, arrives, (struct sim_event){p, id, EV_IN, 0});
}

struct load_packet *sim_load_packet(uint64_t op, const uint8_t *bytes, size_t n)
{
    struct load_packet *p = malloc(sizeof *p + n);
    if (p == NULL) {
        abort();
    }
    p->op = op;
    p->n = n;
    if (n != 0) {
        memcpy(p->bytes, bytes, n);
    }
    return p;
}
