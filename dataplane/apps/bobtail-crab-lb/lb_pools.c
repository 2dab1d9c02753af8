// SPDX-License-Identifier: Apache-2.0
// The keeper: pools follow what the probes found and what the configuration file says (C-26, C-52, C-63). It works on
// copies and crosses to the packet loop twice: to look, and to exchange.
#include "lb_app.h"

#include "shell/log.h"
#include "shell/start.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_NS 20000000
#define KEYS_EVERY_NS UINT64_C(2000000000)

static atomic_uint hangups;

static void on_hangup(int sig)
{
    (void)sig;
    atomic_fetch_add(&hangups, 1);
}

static void *aligned(size_t bytes)
{
    bytes = bytes != 0 ? (bytes + 63) & ~(size_t)63 : 64;
    void *mem = aligned_alloc(64, bytes);
    return mem != NULL ? memset(mem, 0, bytes) : NULL;
}

// --- building

// A pool of VIP v whose servers are as `health` says. NULL: no memory. The seed is a constant, because every balancer
// of a VIP must fill its table alike (C-41).
static struct bt_crab_pool *build(const struct lb_config *c, uint32_t v, const uint8_t *health)
{
    const struct lb_vip *vip = &c->vips[v];
    struct bt_crab_backend *list = calloc(vip->n_servers + 1, sizeof *list);
    void *mem = aligned(bt_crab_pool_bytes(vip->n_servers));
    struct bt_crab_pool *pool = NULL;
    for (uint32_t i = 0; list != NULL && i < vip->n_servers; i++) {
        uint8_t h = health[vip->first + i];
        list[i] = (struct bt_crab_backend){.ip = vip->servers[i].ip,
                                           .weight = vip->servers[i].weight,
                                           .up = h != BT_CRAB_DOWN,
                                           .capable = h == BT_CRAB_UP_CAPABLE};
    }
    if (list != NULL && mem != NULL) {
        pool = bt_crab_pool_build(mem, list, vip->n_servers, 1);
    } else {
        free(mem);
    }
    free(list);
    return pool;
}

static void free_pools(struct bt_crab_pool **pools, uint32_t n)
{
    for (uint32_t v = 0; pools != NULL && v < n; v++) {
        free(pools[v]);
    }
    free(pools);
}

// New pools know what the servers said to the old ones.
static struct bt_crab_pool **build_all(const struct lb_app *app, const struct lb_config *c, const uint8_t *health)
{
    struct bt_crab_pool **pools = calloc(c->n_vips, sizeof *pools);
    for (uint32_t v = 0; pools != NULL && v < c->n_vips; v++) {
        pools[v] = build(c, v, health);
        if (pools[v] == NULL) {
            free_pools(pools, v);
            return NULL;
        }
        if (app->pools[v] != NULL) {
            bt_crab_pool_inherit(pools[v], app->pools[v]);
        }
    }
    return pools;
}

static struct bt_crab_probe_target target_of(const struct lb_vip *v, uint32_t i)
{
    return (struct bt_crab_probe_target){.dip = v->servers[i].ip, .vip = v->crab.addr, .port = v->crab.addr.port};
}

// A prober of every server of `c`. False: no memory.
static bool make_prober(const struct lb_app *app, const struct lb_config *c, struct bt_crab_prober *p)
{
    struct bt_crab_probe_config cfg = c->probe;
    struct bt_crab_probed *mem = calloc(c->n_servers + 1, sizeof *mem);
    struct bt_crab_probe_target *targets = calloc(c->n_servers + 1, sizeof *targets);
    for (unsigned i = 0; i < app->opt.n_own; i++) {
        *(bt_addr_is_v4(&app->opt.own[i]) ? &cfg.own4 : &cfg.own6) = app->opt.own[i];
    }
    cfg.encoding = c->encoding;
    cfg.seed = bt_new_seed();
    for (uint32_t v = 0; targets != NULL && v < c->n_vips; v++) {
        for (uint32_t i = 0; i < c->vips[v].n_servers; i++) {
            targets[c->vips[v].first + i] = target_of(&c->vips[v], i);
        }
    }
    if (mem != NULL && targets != NULL) {
        bt_crab_prober_init(p, mem, targets, c->n_servers, &cfg, bt_monotonic_ns());
    } else {
        free(mem);
    }
    free(targets);
    return mem != NULL && targets != NULL;
}

// --- crossing to the loop

struct look {
    struct lb_app *app;
    uint64_t changes;
    uint8_t *health;
};

