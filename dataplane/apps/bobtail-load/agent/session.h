// SPDX-License-Identifier: Apache-2.0
// One coordinator's connection, once it was let in: its requests, our answers.
#ifndef BT_APPS_AGENT_SESSION_H
#define BT_APPS_AGENT_SESSION_H

#include "agent/agent.h"
#include "ctl/json_out.h"

#define SESSION_LINE   1048576u
#define SESSION_NONCE  32u // bytes
#define SESSION_SECRET 4096u
#define AGENT_CONTRACT 2

struct session_secret {
    uint8_t bytes[SESSION_SECRET];
    size_t n; // 0: nobody is asked to prove anything
};

// What takes time and is answered when it is done. Nothing else is read meanwhile.
enum session_later { SESSION_NOTHING, SESSION_CONFIGURING, SESSION_STOPPING };

struct session {
    int fd;
    struct agent agent;
    bool over;
    uint64_t lease_ns, heard_ns; // the coordinator is dead when nothing was heard for so long
    enum session_later later;
    uint64_t give_up_ns; // of STOPPING
    // The thread that connects and preloads (CONFIGURING); it alone touches the agent while it runs.
    pthread_t setup;
    _Atomic bool setup_done;
    bool setup_ok;
    struct bt_ctl_error setup_error;
    int setup_fd; // an eventfd that wakes the control thread
    char *line;   // SESSION_LINE bytes and a NUL
    size_t have;
};

// A peer that was let in, and the `have` bytes it has said already. False when there is no memory.
bool session_begin(struct session *s, int fd, uint64_t lease_ns, const char *said, size_t have);
// Reads what is there and answers whole lines; sets `over` when the connection is to be closed.
void session_read(struct session *s);
// Answers what has come to its end, and looks whether the lease has.
void session_tick(struct session *s, uint64_t now_ns);
// Ends the load and forgets everything.
void session_end(struct session *s);

// Writes to a peer that may be slow; false when it is gone or takes nothing for patience_ms.
bool session_write(int fd, const void *bytes, size_t n, int patience_ms);
// Ends the line, sends and frees it.
bool session_send_line(int fd, struct bt_json_out *o, int patience_ms);
// {"ok":false,"error":…}
void session_put_error(struct bt_json_out *o, const struct bt_ctl_error *e);

// auth.c: the proof of one side, 64 hexadecimal digits and a NUL; label names the side.
void session_proof(const struct session_secret *secret, const char *label, const char *first, const char *second,
                   char out[65]);

// operations.c: answers one request into o (a whole object), or false with e. What takes time sets
// s->later and answers nothing yet: session_finish does, once it is done.
bool session_operation(struct session *s, const char *op, const char *line, size_t len, struct bt_json_out *o,
                       struct bt_ctl_error *e);
// Is what takes time done?
bool session_done(const struct session *s, uint64_t now_ns);
bool session_finish(struct session *s, struct bt_json_out *o, struct bt_ctl_error *e);
// The samples that follow the answer to "samples": sent by session_read.
bool session_send_samples(struct session *s);

// setup.c: agent_workers_start in a thread of its own; false when there is none to be had.
bool session_setup_begin(struct session *s, struct bt_ctl_error *e);
// Waits for it; it is told to hurry when its work is no longer wanted.
void session_setup_end(struct session *s, bool wanted);

// report.c: the answer to "poll".
void session_report(struct agent *a, struct bt_json_out *o);
const char *session_state_name(const struct agent *a);

#endif
