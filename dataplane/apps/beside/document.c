// SPDX-License-Identifier: Apache-2.0
// Documents of a running program: the first one makes the thing, later ones change what may change.
#include "beside.h"

#include "io/mtu.h"
#include "io/udp.h"
#include "shell/log.h"
#include "shell/start.h"
#include "shell/stop.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static bool open_sockets(struct beside *b, const struct bt_addr said[BESIDE_PORTS], struct bt_ctl_error *e)
{
    char why[256];
    struct bt_addr local[BESIDE_PORTS];
    for (unsigned i = 0; i < b->kind->ports; i++) {
        local[i] = said[i];
        if (b->override.port != 0) {
            memcpy(local[i].ip, b->override.ip, sizeof local[i].ip);
        }
    }
    struct bt_udp_config u = {.locals = local,
                              .n_locals = b->kind->ports,
                              .pool = &b->pool.pool,
                              .idle = BT_IDLE_BLOCK,
                              .multicast_via = &local[0]};
    struct bt_io *io = bt_udp_open(&u, why, sizeof why);
    if (io == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, b->kind->field, "%s", why);
    }
    memcpy(b->bound, local, b->kind->ports * sizeof local[0]);
    atomic_store(&b->io, io);
    bt_stop_install(io);
    return true;
}

static bool make(struct beside *b, const struct bt_group_document *d, const struct bt_addr said[BESIDE_PORTS],
                 const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    if (b->bound[0].port == 0 && !open_sockets(b, said, e)) {
        return false;
    }
    struct beside_made_of m = {.document = d,
                               .keys = keys,
                               .mtu = b->opt.mtu != 0 ? (uint16_t)b->opt.mtu : bt_mtu_of(&b->bound[0]),
                               .pool = &b->pool.pool,
                               .txq = &b->txq,
                               .extra = b->opt.extra};
    memcpy(m.local, b->bound, sizeof m.local);
    b->it = b->kind->open(&m, bt_io_now(atomic_load(&b->io)));
    return b->it != NULL || bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for this group's limits");
}

static bool same_place(const struct beside *b, const struct bt_addr *now, const struct bt_addr *next)
{
    bool moved = b->override.port == 0 && !bt_addr_ip_eq(now, next);
    return now->port == next->port && !moved;
}

static bool may_become(const struct beside *b, const struct bt_group_document *next, struct bt_addr said[BESIDE_PORTS],
                       struct bt_ctl_error *e)
{
    struct bt_addr now[BESIDE_PORTS];
    bool addressed = b->override.port != 0;
    if (!b->kind->place(next, b->opt.name, addressed, said, e)) {
        return false;
    }
    if (b->it == NULL) {
        return true;
    }
    if (!bt_group_document_may_follow(&b->document, next, e) ||
        !b->kind->place(&b->document, b->opt.name, addressed, now, e)) {
        return false;
    }
    bool same = true;
    for (unsigned i = 0; i < b->kind->ports; i++) {
        same = same && same_place(b, &now[i], &said[i]);
    }
    return same || bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, b->kind->field,
                                 "address and ports of \"%s\" cannot change while it runs; stop it first", b->opt.name);
}

bool beside_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e)
{
    struct beside *b = arg;
    struct bt_addr said[BESIDE_PORTS] = {0};
    struct bt_keyring keys;
    struct bt_group_document *d = bt_group_document_parse(text, len, e);
    if (d == NULL) {
        return false;
    }
    bool ok = bt_keys_load_ids(key_dir, d->key_id, d->n_key_ids, &keys, e) && may_become(b, d, said, e);
    if (ok && b->it == NULL) {
        ok = make(b, d, said, &keys, e);
    } else if (ok) {
        ok = b->kind->reconfigure(b->it, bt_io_now(atomic_load(&b->io)), d, &keys) ||
             bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for other limits");
    }
    if (ok) {
        b->document = *d;
        bt_log_info("document in force: group %s/%s, %zu members, %s", d->namespace, d->name, d->n_members,
                    bt_group_protocol_words[d->protocol]);
    }
    sodium_memzero(&keys, sizeof keys);
    free(d);
    return ok;
}