static void look(void *arg)
{
    struct look *l = arg;
    const struct bt_crab_prober *p = &l->app->prober;
    if (p->changes != l->changes) {
        for (uint32_t i = 0; i < p->n; i++) {
            l->health[i] = p->probed[i].health;
        }
    }
    l->changes = p->changes;
}

struct exchange {
    struct lb_app *app;
    struct bt_crab_pool **pools; // in: new ones, out: old ones
    uint32_t n;
    struct bt_crab_prober *prober; // NULL: stays; in: new one, out: old one
};

static void exchange(void *arg)
{
    struct exchange *x = arg;
    struct lb_app *app = x->app;
    for (uint32_t v = 0; v < x->n; v++) {
        struct bt_crab_pool *new = x->pools[v];
        x->pools[v] = bt_crab_swap(app->crab, v, new);
        app->pools[v] = new;
    }
    if (x->prober != NULL) {
        struct bt_crab_prober old = app->prober;
        app->prober = *x->prober;
        app->prober.sent = old.sent;
        app->prober.answered = old.answered;
        app->prober.refused = old.refused;
        app->prober.silent = old.silent;
        app->prober.unasked = old.unasked;
        *x->prober = old;
    }
}

// Puts `pools` (and `prober`) in place and frees what stood there; what could not be put in place is freed as well.
static bool put_in_place(struct lb_app *app, struct bt_crab_pool **pools, struct bt_crab_prober *prober)
{
    struct exchange x = {.app = app, .pools = pools, .n = app->config.n_vips, .prober = prober};
    bool done = bt_mailbox_call(&app->mailbox, exchange, &x);
    free_pools(pools, app->config.n_vips);
    if (prober != NULL) {
        free(prober->probed);
    }
    return done;
}

// --- following

static void follow_probes(struct lb_app *app)
{
    struct look l = {.app = app, .changes = app->changes, .health = app->health};
    if (!bt_mailbox_call(&app->mailbox, look, &l) || l.changes == app->changes) {
        return;
    }
    app->changes = l.changes;
    struct bt_crab_pool **pools = build_all(app, &app->config, app->health);
    if (pools == NULL) {
        bt_log_error("out of memory: the servers stay as they were");
    }
    if (pools != NULL && put_in_place(app, pools, NULL)) {
        bt_log_info("servers changed; probes have seen %llu changes", (unsigned long long)app->changes);
    } else {
        app->changes--; // tried again at the next look
    }
}

// What was found out about a server holds for it in the new configuration too.
static void carry_over(const struct lb_app *app, const struct lb_config *new, uint8_t *health, struct bt_crab_prober *p)
{
    for (uint32_t v = 0; v < new->n_vips; v++) {
        const struct lb_vip *now = &new->vips[v], *was = &app->config.vips[v];
        for (uint32_t i = 0; i < now->n_servers; i++) {
            for (uint32_t k = 0; k < was->n_servers; k++) {
                if (!bt_addr_ip_eq(&was->servers[k].ip, &now->servers[i].ip)) {
                    continue;
                }
                struct bt_crab_probed *t = &p->probed[now->first + i];
                t->health = health[now->first + i] = app->health[was->first + k];
                t->run = t->health != BT_CRAB_DOWN ? 0 : t->run;
            }
        }
    }
}

static bool take_config(struct lb_app *app, struct lb_config *new)
{
    struct bt_crab_prober prober;
    uint8_t *health = calloc(new->n_servers + 1, 1);
    if (health == NULL || !make_prober(app, new, &prober)) {
        free(health);
        return false;
    }
    carry_over(app, new, health, &prober);
    prober.changes = app->changes;
    struct bt_crab_pool **pools = build_all(app, new, health);
    if (pools == NULL) {
        free(prober.probed);
    }
    if (pools == NULL || !put_in_place(app, pools, &prober)) {
        free(health);
        return false;
    }
    free(app->health);
    app->health = health;
    lb_config_free(&app->config);
    app->config = *new;
    *new = (struct lb_config){0};
    return true;
}

static void reload(struct lb_app *app)
{
    struct bt_ctl_error e;
    struct lb_config new;
    if (!lb_config_read(app->opt.config, &new, &e) || !lb_config_may_follow(&app->config, &new, &e)) {
        bt_log_error("SIGHUP: %s: %s%s%s; the old configuration stays", app->opt.config, e.field,
                     e.field[0] != '\0' ? ": " : "", e.message);
        lb_config_free(&new);
        return;
    }
    uint32_t servers = new.n_servers;
    if (take_config(app, &new)) {
        bt_log_info("SIGHUP: %s read, %u servers", app->opt.config, servers);
    } else {
        bt_log_error("SIGHUP: out of memory or stopping; the old configuration stays");
    }
    lb_config_free(&new);
}

