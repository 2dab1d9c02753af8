// SPDX-License-Identifier: Apache-2.0
// In place of the rest of this room where libbpf was not there to build it: there is never a program.
#include <stdio.h>

#include "fast/fast.h"

const struct bt_counter_desc bt_fast_counter_descs[BT_FAST_COUNTERS];

struct bt_fast *bt_fast_new(const struct bt_fast_setup *setup, char *why, size_t why_len)
{
    (void)setup;
    snprintf(why, why_len, "this program was built without libbpf (meson -Dfast_path=enabled)");
    return NULL;
}

void bt_fast_free(struct bt_fast *f)
{
    (void)f;
}

void bt_fast_take_back(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    (void)f, (void)r, (void)now, (void)txq;
}

void bt_fast_read(struct bt_fast *f, struct bt_router *r, struct bt_txq *txq)
{
    (void)f, (void)r, (void)txq;
}

void bt_fast_turn(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    (void)f, (void)r, (void)now, (void)txq;
}

uint64_t bt_fast_next(const struct bt_fast *f, uint64_t now)
{
    (void)f, (void)now;
    return UINT64_MAX;
}

bool bt_fast_lent(const struct bt_fast *f)
{
    (void)f;
    return false;
}

enum bt_lend bt_fast_why_not(const struct bt_fast *f)
{
    (void)f;
    return BT_LEND_KERNEL;
}

enum bt_lend bt_fast_judge(const struct bt_fast *f, const struct bt_router *r)
{
    (void)f, (void)r;
    return BT_LEND_KERNEL;
}

const char *bt_fast_device(const struct bt_fast *f)
{
    (void)f;
    return "";
}

int bt_fast_program(const struct bt_fast *f)
{
    (void)f;
    return -1;
}

void bt_fast_counters(const struct bt_fast *f, uint64_t out[BT_FAST_COUNTERS])
{
    (void)f, (void)out;
}
