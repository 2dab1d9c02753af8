// SPDX-License-Identifier: Apache-2.0
// See replica_apart.h.
#include "replica_apart.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "replica_check_state.h"
#include "replica_clients.h"
#include "replica_net.h"
#include "replica_sessions.h"

enum { BOX_TIMEOUT_MS = 250, BOX_SLOW_MS = 200, BOX_DOWN_MS = 100, IDS = 96 };

static uint64_t mixed(uint64_t op)
{
    op = (op ^ op >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return op ^ op >> 29;
}

struct bt_addr replica_client_of(uint64_t op)
{
    uint32_t who = (uint32_t)(op >> 40),
             many = who > REPLICA_CLIENTS ? (uint32_t)(op & UINT64_C(0xffffffffff)) / IDS : 0;
    return bt_addr_v4u(UINT32_C(0x0a000000) | who << 16 | many, 4000);
}

uint16_t replica_req_id_of(const struct replica_world *w, uint64_t op)
{
    return (uint16_t)(replica_send_of(w, op) % IDS);
}

bool replica_is_read(const struct replica_world *w, uint64_t op)
{
    return (double)(mixed(op) % 1000) < 1000 * w->rules.reads;
}

uint32_t replica_body_of(uint64_t op, uint8_t *body)
{
    uint32_t n = 8 + (uint32_t)(mixed(op ^ 1) % (REPLICA_REQUEST_MOST - 8));
    bt_put64(body, op);
    memset(body + 8, (int)(op & 0xff), n - 8);
    return n;
}

static struct bt_box_config box_config(const struct replica_world *w)
{
    return (struct bt_box_config){.limit = w->rules.box_limit,
                                  .timeout_ns = BOX_TIMEOUT_MS * SIM_MS,
                                  .slow_start_ns = BOX_SLOW_MS * SIM_MS,
                                  .quarantine_ns = w->rules.apart.quarantine_ns,
                                  .recent_pairs = 1024,
                                  .seed = 7};
}

void replica_box_start(struct replica_world *w)
{
    struct bt_box_config c = box_config(w);
    if (w->box != NULL) {
        return;
    }
    w->box_mem = w->box_mem != NULL ? w->box_mem : malloc(bt_box_bytes(&c));
    if (w->box_mem == NULL) {
        abort();
    }
    w->box = bt_box_start(w->box_mem, &c, w->agenda.now);
}

void replica_box_crash(struct replica_world *w)
{
    if (w->box != NULL) {
        w->box = NULL;
        w->count.boxes++;
        sim_agenda_push(&w->agenda, w->agenda.now + replica_draw(w, 1, BOX_DOWN_MS) * SIM_MS,
                        (struct sim_event){NULL, 0, EV_BOX_BACK, 0});
    }
}

static void on_the_way(struct replica_world *w, enum replica_event kind, uint32_t node, uint64_t op, uint16_t to)
{
    bool twice = !w->calm && replica_chance(w, w->rules.duplicate);
    for (int copies = twice ? 2 : 1; copies > 0; copies--) {
        uint64_t after = replica_net_client(w);
        if (after != 0) {
            sim_agenda_push(&w->agenda, w->agenda.now + after,
                            (struct sim_event){(void *)(uintptr_t)op, node, (uint16_t)kind, to});
        }
    }
}

void replica_box_send(struct replica_world *w, uint32_t client, uint64_t op)
{
    on_the_way(w, EV_BOX, client, op, 0);
}

void replica_box_answered(struct replica_world *w, uint64_t op, const struct replica_did *did)
{
    uint32_t client = (uint32_t)(op >> 40) - 1;
    if (client < REPLICA_CLIENTS) {
        replica_client_answer(w, client, op, did);
        on_the_way(w, EV_FEEDBACK, client, op, 0);
    }
}

static void refuse(struct replica_world *w, uint32_t client, uint64_t op)
{
    w->count.nacked++;
    replica_check_dropped(w, op);
    replica_client_refused(w, client, op, 0);
}

static void pass(struct replica_world *w, uint32_t client, uint64_t op)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (w->member[id].exists) {
            on_the_way(w, EV_REQUEST, client, op, id);
        }
    }
}

void replica_box_event(struct replica_world *w, const struct sim_event *ev)
{
    uint64_t op = (uint64_t)(uintptr_t)ev->ptr;
    struct bt_addr client = replica_client_of(op);
    if (ev->kind == EV_BOX_BACK) {
        replica_box_start(w);
        return;
    }
    if (w->box == NULL) {
        return;
    }
    if (ev->kind == EV_FEEDBACK) {
        bt_box_feedback(w->box, w->agenda.now, &client, replica_req_id_of(w, op));
        return;
    }
    switch (bt_box_request(w->box, w->agenda.now, &client, replica_req_id_of(w, op))) {
    case BT_BOX_PASS:
    case BT_BOX_AGAIN:
        pass(w, ev->node, op);
        break;
    case BT_BOX_NACK:
        refuse(w, ev->node, op);
        break;
    case BT_BOX_HUSH:
        break;
    }
}
