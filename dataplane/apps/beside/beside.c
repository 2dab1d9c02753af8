// SPDX-License-Identifier: Apache-2.0
// From the command line to the loop and back.
#include "beside.h"

#include "shell/alive.h"
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <sodium.h>

#define BUFFERS 65536u // address space only; see shell/pool.h
#define LOOK_NS UINT64_C(1000000000)

static void wake(void *arg)
{
    struct beside *b = arg;
    bt_io_wake(atomic_load(&b->io));
}

static bool prepare(struct beside *b)
{
    bt_txq_init(&b->txq);
    if (sodium_init() < 0 || !bt_pool_mapped_open(&b->pool, BUFFERS)) {
        bt_log_error("out of memory, or libsodium does not start");
        return false;
    }
    b->started_ns = bt_monotonic_ns();
    b->idle = bt_idle_port(&b->pool.pool);
    if (b->idle == NULL) {
        return false;
    }
    atomic_store(&b->io, b->idle);
    bt_stop_install(b->idle);
    beside_answers(b);
    b->ctl = bt_control_start(&(struct bt_control_start){.answers = &b->answers,
                                                         .arg = b,
                                                         .incarnation = b->incarnation,
                                                         .socket = b->opt.ctl,
                                                         .key_dir = b->opt.key_dir,
                                                         .config = b->opt.config,
                                                         .config_cache = b->opt.config_cache,
                                                         .wake = wake,
                                                         .wake_arg = b},
                              &b->mailbox);
    return b->ctl != NULL;
}

static void take_packets(struct beside *b, struct bt_io *io)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    for (unsigned local = b->kind->ports; b->it != NULL && local-- > 0;) {
        unsigned n = bt_io_rx(io, local, pkts, BT_IO_BATCH);
        for (unsigned i = 0; i < n; i++) {
            b->kind->receive(b->it, bt_io_now(io), pkts[i]);
        }
    }
}

static void loop(struct beside *b)
{
    while (bt_stop_count() == 0) {
        struct bt_io *io = atomic_load(&b->io);
        bt_io_tx(io, &b->txq);
        bt_io_wait(io, bt_io_now(io) + LOOK_NS);
        take_packets(b, io);
        bt_mailbox_poll(&b->mailbox);
    }
    bt_io_tx(atomic_load(&b->io), &b->txq);
}

static void end(struct beside *b)
{
    bt_mailbox_close(&b->mailbox);
    bt_ctl_stop(b->ctl);
    if (b->it != NULL) {
        b->kind->close(b->it);
    }
    bt_stop_install(NULL); // a late signal must not wake what is closed
    struct bt_io *io = atomic_load(&b->io);
    if (io != b->idle) {
        io->ops->close(io);
    }
    b->idle->ops->close(b->idle);
    bt_pool_mapped_close(&b->pool);
}

int beside_main(int argc, char **argv, const struct beside_kind *kind)
{
    static struct beside b;
    enum bt_cli_result result = beside_options_read(argc, argv, kind, &b);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    if (b.opt.alive != NULL) {
        return bt_alive(b.opt.alive) ? 0 : 1;
    }
    bt_log_init(kind->program, (enum bt_log_format)b.opt.log);
    b.kind = kind;
    b.incarnation = bt_new_incarnation();
    if (!prepare(&b)) {
        return 1;
    }
    bt_log_info("version %s, %s %s, %s", BOBTAIL_VERSION, kind->word, b.opt.name,
                b.it != NULL ? "has its document" : "waits for a document");
    loop(&b);
    end(&b);
    bt_log_info("stopped");
    return 0;
}
