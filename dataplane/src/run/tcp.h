// SPDX-License-Identifier: Apache-2.0
// TCP at a home (D-4, D-5): a listener for each core, connections that are flows, requests cut by src/wire. All
// of it with the home's token. Replies of a connection leave in the order of its requests (Z-22).
#ifndef BT_RUN_TCP_H
#define BT_RUN_TCP_H

#include "run/run_internal.h"

// False with a sentence in err.
bool run_tcp_open(struct run_home *home, const struct bt_run_tcp *setup, char *err, size_t errlen);
void run_tcp_close(struct run_home *home);
// As bt_io_ops' have it: what is to be watched for it, and when it wants a turn all the same.
unsigned run_tcp_watch(const struct run_home *home, int *fds, unsigned max);
uint64_t run_tcp_next(const struct run_home *home);
// What the flow's execution left becomes replies.
void run_tcp_answer(struct run_home *home, uint32_t flow);
// Takes connections and requests, at most a batch of events; true when there may be more.
bool run_tcp_poll(struct run_home *home);
void run_tcp_end_listening(struct run_home *home);
// Requests that are not answered, and replies that have not left.
// After a turn: what was written goes.
void run_tcp_flush(struct run_home *home);
uint32_t run_tcp_backlog(const struct run_home *home);
const _Atomic uint64_t *run_tcp_counters(const struct run_home *home);

#endif
