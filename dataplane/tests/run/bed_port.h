// SPDX-License-Identifier: Apache-2.0
// A small server's port, for cores whose network a test plays itself.
#ifndef BT_TESTS_RUN_BED_PORT_H
#define BT_TESTS_RUN_BED_PORT_H

#include "run/run_internal.h"

static inline struct bt_run_port small_port(struct bt_io *io, uint32_t thread, struct bt_pool *pool)
{
    return (struct bt_run_port){.io = io,
                                .server = {.local = bt_addr_v4u(0x0a000002, (uint16_t)(8000 + thread)),
                                           .mtu = 1500,
                                           .n = 3,
                                           .feedback_port = 9000,
                                           .max_pending = 64,
                                           .max_assemblies = 4,
                                           .max_done = 64,
                                           .max_held = 4,
                                           .max_message = 65536,
                                           .incarnation = 7,
                                           .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                           .seed = {1, 2},
                                           .pool = pool}};
}

#endif
