// SPDX-License-Identifier: Apache-2.0
// See store_model.h.
#include "store_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "store/store.h"
#include "store_ops.h"

enum {
    FILES_MOST = 64,
    FILES_TIDY = 24,
    LIVES_MOST = 16,
    GROUPS_MOST = 20,
    OPS_MOST = 8,
    MARKS = 16,
    MEMORY = 1 << 18
};

struct run {
    struct sim_store_result *result;
    struct bt_rng rng;
    struct sim_disk *disk;
    struct sim_disk_config faults;
    struct bt_store_config config;
    struct bt_store store;
    struct bt_image image;
    struct sim_store_history history;
    struct sim_store_op op;
    uint32_t mark[MARKS], marks; /* steps before each of the last commits, a ring */
    uint64_t now, generation;
    enum sim_disk_seen rot; /* what damaged the disk; SIM_DISK_SEEN: nothing */
    bool born;              /* the member has an id */
    uint8_t member[16];
    _Alignas(16) uint8_t memory[MEMORY];
};

static const char *const count_names[SIM_STORE_COUNTS] = {
    "lives",          "operations",
    "acknowledged",   "kills",
    "power losses",   "starts interrupted",
    "torn tails cut", "stores failed",
    "fenced",         "damage without effect",
};

const char *sim_store_count_name(enum sim_store_count c)
{
    return count_names[c];
}

static uint32_t below(struct run *r, uint64_t n)
{
    return bt_rng_below(&r->rng, (uint32_t)n);
}

static bool chance(struct run *r, double p)
{
    return bt_rng_unit(&r->rng) < p;
}

static void broken(struct run *r, const char *invariant, const char *text)
{
    if (r->result->broken == NULL) {
        r->result->broken = invariant;
        snprintf(r->result->text, sizeof r->result->text, "life %u: %s", (unsigned)r->result->count[SIM_STORE_LIVES],
                 text);
    }
}

static bool any_fault(const struct run *r)
{
    const struct sim_disk_config *f = &r->faults;
    return f->sync_fails > 0 || f->write_fails > 0 || f->read_fails > 0 || f->capacity != 0;
}

/* What may go wrong in this life; half of them are undisturbed. */
static void draw_faults(struct run *r)
{
    struct sim_disk_config *f = &r->faults;
    *f = (struct sim_disk_config){.seed = f->seed};
    if (chance(r, 0.5)) {
        f->sync_fails = chance(r, 0.4) ? 0.05 : 0;
        f->write_fails = chance(r, 0.3) ? 0.04 : 0;
        f->read_fails = chance(r, 0.2) ? 0.05 : 0;
        f->capacity = chance(r, 0.2) ? 4096 + below(r, 60000) : 0;
        f->slow = 0.05;
        f->stalls = 0.01;
    }
    sim_disk_faults(r->disk, f);
}

static void crash(struct run *r, uint64_t now)
{
    bool power = chance(r, 0.6);
    sim_disk_crash(r->disk, now, power);
    r->now = now + 1;
    r->result->count[power ? SIM_STORE_POWER_LOSSES : SIM_STORE_KILLS]++;
    if (power && r->rot == SIM_DISK_SEEN && chance(r, 0.2)) {
        enum sim_disk_seen kind = SIM_DISK_FLIPPED + below(r, 3);
        r->rot = sim_disk_rot(r->disk, kind) ? kind : SIM_DISK_SEEN;
    }
}

/* A moment of the span, its end left out. */
static uint64_t moment(struct run *r, uint64_t from, uint64_t to)
{
    return from + (uint64_t)(bt_rng_unit(&r->rng) * (double)(to - from));
}

