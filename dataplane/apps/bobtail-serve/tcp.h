// SPDX-License-Identifier: Apache-2.0
// --protocol: requests over TCP, of the kernel (--driver=udp) or past it on a DPDK port (--driver=dpdk), which needs
// the stack of src/tcp. Synthetic answers that clients of the protocol take for one.
#ifndef BT_APPS_SERVE_TCP_H
#define BT_APPS_SERVE_TCP_H

#include "serve_app.h"

// Whether this program can do TCP past the kernel.
extern const bool serve_has_stack;

// stack.c, or no_stack.c: completes the setup for a DPDK port. False, logged: it cannot be opened.
bool serve_stack_open(struct serve_app *app, struct bt_run_tcp *tcp);
void serve_stack_close(struct serve_app *app);
void serve_stack_counters(struct serve_app *app, struct bt_ctl_samples *out);

static inline bool serve_is_tcp(const struct serve_app *app)
{
    return app->opt.protocol != SERVE_R2P2;
}

// tcp.c. False, logged.
bool serve_tcp_setup(struct serve_app *app, struct bt_run_tcp *tcp);
void serve_tcp_answer(const struct serve_app *app, struct bobtail_request *request);
void serve_tcp_counters(const struct serve_app *app, struct bt_ctl_samples *out);
uint64_t serve_tcp_requests(const struct serve_app *app);

#endif
