// SPDX-License-Identifier: Apache-2.0
// The options of `bobtail-sim policy`.
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policy_command.h"
#include "router/policy.h"

static const char usage_text[] =
    "usage: bobtail-sim policy [options]\n"
    "\n"
    "The load-balancing policies alone, without packets: some ten million requests a second.\n"
    "\n"
    "  --policy=LIST         of JBSQ:n, Switch:n, JSQ, PowerOfTwo, RoundRobin, Random, Direct, Central, Steal;\n"
    "                        JBSQ:1-5 is five rows (default JBSQ:1-5)\n"
    "  --workers=K           1..1024 (default 16)\n"
    "  --distribution=NAME   deterministic, exponential, bimodal1, bimodal2, bimodal10, lognormal (default "
    "exponential)\n"
    "  --mean=US             mean service time (default 10)\n"
    "  --overhead=US         worker time per request on top of it (default 0)\n"
    "  --path=NAME           ideal (no delay), software, switch: the delays below, preset (default ideal)\n"
    "  --client-router=US --dispatch=US --feedback=US --reply=US --client-server=US   one way each\n"
    "  --confirm=US          requests of several packets: REQRDY and REQ1 arrive so much later\n"
    "  --router-cost=NS      the router is busy so long with a request\n"
    "  --group=N --pass=NS --gap=NS   Switch: servers compared a pass, one recirculation, its port\n"
    "  --no-interrupts       Steal: cooperative only\n"
    "  --queue=N             held requests beyond N are dropped (default 0: no bound)\n"
    "  --requests=N --seed=N --seeds=R   requests of a run (default 1000000); R seeds from N on (default 1 from 1)\n"
    "  -j N, --jobs=N        processes (default 2)\n"
    "  --json=FILE --csv=FILE\n"
    "\n"
    "questions\n"
    "  --load=LIST           a table over loads, shares of workers / mean (default 0.1,0.2,...,0.9)\n"
    "  --slo=US              the highest load with the percentile within it, also as a share of the single queue's\n"
    "  --slo=US --rate=LIST  the fewest workers that serve so many requests a second within it\n"
    "  --percentile=P        default 99\n";

enum {
    O_POLICY = 256,
    O_WORKERS,
    O_DISTRIBUTION,
    O_MEAN,
    O_OVERHEAD,
    O_PATH,
    O_CLIENT_ROUTER,
    O_DISPATCH,
    O_FEEDBACK,
    O_REPLY,
    O_CLIENT_SERVER,
    O_CONFIRM,
    O_ROUTER_COST,
    O_GROUP,
    O_PASS,
    O_GAP,
    O_NO_INTERRUPTS,
    O_QUEUE,
    O_REQUESTS,
    O_SEED,
    O_SEEDS,
    O_JSON,
    O_CSV,
    O_LOAD,
    O_SLO,
    O_RATE,
    O_PERCENTILE,
    O_HELP
};

static const struct option long_options[] = {
    {"policy", required_argument, NULL, O_POLICY},
    {"workers", required_argument, NULL, O_WORKERS},
    {"distribution", required_argument, NULL, O_DISTRIBUTION},
    {"mean", required_argument, NULL, O_MEAN},
    {"overhead", required_argument, NULL, O_OVERHEAD},
    {"path", required_argument, NULL, O_PATH},
    {"client-router", required_argument, NULL, O_CLIENT_ROUTER},
    {"dispatch", required_argument, NULL, O_DISPATCH},
    {"feedback", required_argument, NULL, O_FEEDBACK},
    {"reply", required_argument, NULL, O_REPLY},
    {"client-server", required_argument, NULL, O_CLIENT_SERVER},
    {"confirm", required_argument, NULL, O_CONFIRM},
    {"router-cost", required_argument, NULL, O_ROUTER_COST},
    {"group", required_argument, NULL, O_GROUP},
    {"pass", required_argument, NULL, O_PASS},
    {"gap", required_argument, NULL, O_GAP},
    {"no-interrupts", no_argument, NULL, O_NO_INTERRUPTS},
    {"queue", required_argument, NULL, O_QUEUE},
    {"requests", required_argument, NULL, O_REQUESTS},
    {"seed", required_argument, NULL, O_SEED},
    {"seeds", required_argument, NULL, O_SEEDS},
    {"jobs", required_argument, NULL, 'j'},
    {"json", required_argument, NULL, O_JSON},
    {"csv", required_argument, NULL, O_CSV},
    {"load", required_argument, NULL, O_LOAD},
    {"slo", required_argument, NULL, O_SLO},
    {"rate", required_argument, NULL, O_RATE},
    {"percentile", required_argument, NULL, O_PERCENTILE},
    {"help", no_argument, NULL, O_HELP},
    {NULL, 0, NULL, 0},
};