static bool open_store(struct run *r)
{
    struct bt_mem mem;
    bt_mem_init(&mem, r->memory, sizeof r->memory);
    free(r->image.entry);
    free(r->image.bytes);
    memset(&r->image, 0, sizeof r->image);
    r->generation = 0;
    for (unsigned i = 0; i < 16; i++) {
        r->config.ids.member[i] = (uint8_t)bt_rng_next(&r->rng);
    }
    sim_disk_at(r->disk, r->now);
    if (!bt_store_init(&r->store, &r->config, &mem)) {
        broken(r, "configuration", "the store does not take it");
        return false;
    }
    if (!bt_store_room(&r->store, &r->image)) {
        return false;
    }
    r->image.entry = calloc(r->image.entries_max + 1, sizeof *r->image.entry);
    r->image.bytes = malloc(r->image.bytes_max + 1);
    return r->image.entry != NULL && r->image.bytes != NULL && bt_store_open(&r->store, &r->image);
}

/* The store does not open. Is there a reason? */
static void judge_closed(struct run *r)
{
    char text[160];
    bt_store_error_text(&r->store.why, text, sizeof text);
    if (r->store.why.trouble == BT_STORE_DISK && any_fault(r)) {
        r->result->count[SIM_STORE_FAILED]++;
        r->faults.capacity = 0; /* somebody makes room */
        sim_disk_faults(r->disk, &r->faults);
    } else if (r->store.why.trouble == BT_STORE_DAMAGED && r->rot != SIM_DISK_SEEN) {
        r->result->count[SIM_STORE_FENCED]++;
    } else {
        broken(r, "fenced-without-damage", text);
    }
}

/* Where the batch before this step began that a disk may end with. */
static uint32_t mark_below(const struct run *r, uint32_t steps)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < r->marks && i < MARKS; i++) {
        best = r->mark[i] < steps && r->mark[i] > best ? r->mark[i] : best;
    }
    return best;
}

static void judge_recovered(struct run *r)
{
    struct bt_recovery found;
    struct sim_store_history *h = &r->history;
    const char *why = "";
    bt_store_recovered(&r->store, &r->image, &found);
    bool other = r->born && memcmp(r->member, r->store.ids.member, 16) != 0;
    if (r->rot == SIM_DISK_ZEROED && other) {
        r->result->count[SIM_STORE_ROT_HARMLESS]++; /* an empty disk is a new member's */
        return;
    }
    int steps = other ? -1 : sim_store_match(h, &found, r->rot == SIM_DISK_ZEROED ? h->before : h->acked, &why);
    if (steps < 0) {
        const char *what = sim_store_match(h, &found, 0, &why) >= 0 ? "acknowledged-lost" : "not-a-prefix";
        broken(r, r->rot != SIM_DISK_SEEN ? "damage-believed" : other ? "another-member" : what, why);
        return;
    }
    memcpy(r->member, r->store.ids.member, 16);
    r->born = true;
    h->before = mark_below(r, (uint32_t)steps);
    uint32_t had = h->steps > (uint32_t)steps ? (uint32_t)steps : h->steps;
    sim_store_go_on(h, (uint32_t)steps);
    for (uint32_t i = 0; i < MARKS; i++) { /* the history may have become shorter at its front */
        uint32_t gone = had - h->steps;
        r->mark[i] = r->mark[i] > gone ? r->mark[i] - gone : 0;
    }
    r->result->count[SIM_STORE_ROT_HARMLESS] += r->rot != SIM_DISK_SEEN;
}

static void give_one(struct run *r)
{
    bool tidy = r->store.files_n > FILES_TIDY || r->history.now.last > SIM_STORE_INDEX_MOST - 64;
    sim_store_draw(&r->rng, &r->history.now, tidy, &r->op);
    r->op.op.generation = ++r->generation;
    for (uint32_t i = 0; i < r->op.steps; i++) {
        sim_store_told(&r->history, &r->op.step[i]);
    }
    r->result->count[SIM_STORE_STEPS] += r->op.steps;
    bt_store_take(&r->store, &r->op.op);
}

