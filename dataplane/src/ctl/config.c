// SPDX-License-Identifier: Apache-2.0
// Whole documents: parse, order, hash, free.
#include "ctl/config_internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static int by_name_and_port(const void *a, const void *b)
{
    const struct bt_config_member *x = a;
    const struct bt_config_member *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0) {
        order = (x->first_port > y->first_port) - (x->first_port < y->first_port);
    }
    return order != 0 ? order : memcmp(&x->addr, &y->addr, sizeof x->addr);
}

struct bt_config *bt_config_parse(const char *text, size_t len, struct bt_ctl_error *e)
{
    struct bt_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    if (!bt_shape_read(&bt_config_shape, c, text, len, BT_CTL_INVALID_CONFIG, e)) {
        bt_config_free(c);
        return NULL;
    }
    if (c->n_members > 1) {
        qsort(c->members, c->n_members, sizeof c->members[0], by_name_and_port);
    }
    return c;
}

void bt_config_free(struct bt_config *c)
{
    if (c != NULL) {
        free(c->sources);
        free(c->members);
        free(c->routers);
        free(c->key_ids);
        free(c->service.admission.droppable);
        free(c);
    }
}

void bt_config_hash(const char *text, size_t len, char out[BT_CONFIG_HASH])
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(sum, (const unsigned char *)text, len);
    sodium_bin2hex(out, BT_CONFIG_HASH, sum, sizeof sum);
}