/* The published set-ups of one-way times in ns; docs/figures.md says where each number is from. */
static const struct {
    const char *name;
    struct sim_policy_path path;
} paths[] = {
    {"ideal", {0}},
    {"software",
     {.client_router_ns = 5000,
      .dispatch_ns = 7500,
      .feedback_ns = 7500,
      .reply_ns = 7500,
      .client_server_ns = 7500,
      .router_ns = 143}},
    {"switch",
     {.client_router_ns = 6000, .dispatch_ns = 2500, .feedback_ns = 2500, .reply_ns = 7500, .client_server_ns = 7500}},
};

static bool number(const char *option, const char *text, size_t len, double least, double most, double *out)
{
    char copy[40], *end = copy;
    if (len > 0 && len < sizeof copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        errno = 0;
        *out = strtod(copy, &end);
        if (errno == 0 && *end == '\0' && end != copy && *out >= least && *out <= most)
            return true;
    }
    fprintf(stderr, "bobtail-sim: %s must be %g..%g; got %.*s\n", option, least, most, (int)len, text);
    return false;
}

static bool numbers(const char *option, const char *text, double least, double most, double *out, uint32_t *n)
{
    for (*n = 0; *text != '\0';) {
        size_t len = strcspn(text, ",");
        if (*n == SIM_POLICY_LIST_MAX) {
            fprintf(stderr, "bobtail-sim: %s takes at most %d values\n", option, SIM_POLICY_LIST_MAX);
            return false;
        }
        if (!number(option, text, len, least, most, &out[(*n)++]))
            return false;
        text += len + (text[len] == ',');
    }
    return *n > 0 || number(option, text, 0, least, most, out);
}

static bool whole(const char *option, const char *text, double least, double most, uint64_t *out)
{
    double v;
    if (!number(option, text, strlen(text), least, most, &v))
        return false;
    if (v != floor(v)) {
        fprintf(stderr, "bobtail-sim: %s must be a whole number; got %s\n", option, text);
        return false;
    }
    *out = (uint64_t)v;
    return true;
}

/* A time in µs as whole ns. */
static bool micros(const char *option, const char *text, uint64_t *ns)
{
    double v;
    if (!number(option, text, strlen(text), 0, 1e6, &v))
        return false;
    *ns = (uint64_t)(v * 1e3 + 0.5);
    return true;
}

static bool kind_of(const char *name, size_t len, struct sim_policy_choice *c)
{
    static const struct {
        const char *name;
        enum sim_policy_kind kind;
    } others[] = {{"Switch", SIM_POLICY_SWITCH},
                  {"Direct", SIM_POLICY_DIRECT},
                  {"Central", SIM_POLICY_CENTRAL},
                  {"Steal", SIM_POLICY_STEAL}};
    for (uint32_t p = 0; p < BT_ROUTER_POLICIES; p++) {
        if (strlen(bt_balancers[p].name) == len && strncmp(bt_balancers[p].name, name, len) == 0) {
            *c = (struct sim_policy_choice){SIM_POLICY_ROUTER, p, 1};
            return true;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strlen(others[i].name) == len && strncmp(others[i].name, name, len) == 0) {
            *c = (struct sim_policy_choice){others[i].kind, 0, 1};
            return true;
        }
    }
    return false;
}

static bool bounded(const struct sim_policy_choice *c)
{
    return c->kind == SIM_POLICY_SWITCH || (c->kind == SIM_POLICY_ROUTER && bt_balancers[c->policy].bounded);
}

