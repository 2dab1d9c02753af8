// SPDX-License-Identifier: Apache-2.0
// What a disk in virtual time holds: files of sectors, each as the operating system shows it and as it lies on the
// disk.
#ifndef BOBTAIL_SIM_DISK_PLATTER_H
#define BOBTAIL_SIM_DISK_PLATTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "disk.h"

enum { SIM_SECTOR = 512, SIM_DISK_FILES = 256 };

struct sim_sector {
    uint8_t shown[SIM_SECTOR], lying[SIM_SECTOR];
    uint64_t written; /* which write it was, in order */
    bool dirty;       /* shown is to be written */
};

struct sim_disk_file {
    struct bt_disk_file id;
    struct sim_sector *sector;
    uint32_t room, shown, lying; /* sectors: allocated; in the file as shown; as it lies */
    bool named, named_lying;     /* it has a name; the name is on the disk */
    bool name_dirty;
};

struct sim_platter {
    struct sim_disk_file file[SIM_DISK_FILES];
    uint32_t files;
    uint64_t writes;
    struct bt_rng rng;
    uint64_t seen[SIM_DISK_SEEN];
};

/* NULL when no file has that name. */
struct sim_disk_file *sim_platter_find(struct sim_platter *p, struct bt_disk_file id);

/* False when there are too many files. */
bool sim_platter_create(struct sim_platter *p, struct bt_disk_file id);
void sim_platter_remove(struct sim_platter *p, struct bt_disk_file id);
void sim_platter_write(struct sim_platter *p, struct bt_disk_file id, uint32_t first, const uint8_t *bytes, uint32_t n);
/* keep: of the dirty sectors, so many lie on the disk afterwards; forget: none of them is dirty any more. */
void sim_platter_sync(struct sim_platter *p, struct bt_disk_file id, double keep, bool forget);
void sim_platter_sync_names(struct sim_platter *p, double keep, bool forget);

/* The power is gone: what lies there is all there is. */
void sim_platter_power(struct sim_platter *p);
bool sim_platter_rot(struct sim_platter *p, enum sim_disk_seen kind);
void sim_platter_free(struct sim_platter *p);

#endif
