// SPDX-License-Identifier: Apache-2.0
// bobtail-serve: from the command line to the I/O loop and back.
#include "serve_app.h"

#include "io/mtu.h"
#include "shell/log.h"
#include "shell/pool.h"
#include "shell/start.h"
#include "shell/stop.h"
#include "wire/r2p2.h"

#include <sodium.h>
#include <string.h>

// Address space only; see shell/pool.h.
#define BUFFERS 262144u

static bool open_network(struct serve_app *app)
{
    char why[256];
    struct bt_addr local[SERVE_WORKERS_MAX];
    for (unsigned i = 0; i < app->opt.workers; i++) {
        local[i] = app->opt.first;
        local[i].port = (uint16_t)(app->opt.first.port + i);
    }
    app->network = bt_network_open(&app->opt.network, &app->opt.first, 1, BUFFERS);
    if (app->network == NULL) {
        return false;
    }
    bt_network_describe(app->network, &app->opt.network, &app->device);
    app->pool = bt_network_pool(app->network, 0);
    app->io =
        bt_network_io(app->network, 0, &(struct bt_network_ports){local, app->opt.workers, false}, why, sizeof why);
    if (app->io == NULL) {
        bt_log_error("%s", why);
        return false;
    }
    if (!bt_network_mtu(app->network, app->opt.mtu, &app->mtu)) {
        return false;
    }
    if (app->mtu == 0) {
        app->mtu = bt_mtu_of(&app->opt.first);
    }
    return true;
}

static struct bt_server_cfg server_config(struct serve_app *app, unsigned i, uint32_t incarnation)
{
    struct bt_addr local = app->opt.first;
    local.port = (uint16_t)(local.port + i);
    return (struct bt_server_cfg){
        .local = local,
        .local_index = (uint16_t)i,
        .mtu = app->mtu,
        .n = (uint16_t)app->opt.queue_depth,
        .feedback_port = (uint16_t)app->opt.feedback_port,
        .max_pending = SERVE_PENDING,
        .max_assemblies = 64,
        .max_done = 8192,
        .max_held = 256,
        .max_message = app->opt.max_message,
        .incarnation = incarnation,
        .incarnation_shift = BT_INCARNATION_SHIFT,
        .timers = bt_rpc_timers_for((enum bt_device)app->opt.device),
        .seed = {bt_new_seed(), bt_new_seed()},
        .pool = app->pool,
        .ops = {.on_request = serve_on_request, .arg = &app->worker[i], .on_cancel = serve_on_cancel},
        .latency = app->latency,
        .service = app->service,
        .traces = &app->traces,
        .flow = bt_flow_hooks(app->flow[i]),
    };
}

static bool make_servers(struct serve_app *app, uint32_t incarnation)
{
    if (!serve_flow_open(app)) {
        return false;
    }
    struct bt_server_cfg cfg = server_config(app, 0, incarnation);
    size_t bytes = (bt_server_bytes(&cfg) + 63) & ~(size_t)63;
    app->started_ns = bt_io_now(app->io);
    app->latency = bt_map(bt_hist_slices_bytes());
    app->service = bt_map(bt_hist_slices_bytes());
    app->server_mem = bytes != 0 ? bt_map(bytes * app->opt.workers) : NULL;
    // Pieces of a message: full packets (M-13) behind a short first and before a short last one.
    app->iov_max = (int)(app->opt.max_message / (bt_r2p2_datagram_max(app->mtu, false) - BT_R2P2_HEADER) + 16);
    app->iov = calloc((size_t)app->iov_max, sizeof *app->iov);
    app->reply = calloc(1, app->opt.reply_size != SERVE_ECHO && app->opt.reply_size != 0 ? app->opt.reply_size : 1);
    if (app->latency == NULL || app->service == NULL || app->server_mem == NULL || app->iov == NULL ||
        app->reply == NULL) {
        bt_log_error("out of memory for %u workers", app->opt.workers);
        return false;
    }
    bt_hist_slices_init(app->latency, app->started_ns);
    bt_hist_slices_init(app->service, app->started_ns);
    for (unsigned i = 0; i < app->opt.workers; i++) {
        struct serve_worker *w = &app->worker[i];
        cfg = server_config(app, i, incarnation);
        w->app = app;
        w->index = i;
        w->txq = &app->txq;
        w->server = bt_server_init(&cfg, (char *)app->server_mem + bytes * i, bytes, app->started_ns);
        if (w->server == NULL) {
            bt_log_error("worker %u cannot be set up", i);
            return false;
        }
        bt_server_set_routers(w->server, app->started_ns, app->opt.static_routers, app->opt.n_static_routers,
                              &app->txq);
    }
    serve_flow_begin(app);
    return true;
}

static bool start_control(struct serve_app *app, uint32_t incarnation)
{
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &serve_ctl_app,
                                                           .arg = app,
                                                           .incarnation = incarnation,
                                                           .socket = app->opt.ctl,
                                                           .key_dir = app->opt.key_dir,
                                                           .config = app->opt.config,
                                                           .config_cache = app->opt.config_cache,
                                                           .io = app->io},
                                &app->mailbox);
    return app->ctl != NULL;
}

static void stop_control(struct serve_app *app)
{
    bt_mailbox_close(&app->mailbox);
    bt_ctl_stop(app->ctl);
}

// --mode: the network, the servers and the loop are those of src/run.
static int run_scheduled(struct serve_app *app, uint32_t incarnation)
{
    if (!serve_flow_open(app) || !serve_scheduled_open(app, incarnation)) {
        return 1;
    }
    bt_stop_install(app->io);
    if (!start_control(app, incarnation) || !serve_scheduled_start(app)) {
        return 1;
    }
    serve_scheduled_loop(app);
    stop_control(app);
    bt_stop_install(NULL);
    serve_scheduled_close(app);
    serve_flow_close(app);
    return 0;
}

static int run(int argc, char **argv)
{
    static struct serve_app app;
    char text[BT_ADDR_TEXT];
    enum bt_cli_result result = serve_options_read(argc, argv, &app.opt);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    bt_log_init("bobtail-serve", (enum bt_log_format)app.opt.log);
    uint32_t incarnation = bt_new_incarnation();
    if (sodium_init() < 0) {
        bt_log_error("libsodium does not start");
        return 1;
    }
    if (!serve_executions_open(&app)) {
        return 1;
    }
    if (app.opt.mode != MODE_LOOP) {
        return run_scheduled(&app, incarnation);
    }
    if (!open_network(&app) || !make_servers(&app, incarnation)) {
        return 1;
    }
    bt_stop_install(app.io);
    if (!serve_workers_start(&app) || !start_control(&app, incarnation) || !serve_workers_pin(&app)) {
        return 1;
    }
    bt_log_info("version %s, %u workers from %s, service time %s, MTU %u%s", BOBTAIL_VERSION, app.opt.workers,
                bt_addr_format(&app.opt.first, text), app.opt.service_time, app.mtu, app.opt.mtu == 0 ? " (auto)" : "");
    serve_loop(&app);
    stop_control(&app);
    serve_workers_stop(&app);
    bt_stop_install(NULL); // a late signal must not wake what is closed
    app.io->ops->close(app.io);
    free(app.iov);
    free(app.reply);
    serve_flow_close(&app);
    bt_network_close(app.network);
    return 0;
}

int main(int argc, char **argv)
{
    return bt_stop_status(run(argc, argv));
}
