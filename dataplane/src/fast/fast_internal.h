// SPDX-License-Identifier: Apache-2.0
// Between the files of this room.
#ifndef BOBTAIL_FAST_INTERNAL_H
#define BOBTAIL_FAST_INTERNAL_H

#include <bpf/libbpf.h>
#include <net/if.h>

#include "fast/fast.h"

// What lies in state_map: the program's struct state.
struct lent {
    uint32_t lock, spare;
    struct bt_delegation d;
};

struct bt_fast {
    struct bpf_object *object;
    int program_fd, state_fd, link_fd;
    struct bt_delegation_place place;
    struct bt_delegation_log *log;
    size_t log_bytes;
    char device[IF_NAMESIZE];
    uint64_t tail; // notes read
    bool lent;
    struct lent terms; // of the loan
    bool cut_short;    // the last loan was ended by the router
    struct lent seen;  // and what the kernel had then
    uint64_t rest_ns, rests_until;
    enum bt_lend why_not;
    uint64_t loans, disagreed, passed[BT_PASS_REASONS];
};

#endif
