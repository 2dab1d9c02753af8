// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

void bt_trace_note(struct bt_trace_ring *ring, const struct bt_trace *t)
{
    if (ring != NULL) {
        ring->trace[ring->written++ % BT_TRACES] = *t;
    }
}

size_t bt_trace_read(const struct bt_trace_ring *ring, uint64_t after, struct bt_trace *out, size_t n, uint64_t *next,
                     uint64_t *lost)
{
    uint64_t from = after <= ring->written ? after : 0;
    uint64_t oldest = ring->written > BT_TRACES ? ring->written - BT_TRACES : 0;
    *lost = oldest > from ? oldest - from : 0;
    from += *lost;
    size_t count = 0;
    while (count < n && from < ring->written) {
        out[count++] = ring->trace[from++ % BT_TRACES];
    }
    *next = from;
    return count;
}
