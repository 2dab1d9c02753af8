// SPDX-License-Identifier: Apache-2.0
// Documents of a running member: the first one makes it, later ones change what may change.
#include "replica_app.h"

#include "io/mtu.h"
#include "io/udp.h"
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static void wake(void *arg)
{
    struct replica_app *app = arg;
    bt_io_wake(atomic_load(&app->io));
}

static void say(void *arg, bool bad, const char *text)
{
    (void)arg;
    if (bad) {
        bt_log_error("%s", text);
    } else {
        bt_log_info("%s", text);
    }
}

static bool open_sockets(struct replica_app *app, const struct bt_group_document *d,
                         const struct bt_group_document_member *own, struct bt_ctl_error *e)
{
    char why[256];
    bool grouped = bt_group_document_is_apart(d) && d->multicast.port != 0;
    struct bt_addr local[3] = {
        [BT_MEMBER_CLIENTS] = own->client, [BT_MEMBER_MEMBERS] = own->address, [BT_MEMBER_GROUP] = d->multicast};
    if (app->override.port != 0) {
        memcpy(local[0].ip, app->override.ip, sizeof local[0].ip);
        memcpy(local[1].ip, app->override.ip, sizeof local[1].ip);
    }
    struct bt_udp_config u = {.locals = local,
                              .n_locals = grouped ? 3 : 2,
                              .pool = &app->pool.pool,
                              .idle = BT_IDLE_BLOCK,
                              .multicast_via = grouped ? &local[BT_MEMBER_CLIENTS] : NULL};
    struct bt_io *io = bt_udp_open(&u, why, sizeof why);
    if (io == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, "members", "%s", why);
    }
    app->grouped = grouped;
    app->bound_clients = local[BT_MEMBER_CLIENTS];
    app->bound_members = local[BT_MEMBER_MEMBERS];
    atomic_store(&app->io, io);
    bt_stop_install(io);
    return true;
}

static bool make_member(struct replica_app *app, const struct bt_group_document *d, const struct bt_keyring *keys,
                        struct bt_ctl_error *e)
{
    const struct bt_group_document_member *own = bt_group_document_find(d, app->opt.name);
    if (app->bound_members.port == 0 && !open_sockets(app, d, own, e)) {
        return false;
    }
    struct bt_io *io = atomic_load(&app->io);
    struct bt_member_config c = {.document = d,
                                 .name = app->opt.name,
                                 .folder = app->opt.data,
                                 .members = app->bound_members,
                                 .clients = app->bound_clients,
                                 .keys = *keys,
                                 .mtu = app->opt.mtu != 0 ? (uint16_t)app->opt.mtu : bt_mtu_of(&app->bound_members),
                                 .pool = &app->pool.pool,
                                 .txq = &app->txq,
                                 .service = app->service,
                                 .latency = app->latency,
                                 .seed = {bt_new_seed(), bt_new_seed(), bt_new_seed()},
                                 .incarnation = app->incarnation,
                                 .wake = wake,
                                 .say = say,
                                 .arg = app};
    app->member = bt_member_open(&c, bt_io_now(io));
    return app->member != NULL || bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for a member");
}

static bool may_become(const struct replica_app *app, const struct bt_group_document *next, struct bt_ctl_error *e)
{
    const struct bt_group_document_member *own = bt_group_document_find(next, app->opt.name);
    if (app->member == NULL) {
        return own != NULL ||
               bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "members", "must name this process, \"%s\"", app->opt.name);
    }
    if (!bt_group_document_may_follow(&app->document, next, e)) {
        return false;
    }
    const struct bt_group_document_member *now = bt_group_document_find(&app->document, app->opt.name);
    if (own == NULL || now == NULL) {
        return true; // it was taken out of the address book: what it is is for the log to say
    }
    char field[48];
    size_t i = (size_t)(own - next->member);
    const char *what = own->id != now->id                                                        ? "id"
                       : own->member_port != now->member_port                                    ? "memberPort"
                       : own->client_port != now->client_port                                    ? "clientPort"
                       : app->override.port == 0 && !bt_addr_ip_eq(&own->address, &now->address) ? "address"
                                                                                                 : NULL;
    if (what == NULL) {
        return true;
    }
    snprintf(field, sizeof field, "members[%zu].%s", i, what);
    return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, field, "cannot change while this member runs; stop it first");
}

bool replica_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e)
{
    struct replica_app *app = arg;
    struct bt_keyring keys;
    struct bt_group_document *d = bt_group_document_parse(text, len, e);
    if (d == NULL) {
        return false;
    }
    if (app->opt.protocol != 0) {
        d->protocol = (enum bt_group_protocol)(app->opt.protocol - 1);
    }
    bool ok = bt_group_document_protocol_fits(d, e) && bt_keys_load_ids(key_dir, d->key_id, d->n_key_ids, &keys, e) &&
              may_become(app, d, e);
    if (ok && app->member == NULL) {
        ok = make_member(app, d, &keys, e);
    } else if (ok) {
        bt_member_reconfigure(app->member, d, &keys);
    }
    if (ok) {
        app->document = *d;
        bt_config_hash(text, len, app->hash);
        bt_log_info("document in force: group %s/%s, %zu members", d->namespace, d->name, d->n_members);
    }
    sodium_memzero(&keys, sizeof keys);
    free(d);
    return ok;
}
