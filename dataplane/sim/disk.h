// SPDX-License-Identifier: Apache-2.0
// A disk in virtual time behind store/disk.h. What was not synced may be lost, torn by sector and kept in any order
// when the power goes; a sync that fails forgets what it should have written and shows it all the same until then. It
// may be full, fail, be slow or stall, and what lies on it rots.
//
// Operations take effect in order, each over a span of virtual time; a crash at a moment stops them there. The same
// seed gives the same disk.
#ifndef BOBTAIL_SIM_DISK_H
#define BOBTAIL_SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/disk.h"

enum sim_disk_seen {
    SIM_DISK_LOST,        /* sectors that were not synced and are gone */
    SIM_DISK_KEPT,        /* sectors that were not synced and are there */
    SIM_DISK_REORDERED,   /* one is there, and one written before it is not */
    SIM_DISK_TORN,        /* writes of which a part took place */
    SIM_DISK_NAMES_LOST,  /* files created or removed without sync_names, and it did not last */
    SIM_DISK_SYNC_FAILED, /* syncs that failed and forgot */
    SIM_DISK_WRITE_FAILED,
    SIM_DISK_READ_FAILED,
    SIM_DISK_FULL,
    SIM_DISK_SLOW,
    SIM_DISK_STALLED,
    SIM_DISK_FLIPPED, /* bits at rest */
    SIM_DISK_MOVED,   /* sectors written over others */
    SIM_DISK_ZEROED,  /* sectors that became empty */
    SIM_DISK_SEEN,
};

const char *sim_disk_seen_name(enum sim_disk_seen s);

struct sim_disk_config {
    uint64_t seed;
    uint64_t write_ns, sync_ns;                 /* an ordinary operation's time; 0: the defaults */
    uint64_t capacity;                          /* bytes; 0: never full */
    double sync_fails, write_fails, read_fails; /* of each operation */
    double slow, stalls;                        /* ten times as long; a quarter of a second more */
};

struct sim_disk;

/* NULL when there is no memory. */
struct sim_disk *sim_disk_new(const struct sim_disk_config *c);
void sim_disk_free(struct sim_disk *d);
struct bt_disk *sim_disk_device(struct sim_disk *d);
/* Replaces the faults from now on; the seed stays. */
void sim_disk_faults(struct sim_disk *d, const struct sim_disk_config *c);

/* Operations from here on begin at `now`, or when those before them are done. */
void sim_disk_at(struct sim_disk *d, uint64_t now);
/* When all operations so far are done: a completion is due then. */
uint64_t sim_disk_done_at(const struct sim_disk *d);

/* The process ends at `now`, with the power or without: what was under way is half done, what would follow never was.
 */
void sim_disk_crash(struct sim_disk *d, uint64_t now, bool power);

/* Damages one sector that is not empty; kind: SIM_DISK_FLIPPED, _MOVED or _ZEROED. False when there is none. */
bool sim_disk_rot(struct sim_disk *d, enum sim_disk_seen kind);

const uint64_t *sim_disk_seen(const struct sim_disk *d);

#endif
