// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request on the control socket: always exactly one answer, which is JSON, and the
// program behind is only called for well-formed requests.
#include "ctl/ctl.h"
#include "ctl/json.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool fake_apply(void *arg, const struct bt_config *c, const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    (void)arg;
    (void)keys;
    (void)e;
    return c->service.worker_queue_depth >= 1;
}

static void fake_state(void *arg, struct bt_ctl_state *out)
{
    (void)arg;
    out->members[out->n_members++] = (struct bt_ctl_member){.addr = bt_addr_v4u(0x0a000001, 8000)};
    out->is_router = true;
}

static void fake_counters(void *arg, struct bt_ctl_samples *out)
{
    (void)arg;
    bt_ctl_add_gauge(out, "held", 1);
}

static void fake_leave(void *arg)
{
    (void)arg;
}

static const struct bt_hist_slices *fake_slices(void *arg, const char *name)
{
    return strcmp(name, "latency") == 0 ? arg : NULL;
}

static uint64_t fake_now(void *arg)
{
    (void)arg;
    return UINT64_C(100000000000);
}

// The packet loop is this thread: whoever posts a letter has it opened at once.
static void open_letter(void *arg)
{
    bt_mailbox_poll(arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bt_ctl *ctl;
    static struct bt_mailbox mailbox;
    if (ctl == NULL) {
        struct bt_hist_slices *slices = calloc(1, bt_hist_slices_bytes());
        struct bt_ctl_app app = {.role = "router",
                                 .histogram_source = "Router",
                                 .arg = slices,
                                 .apply = fake_apply,
                                 .state = fake_state,
                                 .counters = fake_counters,
                                 .leave = fake_leave,
                                 .slices = fake_slices,
                                 .histogram_names = "latency",
                                 .now = fake_now};
        struct bt_ctl_options options = {.socket = NULL};
        bt_hist_slices_init(slices, 1);
        bt_mailbox_init(&mailbox, open_letter, &mailbox);
        ctl = bt_ctl_new(&app, &options, &mailbox);
    }
    char *answer = bt_ctl_answer(ctl, (const char *)data, size, NULL, 0);
    struct bt_json j;
    bt_json_init(&j, answer, strlen(answer));
    if (!bt_json_skip(&j, NULL, NULL) || !bt_json_end(&j)) {
        abort();
    }
    free(answer);
    return 0;
}
