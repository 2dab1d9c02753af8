// SPDX-License-Identifier: Apache-2.0
// bobtail-crab-lb: CRAB's load balancer on a DPDK port (docs/guides/crab-lb.md).
#include "lb_app.h"

#include "shell/log.h"
#include "shell/network_dpdk.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <stdio.h>

static bool open_network(struct lb_app *app)
{
    char why[300];
    const struct lb_options *opt = &app->opt;
    struct bt_link_prefix addrs[LB_MAX_VIP_ADDRS + 1];
    struct bt_network_more more = {.addrs = addrs, .gateway6 = opt->next6};
    if (opt->n_own > 1) {
        addrs[more.n_addrs] = (struct bt_link_prefix){.addr = opt->own[1], .bits = opt->bits6};
        addrs[more.n_addrs++].addr.port = 0;
    }
    for (uint32_t i = 0; i < app->config.n_addrs; i++) {
        const struct bt_addr *vip = &app->config.addrs[i];
        addrs[more.n_addrs++] = (struct bt_link_prefix){.addr = *vip, .bits = bt_addr_is_v4(vip) ? 32 : 128};
    }
    app->dev = bt_network_dpdk_open_tcp(&opt->network, &opt->own[0], &more);
    if (app->dev == NULL) {
        return false;
    }
    app->pool = bt_network_dpdk_pool(app->dev);
    app->io = bt_network_dpdk_io(app->dev, opt->own, opt->n_own, false, why, sizeof why);
    if (app->io == NULL) {
        bt_log_error("%s", why);
    }
    return app->io != NULL;
}

static bool start_control(struct lb_app *app)
{
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &lb_ctl_app,
                                                           .arg = app,
                                                           .incarnation = bt_new_incarnation(),
                                                           .socket = app->opt.ctl,
                                                           .io = app->io},
                                &app->mailbox);
    return app->ctl != NULL;
}

static int run(int argc, char **argv)
{
    static struct lb_app app;
    struct bt_ctl_error e;
    char text[BT_ADDR_TEXT], text6[BT_ADDR_TEXT];
    enum bt_cli_result result = lb_options_read(argc, argv, &app.opt);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    bt_log_init("bobtail-crab-lb", (enum bt_log_format)app.opt.log);
    if (!lb_config_read(app.opt.config, &app.config, &e) ||
        !lb_config_fits(&app.config, app.opt.own, app.opt.n_own, &e)) {
        bt_log_error("%s: %s%s%s", app.opt.config, e.field, e.field[0] != '\0' ? ": " : "", e.message);
        return 2;
    }
    if (app.opt.key_dir != NULL && !lb_keys_read(app.opt.key_dir, app.secrets, &e)) {
        bt_log_error("%s: %s", e.field, e.message);
        return 2;
    }
    app.seed = bt_new_seed();
    if (!open_network(&app) || !lb_pools_start(&app)) {
        return 1;
    }
    app.started_ns = bt_io_now(app.io);
    bt_stop_install(app.io);
    if (!start_control(&app) || !lb_keeper_start(&app) || !bt_cpus_pin(&app.opt.network.cpus, 0, pthread_self())) {
        return 1;
    }
    bool two = app.opt.n_own > 1;
    bt_log_info("version %s, %u VIPs, %u servers, own address %s%s%s", BOBTAIL_VERSION, app.config.n_vips,
                app.config.n_servers, bt_addr_format_ip(&app.opt.own[0], text), two ? " and " : "",
                two ? bt_addr_format_ip(&app.opt.own[1], text6) : "");
    lb_loop(&app);
    bt_mailbox_close(&app.mailbox);
    lb_keeper_stop(&app);
    bt_ctl_stop(app.ctl);
    bt_stop_install(NULL);
    app.io->ops->close(app.io);
    lb_pools_free(&app);
    bt_network_dpdk_close(app.dev);
    return 0;
}

int main(int argc, char **argv)
{
    return bt_stop_status(run(argc, argv));
}
