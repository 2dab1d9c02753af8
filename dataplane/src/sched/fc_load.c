// SPDX-License-Identifier: Apache-2.0
// See fc_load.h.
#include "sched/fc_load.h"

#include <math.h>
#include <stddef.h>

const char *const bt_fc_model_words[BT_FC_MODELS + 1] = {
    [BT_FC_REFINED] = "Refined", [BT_FC_PAPER] = "Paper", [BT_FC_MODELS] = NULL};

enum { HALVINGS = 40 };

// F-2: waits are taken for exponential, so the mean that meets the objective follows from it; F-3 solves F-1 for load.
static double paper(const struct bt_fc_objective *o, double mean_ns, double cv2)
{
    double target = -o->wait_ns / log(1 - o->percentile);
    return 2 * target / (2 * target + mean_ns * (1 + cv2));
}

// Erlang C: the share of requests that find all cores busy.
static double waits_at_all(uint32_t cores, double load)
{
    double blocked = 1, offered = cores * load;
    for (uint32_t i = 1; i <= cores; i++) {
        blocked = offered * blocked / (i + offered * blocked);
    }
    return blocked / (1 - load * (1 - blocked));
}

// F-6, and for more cores F-21: of the requests that wait at all, how many wait for longer.
static double refined(const struct bt_fc_objective *o, double mean_ns, double cv2)
{
    double low = 0, high = 1, rate = 2 * o->cores * o->wait_ns / (mean_ns * (1 + cv2));
    for (int i = 0; i < HALVINGS; i++) {
        double load = (low + high) / 2;
        bool late = waits_at_all(o->cores, load) * exp(-rate * (1 - load)) > 1 - o->percentile;
        *(late ? &high : &low) = load;
    }
    return low;
}

double bt_fc_solve(const struct bt_fc_objective *o, double mean_ns, double cv2)
{
    return o->model == BT_FC_PAPER ? paper(o, mean_ns, cv2) : refined(o, mean_ns, cv2);
}

double bt_fc_load(const struct bt_fc_objective *o, double mean_ns, double cv2)
{
    return fmin(BT_FC_LOAD_MAX, fmax(BT_FC_LOAD_MIN, bt_fc_solve(o, mean_ns, cv2)));
}