/* One commit with what is gathered for it. False: the life has ended. */
static bool group(struct run *r)
{
    struct sim_store_history *h = &r->history;
    uint64_t began = r->now, generation;
    uint32_t n = 1 + below(r, OPS_MOST), steps = h->steps;
    sim_disk_at(r->disk, r->now);
    uint64_t batches = r->store.counter[BT_STORE_BATCHES];
    for (uint32_t i = 0; i < n && !r->store.failed; i++) {
        give_one(r);
    }
    enum bt_store_result result = bt_store_commit(&r->store, &generation);
    uint64_t done = sim_disk_done_at(r->disk);
    bool wrote = r->store.counter[BT_STORE_BATCHES] > batches;
    if (wrote) {
        r->mark[r->marks++ % MARKS] = steps;
    }
    if (done > began && chance(r, 0.2)) {
        crash(r, moment(r, began, done));
        return false;
    }
    r->now = done + below(r, 1000000);
    if (result == BT_STORE_FAILED) {
        char text[160];
        r->result->count[SIM_STORE_FAILED]++;
        bt_store_error_text(&r->store.why, text, sizeof text);
        if (!any_fault(r) || r->store.why.trouble != BT_STORE_DISK) {
            broken(r, "failed-without-fault", text);
        }
        crash(r, r->now);
        return false;
    }
    if (generation != r->generation) {
        broken(r, "generation", "a commit does not name the last operation");
    }
    r->result->count[SIM_STORE_ACKNOWLEDGED] += h->steps - h->acked;
    h->acked = h->steps;
    h->before = wrote ? steps : h->before; /* this commit's batch may be the disk's last one */
    return true;
}

/* False: the seed has come to its end. */
static bool life(struct run *r)
{
    bool damaged = r->rot != SIM_DISK_SEEN;
    r->result->count[SIM_STORE_LIVES]++;
    draw_faults(r);
    bool open = open_store(r);
    uint64_t done = sim_disk_done_at(r->disk);
    if (done > r->now && chance(r, 0.15)) {
        r->result->count[SIM_STORE_STARTS_INTERRUPTED]++;
        crash(r, moment(r, r->now, done));
        return true;
    }
    r->now = done;
    if (!open) {
        judge_closed(r);
        crash(r, r->now);
        return r->result->broken == NULL && !(damaged && r->store.why.trouble == BT_STORE_DAMAGED);
    }
    r->result->count[SIM_STORE_TAILS_CUT] += r->store.counter[BT_STORE_TORN_CUT];
    judge_recovered(r);
    if (damaged || r->result->broken != NULL) {
        return false;
    }
    for (uint32_t groups = below(r, GROUPS_MOST); groups > 0; groups--) {
        if (!group(r)) {
            return r->result->broken == NULL;
        }
    }
    crash(r, r->now);
    return r->result->broken == NULL;
}

static struct run *prepare(uint64_t seed, struct sim_store_result *result)
{
    struct run *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    bt_rng_seed(&r->rng, seed);
    r->result = result;
    r->faults.seed = seed ^ 0x9e3779b97f4a7c15u;
    r->rot = SIM_DISK_SEEN;
    r->disk = sim_disk_new(&r->faults);
    r->history.from.snapshot_members = r->history.now.snapshot_members = 3;
    uint32_t batch = BT_STORE_BATCH_LEAST + below(r, 6000);
    r->config = (struct bt_store_config){.disk = r->disk != NULL ? sim_disk_device(r->disk) : NULL,
                                         .ids = {.cluster = "a cluster's name"},
                                         .first = sim_store_config(3),
                                         .batch_bytes = batch,
                                         .segment_bytes = batch * (2 + below(r, 12)),
                                         .files_max = FILES_MOST,
                                         .snapshot_max = SIM_STORE_SNAPSHOT_MOST};
    return r;
}

void sim_store_run(uint64_t seed, struct sim_store_result *result)
{
    memset(result, 0, sizeof *result);
    struct run *r = prepare(seed, result);
    if (r == NULL || r->disk == NULL) {
        abort();
    }
    for (uint32_t lives = 0; lives < LIVES_MOST && life(r); lives++) {
    }
    memcpy(result->seen, sim_disk_seen(r->disk), sizeof result->seen);
    sim_disk_free(r->disk);
    free(r->image.entry);
    free(r->image.bytes);
    free(r);
}
