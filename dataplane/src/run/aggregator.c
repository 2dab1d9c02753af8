// SPDX-License-Identifier: Apache-2.0
// See aggregator.h.
#include "run/aggregator.h"

#include <stdlib.h>

#include "run/cluster.h"

struct bt_aggregator_front {
    struct bt_aggregator_front_config conf;
    struct bt_group_document document;
    struct bt_aggregator core;
    uint64_t disk; // of the message being read: it is passed on as its sender's
    uint64_t counter[BT_AGGREGATOR_FRONT_COUNTERS];
};

enum { TYPE_AT = 1 };

#define WORD(name, word) [BT_AGGREGATOR_BAD_##name] = {"aggregator_packets_refused_total", "reason", word},
#define CORE(name, word) [BT_AGGREGATOR_##name##_TOTAL] = {"aggregator_events_total", "event", word},
const struct bt_counter_desc bt_aggregator_front_counter_desc[BT_AGGREGATOR_FRONT_COUNTERS] = {
    BT_AGGREGATOR_FRONT_LIST(WORD)[BT_AGGREGATOR_ACCEPTED] = {"aggregator_packets_accepted_total", NULL, NULL},
    [BT_AGGREGATOR_SENT] = {"aggregator_packets_sent_total", NULL, NULL},
    [BT_AGGREGATOR_NO_ADDRESS] = {"aggregator_packets_unsent_total", "reason", "no_address"},
    [BT_AGGREGATOR_NO_BUFFER] = {"aggregator_packets_unsent_total", "reason", "no_buffer"},
};
const struct bt_counter_desc bt_aggregator_counter_desc[BT_AGGREGATOR_COUNTERS] = {BT_AGGREGATOR_COUNTER_LIST(CORE)};

static void count(struct bt_aggregator_front *f, enum bt_aggregator_front_counter c)
{
    f->counter[c]++;
}

/* --- out --- */

static void send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct bt_aggregator_front *f = ctx;
    const struct bt_group_document_member *member = bt_group_document_by_id(&f->document, to);
    const struct bt_key *key = bt_keyring_signer(&f->conf.keys);
    if (member == NULL) {
        count(f, BT_AGGREGATOR_NO_ADDRESS);
        return;
    }
    struct bt_pkt *pkt = key != NULL ? bt_pool_get(f->conf.pool) : NULL;
    if (pkt == NULL) {
        count(f, BT_AGGREGATOR_NO_BUFFER);
        return;
    }
    pkt->src = f->conf.address;
    pkt->dst = member->address;
    pkt->local = BT_AGGREGATOR_PORT;
    // What a leader sends goes on as that leader's, whose disk members know. The aggregator's own words have none.
    uint64_t disk = message[TYPE_AT] == BT_GROUP_SHARED ? f->disk : 0;
    if (!bt_group_packet_write(pkt, message, n, disk, key)) {
        count(f, BT_AGGREGATOR_NO_BUFFER);
        bt_pool_put(f->conf.pool, pkt);
        return;
    }
    bt_txq_push(f->conf.txq, pkt);
    count(f, BT_AGGREGATOR_SENT);
}

/* --- in --- */

void bt_aggregator_front_receive(struct bt_aggregator_front *f, struct bt_pkt *pkt)
{
    struct bt_group_packet p;
    enum bt_group_packet_result r = bt_group_packet_open(pkt, &f->conf.keys, &p);
    if (r != BT_GROUP_PACKET_OK) {
        f->counter[BT_AGGREGATOR_BAD_FORM + r - 1]++;
    } else if (p.is_note) {
        count(f, BT_AGGREGATOR_BAD_NOTE);
    } else {
        count(f, BT_AGGREGATOR_ACCEPTED);
        f->disk = p.disk;
        bt_aggregator_receive(&f->core, p.message, p.n);
    }
    bt_pool_put(f->conf.pool, pkt);
}

/* --- its owner --- */

struct bt_aggregator_front *bt_aggregator_front_open(const struct bt_aggregator_front_config *c)
{
    static const struct bt_aggregator_ops ops = {.send = send};
    struct bt_aggregator_front *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    f->conf = *c;
    f->document = *c->document;
    struct bt_aggregator_config core = {.cluster = bt_member_wire_cluster(f->document.cluster),
                                        .group = (uint32_t)f->document.number,
                                        .as_switch = c->as_switch};
    bt_aggregator_start(&f->core, &core, &ops, f);
    return f;
}

void bt_aggregator_front_close(struct bt_aggregator_front *f)
{
    free(f);
}

void bt_aggregator_front_reconfigure(struct bt_aggregator_front *f, const struct bt_group_document *d,
                                     const struct bt_keyring *keys)
{
    f->document = *d;
    f->conf.keys = *keys;
}

struct bt_aggregator_status bt_aggregator_front_status(const struct bt_aggregator_front *f)
{
    return bt_aggregator_status(&f->core);
}

const uint64_t *bt_aggregator_front_counters(const struct bt_aggregator_front *f)
{
    return f->counter;
}

const uint64_t *bt_aggregator_front_core_counters(const struct bt_aggregator_front *f)
{
    return f->core.counter;
}
