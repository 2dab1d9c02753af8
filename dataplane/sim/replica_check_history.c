// SPDX-License-Identifier: Apache-2.0
// See replica_check_history.h.
#include "replica_check_history.h"

#include <stdlib.h>

#include "replica_sessions.h"

void replica_check_acknowledged(struct replica_world *w, uint64_t index, uint64_t op, uint64_t floor)
{
    if (index > w->commit || replica_write_of(w, w->at[index].op) != replica_write_of(w, op)) {
        replica_breach(w, REPLICA_HISTORY, "write %llu is acknowledged at %llu, where another entry is",
                       (unsigned long long)op, (unsigned long long)index);
    }
    if (index <= floor) {
        replica_breach(w, REPLICA_HISTORY, "write %llu at %llu began after the one at %llu was acknowledged",
                       (unsigned long long)op, (unsigned long long)index, (unsigned long long)floor);
    }
    w->ack = replica_grown(w->ack, &w->acks_room, w->acks, sizeof *w->ack);
    w->ack[w->acks++] = (struct replica_ack){index, op};
    w->acked_index = index > w->acked_index ? index : w->acked_index;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t attempt_at(const struct replica_world *w, uint64_t index)
{
    return w->at[index].op;
}

static uint64_t executed_at(const struct replica_world *w, uint64_t index)
{
    return w->at[index].executed ? replica_write_of(w, w->at[index].op) : 0;
}

/* Numbers but 0 that occur twice, of all that is committed. */
static uint64_t twice(const struct replica_world *w, uint64_t (*what)(const struct replica_world *w, uint64_t index))
{
    uint64_t *op = calloc(w->commit + 1, sizeof *op), n = 0, found = 0;
    if (op == NULL) {
        abort();
    }
    for (uint64_t i = 1; i <= w->commit; i++) {
        op[n] = what(w, i);
        n += op[n] != 0;
    }
    qsort(op, n, sizeof *op, by_number);
    for (uint64_t i = 1; i < n; i++) {
        found += op[i] == op[i - 1];
    }
    free(op);
    return found;
}

uint64_t replica_check_executed_twice(const struct replica_world *w)
{
    return twice(w, executed_at);
}

/* I-6: requests that a client was told DROP for, and that were executed. */
static uint64_t dropped_and_executed(const struct replica_world *w)
{
    uint64_t *op = calloc(w->commit + 1, sizeof *op), found = 0;
    if (op == NULL) {
        abort();
    }
    for (uint64_t i = 1; i <= w->commit; i++) {
        op[i - 1] = w->at[i].op;
    }
    qsort(op, w->commit, sizeof *op, by_number);
    for (uint64_t i = 0; i < w->drops; i++) {
        found += bsearch(&w->dropped[i].op, op, w->commit, sizeof *op, by_number) != NULL;
    }
    free(op);
    return found;
}

uint64_t replica_check_dropped_executed(const struct replica_world *w)
{
    return w->drops > 0 ? dropped_and_executed(w) : 0;
}

uint64_t replica_check_lost(const struct replica_world *w)
{
    uint64_t lost = twice(w, attempt_at);
    for (uint64_t i = 0; i < w->acks; i++) {
        const struct replica_ack *a = &w->ack[i];
        lost += a->index > w->commit || replica_write_of(w, w->at[a->index].op) != replica_write_of(w, a->op) ||
                (replica_has_sessions(w) && !w->at[a->index].executed);
    }
    return lost;
}
