// SPDX-License-Identifier: Apache-2.0
// What the ledger found: the names of the invariants, and the first breach.
#include <stdarg.h>
#include <stdio.h>

#include "world.h"

const char *const sim_invariant_names[SIM_INVARIANTS] = {
    "exactly-once", "content",    "one-execution", "served",     "share",     "reply-first", "own-bound",
    "true-bound",   "fifo",       "hold-time",     "membership", "unchanged", "credits",     "capacity",
    "service",      "buffers",    "progress",      "id-reuse",   "open",      "arithmetic",  "as-told",
    "lost",         "legacy",     "liveness",      "ejection",   "refused",   "admitted",    "second-copy",
    "live-copies",  "cleaned-up", "preempted",     "halves",     "conserved", "expected",
};

void sim_breach(struct sim_world *w, enum sim_invariant inv, const char *fmt, ...)
{
    struct sim_verdict *v = &w->ledger.verdict;
    if (v->first[0] == '\0') {
        char text[160];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        v->first_ns = w->agenda.now;
        v->first_invariant = inv;
        snprintf(v->first, sizeof v->first, "%s at %.6f ms: %s", sim_invariant_names[inv], (double)w->agenda.now / 1e6,
                 text);
    }
    v->broken[inv]++;
}
