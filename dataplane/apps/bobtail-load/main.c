// SPDX-License-Identifier: Apache-2.0
// bobtail-load: from the command line to the report.
#include "load_app.h"

#include "agent/agent.h"

#include "shell/log.h"
#include "shell/pool.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Address space only; see shell/pool.h.
#define BUFFERS 262144u

static void wake(void *arg)
{
    bt_io_wake(arg);
}

// A service that is just being created may not have a name yet.
static bool resolve_first(struct load_app *app)
{
    char why[256];
    bool v6 = strchr(app->opt.address, ':') != NULL;
    uint64_t give_up = bt_monotonic_ns() + app->opt.resolve_patience_ns;
    while (!load_resolve(&app->opt, v6, &app->list, why, sizeof why)) {
        if (bt_monotonic_ns() >= give_up || bt_stop_count() > 0) {
            bt_log_error("--target=%s: %s", app->opt.target, why);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
    }
    app->resolver = (struct load_resolver){.opt = &app->opt, .v6 = v6, .list = app->list};
    return true;
}

// The kernel hands ports of this range to anybody; a client that shares it fails at random.
static void warn_of_ephemeral_ports(uint32_t base)
{
    unsigned low;
    unsigned high;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f == NULL) {
        return;
    }
    if (fscanf(f, "%u %u", &low, &high) == 2 && base <= high && base + 4095 >= low) {
        bt_log_warn("--port-base=%u lies in the kernel's ephemeral range %u..%u; another program may take our ports",
                    base, low, high);
    }
    fclose(f);
}

static bool open_network(struct load_app *app)
{
    struct bt_addr own;
    if (!load_own_address(&app->opt, 0, &own)) {
        bt_log_error("--address must be an IP address; got \"%s\"", app->opt.address);
        return false;
    }
    app->network = bt_network_open(&app->opt.network, &own, 1, BUFFERS);
    if (app->network == NULL) {
        return false;
    }
    app->pool = bt_network_pool(app->network, 0);
    return true;
}

static bool open_outputs(struct load_app *app)
{
    if (app->opt.slice_output != NULL) {
        app->slices_file = fopen(app->opt.slice_output, "we");
        if (app->slices_file == NULL) {
            bt_log_error("--slice-output=%s: %s", app->opt.slice_output, strerror(errno));
            return false;
        }
    }
    return load_outcomes_open(app);
}

static bool start_control(struct load_app *app)
{
    if (app->opt.ctl != NULL) {
        app->slices = bt_map(bt_hist_slices_bytes());
        if (app->slices == NULL) {
            bt_log_error("out of memory");
            return false;
        }
        bt_hist_slices_init(app->slices, bt_io_now(app->io));
    }
    app->ctl = bt_control_start(&(struct bt_control_start){.answers = &load_ctl_app,
                                                           .arg = app,
                                                           .incarnation = bt_new_incarnation(),
                                                           .socket = app->opt.ctl,
                                                           .io = app->io},
                                &app->mailbox);
    return app->ctl != NULL;
}

static bool start_resolver(struct load_app *app)
{
    app->resolver.wake = wake;
    app->resolver.wake_arg = app->io;
    if (!load_resolver_start(&app->resolver)) {
        bt_log_error("cannot start the resolver thread");
        return false;
    }
    return true;
}

static int serve_as_agent(const struct load_app *app)
{
    return agent_serve(&(struct agent_listen_options){app->opt.agent, app->opt.agent_token_file, app->opt.agent_once,
                                                      app->opt.agent_lease_s, app->opt.agent_wait_s,
                                                      &app->opt.network.cpus});
}

static bool open_all(struct load_app *app)
{
    warn_of_ephemeral_ports(app->opt.port_base);
    if (!open_network(app) || !open_outputs(app) || !resolve_first(app) || !load_connections_open(app)) {
        return false;
    }
    bt_stop_install(app->io);
    return start_resolver(app) && start_control(app) && bt_cpus_pin(&app->opt.network.cpus, 0, pthread_self());
}

// The exit code: 1 when nothing was answered, or when what was could not be written.
static int close_all(struct load_app *app)
{
    bt_mailbox_close(&app->mailbox);
    bt_ctl_stop(app->ctl);
    load_resolver_stop(&app->resolver);
    load_report_final(app);
    bt_stop_install(NULL); // a late signal must not wake what is closed
    app->io->ops->close(app->io);
    if (app->slices_file != NULL) {
        fclose(app->slices_file);
    }
    bool silent = app->tally.offered > 0 && app->tally.completed + app->tally.dropped == 0;
    if (silent) {
        bt_log_error("no request was answered by %s", app->opt.target);
    }
    bool logged = load_outcomes_close(app);
    free(app->body);
    free(app->reply);
    bt_network_close(app->network);
    return silent || !logged ? 1 : 0;
}

static int run(int argc, char **argv)
{
    static struct load_app app;
    enum bt_cli_result result = load_options_read(argc, argv, &app.opt);
    if (result != BT_CLI_RUN) {
        return result == BT_CLI_EXIT_OK ? 0 : 2;
    }
    bt_log_init("bobtail-load", (enum bt_log_format)app.opt.log);
    bt_rng_seed(&app.rng, app.opt.seed);
    bt_stop_install(NULL);
    if (sodium_init() < 0) {
        bt_log_error("libsodium does not start");
        return 1;
    }
    if (app.opt.agent != NULL) {
        return serve_as_agent(&app);
    }
    if (!open_all(&app)) {
        return 1;
    }
    load_loop(&app);
    return close_all(&app);
}

int main(int argc, char **argv)
{
    return bt_stop_status(run(argc, argv));
}
