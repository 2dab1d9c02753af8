// SPDX-License-Identifier: Apache-2.0
// Programs that stand beside the members of a replication group: the flow-control box, and the aggregator. They read
// the group's document and keys like a member, have addresses of their own in it, and keep nothing that they could not
// lose. What they do alike is here: options, sockets, documents, control socket, loop. What one of them is, is a
// struct beside_kind. One thread owns all of it: the packet loop. The control thread comes in through the mailbox.
#ifndef BT_APPS_BESIDE_H
#define BT_APPS_BESIDE_H

#include "ctl/ctl.h"
#include "ctl/group_document.h"
#include "io/io.h"
#include "shell/cli.h"
#include "shell/pool.h"

#include <stdatomic.h>

#define BESIDE_PORTS 2u

// What the thing itself is made of.
struct beside_made_of {
    const struct bt_group_document *document; // to be copied
    struct bt_addr local[BESIDE_PORTS];       // as bound
    const struct bt_keyring *keys;
    uint16_t mtu;
    struct bt_pool *pool;
    struct bt_txq *txq; // where packets go
    int extra;          // value of the kind's own option
};

// One of these programs. `it` is what open gave.
struct beside_kind {
    const char *program, *summary, *epilogue;
    const char *word;           // "box": what people call it, and its role in the control protocol
    const char *field;          // of the document, where it stands: "boxes"
    const char *buffers;        // name of the gauge of buffers in use
    unsigned ports;             // 1…BESIDE_PORTS; the last one is read first
    struct bt_cli_option extra; // an option of its own, its value an int; name NULL: none

    // Its addresses, as the document says. addressed: it was told its own, and needs the ports alone. False: the
    // document has no place for it, and *e says so.
    bool (*place)(const struct bt_group_document *d, const char *name, bool addressed,
                  struct bt_addr local[BESIDE_PORTS], struct bt_ctl_error *e);
    void *(*open)(const struct beside_made_of *m, uint64_t now); // NULL: no memory
    // A new document and new keys; place and may_follow were asked before. False: no memory, and all is as it was.
    bool (*reconfigure)(void *it, uint64_t now, const struct bt_group_document *d, const struct bt_keyring *keys);
    void (*close)(void *it);
    void (*receive)(void *it, uint64_t now, struct bt_pkt *pkt); // consumes the packet
    void (*counters)(void *it, uint64_t now, struct bt_ctl_samples *out);
    uint64_t (*backlog)(void *it, uint64_t now);
    void (*describe)(void *it, struct bt_json_out *o); // more fields of "state"; NULL: none
};

struct beside_options {
    const char *name, *address; // address NULL: the document's
    const char *config, *config_cache, *key_dir, *ctl;
    const char *alive; // a socket: only whether it is
    uint32_t mtu;      // 0: auto
    int log, extra;
};

struct beside {
    const struct beside_kind *kind;
    struct beside_options opt;
    struct bt_addr override; // --address; port 0: none
    struct bt_pool_mapped pool;
    struct bt_txq txq;
    struct bt_io *idle;                // nothing arrives there: what the loop waits at before its first document
    _Atomic(struct bt_io *) io;        // what it waits at
    void *it;                          // NULL: no document yet
    struct bt_group_document document; // in force, with `it`
    struct bt_addr bound[BESIDE_PORTS];
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    struct bt_ctl_app answers;
    uint64_t started_ns;
    uint32_t incarnation;
    bool leaving;
};

// All of a program: its exit status.
int beside_main(int argc, char **argv, const struct beside_kind *kind);

// options.c
enum bt_cli_result beside_options_read(int argc, char **argv, const struct beside_kind *kind, struct beside *b);

// document.c: the first one opens the sockets and makes the thing, later ones change it.
bool beside_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e);

// control.c
void beside_answers(struct beside *b);

#endif
