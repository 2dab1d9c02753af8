// SPDX-License-Identifier: Apache-2.0
// See disk_platter.h.
#include "disk_platter.h"

#include <stdlib.h>
#include <string.h>

static bool same(struct bt_disk_file a, struct bt_disk_file b)
{
    return a.kind == b.kind && a.number == b.number;
}

struct sim_disk_file *sim_platter_find(struct sim_platter *p, struct bt_disk_file id)
{
    for (uint32_t i = 0; i < p->files; i++) {
        if (p->file[i].named && same(p->file[i].id, id)) {
            return &p->file[i];
        }
    }
    return NULL;
}

bool sim_platter_create(struct sim_platter *p, struct bt_disk_file id)
{
    if (p->files == SIM_DISK_FILES) {
        return false;
    }
    p->file[p->files++] = (struct sim_disk_file){.id = id, .named = true, .name_dirty = true};
    return true;
}

void sim_platter_remove(struct sim_platter *p, struct bt_disk_file id)
{
    struct sim_disk_file *f = sim_platter_find(p, id);
    if (f != NULL) {
        f->named = false;
        f->name_dirty = true;
    }
}

static void grow(struct sim_disk_file *f, uint32_t sectors)
{
    if (sectors > f->room) {
        uint32_t room = sectors > 2 * f->room ? sectors : 2 * f->room;
        f->sector = realloc(f->sector, room * sizeof *f->sector);
        if (f->sector == NULL) {
            abort();
        }
        memset(f->sector + f->room, 0, (room - f->room) * sizeof *f->sector);
        f->room = room;
    }
}

void sim_platter_write(struct sim_platter *p, struct bt_disk_file id, uint32_t first, const uint8_t *bytes, uint32_t n)
{
    struct sim_disk_file *f = sim_platter_find(p, id);
    if (f == NULL || n == 0) {
        return;
    }
    grow(f, first + n);
    p->writes++;
    for (uint32_t i = 0; i < n; i++) {
        struct sim_sector *s = &f->sector[first + i];
        memcpy(s->shown, bytes + (size_t)i * SIM_SECTOR, SIM_SECTOR);
        s->dirty = true;
        s->written = p->writes;
    }
    f->shown = first + n > f->shown ? first + n : f->shown;
}

static void lay(struct sim_disk_file *f, uint32_t i)
{
    memcpy(f->sector[i].lying, f->sector[i].shown, SIM_SECTOR);
    f->sector[i].dirty = false;
    f->lying = i + 1 > f->lying ? i + 1 : f->lying;
}

void sim_platter_sync(struct sim_platter *p, struct bt_disk_file id, double keep, bool forget)
{
    struct sim_disk_file *f = sim_platter_find(p, id);
    for (uint32_t i = 0; f != NULL && i < f->shown; i++) {
        if (f->sector[i].dirty && (keep >= 1 || bt_rng_unit(&p->rng) < keep)) {
            lay(f, i);
        }
        f->sector[i].dirty = f->sector[i].dirty && !forget;
    }
}

void sim_platter_sync_names(struct sim_platter *p, double keep, bool forget)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->files; i++) {
        struct sim_disk_file *f = &p->file[i];
        if (f->name_dirty && (keep >= 1 || bt_rng_unit(&p->rng) < keep)) {
            f->named_lying = f->named;
            f->name_dirty = false;
        }
        f->name_dirty = f->name_dirty && !forget;
        if (f->named || f->named_lying || f->name_dirty) {
            p->file[kept++] = *f;
        } else {
            free(f->sector);
        }
    }
    p->files = kept;
}

/* Which of the sectors that were not synced a loss of power leaves. */
enum survivors { NONE, ALL, SOME, EARLY, LATE, SURVIVORS };

static bool survives(struct sim_platter *p, enum survivors how, uint32_t at, uint32_t middle)
{
    switch (how) {
    case ALL:
        return true;
    case SOME:
        return bt_rng_below(&p->rng, 2) == 0;
    case EARLY:
        return at < middle;
    case LATE:
        return at >= middle;
    default:
        return false;
    }
}

