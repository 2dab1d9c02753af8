// SPDX-License-Identifier: Apache-2.0
// bobtail-box: the flow-control box of a HovercRaft group (run/box.h).
#include "beside/beside.h"

#include "run/box.h"
#include "shell/start.h"

// A box that was told its address need not be named: a pod that came again serves by the document that there is, while
// nobody is there to write another one. Members then tell the box before it what they answered.
static bool place(const struct bt_group_document *d, const char *name, bool addressed,
                  struct bt_addr local[BESIDE_PORTS], struct bt_ctl_error *e)
{
    const struct bt_group_document_box *own = bt_group_document_box_find(d, name);
    if (!bt_group_document_is_apart(d)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "group.protocol",
                             "must not be Raft: a Raft group's clients send to its leader, not to a box");
    }
    if (own == NULL && addressed) {
        own = &d->box[0];
    }
    if (own == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "boxes", "must name this process, \"%s\"", name);
    }
    local[BT_BOX_CLIENTS] = own->client;
    local[BT_BOX_FEEDBACK] = own->feedback;
    return true;
}

static void *open_box(const struct beside_made_of *m, uint64_t now)
{
    return bt_box_front_open(&(struct bt_box_front_config){.document = m->document,
                                                           .clients = m->local[BT_BOX_CLIENTS],
                                                           .feedback = m->local[BT_BOX_FEEDBACK],
                                                           .keys = *m->keys,
                                                           .mtu = m->mtu,
                                                           .pool = m->pool,
                                                           .txq = m->txq,
                                                           .seed = bt_new_seed()},
                             now);
}

static bool reconfigure(void *it, uint64_t now, const struct bt_group_document *d, const struct bt_keyring *keys)
{
    return bt_box_front_reconfigure(it, now, d, keys);
}

static void close_box(void *it)
{
    bt_box_front_close(it);
}

static void receive(void *it, uint64_t now, struct bt_pkt *pkt)
{
    bt_box_front_receive(it, now, pkt);
}

static void counters(void *it, uint64_t now, struct bt_ctl_samples *out)
{
    bt_ctl_add_counters(out, bt_box_counter_desc, bt_box_front_counters(it, now), BT_BOX_COUNTERS);
    bt_ctl_add_gauge(out, "box_requests_inside", bt_box_front_inside(it, now));
    bt_ctl_add_gauge(out, "box_limit", bt_box_front_limit(it));
}

static uint64_t backlog(void *it, uint64_t now)
{
    return bt_box_front_inside(it, now);
}

int main(int argc, char **argv)
{
    static const struct beside_kind kind = {
        .program = "bobtail-box",
        .summary = "The flow-control box of a HovercRaft group: what its clients send requests to.",
        .epilogue = "Addresses, members and the limit come from the group's document of kind ReplicationGroup, which "
                    "must name this\n"
                    "box and have protocol HovercRaft or HovercRaftPlusPlus: --config, or a sidecar over the control "
                    "socket. A box\n"
                    "keeps nothing: after a start it is silent for a moment, and then lets few requests in at first.\n"
                    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot start or failed, 2 bad command line.",
        .word = "box",
        .field = "boxes",
        .buffers = "box_buffers_in_use",
        .ports = 2, // FEEDBACK is read first: it makes room
        .place = place,
        .open = open_box,
        .reconfigure = reconfigure,
        .close = close_box,
        .receive = receive,
        .counters = counters,
        .backlog = backlog,
    };
    return beside_main(argc, argv, &kind);
}
