// SPDX-License-Identifier: Apache-2.0
// State of the control server shared by its files: the socket's thread (ctl_socket.c), requests
// (ctl_request.c), configurations (ctl_apply.c) and the texts of answers (ctl_reply.c).
#ifndef BT_CTL_CTL_INTERNAL_H
#define BT_CTL_CTL_INTERNAL_H

#include "ctl/ctl.h"
#include "ctl/json_out.h"

#include <pthread.h>

#define BT_CTL_CONNS 16u

#define BT_CTL_TRACES_MAX 128u // in an answer: some 250 bytes each

struct bt_ctl_traces {
    uint64_t after, next, lost, now_ns;
    size_t count;
    struct bt_trace trace[BT_CTL_TRACES_MAX];
};

struct bt_ctl {
    struct bt_ctl_app app;
    struct bt_ctl_options options;
    struct bt_mailbox *mailbox;
    char hash[BT_CONFIG_HASH]; // of the configuration in force, "" before the first
    struct bt_keyring keys;    // in force with it
    bool uncached;             // it could not be written to options.config_cache
    int listen_fd, stop_fd;
    // Peers that never said a word, in the order of their coming, then the others in that of their last word.
    int conns[BT_CTL_CONNS];
    unsigned n_conns, n_silent;
    bool started;
    pthread_t thread;
    char *buf;                      // one request
    struct bt_ctl_samples *samples; // scratch of "counters"
    struct bt_ctl_state state;      // scratch of "state", arrays allocated once
    struct bt_hist *hist;           // scratch of "histogram"
    struct bt_hist *part;           // and of its parts
    const char *total_name;         // asked for; the loop sets total_known and fills hist
    bool total_known;
    struct bt_ctl_traces traces; // scratch of "traces"
};

// Parses, loads keys, puts in force and remembers. *unchanged: it was in force already. direct:
// call the program from this thread instead of through the mailbox.
bool bt_ctl_apply_text(struct bt_ctl *c, const char *text, size_t len, bool direct, bool *unchanged,
                       struct bt_ctl_error *e);

void bt_ctl_reply_begin(struct bt_json_out *o, bool ok);
void bt_ctl_reply_error(struct bt_json_out *o, const struct bt_ctl_error *e);
// app: whose describe may add to it, in the loop only; NULL: nothing is added.
void bt_ctl_reply_state(struct bt_json_out *o, const char *hash, const struct bt_ctl_state *s,
                        const struct bt_ctl_app *app);
void bt_ctl_reply_samples(struct bt_json_out *o, const struct bt_ctl_samples *s);
void bt_ctl_reply_traces(struct bt_json_out *o, const struct bt_ctl_traces *t);
void bt_ctl_reply_histogram(struct bt_json_out *o, const char *key, const struct bt_hist *h);

#endif
