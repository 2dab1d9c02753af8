// SPDX-License-Identifier: Apache-2.0
// What a router can do besides: each feature is a row of functions for what happens once or at an apply; while it is on
// it watches requests (watcher.h). A new one is one row in features.c.
#ifndef BOBTAIL_ROUTER_FEATURE_H
#define BOBTAIL_ROUTER_FEATURE_H

#include "base/mem.h"
#include "router/state.h"

struct router_feature {
    /* Takes its memory, or only measures when mem has none. */
    void (*lay_out)(struct bt_router *r, struct bt_mem *mem, const struct bt_router_setup *setup);
    /* The memory is there. NULL: nothing to do. */
    void (*init)(struct bt_router *r, const struct bt_router_setup *setup);
    /* NULL, or what is wrong with the field of the configuration that *field names. */
    const char *(*judge)(const struct bt_router *r, const struct bt_router_config *config, const char **field);
    /* A configuration that was judged; its watcher is off, and it puts it on again if it is to be on. */
    void (*apply)(struct bt_router *r, uint64_t now, const struct bt_router_config *config);
    /* On two threads: the half that takes requests, q, does as the other one. NULL: it is for one thread. */
    void (*share)(struct bt_router *q, const struct bt_router *f);
    void (*tell)(const struct bt_router *r, uint64_t now, struct bt_router_stats *out);
};

extern const struct router_feature router_admission_feature; /* admit.c */
extern const struct router_feature router_hedging_feature;   /* hedging.c */

#define ROUTER_FEATURES 2u
extern const struct router_feature *const router_features[ROUTER_FEATURES]; /* features.c */

#endif
