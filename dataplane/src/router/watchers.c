// SPDX-License-Identifier: Apache-2.0
// The table of watchers of a router (watcher.h). Few rows: each is gone through in the order of registration.
#include "router/watchers.h"

/* Nothing that every packet of a router without watchers does: so calls through the rows stand in these functions
 * alone. */
#define RARE __attribute__((noinline))

#define EACH(r, row)                                                                                                   \
    for (const struct router_watcher *const *row = (r)->watchers.row; row < (r)->watchers.row + (r)->watchers.n; row++)

/* What follows from the rows. */
static void sum_up(struct bt_router *r)
{
    struct router_watchers *all = &r->watchers;
    all->forward = NULL;
    all->label = NULL;
    all->sent = NULL;
    all->changed = NULL;
    r->noted = r->none_steady = false;
    EACH(r, row)
    {
        const struct router_watcher *w = *row;
        all->forward = w->forward != NULL ? w->forward : all->forward;
        all->label = w->label != NULL ? w->label : all->label;
        all->sent = w->sent != NULL ? w->sent : all->sent;
        all->changed = w->changed != NULL ? w->changed : all->changed;
        r->noted = r->noted || w->notes;
        r->none_steady = r->none_steady || w->follow != NULL;
    }
}

void router_watchers_clear(struct bt_router *r)
{
    r->watchers.n = r->watchers.lasting;
    sum_up(r);
}

void router_watchers_add(struct bt_router *r, const struct router_watcher *watcher)
{
    assert(r->watchers.n < ROUTER_WATCHERS_MAX);
    r->watchers.row[r->watchers.n++] = watcher;
    sum_up(r);
}

void router_watchers_last(struct bt_router *r)
{
    r->watchers.lasting = r->watchers.n;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

RARE void router_tell_arrived(struct bt_router *r)
{
    EACH(r, row)
    {
        if ((*row)->arrived != NULL) {
            (*row)->arrived(r);
        }
    }
}

RARE bool router_ask_admit(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr **hdr,
                           struct bt_r2p2_hdr *room, struct bt_txq *txq)
{
    EACH(r, row)
    {
        if ((*row)->admit != NULL && !(*row)->admit(r, now, pkt, hdr, room, txq)) {
            return false;
        }
    }
    return true;
}

RARE bool router_ask_send(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                          struct bt_txq *txq)
{
    EACH(r, row)
    {
        if ((*row)->send != NULL && (*row)->send(r, now, pkt, hdr, txq)) {
            return true;
        }
    }
    return false;
}

RARE bool router_forward_watched(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                                 struct router_target to, struct bt_txq *txq)
{
    return r->watchers.forward(r, now, pkt, hdr, to, txq);
}

RARE uint8_t router_label(const struct bt_router *r, const struct bt_r2p2_hdr *hdr)
{
    return r->watchers.label != NULL ? r->watchers.label(hdr) : 0;
}

/* --- pairs ------------------------------------------------------------------------------------------------------- */

RARE void router_tell_began(struct bt_router *r, uint32_t i, uint8_t label)
{
    r->pairs.slab[i].label = label;
    r->pairs.slab[i].hedge = 0;
    EACH(r, row)
    {
        if ((*row)->began != NULL) {
            (*row)->began(r, i);
        }
    }
}

RARE enum router_end router_tell_ended(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved)
{
    enum router_end end = ROUTER_END;
    EACH(r, row)
    {
        enum router_end says = (*row)->ended != NULL ? (*row)->ended(r, now, i, unserved) : ROUTER_END;
        if (says == ROUTER_TAKEN_BACK) {
            return says;
        }
        end = says == ROUTER_END_LATE ? says : end;
    }
    return end;
}

RARE bool router_tell_gone(struct bt_router *r, uint32_t i, bool reused)
{
    bool last = true;
    EACH(r, row)
    {
        if ((*row)->gone != NULL && !(*row)->gone(r, i, reused)) {
            last = false;
        }
    }
    return last;
}

RARE void router_tell_forgotten(struct bt_router *r, uint32_t i)
{
    EACH(r, row)
    {
        if ((*row)->forgotten != NULL) {
            (*row)->forgotten(r, i);
        }
    }
}

RARE void router_tell_unseen(struct bt_router *r)
{
    EACH(r, row)
    {
        if ((*row)->unseen != NULL) {
            (*row)->unseen(r);
        }
    }
}

RARE uint32_t router_twin(const struct bt_router *r, uint32_t i)
{
    uint32_t twin = 0;
    EACH(r, row)
    {
        twin = twin == 0 && (*row)->twin != NULL ? (*row)->twin(r, i) : twin;
    }
    return twin;
}

RARE bool router_is_stale(const struct bt_router *r, uint32_t w, const struct bt_feedback *fb)
{
    EACH(r, row)
    {
        if ((*row)->stale != NULL && (*row)->stale(r, w, fb)) {
            return true;
        }
    }
    return false;
}

/* --- time -------------------------------------------------------------------------------------------------------- */

RARE void router_tell_follow(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    EACH(r, row)
    {
        if ((*row)->follow != NULL) {
            (*row)->follow(r, now, txq);
        }
    }
}

RARE void router_tell_tick(struct bt_router *r, uint64_t now)
{
    EACH(r, row)
    {
        if ((*row)->tick != NULL) {
            (*row)->tick(r, now);
        }
    }
}

RARE uint64_t router_watchers_next(const struct bt_router *r)
{
    uint64_t next = UINT64_MAX;
    EACH(r, row)
    {
        uint64_t wants = (*row)->next != NULL ? (*row)->next(r) : UINT64_MAX;
        next = wants < next ? wants : next;
    }
    return next;
}
