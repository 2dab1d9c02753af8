// SPDX-License-Identifier: Apache-2.0
// bobtail-aggregator: the aggregator of a HovercRaft++ group (run/aggregator.h).
#include "beside/beside.h"

#include "run/aggregator.h"

#include <string.h>

enum registers { WHOLE, SWITCH };

static bool place(const struct bt_group_document *d, const char *name, bool addressed,
                  struct bt_addr local[BESIDE_PORTS], struct bt_ctl_error *e)
{
    (void)addressed; // members send to the one that is named, and to no other
    if (d->protocol != BT_GROUP_HOVERCRAFT_PLUS_PLUS) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "group.protocol",
                             "must be HovercRaftPlusPlus: no other protocol has an aggregator");
    }
    if (strcmp(d->aggregator.name, name) != 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "aggregator.name", "must be that of this process, \"%s\"", name);
    }
    local[BT_AGGREGATOR_PORT] = d->aggregator.address;
    return true;
}

static void *open_aggregator(const struct beside_made_of *m, uint64_t now)
{
    (void)now;
    return bt_aggregator_front_open(&(struct bt_aggregator_front_config){.document = m->document,
                                                                         .address = m->local[BT_AGGREGATOR_PORT],
                                                                         .keys = *m->keys,
                                                                         .pool = m->pool,
                                                                         .txq = m->txq,
                                                                         .as_switch = m->extra == SWITCH});
}

static bool reconfigure(void *it, uint64_t now, const struct bt_group_document *d, const struct bt_keyring *keys)
{
    (void)now;
    bt_aggregator_front_reconfigure(it, d, keys);
    return true;
}

static void close_aggregator(void *it)
{
    bt_aggregator_front_close(it);
}

static void receive(void *it, uint64_t now, struct bt_pkt *pkt)
{
    (void)now;
    bt_aggregator_front_receive(it, pkt);
}

static void counters(void *it, uint64_t now, struct bt_ctl_samples *out)
{
    (void)now;
    struct bt_aggregator_status s = bt_aggregator_front_status(it);
    bt_ctl_add_counters(out, bt_aggregator_front_counter_desc, bt_aggregator_front_counters(it),
                        BT_AGGREGATOR_FRONT_COUNTERS);
    bt_ctl_add_counters(out, bt_aggregator_counter_desc, bt_aggregator_front_core_counters(it), BT_AGGREGATOR_COUNTERS);
    bt_ctl_add_gauge(out, "aggregator_in_use", s.known);
    bt_ctl_add_gauge(out, "aggregator_term", s.term);
    bt_ctl_add_gauge(out, "aggregator_last_index", s.last);
    bt_ctl_add_gauge(out, "aggregator_commit_index", s.commit);
}

static uint64_t backlog(void *it, uint64_t now)
{
    (void)it;
    (void)now;
    return 0; // nothing waits here
}

static void describe(void *it, struct bt_json_out *o)
{
    struct bt_aggregator_status s = bt_aggregator_front_status(it);
    bt_json_out_open(o, "aggregator", '{');
    bt_json_out_bool(o, "inUse", s.known);
    bt_json_out_u64(o, "leader", s.leader);
    bt_json_out_u64(o, "term", s.term);
    bt_json_out_u64(o, "epoch", s.epoch);
    bt_json_out_u64(o, "last", s.last);
    bt_json_out_u64(o, "commit", s.commit);
    bt_json_out_close(o, '}');
}

int main(int argc, char **argv)
{
    static const struct beside_kind kind = {
        .program = "bobtail-aggregator",
        .summary = "The aggregator of a HovercRaft++ group: between its leader and the followers.",
        .epilogue = "Its address and the members' come from the group's document of kind ReplicationGroup, which must "
                    "name it and\n"
                    "have protocol HovercRaftPlusPlus: --config, or a sidecar over the control socket. Who is in the "
                    "group the\n"
                    "leader says. An aggregator keeps nothing: it may be killed and started at any time, and the group "
                    "does without.\n"
                    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot start or failed, 2 bad command line.",
        .word = "aggregator",
        .field = "aggregator",
        .buffers = "aggregator_buffers_in_use",
        .ports = 1,
        .extra = {"registers", BT_CLI_CHOICE, NULL, 0, 0, "whole|switch",
                  "switch: of 32 bits, and it announces as a switch does"},
        .place = place,
        .open = open_aggregator,
        .reconfigure = reconfigure,
        .close = close_aggregator,
        .receive = receive,
        .counters = counters,
        .backlog = backlog,
        .describe = describe,
    };
    return beside_main(argc, argv, &kind);
}
