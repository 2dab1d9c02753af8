// SPDX-License-Identifier: Apache-2.0
// How much load a server may take so that requests do not wait longer than an objective says: Poisson arrivals, any
// service times of which mean and variance are known.
#ifndef BT_SCHED_FC_LOAD_H
#define BT_SCHED_FC_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define BT_FC_LOAD_MIN 0.05 // F-8: what is admitted at least, and at most
#define BT_FC_LOAD_MAX 0.98
#define BT_FC_CV2_MAX  20.0 // above it the closed forms say nothing of use

enum bt_fc_model {
    BT_FC_REFINED, // F-6, F-21: looks at the share that does not wait at all
    BT_FC_PAPER,   // F-1 to F-3: as published, and above the objective (F-6)
    BT_FC_MODELS
};

extern const char *const bt_fc_model_words[BT_FC_MODELS + 1]; // NULL at the end

// At most 1 - percentile of the requests may wait longer than wait_ns.
struct bt_fc_objective {
    double wait_ns;    // above 0
    double percentile; // 0.5…0.9999
    uint32_t cores;    // that serve one queue, 1…16
    enum bt_fc_model model;
};

// Load of a core, 0…1, before F-8: mean_ns above 0, cv2 the squared coefficient of variation of the service time.
double bt_fc_solve(const struct bt_fc_objective *o, double mean_ns, double cv2);
// The same within F-8's bounds.
double bt_fc_load(const struct bt_fc_objective *o, double mean_ns, double cv2);

#endif