/* One element of the list: NAME, NAME:n or NAME:n-m. */
static bool choice(struct sim_policy_ask *a, const char *text, size_t len)
{
    struct sim_policy_choice c;
    size_t name = strcspn(text, ":,");
    if (!kind_of(text, name, &c)) {
        fprintf(stderr, "bobtail-sim: --policy: %.*s is no policy; see bobtail-sim policy --help\n", (int)len, text);
        return false;
    }
    double from = 1, to = 1;
    if (bounded(&c) != (text[name] == ':')) {
        fprintf(stderr, "bobtail-sim: --policy: %.*s %s\n", (int)len, text,
                bounded(&c) ? "needs its n, as in JBSQ:3" : "has no n");
        return false;
    }
    if (text[name] == ':') {
        const char *first = text + name + 1, *rest = text + len;
        const char *dash = memchr(first, '-', (size_t)(rest - first));
        if (!number("n in --policy", first, (size_t)((dash != NULL ? dash : rest) - first), 1, 64, &from))
            return false;
        to = from;
        if (dash != NULL && !number("n in --policy", dash + 1, (size_t)(rest - dash - 1), from, 64, &to))
            return false;
        if (from != floor(from) || to != floor(to)) {
            fprintf(stderr, "bobtail-sim: n in --policy must be a whole number; got %.*s\n", (int)len, text);
            return false;
        }
    }
    for (c.depth = (uint32_t)from; c.depth <= (uint32_t)to; c.depth++) {
        if (a->choices == SIM_POLICY_LIST_MAX) {
            fprintf(stderr, "bobtail-sim: --policy: at most %d rows\n", SIM_POLICY_LIST_MAX);
            return false;
        }
        a->choice[a->choices++] = c;
    }
    return true;
}

static bool policies(struct sim_policy_ask *a, const char *text)
{
    a->choices = 0;
    do {
        size_t len = strcspn(text, ",");
        if (!choice(a, text, len))
            return false;
        text += len + (text[len] == ',');
    } while (*text != '\0');
    return true;
}

static bool path(struct sim_policy_ask *a, const char *name)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(paths[i].name, name) == 0) {
            a->base.path = paths[i].path;
            a->path_name = paths[i].name;
            return true;
        }
    }
    fprintf(stderr, "bobtail-sim: --path must be ideal, software or switch; got %s\n", name);
    return false;
}

static bool distribution(struct sim_policy_ask *a, const char *name)
{
    for (int k = 0; k < SIM_DIST_KINDS; k++) {
        if (strcmp(sim_dist_name((enum sim_dist_kind)k), name) == 0) {
            a->base.service.kind = (enum sim_dist_kind)k;
            return true;
        }
    }
    fprintf(stderr, "bobtail-sim: --distribution: %s is none; see bobtail-sim policy --help\n", name);
    return false;
}

/* Options that are one time of the path or the pipeline; *known says whether c is one. */
static bool take_time(struct sim_policy_ask *a, int c, bool *known)
{
    struct sim_policy_path *p = &a->base.path;
    switch (c) {
    case O_OVERHEAD:
        return micros("--overhead", optarg, &a->base.overhead_ns);
    case O_CLIENT_ROUTER:
        return micros("--client-router", optarg, &p->client_router_ns);
    case O_DISPATCH:
        return micros("--dispatch", optarg, &p->dispatch_ns);
    case O_FEEDBACK:
        return micros("--feedback", optarg, &p->feedback_ns);
    case O_REPLY:
        return micros("--reply", optarg, &p->reply_ns);
    case O_CLIENT_SERVER:
        return micros("--client-server", optarg, &p->client_server_ns);
    case O_CONFIRM:
        return micros("--confirm", optarg, &p->confirm_ns);
    case O_ROUTER_COST:
        return whole("--router-cost", optarg, 0, 1e9, &p->router_ns);
    case O_PASS:
        return whole("--pass", optarg, 1, 1e9, &a->base.pipeline.pass_ns);
    case O_GAP:
        return whole("--gap", optarg, 0, 1e9, &a->base.pipeline.gap_ns);
    default:
        *known = false;
        return true;
    }
}

static bool small(const char *option, double least, double most, uint32_t *out)
{
    uint64_t v;
    bool ok = whole(option, optarg, least, most, &v);
    if (ok)
        *out = (uint32_t)v;
    return ok;
}

