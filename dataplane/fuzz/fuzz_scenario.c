// SPDX-License-Identifier: Apache-2.0
// Any bytes as a scenario file or, when the first is a digit, as a trace: refused with a message that names the place,
// or accepted within its bounds.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) {
        abort();
    }
}

// What the runs rely on without looking again.
static void check_scenario(const struct sim_scenario *s)
{
    require(s->workers >= 1 && s->workers <= SIM_WORKERS_MAX && s->threads >= 1 && s->threads <= SIM_THREADS_MAX);
    require(s->depth >= 1 && s->depth <= 64 && s->legacy_workers <= s->workers);
    require(s->routers >= 1 && s->routers <= SIM_ROUTERS_MAX && s->clients >= 1 && s->clients <= SIM_CLIENTS_MAX);
    require(s->faults_n <= SIM_FAULTS_MAX && s->events_n <= SIM_EVENTS_MAX && s->expect_n <= SIM_EXPECT_MAX);
    require(s->links_n <= SIM_LINKS_MAX && s->phases_n <= SIM_PHASES_MAX && s->racks >= 1 && s->requests >= 1);
    require(s->load > 0 && s->service.mean_ns >= 1 && s->burst >= 0 && s->burst < 1);
    require(memchr(s->name, '\0', sizeof s->name) != NULL && memchr(s->drawn, '\0', sizeof s->drawn) != NULL);
    require(s->grid.load.n <= SIM_GRID_MAX && s->grid.policy.n <= SIM_GRID_MAX && s->grid.depth.n <= SIM_GRID_MAX);
    for (uint32_t i = 0; i < s->links_n; i++) {
        require(s->link[i].loss >= 0 && s->link[i].loss <= 1 && s->link[i].from <= SIM_END_ANY);
    }
}

static void one_trace(const char *text, size_t n)
{
    char err[400] = "";
    struct sim_recording r;
    if (sim_recording_parse("t", text, n, &r, err, sizeof err) != 0) {
        require(err[0] != '\0' && r.at_ns == NULL && r.service_ns == NULL);
        return;
    }
    require(r.n >= 1 && (r.at_ns != NULL || r.service_ns != NULL));
    for (size_t i = 1; i < r.n && r.at_ns != NULL; i++) {
        require(r.at_ns[i - 1] <= r.at_ns[i]);
    }
    sim_recording_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sim_scenario s;
    char err[1000] = "";
    if (size > 0 && data[0] >= '0' && data[0] <= '9') {
        one_trace((const char *)data + 1, size - 1);
        return 0;
    }
    struct sim_template *t = sim_template_parse("s", (const char *)data, size, err, sizeof err);
    if (t == NULL) {
        require(strncmp(err, "s:", 2) == 0);
        return 0;
    }
    for (uint64_t seed = 1; seed <= 3; seed++) {
        if (sim_template_draw(t, seed, &s, err, sizeof err) == 0) {
            check_scenario(&s);
        } else {
            require(err[0] != '\0'); // what another seed draws may contradict
        }
    }
    sim_template_free(t);
    return 0;
}
