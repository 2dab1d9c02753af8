// SPDX-License-Identifier: Apache-2.0
// The slots of requests that are kept, and their lists (see hedging_slots.h).
#include "router/hedging_slots.h"

#define HUNDRED 100u

void hedging_unlist(struct router_hedging *h, uint32_t s)
{
    struct hedge_slot *slot = &h->slot[s];
    if (slot->listed) {
        h->slot[slot->older].newer = slot->newer;
        h->slot[slot->newer].older = slot->older;
        slot->listed = false;
    }
}

void hedging_list_behind(struct router_hedging *h, uint32_t s, uint32_t before)
{
    uint32_t after = h->slot[before].newer;
    h->slot[s].older = before;
    h->slot[s].newer = after;
    h->slot[before].newer = s;
    h->slot[after].older = s;
    h->slot[s].listed = true;
}

void hedging_release(struct router_hedging *h, uint32_t s)
{
    hedging_unlist(h, s);
    h->slot[s].newer = h->free;
    h->free = s;
    h->used--;
}

void hedging_copy_over(struct router_hedging *h, struct hedge_slot *slot, unsigned k)
{
    slot->copy[k].pair = 0;
    h->copies -= k != 0 && !slot->preempted;
    slot->preempted = slot->preempted && k == 0;
}

void hedging_refund(struct router_hedging *h)
{
    h->budget = h->budget + HUNDRED < HEDGING_BURST ? h->budget + HUNDRED : HEDGING_BURST;
}
