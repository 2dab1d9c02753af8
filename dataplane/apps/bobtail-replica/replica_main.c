// SPDX-License-Identifier: Apache-2.0
// r2p2_replica_main: from the command line to the loop and back.
#include "replica_app.h"

#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <sodium.h>
#include <string.h>

#define BUFFERS 65536u // address space only; see shell/pool.h

static struct replica_app *running; // the one of this process, for the service's calls

int r2p2_replica_send_response(r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    return running != NULL ? bt_member_respond(running->member, handle, iov, iovcnt) : R2P2_ERR_BAD_ARGUMENT;
}

int r2p2_replica_read_only(r2p2_handle_t handle)
{
    return running != NULL && bt_member_read_only(running->member, handle);
}

static void wake(void *arg)
{
    struct replica_app *app = arg;
    bt_io_wake(atomic_load(&app->io));
}

static bool start_control(struct replica_app *app)
{
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &replica_ctl_app,
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

static bool prepare(struct replica_app *app)
{
    bt_txq_init(&app->txq);
    app->latency = bt_map(bt_hist_slices_bytes());
    if (app->latency == NULL || !bt_pool_mapped_open(&app->pool, BUFFERS)) {
        bt_log_error("out of memory");
        return false;
    }
    app->started_ns = bt_monotonic_ns();
    bt_hist_slices_init(app->latency, app->started_ns);
    app->idle = bt_idle_port(&app->pool.pool);
    if (app->idle == NULL) {
        return false;
    }
    atomic_store(&app->io, app->idle);
    return true;
}

static void end(struct replica_app *app)
{
    bt_mailbox_close(&app->mailbox);
    bt_ctl_stop(app->ctl);
    bt_member_close(app->member);
    bt_stop_install(NULL); // a late signal must not wake what is closed
    struct bt_io *io = atomic_load(&app->io);
    if (io != app->idle) {
        io->ops->close(io);
    }
    app->idle->ops->close(app->idle);
    bt_pool_mapped_close(&app->pool);
}

int r2p2_replica_main(int argc, char **argv, const struct r2p2_replica_service *service)
{
    static struct replica_app app;
    enum bt_cli_result result = replica_options_read(argc, argv, service, &app.opt, &app.override);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    bt_log_init(service->name, (enum bt_log_format)app.opt.log);
    app.service = service;
    app.incarnation = bt_new_incarnation();
    running = &app;
    if (sodium_init() < 0) {
        bt_log_error("libsodium does not start");
        return 1;
    }
    if (app.opt.backup_to != NULL || app.opt.restore_from != NULL) {
        return replica_copies(&app.opt);
    }
    if (!prepare(&app)) {
        return 1;
    }
    bt_stop_install(app.idle);
    if (!start_control(&app)) {
        return 1;
    }
    bt_log_info("version %s, member %s, %s", BOBTAIL_VERSION, app.opt.name,
                app.member != NULL ? "has its document" : "waits for a document");
    replica_loop(&app);
    end(&app);
    bt_log_info("stopped");
    return 0;
}
