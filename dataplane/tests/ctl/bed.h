// SPDX-License-Identifier: Apache-2.0
// A control server over a program that only remembers what it was told, with a thread that plays
// the packet loop.
#ifndef BT_TESTS_CTL_BED_H
#define BT_TESTS_CTL_BED_H

#include "ctl/ctl.h"

#include <pthread.h>
#include <stdatomic.h>

struct bed {
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    pthread_t loop;
    pthread_t loop_id; // who answered last
    atomic_bool stop;
    struct bt_hist_slices *slices;
    struct bt_hist total;
    struct bt_trace_ring traces;
    atomic_uint arriving; // requests on their way to the loop, which records them as it takes them
    uint64_t now;
    // What the program was told.
    unsigned applied, left;
    int64_t depth; // of the last configuration
    unsigned n_keys;
    bool refuse;  // refuse the next configuration
    char dir[40]; // for sockets, caches and keys
    char cache[80], socket[80];
};

// with_loop false: nobody polls the mailbox.
void bed_open(struct bed *b, bool with_loop);
void bed_close(struct bed *b);

// The good document of the vectors; malloc'd.
char *bed_document(size_t *len);

// {"v":1,"op":"apply","hash":…,"config":…}; malloc'd. hash NULL: the right one.
char *bed_apply_request(const char *config, const char *hash);

#endif
