// SPDX-License-Identifier: Apache-2.0
// What a store was told, written down a second time and much more simply, to judge what it finds after a crash: some
// prefix of it, and never less than what was acknowledged.
#ifndef BOBTAIL_SIM_STORE_HISTORY_H
#define BOBTAIL_SIM_STORE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "replica/entry.h"

enum {
    SIM_STORE_INDEX_MOST = 4096,
    SIM_STORE_STEPS_MOST = 8192,
    SIM_STORE_BODY_MOST = 1600,
    SIM_STORE_SNAPSHOT_MOST = 4000
};

/* Bytes of an entry or a snapshot, told by a number. */
struct sim_store_bytes {
    uint64_t seed;
    uint32_t length;
};

/* One thing that may be there or not after a crash: an append of several entries is as many. */
struct sim_store_step {
    enum bt_store_kind kind;
    uint64_t index, term; /* of the entry or snapshot; from; to; the term voted in */
    uint16_t vote, members;
    uint8_t entry_kind;
    struct sim_store_bytes bytes;
};

struct sim_store_state {
    struct bt_hard_state hard;
    uint64_t base, last, snapshot, snapshot_term;
    uint16_t snapshot_members;
    struct sim_store_bytes snapshot_bytes;
    struct sim_store_step entry[SIM_STORE_INDEX_MOST]; /* base + 1 … last */
};

struct sim_store_history {
    struct sim_store_state from, now; /* before the first step; after the last one */
    struct sim_store_step step[SIM_STORE_STEPS_MOST];
    uint32_t steps;
    uint32_t acked;  /* of them */
    uint32_t before; /* of them before the batch that may be the disk's last one */
};

void sim_store_fill(uint8_t *out, struct sim_store_bytes b);
/* n members with ids 1 to n. */
struct bt_group_config sim_store_config(uint16_t n);

void sim_store_told(struct sim_store_history *h, const struct sim_store_step *s);

/*
 * Which prefix, of at least `least` steps, is what was recovered; -1: none. The longest one: states repeat, and those
 * between two that are alike may be on the disk, too. *why then says what did not fit.
 */
int sim_store_match(struct sim_store_history *h, const struct bt_recovery *r, uint32_t least, const char **why);

/* The store goes on from that prefix. */
void sim_store_go_on(struct sim_store_history *h, uint32_t steps);

#endif
