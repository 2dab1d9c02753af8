// SPDX-License-Identifier: Apache-2.0
// See replica_wal.h.
#include "replica_wal.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "disk.h"
#include "store/store.h"

enum { BATCH = 16384, FILES = 2048, SNAPSHOT = 8192, MEMORY = 1 << 18 };

struct replica_wal {
    struct sim_disk *disk;
    struct sim_disk_config faults;
    struct bt_store_config config;
    struct bt_store store;
    struct bt_image image;
    struct bt_rng rng;
    uint64_t opened_at; /* a start is not interrupted here: bobtail-sim store does that */
    uint8_t *memory;
};

struct replica_wal *replica_wal_new(const struct bt_group_config *first, const struct replica_wal_rules *rules)
{
    struct replica_wal *w = calloc(1, sizeof *w);
    if (w == NULL || (w->memory = aligned_alloc(BT_MEM_ALIGN, MEMORY)) == NULL) {
        abort();
    }
    bt_rng_seed(&w->rng, rules->seed);
    w->faults = (struct sim_disk_config){.seed = rules->seed,
                                         .write_ns = 20000,
                                         .sync_ns = rules->sync_ns,
                                         .sync_fails = rules->sync_fails,
                                         .slow = 0.02,
                                         .stalls = 0.002};
    w->disk = sim_disk_new(&w->faults);
    if (w->disk == NULL) {
        abort();
    }
    w->config = (struct bt_store_config){.disk = sim_disk_device(w->disk),
                                         .ids = {.cluster = "bobtail-sim"},
                                         .first = *first,
                                         .batch_bytes = BATCH,
                                         .segment_bytes = 8 * BATCH,
                                         .files_max = FILES,
                                         .snapshot_max = SNAPSHOT};
    return w;
}

static void forget_image(struct replica_wal *w)
{
    free(w->image.entry);
    free(w->image.bytes);
    memset(&w->image, 0, sizeof w->image);
}

void replica_wal_free(struct replica_wal *w)
{
    if (w == NULL) {
        return;
    }
    forget_image(w);
    sim_disk_free(w->disk);
    free(w->memory);
    free(w);
}

bool replica_wal_open(struct replica_wal *w, uint64_t now, struct bt_recovery *found)
{
    struct bt_mem mem;
    bt_mem_init(&mem, w->memory, MEMORY);
    forget_image(w);
    for (unsigned i = 0; i < 16; i++) {
        w->config.ids.member[i] = (uint8_t)(bt_rng_next(&w->rng) | 1);
    }
    sim_disk_at(w->disk, now);
    if (!bt_store_init(&w->store, &w->config, &mem) || !bt_store_room(&w->store, &w->image)) {
        return false;
    }
    w->image.entry = calloc(w->image.entries_max + 1, sizeof *w->image.entry);
    w->image.bytes = malloc(w->image.bytes_max + 1);
    if (w->image.entry == NULL || w->image.bytes == NULL) {
        abort();
    }
    bool open = bt_store_open(&w->store, &w->image);
    w->opened_at = sim_disk_done_at(w->disk);
    if (open) {
        bt_store_recovered(&w->store, &w->image, found);
    }
    return open;
}

bool replica_wal_take(struct replica_wal *w, uint64_t now, const struct bt_store_op *op)
{
    sim_disk_at(w->disk, now > w->opened_at ? now : w->opened_at);
    return bt_store_take(&w->store, op);
}

enum bt_store_result replica_wal_commit(struct replica_wal *w, uint64_t *generation, uint64_t *done)
{
    enum bt_store_result r = bt_store_commit(&w->store, generation);
    *done = sim_disk_done_at(w->disk);
    return r;
}

void replica_wal_crash(struct replica_wal *w, uint64_t now, bool power)
{
    sim_disk_crash(w->disk, now > w->opened_at ? now : w->opened_at, power);
}

void replica_wal_mend(struct replica_wal *w)
{
    w->faults.sync_fails = w->faults.slow = w->faults.stalls = 0;
    sim_disk_faults(w->disk, &w->faults);
}

bool replica_wal_may_try_again(const struct replica_wal *w)
{
    return w->store.why.trouble == BT_STORE_DISK;
}

const char *replica_wal_why(const struct replica_wal *w)
{
    return w->store.why.what != NULL ? w->store.why.what : "the disk failed";
}
