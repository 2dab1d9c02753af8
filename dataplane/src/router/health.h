// SPDX-License-Identifier: Apache-2.0
// Workers that fail (health.c).
#ifndef BOBTAIL_ROUTER_HEALTH_H
#define BOBTAIL_ROUTER_HEALTH_H

#include "router/state.h"

#define ROUTER_WINDOW_MAX 256u /* pairs; then both counts are halved, so that old success cannot hide new failure */

void router_health(struct bt_router *r, uint64_t now);
void router_health_soon(struct bt_router *r, uint64_t now);
void router_note_finished(struct bt_router *r, uint64_t now, uint32_t w, uint8_t unserved); /* as router_watch_end */

/* The same for a pair that was served, when nothing but a count comes of it (R-139a); otherwise false and not done. */
static inline bool router_note_served(struct worker *worker)
{
    uint32_t total = worker->window_total + 1u;
    if (__builtin_expect(worker->ejections != 0 || total == ROUTER_WINDOW_MAX, 0)) {
        return false;
    }
    worker->window_total = total;
    return true;
}

#endif
