// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration document: refused with a message, or accepted within its bounds.
#include "ctl/config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

// What every later stage relies on without looking again.
static void check_accepted(const struct bt_config *c)
{
    size_t workers = 0;
    for (size_t i = 0; i < c->n_members; i++) {
        const struct bt_config_member *m = &c->members[i];
        require(m->workers >= 1 && m->workers <= 64 && m->first_port >= 1 && m->first_port + m->workers <= 65536);
        require(m->addr.port == m->first_port && m->addr.pad == 0);
        require(i == 0 || strcmp(c->members[i - 1].name, m->name) <= 0);
        workers += (size_t)m->workers;
    }
    require(workers == c->n_workers && workers <= BT_CONFIG_WORKERS_MAX);
    require(c->n_routers <= BT_CONFIG_ROUTERS_MAX && c->n_sources <= BT_CONFIG_SOURCES_MAX);
    for (size_t i = 0; i < c->n_routers; i++) {
        require(c->routers[i].request.port != 0 && c->routers[i].feedback.port != 0);
        require(!bt_addr_eq(&c->routers[i].request, &c->routers[i].feedback));
    }
    require(c->n_key_ids <= BT_CONFIG_KEYS_MAX);
    for (size_t i = 0; i < c->n_key_ids; i++) {
        require(c->key_ids[i] >= 1 && c->key_ids[i] <= 255);
    }
    require(c->service.worker_queue_depth >= 1 && c->service.worker_queue_depth <= 64);
    require(c->service.central_queue_limit >= 1 && c->service.central_queue_limit <= 1048576);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bt_ctl_error e = {.code = NULL};
    struct bt_config *c = bt_config_parse((const char *)data, size, &e);
    if (c != NULL) {
        check_accepted(c);
    } else {
        require(e.code != NULL && e.message[0] != '\0');
    }
    bt_config_free(c);
    return 0;
}