static void exchange_keys(void *arg)
{
    struct lb_app *app = arg;
    memcpy(app->judge->secrets, app->secrets, sizeof app->secrets); // the keeper waits meanwhile
}

// Keys are exchanged without a restart, as the agents do: their files are looked at every two seconds (C-64).
static void follow_keys(struct lb_app *app)
{
    struct bt_crab_secret before[BT_CRAB_SECRETS];
    struct bt_ctl_error e;
    uint64_t now = bt_monotonic_ns();
    if (app->judge == NULL || now < app->keys_look_ns) {
        return;
    }
    app->keys_look_ns = now + KEYS_EVERY_NS;
    memcpy(before, app->secrets, sizeof before);
    bool ok = lb_keys_read(app->opt.key_dir, app->secrets, &e);
    if (!ok && !app->keys_failing) {
        bt_log_error("%s: %s; the keys stay as they were", e.field, e.message);
    }
    app->keys_failing = !ok;
    if (!ok || memcmp(before, app->secrets, sizeof before) == 0) {
        return;
    }
    if (bt_mailbox_call(&app->mailbox, exchange_keys, app)) {
        bt_log_info("the keys of reports were read anew, %u of them", app->secrets[1].len != 0 ? 2 : 1);
    } else {
        memcpy(app->secrets, before, sizeof before); // tried again at the next look
    }
}

static void *keep(void *arg)
{
    struct lb_app *app = arg;
    unsigned seen = 0;
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
    while (!atomic_load(&app->keeper_stop)) {
        unsigned now = atomic_load(&hangups);
        if (now != seen) {
            seen = now;
            reload(app);
        }
        follow_probes(app);
        follow_keys(app);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

// --- start and end

static bool start_judge(struct lb_app *app)
{
    if (app->opt.key_dir == NULL) {
        return true;
    }
    app->judge = calloc(1, sizeof *app->judge);
    if (app->judge == NULL) {
        bt_log_error("out of memory for the sessions of those who report");
        return false;
    }
    bt_crab_judge_init(app->judge, bt_new_seed());
    memcpy(app->judge->secrets, app->secrets, sizeof app->secrets);
    return true;
}

bool lb_pools_start(struct lb_app *app)
{
    const struct lb_config *c = &app->config;
    struct bt_crab_vip_config *vips = calloc(c->n_vips, sizeof *vips);
    struct bt_crab_config cfg = {.encoding = c->encoding,
                                 .vips = vips,
                                 .n_vips = c->n_vips,
                                 .seed = app->seed,
                                 .report_stale_ns = 3 * c->probe.interval_ns};
    for (uint32_t v = 0; vips != NULL && v < c->n_vips; v++) {
        vips[v] = c->vips[v].crab;
    }
    if (vips != NULL) {
        app->crab_mem = aligned(bt_crab_bytes(&cfg));
        app->crab = app->crab_mem != NULL ? bt_crab_init(app->crab_mem, bt_crab_bytes(&cfg), &cfg) : NULL;
    }
    free(vips);
    app->pools = calloc(c->n_vips, sizeof(struct bt_crab_pool *));
    app->vip_ports = calloc(c->n_vips, sizeof *app->vip_ports);
    app->health = calloc(c->n_servers + 1, 1);
    app->n_vips = c->n_vips;
    for (uint32_t v = 0; app->vip_ports != NULL && v < c->n_vips; v++) {
        app->vip_ports[v] = c->vips[v].crab.addr.port;
    }
    if (app->crab == NULL || app->pools == NULL || app->vip_ports == NULL || app->health == NULL ||
        !make_prober(app, c, &app->prober)) {
        bt_log_error("out of memory for %u VIPs and %u servers", c->n_vips, c->n_servers);
        return false;
    }
    return start_judge(app);
}

bool lb_keeper_start(struct lb_app *app)
{
    struct sigaction a = {.sa_handler = on_hangup};
    sigemptyset(&a.sa_mask);
    sigaction(SIGHUP, &a, NULL);
    int error = pthread_create(&app->keeper, NULL, keep, app);
    if (error != 0) {
        bt_log_error("cannot start the thread that follows the servers: %s", strerror(error));
    }
    return error == 0;
}

void lb_keeper_stop(struct lb_app *app)
{
    atomic_store(&app->keeper_stop, true);
    pthread_join(app->keeper, NULL);
}

void lb_pools_free(struct lb_app *app)
{
    free_pools(app->pools, app->config.n_vips);
    free(app->prober.probed);
    free(app->vip_ports);
    free(app->crab_mem);
    free(app->judge);
    free(app->health);
    lb_config_free(&app->config);
}
