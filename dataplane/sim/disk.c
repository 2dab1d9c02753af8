// SPDX-License-Identifier: Apache-2.0
// See disk.h: operations in virtual time over a platter.
#include "disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "disk_platter.h"

enum { WRITE_NS = 20000, SECTOR_NS = 200, SYNC_NS = 1000000, NAME_NS = 5000, STALL_NS = 250000000, OPS_MOST = 4096 };

enum op_kind { CREATE, REMOVE, WRITE, SYNC, SYNC_NAMES };

/* An operation that was asked for and takes effect over its span of time. */
struct op {
    enum op_kind kind;
    struct bt_disk_file file;
    uint32_t first, sectors;
    uint8_t *bytes;
    uint64_t begin, end;
    bool fails; /* a sync that forgets */
};

struct sim_disk {
    struct bt_disk disk; /* first, so that &d->disk is the device */
    struct sim_disk_config config;
    struct sim_platter platter;
    struct op op[OPS_MOST]; /* under way or to come */
    uint32_t ops;
    uint64_t done_at;
    uint64_t sectors_taken; /* by all files, once every operation is done */
};

static const char *const seen_names[SIM_DISK_SEEN] = {
    "sectors lost", "sectors kept unsynced", "reordered",     "torn writes",    "names lost",
    "syncs failed", "writes failed",         "reads failed",  "disk full",      "slow",
    "stalled",      "bits flipped",          "sectors moved", "sectors zeroed",
};

const char *sim_disk_seen_name(enum sim_disk_seen s)
{
    return seen_names[s];
}

const uint64_t *sim_disk_seen(const struct sim_disk *d)
{
    return d->platter.seen;
}

static struct sim_disk *of(struct bt_disk *disk)
{
    return (struct sim_disk *)disk;
}

static bool happens(struct sim_disk *d, double probability, enum sim_disk_seen what)
{
    bool yes = probability > 0 && bt_rng_unit(&d->platter.rng) < probability;
    d->platter.seen[what] += yes;
    return yes;
}

static void remove_file(struct sim_disk *d, struct bt_disk_file id)
{
    const struct sim_disk_file *f = sim_platter_find(&d->platter, id);
    d->sectors_taken -= f != NULL ? f->shown : 0;
    sim_platter_remove(&d->platter, id);
}

static void apply(struct sim_disk *d, struct op *o)
{
    switch (o->kind) {
    case CREATE:
        sim_platter_create(&d->platter, o->file);
        break;
    case REMOVE:
        remove_file(d, o->file);
        break;
    case WRITE:
        sim_platter_write(&d->platter, o->file, o->first, o->bytes, o->sectors);
        break;
    case SYNC:
        sim_platter_sync(&d->platter, o->file, o->fails ? 0.5 : 1, o->fails);
        break;
    case SYNC_NAMES:
        sim_platter_sync_names(&d->platter, o->fails ? 0.5 : 1, o->fails);
        break;
    }
}

/* An operation that a crash interrupts. A write ends somewhere; what the power would do to it comes on top. */
static void apply_half(struct sim_disk *d, struct op *o)
{
    struct bt_rng *rng = &d->platter.rng;
    if (o->kind == WRITE) {
        o->sectors = bt_rng_below(rng, o->sectors + 1);
        d->platter.seen[SIM_DISK_TORN]++;
        apply(d, o);
    } else if (o->kind == SYNC) {
        sim_platter_sync(&d->platter, o->file, 0.5, false);
    } else if (o->kind == SYNC_NAMES) {
        sim_platter_sync_names(&d->platter, 0.5, false);
    } else if (bt_rng_below(rng, 2) == 0) {
        apply(d, o);
    }
}

/* Does everything that is done by then. */
static void settle(struct sim_disk *d, uint64_t now)
{
    uint32_t done = 0;
    for (; done < d->ops && d->op[done].end <= now; done++) {
        apply(d, &d->op[done]);
        free(d->op[done].bytes);
    }
    d->ops -= done;
    memmove(d->op, d->op + done, d->ops * sizeof *d->op);
}

