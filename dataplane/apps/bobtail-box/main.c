// SPDX-License-Identifier: Apache-2.0
// bobtail-box: the flow-control box of a HovercRaft group (run/box.h).
#include "box_app.h"

#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <sodium.h>

#define BUFFERS 65536u // address space only; see shell/pool.h
#define LOOK_NS UINT64_C(1000000000)

static void wake(void *arg)
{
    struct box_app *app = arg;
    bt_io_wake(atomic_load(&app->io));
}

static bool prepare(struct box_app *app)
{
    bt_txq_init(&app->txq);
    if (sodium_init() < 0 || !bt_pool_mapped_open(&app->pool, BUFFERS)) {
        bt_log_error("out of memory, or libsodium does not start");
        return false;
    }
    app->started_ns = bt_monotonic_ns();
    app->idle = bt_idle_port(&app->pool.pool);
    if (app->idle == NULL) {
        return false;
    }
    atomic_store(&app->io, app->idle);
    bt_stop_install(app->idle);
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &box_ctl_app,
                                                           .arg = app,
                                                           .incarnation = app->incarnation,
                                                           .socket = app->opt.ctl,
                                                           .key_dir = app->opt.key_dir,
                                                           .config = app->opt.config,
                                                           .config_cache = app->opt.config_cache,
                                                           .wake = wake,
                                                           .wake_arg = app},
                                &app->mailbox);
    return app->ctl != NULL;
}

// FEEDBACK goes first: it makes room.
static void take_packets(struct box_app *app, struct bt_io *io)
{
    static const uint32_t locals[] = {BT_BOX_FEEDBACK, BT_BOX_CLIENTS};
    struct bt_pkt *pkts[BT_IO_BATCH];
    for (unsigned l = 0; app->box != NULL && l < 2; l++) {
        unsigned n = bt_io_rx(io, locals[l], pkts, BT_IO_BATCH);
        for (unsigned i = 0; i < n; i++) {
            bt_box_front_receive(app->box, bt_io_now(io), pkts[i]);
        }
    }
}

static void loop(struct box_app *app)
{
    while (bt_stop_count() == 0) {
        struct bt_io *io = atomic_load(&app->io);
        bt_io_tx(io, &app->txq);
        bt_io_wait(io, bt_io_now(io) + LOOK_NS);
        take_packets(app, io);
        bt_mailbox_poll(&app->mailbox);
    }
    bt_io_tx(atomic_load(&app->io), &app->txq);
}

static void end(struct box_app *app)
{
    bt_mailbox_close(&app->mailbox);
    bt_ctl_stop(app->ctl);
    bt_box_front_close(app->box);
    bt_stop_install(NULL); // a late signal must not wake what is closed
    struct bt_io *io = atomic_load(&app->io);
    if (io != app->idle) {
        io->ops->close(io);
    }
    app->idle->ops->close(app->idle);
    bt_pool_mapped_close(&app->pool);
}

int main(int argc, char **argv)
{
    static struct box_app app;
    enum bt_cli_result result = box_options_read(argc, argv, &app.opt, &app.override);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    bt_log_init("bobtail-box", (enum bt_log_format)app.opt.log);
    app.incarnation = bt_new_incarnation();
    if (!prepare(&app)) {
        return 1;
    }
    bt_log_info("version %s, box %s, %s", BOBTAIL_VERSION, app.opt.name,
                app.box != NULL ? "has its document" : "waits for a document");
    loop(&app);
    end(&app);
    bt_log_info("stopped");
    return 0;
}
