// SPDX-License-Identifier: Apache-2.0
// Documents of a running box: the first one makes it, later ones change what may change.
#include "box_app.h"

#include "io/mtu.h"
#include "io/udp.h"
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool open_sockets(struct box_app *app, const struct bt_group_document_box *own, struct bt_ctl_error *e)
{
    char why[256];
    struct bt_addr local[2] = {[BT_BOX_CLIENTS] = own->client, [BT_BOX_FEEDBACK] = own->feedback};
    if (app->override.port != 0) {
        memcpy(local[0].ip, app->override.ip, sizeof local[0].ip);
        memcpy(local[1].ip, app->override.ip, sizeof local[1].ip);
    }
    struct bt_udp_config u = {.locals = local,
                              .n_locals = 2,
                              .pool = &app->pool.pool,
                              .idle = BT_IDLE_BLOCK,
                              .multicast_via = &local[BT_BOX_CLIENTS]};
    struct bt_io *io = bt_udp_open(&u, why, sizeof why);
    if (io == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, "boxes", "%s", why);
    }
    app->bound_clients = local[BT_BOX_CLIENTS];
    app->bound_feedback = local[BT_BOX_FEEDBACK];
    atomic_store(&app->io, io);
    bt_stop_install(io);
    return true;
}

static bool make_box(struct box_app *app, const struct bt_group_document *d, const struct bt_keyring *keys,
                     struct bt_ctl_error *e)
{
    const struct bt_group_document_box *own = bt_group_document_box_find(d, app->opt.name);
    if (app->bound_clients.port == 0 && !open_sockets(app, own, e)) {
        return false;
    }
    struct bt_box_front_config c = {.document = d,
                                    .clients = app->bound_clients,
                                    .feedback = app->bound_feedback,
                                    .keys = *keys,
                                    .mtu = app->opt.mtu != 0 ? (uint16_t)app->opt.mtu : bt_mtu_of(&app->bound_clients),
                                    .pool = &app->pool.pool,
                                    .txq = &app->txq,
                                    .seed = bt_new_seed()};
    app->box = bt_box_front_open(&c, bt_io_now(atomic_load(&app->io)));
    return app->box != NULL || bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for a box");
}

static bool may_become(const struct box_app *app, const struct bt_group_document *next, struct bt_ctl_error *e)
{
    const struct bt_group_document_box *own = bt_group_document_box_find(next, app->opt.name);
    if (next->protocol != BT_GROUP_HOVERCRAFT) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "group.protocol",
                             "must be HovercRaft: a Raft group's clients send to its leader, not to a box");
    }
    if (own == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "boxes", "must name this process, \"%s\"", app->opt.name);
    }
    if (app->box == NULL) {
        return true;
    }
    if (!bt_group_document_may_follow(&app->document, next, e)) {
        return false;
    }
    const struct bt_group_document_box *now = bt_group_document_box_find(&app->document, app->opt.name);
    bool same = own->client_port == now->client_port && own->feedback_port == now->feedback_port &&
                (app->override.port != 0 || bt_addr_ip_eq(&own->client, &now->client));
    return same ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "boxes",
                         "address and ports of \"%s\" cannot change while it runs; stop it first", app->opt.name);
}

bool box_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e)
{
    struct box_app *app = arg;
    struct bt_keyring keys;
    struct bt_group_document *d = bt_group_document_parse(text, len, e);
    if (d == NULL) {
        return false;
    }
    bool ok = bt_keys_load_ids(key_dir, d->key_id, d->n_key_ids, &keys, e) && may_become(app, d, e);
    if (ok && app->box == NULL) {
        ok = make_box(app, d, &keys, e);
    } else if (ok) {
        ok = bt_box_front_reconfigure(app->box, bt_io_now(atomic_load(&app->io)), d, &keys) ||
             bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for a box of another limit");
    }
    if (ok) {
        app->document = *d;
        bt_log_info("document in force: group %s/%s, %zu members, %s", d->namespace, d->name, d->n_members,
                    d->multicast.port != 0 ? "by multicast" : "one by one");
    }
    sodium_memzero(&keys, sizeof keys);
    free(d);
    return ok;
}