static struct op *begin(struct sim_disk *d, enum op_kind kind, struct bt_disk_file f, uint64_t ns)
{
    if (d->ops == OPS_MOST) {
        settle(d, d->done_at);
    }
    if (happens(d, d->config.slow, SIM_DISK_SLOW)) {
        ns *= 10;
    }
    if (happens(d, d->config.stalls, SIM_DISK_STALLED)) {
        ns += STALL_NS;
    }
    struct op *o = &d->op[d->ops++];
    *o = (struct op){.kind = kind, .file = f, .begin = d->done_at, .end = d->done_at + ns};
    d->done_at = o->end;
    return o;
}

/* As things will be when all that was asked for is done. */
static struct sim_disk_file *find(struct sim_disk *d, struct bt_disk_file f)
{
    settle(d, d->done_at);
    return sim_platter_find(&d->platter, f);
}

/* A file that is there once everything asked for is done; without making it so. */
static bool is_there(struct sim_disk *d, struct bt_disk_file f)
{
    bool there = sim_platter_find(&d->platter, f) != NULL;
    for (uint32_t i = 0; i < d->ops; i++) {
        const struct op *o = &d->op[i];
        if (o->file.kind == f.kind && o->file.number == f.number) {
            there = o->kind == CREATE || (there && o->kind != REMOVE);
        }
    }
    return there;
}

static int disk_create(struct bt_disk *disk, struct bt_disk_file f)
{
    struct sim_disk *d = of(disk);
    if (is_there(d, f)) {
        return EEXIST;
    }
    if (d->platter.files + d->ops >= SIM_DISK_FILES) {
        settle(d, d->done_at);
    }
    if (d->platter.files == SIM_DISK_FILES) {
        return ENOSPC;
    }
    begin(d, CREATE, f, NAME_NS);
    return 0;
}

static int disk_write(struct bt_disk *disk, struct bt_disk_file f, uint64_t offset, const uint8_t *p, uint32_t n)
{
    struct sim_disk *d = of(disk);
    uint32_t sectors = n / SIM_SECTOR;
    int code = 0;
    if (!is_there(d, f) || offset % SIM_SECTOR != 0 || n % SIM_SECTOR != 0) {
        return EINVAL;
    }
    if (happens(d, d->config.write_fails, SIM_DISK_WRITE_FAILED)) {
        sectors = bt_rng_below(&d->platter.rng, sectors + 1);
        code = EIO;
    }
    uint64_t most = d->config.capacity / SIM_SECTOR;
    if (d->config.capacity != 0 && d->sectors_taken + sectors > most) {
        sectors = most > d->sectors_taken ? (uint32_t)(most - d->sectors_taken) : 0;
        d->platter.seen[SIM_DISK_FULL]++;
        code = ENOSPC;
    }
    uint64_t ns = d->config.write_ns + (uint64_t)sectors * SECTOR_NS;
    struct op *o = begin(d, WRITE, f, ns);
    o->first = (uint32_t)(offset / SIM_SECTOR);
    o->sectors = sectors;
    o->bytes = malloc((size_t)sectors * SIM_SECTOR + 1);
    if (o->bytes == NULL) {
        abort();
    }
    memcpy(o->bytes, p, (size_t)sectors * SIM_SECTOR);
    d->sectors_taken += sectors; /* stores append, and never write a sector twice */
    return code;
}

static int disk_sync(struct bt_disk *disk, struct bt_disk_file f)
{
    struct sim_disk *d = of(disk);
    if (!is_there(d, f)) {
        return ENOENT;
    }
    uint64_t ns = d->config.sync_ns / 2 + bt_rng_below(&d->platter.rng, (uint32_t)d->config.sync_ns + 1);
    struct op *o = begin(d, SYNC, f, ns);
    o->fails = happens(d, d->config.sync_fails, SIM_DISK_SYNC_FAILED);
    return o->fails ? EIO : 0;
}

static int disk_sync_names(struct bt_disk *disk)
{
    struct sim_disk *d = of(disk);
    struct op *o = begin(d, SYNC_NAMES, (struct bt_disk_file){.kind = 0}, d->config.sync_ns);
    o->fails = happens(d, d->config.sync_fails, SIM_DISK_SYNC_FAILED);
    return o->fails ? EIO : 0;
}

