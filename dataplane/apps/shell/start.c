// SPDX-License-Identifier: Apache-2.0
// See start.h.
#include "shell/start.h"

#include "io/udp.h"
#include "shell/log.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint32_t bt_new_incarnation(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return (uint32_t)(ns >> 26);
}

uint64_t bt_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bt_new_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed = bt_monotonic_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    }
    return seed;
}

struct bt_io *bt_idle_port(struct bt_pool *pool)
{
    char why[256];
    struct bt_addr any = bt_addr_v4u(0x7f000001, 0);
    struct bt_udp_config u = {.locals = &any, .n_locals = 1, .pool = pool, .idle = BT_IDLE_BLOCK};
    struct bt_io *io = bt_udp_open(&u, why, sizeof why);
    if (io == NULL) {
        bt_log_error("%s", why);
    }
    return io;
}

static bool load(struct bt_ctl *ctl, const char *path, struct bt_ctl_error *e)
{
    if (!bt_ctl_load(ctl, path, e)) {
        return false;
    }
    bt_log_info("configuration of %s is in force", path);
    return true;
}

static bool apply_first(struct bt_ctl *ctl, const struct bt_control_start *s)
{
    struct bt_ctl_error e;
    if (s->config_cache != NULL && access(s->config_cache, F_OK) == 0) {
        if (load(ctl, s->config_cache, &e)) {
            return true;
        }
        bt_log_warn("cached configuration %s is not used: %s%s%s", s->config_cache, e.field,
                    e.field[0] != '\0' ? ": " : "", e.message);
    }
    if (s->config == NULL || load(ctl, s->config, &e)) {
        return true;
    }
    bt_log_error("--config=%s: %s%s%s", s->config, e.field, e.field[0] != '\0' ? ": " : "", e.message);
    return false;
}

static void wake(void *io)
{
    bt_io_wake(io);
}

static void warn(const char *text)
{
    bt_log_warn("%s", text);
}

struct bt_ctl *bt_control_start(const struct bt_control_start *s, struct bt_mailbox *mailbox)
{
    struct bt_ctl_error e;
    struct bt_ctl_app answers = *s->answers;
    struct bt_ctl_options options = {.socket = s->socket != NULL && s->socket[0] != '\0' ? s->socket : NULL,
                                     .key_dir = s->key_dir,
                                     .config_cache = s->config_cache,
                                     .warn = warn};
    answers.arg = s->arg;
    answers.incarnation = s->incarnation;
    bt_mailbox_init(mailbox, s->wake != NULL ? s->wake : wake, s->wake != NULL ? s->wake_arg : s->io);
    struct bt_ctl *ctl = bt_ctl_new(&answers, &options, mailbox);
    if (ctl == NULL) {
        bt_log_error("out of memory");
        return NULL;
    }
    if (!apply_first(ctl, s)) {
        bt_ctl_stop(ctl);
        return NULL;
    }
    if (!bt_ctl_start(ctl, &e)) {
        bt_log_error("%s", e.message);
        bt_ctl_stop(ctl);
        return NULL;
    }
    return ctl;
}

uint64_t bt_control_now(void *arg)
{
    (void)arg;
    return bt_monotonic_ns();
}
