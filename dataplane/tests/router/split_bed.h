// SPDX-License-Identifier: Apache-2.0
// A router on two threads on a bench: both halves, their packets, and the members and addresses of a struct bed.
#ifndef BOBTAIL_TESTS_ROUTER_SPLIT_BED_H
#define BOBTAIL_TESTS_ROUTER_SPLIT_BED_H

#include "router/bed.h"
#include "router/queue.h"
#include "router/request.h"
#include "router/router.h"
#include "router/split_channel.h"
#include "router/workers.h"

struct split_bed {
    struct bt_router *s;
    void *mem, *pool_mem[2];
    struct bt_pool_fixed fixed[2];
    struct bt_pool *requests, *feedback;
    uint32_t packets;
    struct bt_txq out;
};

/* With the workers, addresses and configuration of b. Queues of 0 entries are as long as by default. */
void split_open(struct split_bed *t, const struct bed *b, uint32_t packets, uint32_t credits, uint32_t notes);
void split_close(struct split_bed *t); /* also checks that every packet came home */
void split_configure(struct split_bed *t, const struct bed *b);

struct bt_pkt *split_packet(struct split_bed *t, const struct bed *b, bool feedback, const struct bt_addr *from,
                            const uint8_t *bytes, size_t len);
void split_discard(struct split_bed *t);

/* Both halves know the same of every worker, and the index of the one that decides says so. */
void split_check_agreement(const struct split_bed *t);

#endif
