// SPDX-License-Identifier: Apache-2.0
// See bed.h.
#include "bed.h"

#include "unit.h"

#include "ctl/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool bed_apply(void *arg, const struct bt_config *c, const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    struct bed *b = arg;
    b->loop_id = pthread_self();
    if (b->refuse) {
        b->refuse = false;
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "members[0]", "not today");
    }
    b->applied++;
    b->depth = c->service.worker_queue_depth;
    b->n_keys = bt_keyring_empty(keys) ? 0 : 1;
    return true;
}

static void bed_state(void *arg, struct bt_ctl_state *out)
{
    struct bed *b = arg;
    b->loop_id = pthread_self();
    out->is_router = true;
    out->draining = b->left != 0;
    out->uptime_ns = 1500000000;
    out->held = 2;
    out->held_limit = 10;
    for (unsigned i = 0; i < BT_CONFIG_WORKERS_MAX; i++) { // the largest answer there is
        out->members[out->n_members++] = (struct bt_ctl_member){.addr = bt_addr_v4u(0x0af40007 + i, 8000),
                                                                .joined = true,
                                                                .n = 3,
                                                                .sent = UINT64_MAX,
                                                                .done = UINT64_MAX,
                                                                .lost = UINT64_MAX,
                                                                .incarnation = UINT32_MAX,
                                                                .feedback_age_ms = -1};
    }
}

static void bed_counters(void *arg, struct bt_ctl_samples *out)
{
    static const struct bt_counter_desc descs[] = {
        {"router_dropped_total", "reason", "queue_full"}, {NULL, NULL, NULL}, {"router_requests_total", NULL, NULL}};
    static const uint64_t values[] = {3, 4, UINT64_MAX};
    (void)arg;
    bt_ctl_add_counters(out, descs, values, 3);
    bt_ctl_add_gauge(out, "router_held", 2);
}

static void bed_leave(void *arg)
{
    struct bed *b = arg;
    b->left++;
}

static const struct bt_hist_slices *bed_slices(void *arg, const char *name)
{
    const struct bed *b = arg;
    return strcmp(name, "latency") == 0 ? b->slices : NULL;
}

static const struct bt_trace_ring *bed_traces(void *arg)
{
    struct bed *b = arg;
    b->loop_id = pthread_self();
    return &b->traces;
}

static uint64_t bed_now(void *arg)
{
    const struct bed *b = arg;
    return b->now;
}

static void no_wake(void *arg)
{
    (void)arg;
}

static void *loop(void *arg)
{
    struct bed *b = arg;
    while (!atomic_load(&b->stop)) {
        for (unsigned n = atomic_exchange(&b->arriving, 0); n > 0; n--) {
            bt_hist_slices_record(b->slices, b->now, 5000000);
        }
        // What arrives while the loop is busy with the rest of its turn is left to the next one.
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        bt_mailbox_poll(&b->mailbox);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static const struct bt_hist *bed_totals(void *arg, const char *name)
{
    const struct bed *b = arg;
    return strcmp(name, "class3") == 0 ? &b->total : NULL;
}

void bed_open(struct bed *b, bool with_loop)
{
    memset(b, 0, sizeof *b);
    strcpy(b->dir, "/tmp/bobtail-ctl-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->cache, sizeof b->cache, "%s/cache.json", b->dir);
    snprintf(b->socket, sizeof b->socket, "%s/ctl.sock", b->dir);
    b->now = 100 * UINT64_C(1000000000);
    b->slices = calloc(1, bt_hist_slices_bytes());
    bt_hist_slices_init(b->slices, b->now - 10 * UINT64_C(1000000000));
    struct bt_ctl_app app = {.role = "router",
                             .histogram_source = "Router",
                             .incarnation = 77,
                             .arg = b,
                             .apply = bed_apply,
                             .state = bed_state,
                             .counters = bed_counters,
                             .leave = bed_leave,
                             .slices = bed_slices,
                             .histogram_names = "latency",
                             .totals = bed_totals,
                             .traces = bed_traces,
                             .now = bed_now};
    struct bt_ctl_options options = {.socket = b->socket, .key_dir = b->dir, .config_cache = b->cache};
    bt_mailbox_init(&b->mailbox, no_wake, NULL);
    b->ctl = bt_ctl_new(&app, &options, &b->mailbox);
    assert_non_null(b->ctl);
    char key[80];
    snprintf(key, sizeof key, "%s/1", b->dir);
    FILE *f = fopen(key, "w");
    assert_non_null(f);
    fputs("000102030405060708090a0b0c0d0e0f\n", f);
    fclose(f);
    if (with_loop) {
        assert_int_equal(pthread_create(&b->loop, NULL, loop, b), 0);
    } else {
        atomic_store(&b->stop, true);
    }
}

void bed_close(struct bed *b)
{
    char path[80];
    if (!atomic_exchange(&b->stop, true)) {
        pthread_join(b->loop, NULL);
    }
    bt_mailbox_close(&b->mailbox);
    bt_ctl_stop(b->ctl);
    bt_mailbox_destroy(&b->mailbox);
    free(b->slices);
    unlink(b->cache);
    snprintf(path, sizeof path, "%s/1", b->dir);
    unlink(path);
    assert_int_equal(rmdir(b->dir), 0); // nothing else was left behind, the socket neither
}

char *bed_document(size_t *len)
{
    struct bt_ctl_error e;
    char *text = bt_file_read(BT_VECTORS "/config/good-minimal.json", len, &e);
    assert_non_null(text);
    text[*len] = '\0'; // read into room for one byte more
    return text;
}

char *bed_apply_request(const char *config, const char *hash)
{
    char right[BT_CONFIG_HASH];
    size_t cap = strlen(config) + 256;
    char *request = malloc(cap);
    bt_config_hash(config, strlen(config), right);
    snprintf(request, cap, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"config\":%s}", hash != NULL ? hash : right,
             config);
    return request;
}
