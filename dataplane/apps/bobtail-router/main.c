// SPDX-License-Identifier: Apache-2.0
// bobtail-router: from the command line to the packet loop and back.
#include "router_app.h"

#include "io/mtu.h"
#include "shell/alive.h"
#include "shell/log.h"
#include "shell/pool.h"
#include "shell/start.h"
#include "shell/stop.h"
#include "wire/r2p2.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// The longest central queue a configuration may ask for, and packets on their way.
#define BUFFERS (1048576u + 16384u)

static bool open_network(struct router_app *app, const struct bt_addr local[2])
{
    char why[256];
    app->network = bt_network_open(&app->opt.network, &local[0], app->opt.threads, BUFFERS);
    if (app->network == NULL) {
        return false;
    }
    bt_network_describe(app->network, &app->opt.network, &app->device);
    app->pool = bt_network_pool(app->network, 0);
    bool two = app->opt.threads == 2; // each thread has the port it serves
    app->io = bt_network_io(app->network, 0, &(struct bt_network_ports){local, two ? 1 : 2, true}, why, sizeof why);
    app->two.request_io = app->io;
    if (two && app->io != NULL) {
        app->two.feedback_io =
            bt_network_io(app->network, 1, &(struct bt_network_ports){&local[1], 1, false}, why, sizeof why);
    }
    if (app->io == NULL || (two && app->two.feedback_io == NULL)) {
        bt_log_error("%s", why);
        return false;
    }
    if (!bt_network_mtu(app->network, app->opt.mtu, &app->mtu)) {
        return false;
    }
    if (app->mtu == 0) {
        app->mtu = bt_mtu_of(&local[0]);
    }
    app->datagram = bt_r2p2_datagram_max(app->mtu, bt_addr_is_v4(&local[0]));
    return true;
}

static void *map_router(struct router_app *app, size_t bytes)
{
    app->router_mem = bt_map(bytes);
    if (app->router_mem != NULL) {
        (void)madvise(app->router_mem, bytes, MADV_HUGEPAGE); // tables are looked up by hash: each look is another page
    }
    return app->router_mem;
}

static bool make_router(struct router_app *app, const struct bt_addr local[2])
{
    struct bt_router_setup setup = {.threads = app->opt.threads,
                                    .seed = bt_new_seed(),
                                    .pool = app->pool,
                                    .feedback_pool = bt_network_pool(app->network, app->opt.threads - 1),
                                    .request_addr = local[0],
                                    .feedback_addr = local[1],
                                    .traces = &app->traces};
    app->started_ns = bt_io_now(app->io);
    size_t bytes = bt_router_bytes(&setup);
    app->router = app->two.router = bt_router_init(map_router(app, bytes), bytes, &setup, app->started_ns);
    if (app->router == NULL) {
        bt_log_error("cannot allocate %zu bytes for the router", bytes);
    }
    return app->router != NULL;
}

static bool start_threads(struct router_app *app)
{
    const struct bt_cpus *cpus = &app->opt.network.cpus;
    int error = app->two.feedback_io != NULL ? router_threads_start(&app->two) : 0;
    if (error != 0) {
        bt_log_error("cannot start the FEEDBACK thread: %s", strerror(error));
        return false;
    }
    return bt_cpus_pin(cpus, 0, pthread_self()) && (!app->two.running || bt_cpus_pin(cpus, 1, app->two.feedback));
}

static void close_network(struct router_app *app)
{
    app->io->ops->close(app->io);
    if (app->two.feedback_io != NULL) {
        app->two.feedback_io->ops->close(app->two.feedback_io);
    }
    bt_network_close(app->network);
}

static bool start_control(struct router_app *app)
{
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &router_ctl_app,
                                                           .arg = app,
                                                           .incarnation = bt_new_incarnation(),
                                                           .socket = app->opt.ctl,
                                                           .key_dir = app->opt.key_dir,
                                                           .config = app->opt.config,
                                                           .config_cache = app->opt.config_cache,
                                                           .io = app->io},
                                &app->mailbox);
    return app->ctl != NULL;
}

static int run(int argc, char **argv)
{
    static struct router_app app;
    struct bt_addr local[2];
    char text[BT_ADDR_TEXT];
    enum bt_cli_result result = router_options_read(argc, argv, &app.opt, local);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    if (app.opt.alive != NULL) {
        return bt_alive(app.opt.alive) ? 0 : 1;
    }
    bt_log_init("bobtail-router", (enum bt_log_format)app.opt.log);
    if (sodium_init() < 0) {
        bt_log_error("libsodium does not start");
        return 1;
    }
    if (!open_network(&app, local) || !make_router(&app, local)) {
        return 1;
    }
    bt_stop_install(app.io);
    if (!fast_path_open(&app, local) || !start_control(&app) || !start_threads(&app)) {
        return 1;
    }
    bt_log_info("version %s, requests on %s, FEEDBACK on port %u, MTU %u%s", BOBTAIL_VERSION,
                bt_addr_format(&local[0], text), local[1].port, app.mtu, app.opt.mtu == 0 ? " (auto)" : "");
    router_loop(&app);
    fast_path_close(&app);
    router_threads_stop(&app.two);
    bt_mailbox_close(&app.mailbox);
    bt_ctl_stop(app.ctl);
    bt_router_discard_held(app.router);
    bt_stop_install(NULL); // a late signal must not wake what is closed
    close_network(&app);
    return 0;
}

int main(int argc, char **argv)
{
    return bt_stop_status(run(argc, argv));
}