static bool take(struct sim_policy_ask *a, int c)
{
    switch (c) {
    case O_POLICY:
        return policies(a, optarg);
    case O_WORKERS:
        return small("--workers", 1, SIM_POLICY_WORKERS_MAX, &a->base.workers);
    case O_DISTRIBUTION:
        return distribution(a, optarg);
    case O_MEAN:
        return number("--mean", optarg, strlen(optarg), 0.01, 1e7, &a->base.service.mean_ns) &&
               (a->base.service.mean_ns *= 1e3, true);
    case O_GROUP:
        return small("--group", 1, SIM_POLICY_WORKERS_MAX, &a->base.pipeline.group);
    case O_NO_INTERRUPTS:
        a->base.interrupts = false;
        return true;
    case O_QUEUE:
        return small("--queue", 0, 1e9, &a->base.central_limit);
    case O_REQUESTS:
        return whole("--requests", optarg, 1000, 1e8, &a->base.requests);
    case O_SEED:
        return whole("--seed", optarg, 1, 9e15, &a->base.seed);
    case O_SEEDS:
        return small("--seeds", 1, SIM_POLICY_SEEDS_MAX, &a->seeds);
    case O_JSON:
        a->json = optarg;
        return true;
    case O_CSV:
        a->csv = optarg;
        return true;
    case O_LOAD:
        return numbers("--load", optarg, 0.001, 10, a->load, &a->loads);
    case O_SLO:
        return number("--slo", optarg, strlen(optarg), 0.001, 1e9, &a->slo_us);
    case O_RATE:
        return numbers("--rate", optarg, 1, 1e12, a->rate, &a->rates);
    case O_PERCENTILE:
        return number("--percentile", optarg, strlen(optarg), 50, 99.99, &a->percentile);
    case 'j':
        return small("--jobs", 1, 64, &a->jobs);
    default:
        fputs("bobtail-sim: see bobtail-sim policy --help\n", stderr);
        return false;
    }
}

static int check(struct sim_policy_ask *a)
{
    if (a->rates > 0 && a->slo_us <= 0) {
        fputs("bobtail-sim: --rate needs --slo: how late may its percentile be?\n", stderr);
        return 2;
    }
    a->question = a->rates > 0 ? SIM_POLICY_PLAN : a->slo_us > 0 ? SIM_POLICY_SLO : SIM_POLICY_TABLE;
    if (a->choices == 0 && !policies(a, "JBSQ:1-5"))
        return 2;
    if (a->loads == 0) {
        for (int i = 1; i <= 9; i++)
            a->load[a->loads++] = i / 10.0;
    }
    for (uint32_t i = 0; i < a->choices; i++) {
        struct sim_policy_model m = sim_policy_model_of(a, &a->choice[i], 0.5, 1);
        const char *why = sim_policy_refuse(&m);
        if (why != NULL) {
            fprintf(stderr, "bobtail-sim: %s\n", why);
            return 2;
        }
    }
    return 0;
}

int sim_policy_options(int argc, char **argv, struct sim_policy_ask *out, bool *done)
{
    *out = (struct sim_policy_ask){.seeds = 1, .jobs = 2, .percentile = 99, .path_name = "ideal"};
    sim_policy_defaults(&out->base);
    out->base.interrupts = true;
    *done = true;
    int c;
    optind = 1;
    while ((c = getopt_long(argc, argv, "j:", long_options, NULL)) != -1) { /* a preset comes before what changes it */
        if (c == O_PATH && !path(out, optarg))
            return 2;
    }
    optind = 1;
    while ((c = getopt_long(argc, argv, "j:", long_options, NULL)) != -1) {
        bool known = true;
        if (c == O_HELP) {
            fputs(usage_text, stdout);
            return 0;
        }
        if (c == O_PATH)
            continue;
        if (!take_time(out, c, &known) || (!known && !take(out, c)))
            return 2;
    }
    if (optind < argc) {
        fprintf(stderr, "bobtail-sim: policy takes no file; got %s\n", argv[optind]);
        return 2;
    }
    int code = check(out);
    *done = code != 0;
    return code;
}