static void lose_sectors(struct sim_platter *p, struct sim_disk_file *f)
{
    uint32_t dirty = 0, at = 0;
    uint64_t lost = 0; /* the first write of which a sector was lost */
    for (uint32_t i = 0; i < f->shown; i++) {
        dirty += f->sector[i].dirty;
    }
    enum survivors how = bt_rng_below(&p->rng, SURVIVORS);
    uint32_t middle = bt_rng_below(&p->rng, dirty + 1);
    for (uint32_t i = 0; i < f->shown; i++) {
        struct sim_sector *s = &f->sector[i];
        if (!s->dirty) {
            continue;
        }
        if (survives(p, how, at++, middle)) {
            lay(f, i);
            p->seen[SIM_DISK_KEPT]++;
            p->seen[SIM_DISK_REORDERED] += lost != 0;
        } else {
            p->seen[SIM_DISK_LOST]++;
            lost = lost == 0 ? s->written : lost;
        }
    }
    for (uint32_t i = 0; i < f->room; i++) {
        memcpy(f->sector[i].shown, f->sector[i].lying, SIM_SECTOR);
        f->sector[i].dirty = false;
    }
    f->shown = f->lying;
}

void sim_platter_power(struct sim_platter *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->files; i++) {
        struct sim_disk_file *f = &p->file[i];
        lose_sectors(p, f);
        if (f->name_dirty && bt_rng_below(&p->rng, 2) == 0) {
            f->named_lying = f->named;
        }
        p->seen[SIM_DISK_NAMES_LOST] += f->named_lying != f->named;
        f->named = f->named_lying;
        f->name_dirty = false;
        if (f->named) {
            p->file[kept++] = *f;
        } else {
            free(f->sector);
        }
    }
    p->files = kept;
}

static bool hollow(const struct sim_sector *s)
{
    return s->lying[0] == 0 && memcmp(s->lying, s->lying + 1, SIM_SECTOR - 1) == 0;
}

/* A sector that is not empty, drawn from all; place: only from those at that place of their files, UINT32_MAX: from
 * all. NULL when there is none; *at: where it lies in its file. */
static struct sim_sector *draw(struct sim_platter *p, uint32_t place, uint32_t *at)
{
    uint32_t found = 0;
    struct sim_sector *drawn = NULL;
    for (uint32_t i = 0; i < p->files; i++) {
        for (uint32_t k = 0; k < p->file[i].lying; k++) {
            bool asked = place == UINT32_MAX || place == k;
            if (asked && !hollow(&p->file[i].sector[k]) && bt_rng_below(&p->rng, ++found) == 0) {
                drawn = &p->file[i].sector[k];
                *at = k;
            }
        }
    }
    return drawn;
}

bool sim_platter_rot(struct sim_platter *p, enum sim_disk_seen kind)
{
    uint32_t at = 0, from = 0;
    struct sim_sector *s = draw(p, UINT32_MAX, &at);
    struct sim_sector *other = draw(p, bt_rng_below(&p->rng, 4) > 0 ? at : UINT32_MAX, &from);
    if (s == NULL || (kind == SIM_DISK_MOVED && other == s)) {
        return false;
    }
    if (kind == SIM_DISK_FLIPPED) {
        uint32_t bit = bt_rng_below(&p->rng, SIM_SECTOR * 8);
        s->lying[bit / 8] ^= (uint8_t)(1u << bit % 8);
    } else if (kind == SIM_DISK_MOVED) {
        memcpy(s->lying, other->lying, SIM_SECTOR);
    } else {
        memset(s->lying, 0, SIM_SECTOR);
    }
    memcpy(s->shown, s->lying, SIM_SECTOR);
    p->seen[kind]++;
    return true;
}

void sim_platter_free(struct sim_platter *p)
{
    for (uint32_t i = 0; i < p->files; i++) {
        free(p->file[i].sector);
    }
    p->files = 0;
}