static int disk_remove(struct bt_disk *disk, struct bt_disk_file f)
{
    struct sim_disk *d = of(disk);
    if (!is_there(d, f)) {
        return ENOENT;
    }
    begin(d, REMOVE, f, NAME_NS);
    return 0;
}

static int disk_read(struct bt_disk *disk, struct bt_disk_file f, uint64_t offset, uint8_t *p, uint32_t n,
                     uint32_t *got)
{
    struct sim_disk *d = of(disk);
    struct sim_disk_file *file = find(d, f);
    *got = 0;
    if (file == NULL) {
        return ENOENT;
    }
    if (happens(d, d->config.read_fails, SIM_DISK_READ_FAILED)) {
        return EIO;
    }
    for (uint64_t at = offset / SIM_SECTOR; at < file->shown && *got + SIM_SECTOR <= n; at++) {
        memcpy(p + *got, file->sector[at].shown, SIM_SECTOR);
        *got += SIM_SECTOR;
    }
    return 0;
}

static int disk_size(struct bt_disk *disk, struct bt_disk_file f, uint64_t *bytes)
{
    struct sim_disk_file *file = find(of(disk), f);
    *bytes = file == NULL ? 0 : (uint64_t)file->shown * SIM_SECTOR;
    return file == NULL ? ENOENT : 0;
}

static int disk_list(struct bt_disk *disk, struct bt_disk_file *files, uint32_t max, uint32_t *count)
{
    struct sim_disk *d = of(disk);
    settle(d, d->done_at);
    *count = 0;
    for (uint32_t i = 0; i < d->platter.files; i++) {
        if (!d->platter.file[i].named) {
            continue;
        }
        if (*count == max) {
            return E2BIG;
        }
        files[(*count)++] = d->platter.file[i].id;
    }
    return 0;
}

void sim_disk_faults(struct sim_disk *d, const struct sim_disk_config *c)
{
    d->config = *c;
    d->config.write_ns = c->write_ns != 0 ? c->write_ns : WRITE_NS;
    d->config.sync_ns = c->sync_ns != 0 ? c->sync_ns : SYNC_NS;
}

struct sim_disk *sim_disk_new(const struct sim_disk_config *c)
{
    static const struct bt_disk_ops ops = {.create = disk_create,
                                           .write = disk_write,
                                           .sync = disk_sync,
                                           .sync_names = disk_sync_names,
                                           .remove = disk_remove,
                                           .read = disk_read,
                                           .size = disk_size,
                                           .list = disk_list};
    struct sim_disk *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->disk.ops = &ops;
        bt_rng_seed(&d->platter.rng, c->seed);
        sim_disk_faults(d, c);
    }
    return d;
}

void sim_disk_free(struct sim_disk *d)
{
    for (uint32_t i = 0; i < d->ops; i++) {
        free(d->op[i].bytes);
    }
    sim_platter_free(&d->platter);
    free(d);
}

struct bt_disk *sim_disk_device(struct sim_disk *d)
{
    return &d->disk;
}

void sim_disk_at(struct sim_disk *d, uint64_t now)
{
    settle(d, now);
    d->done_at = now > d->done_at ? now : d->done_at;
}

uint64_t sim_disk_done_at(const struct sim_disk *d)
{
    return d->done_at;
}

void sim_disk_crash(struct sim_disk *d, uint64_t now, bool power)
{
    settle(d, now);
    if (d->ops > 0 && d->op[0].begin < now) {
        apply_half(d, &d->op[0]);
    }
    for (uint32_t i = 0; i < d->ops; i++) {
        free(d->op[i].bytes);
    }
    d->ops = 0;
    d->done_at = now;
    if (power) {
        sim_platter_power(&d->platter);
    }
    d->sectors_taken = 0;
    for (uint32_t i = 0; i < d->platter.files; i++) {
        d->sectors_taken += d->platter.file[i].named ? d->platter.file[i].shown : 0;
    }
}

bool sim_disk_rot(struct sim_disk *d, enum sim_disk_seen kind)
{
    settle(d, d->done_at);
    return sim_platter_rot(&d->platter, kind);
}
