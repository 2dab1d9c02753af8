// SPDX-License-Identifier: Apache-2.0
// Lines from a coordinator: any bytes. What is taken is within the bounds that the agent relies on, what is
// refused is refused with a code.
#include "agent/agent.h"
#include "agent/fields.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct agent_config *c)
{
    const struct bt_workload *w = &c->workload;
    bool ok = c->n_targets >= 1 && c->n_targets <= AGENT_TARGETS && c->threads >= 1 && c->threads <= c->connections &&
              c->connections <= AGENT_CONNECTIONS && c->outstanding >= 1 && c->outstanding <= BT_FLIGHT_MAX &&
              c->timeout_ns >= 1000000 && c->n_trace <= AGENT_TRACE && w->keys.n >= 1 && w->keys.n <= BT_KEYS_MAX &&
              w->protocol < BT_REPLY_PROTOCOLS && w->read_ratio >= 0 && w->read_ratio <= 1 &&
              (c->arrivals == AGENT_TRACE_ARRIVALS) == (c->n_trace != 0) && strpbrk(w->path, " \r\n") == NULL &&
              c->polling != AGENT_POLLING_DEFAULT;
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct bt_ctl_error e = {0};
    struct agent_config c;
    char op[AGENT_OP_BYTES];
    char *line = malloc(n + 1);
    memcpy(line, data, n);
    line[n] = '\0';
    if (!agent_read_op(line, n, op, &e) && e.code == NULL) {
        abort();
    }
    memset(&e, 0, sizeof e);
    if (agent_config_read(line, n, &c, &e)) {
        static uint8_t out[BT_BODY_MAX + 8192];
        struct bt_request_stream s = {.workload = &c.workload};
        struct bt_expect expect;
        enum bt_operation operation;
        bt_rng_seed(&s.rng, 1);
        check(&c);
        if (bt_request_max(&c.workload) > sizeof out ||
            bt_request_next(&s, out, &expect, &operation) > bt_request_max(&c.workload)) {
            abort();
        }
        agent_config_free(&c);
    } else if (e.code == NULL || e.message[0] == '\0') {
        abort();
    }
    free(line);
    return 0;
}
