// SPDX-License-Identifier: Apache-2.0
// See start.h.
#include "shell/start.h"

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

static bool load(struct bt_ctl *ctl, const char *path, struct bt_ctl_error *e)
{
    if (!bt_ctl_load(ctl, path, e)) {
        return false;
    }
    bt_log_info("configuration of %s is in force", path);
    return true;
}

bool bt_apply_first_config(struct bt_ctl *ctl, const struct bt_first_config *from)
{
    struct bt_ctl_error e;
    if (from->config_cache != NULL && access(from->config_cache, F_OK) == 0) {
        if (load(ctl, from->config_cache, &e)) {
            return true;
        }
        bt_log_warn("cached configuration %s is not used: %s%s%s", from->config_cache, e.field,
                    e.field[0] != '\0' ? ": " : "", e.message);
    }
    if (from->config == NULL || load(ctl, from->config, &e)) {
        return true;
    }
    bt_log_error("--config=%s: %s%s%s", from->config, e.field, e.field[0] != '\0' ? ": " : "", e.message);
    return false;
}
