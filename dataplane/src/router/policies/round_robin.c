// SPDX-License-Identifier: Apache-2.0
// Round robin: the next worker of the ring that is up.
#include "router/policy.h"

uint32_t bt_pick_round_robin(struct bt_load *load)
{
    if (load->up_n == 0) {
        return BT_NO_WORKER;
    }
    uint32_t i = load->next >> 6;
    uint64_t here = load->up[i] & (~UINT64_C(0) << (load->next & 63u));
    while (here == 0) { /* somebody is up */
        i = i < (load->span - 1u) >> 6 ? i + 1u : 0;
        here = load->up[i];
    }
    uint32_t w = (i << 6) | (uint32_t)__builtin_ctzll(here);
    load->next = w + 1u < load->span ? w + 1u : 0;
    return w;
}
