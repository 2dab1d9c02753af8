// SPDX-License-Identifier: Apache-2.0
// The options of `bobtail-sim policy`.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"
#include "policy_command.h"
#include "router/policy.h"

static const char usage_text[] =
    "usage: bobtail-sim policy [options]\n"
    "\n"
    "The load-balancing policies alone, without packets: some ten million requests a second.\n"
    "\n"
    "  --policy=LIST         of the routers' policies," BT_ROUTER_POLICY_WORDS ",\n"
    "                        and of Switch, Direct, Central, Steal; with n: JBSQ:n, Switch:n; JBSQ:1-5 is five rows\n"
    "                        (default JBSQ:1-5); one server that is not first come first\n"
    "                        served: SJF, EDF, CSCQ (bimodal service only), PS; DirectPS: Direct with such workers;\n"
    "                        one server on the product's scheduler: RunToCompletion, WorkStealing\n"
    "  --workers=K           1..1024 (default 16)\n"
    "  --distribution=NAME   deterministic, exponential, bimodal1, bimodal2, bimodal10, lognormal, erlang,\n"
    "                        hyperexponential (default exponential);\n"
    "                        trace:FILE draws from the CSV column serviceMicroseconds, each row as often as count "
    "says\n"
    "  --stages=K            erlang: 1..1000 (default 2)\n"
    "  --squared-variation=C hyperexponential: 1..1000 (default 4)\n"
    "  --mean=US             mean service time (default 10; a trace has its own)\n"
    "  --overhead=US         worker time per request on top of it (default 0)\n"
    "  --path=NAME           ideal (no delay), software, switch: the delays below, preset (default ideal)\n"
    "  --client-router=US --dispatch=US --feedback=US --reply=US --client-server=US   one way each\n"
    "  --confirm=US          requests of several packets: REQRDY and REQ1 arrive so much later\n"
    "  --router-cost=NS      the router is busy so long with a request\n"
    "  --group=N --pass=NS --gap=NS   Switch: servers compared a pass, one recirculation, its port\n"
    "  --no-interrupts       Steal, WorkStealing: cooperative only\n"
    "  --batch=B             RunToCompletion, WorkStealing: packets taken at once, at most (default 64)\n"
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
    O_STAGES,
    O_SQUARED_VARIATION,
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
    O_BATCH,
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
    {"stages", required_argument, NULL, O_STAGES},
    {"squared-variation", required_argument, NULL, O_SQUARED_VARIATION},
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
    {"batch", required_argument, NULL, O_BATCH},
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

/* The published set-ups of one-way times in ns; docs/lab/figures.md says where each number is from. */
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

/* A time in µs as whole ns. */
static uint64_t micros(const char *option, const char *text)
{
    return (uint64_t)(sim_option_number(option, text, 0, 1e6) * 1e3 + 0.5);
}

static bool kind_of(const char *name, size_t len, struct sim_policy_choice *c)
{
    for (uint32_t p = 0; p < BT_ROUTER_POLICIES; p++) {
        if (strlen(bt_balancers[p].name) == len && strncmp(bt_balancers[p].name, name, len) == 0) {
            *c = (struct sim_policy_choice){SIM_POLICY_ROUTER, p, 1};
            return true;
        }
    }
    for (int k = SIM_POLICY_SWITCH; k < SIM_POLICY_KINDS; k++) {
        if (strlen(sim_policy_kinds[k]) == len && strncmp(sim_policy_kinds[k], name, len) == 0) {
            *c = (struct sim_policy_choice){(enum sim_policy_kind)k, 0, 1};
            return true;
        }
    }
    return false;
}

static bool bounded(const struct sim_policy_choice *c)
{
    return c->kind == SIM_POLICY_SWITCH || (c->kind == SIM_POLICY_ROUTER && bt_balancers[c->policy].bounded);
}

/* n or n-m, to the end of the element. */
static void depths(const char *text, size_t len, uint32_t *from, uint32_t *to)
{
    char copy[40], *dash;
    snprintf(copy, sizeof copy, "%.*s", (int)len, text);
    dash = strchr(copy, '-');
    if (dash != NULL) {
        *dash++ = '\0';
    }
    *from = *to = (uint32_t)sim_option_whole("--policy's n", copy, 1, 64);
    if (dash != NULL) {
        *to = (uint32_t)sim_option_whole("--policy's n", dash, *from, 64);
    }
}

/* One element of the list: NAME, NAME:n or NAME:n-m. */
static void choice(struct sim_policy_ask *a, const char *text, size_t len)
{
    struct sim_policy_choice c;
    uint32_t from = 1, to = 1;
    size_t name = strcspn(text, ":,");
    if (!kind_of(text, name, &c)) {
        fprintf(stderr, "bobtail-sim: --policy: %.*s is no policy; see bobtail-sim policy --help\n", (int)len, text);
        exit(2);
    }
    if (bounded(&c) != (text[name] == ':')) {
        fprintf(stderr, "bobtail-sim: --policy: %.*s %s\n", (int)len, text,
                bounded(&c) ? "needs its n, as in JBSQ:3" : "has no n");
        exit(2);
    }
    if (text[name] == ':') {
        depths(text + name + 1, len - name - 1, &from, &to);
    }
    for (c.depth = from; c.depth <= to; c.depth++) {
        if (a->choices == SIM_POLICY_LIST_MAX) {
            fprintf(stderr, "bobtail-sim: --policy: at most %d rows\n", SIM_POLICY_LIST_MAX);
            exit(2);
        }
        a->choice[a->choices++] = c;
    }
}

static void policies(struct sim_policy_ask *a, const char *text)
{
    a->choices = 0;
    do {
        size_t len = strcspn(text, ",");
        choice(a, text, len);
        text += len + (text[len] == ',');
    } while (*text != '\0');
}

/* A name, or recorded times. */
static void distribution(struct sim_policy_ask *a, const char *text)
{
    static const char trace[] = "trace:";
    char err[300];
    sim_times_free(&a->times);
    if (strncmp(text, trace, sizeof trace - 1) != 0) {
        a->base.service.kind =
            (enum sim_dist_kind)sim_option_named("--distribution", text, sim_option_dist, SIM_DIST_TRACE);
        return;
    }
    if (sim_times_load(text + sizeof trace - 1, &a->times, err, sizeof err) != 0) {
        fprintf(stderr, "bobtail-sim: --distribution=trace:%s\n", err);
        exit(2);
    }
    a->base.service.kind = SIM_DIST_TRACE;
}

static const char *path_name(uint32_t i)
{
    return paths[i].name;
}

static void take_path(struct sim_policy_ask *a, const char *name)
{
    uint32_t i = sim_option_named("--path", name, path_name, sizeof paths / sizeof paths[0]);
    a->base.path = paths[i].path;
    a->path_name = paths[i].name;
}

/* Options that are one time of the path or the pipeline; false for any other. */
static bool take_time(struct sim_policy_ask *a, int c)
{
    struct sim_policy_path *p = &a->base.path;
    switch (c) {
    case O_OVERHEAD:
        a->base.overhead_ns = micros("--overhead", optarg);
        return true;
    case O_CLIENT_ROUTER:
        p->client_router_ns = micros("--client-router", optarg);
        return true;
    case O_DISPATCH:
        p->dispatch_ns = micros("--dispatch", optarg);
        return true;
    case O_FEEDBACK:
        p->feedback_ns = micros("--feedback", optarg);
        return true;
    case O_REPLY:
        p->reply_ns = micros("--reply", optarg);
        return true;
    case O_CLIENT_SERVER:
        p->client_server_ns = micros("--client-server", optarg);
        return true;
    case O_CONFIRM:
        p->confirm_ns = micros("--confirm", optarg);
        return true;
    case O_ROUTER_COST:
        p->router_ns = sim_option_whole("--router-cost", optarg, 0, 1e9);
        return true;
    case O_PASS:
        a->base.pipeline.pass_ns = sim_option_whole("--pass", optarg, 1, 1e9);
        return true;
    case O_GAP:
        a->base.pipeline.gap_ns = sim_option_whole("--gap", optarg, 0, 1e9);
        return true;
    default:
        return false;
    }
}

/* Options that are a parameter of one distribution. */
static bool take_shape(struct sim_policy_ask *a, int c)
{
    switch (c) {
    case O_STAGES:
        a->base.service.stages = (uint32_t)sim_option_whole("--stages", optarg, 1, 1000);
        a->stages_given = true;
        return true;
    case O_SQUARED_VARIATION:
        a->base.service.c2 = sim_option_number("--squared-variation", optarg, 1, 1000);
        a->c2_given = true;
        return true;
    default:
        return false;
    }
}

/* Options of the system that is asked about. */
static bool take_system(struct sim_policy_ask *a, int c)
{
    switch (c) {
    case O_POLICY:
        policies(a, optarg);
        return true;
    case O_WORKERS:
        a->base.workers = (uint32_t)sim_option_whole("--workers", optarg, 1, SIM_POLICY_WORKERS_MAX);
        return true;
    case O_DISTRIBUTION:
        distribution(a, optarg);
        return true;
    case O_MEAN:
        a->base.service.mean_ns = sim_option_number("--mean", optarg, 0.01, 1e7) * 1e3;
        a->mean_given = true;
        return true;
    case O_GROUP:
        a->base.pipeline.group = (uint32_t)sim_option_whole("--group", optarg, 1, SIM_POLICY_WORKERS_MAX);
        return true;
    case O_NO_INTERRUPTS:
        a->base.interrupts = false;
        return true;
    case O_BATCH:
        a->base.batch = (uint32_t)sim_option_whole("--batch", optarg, 1, 1024);
        return true;
    case O_QUEUE:
        a->base.central_limit = (uint32_t)sim_option_whole("--queue", optarg, 0, 1e9);
        return true;
    default:
        return take_time(a, c) || take_shape(a, c);
    }
}

/* Options of the question: which loads, how exactly, and where the answer goes. */
static bool take_question(struct sim_policy_ask *a, int c)
{
    switch (c) {
    case O_REQUESTS:
        a->base.requests = sim_option_whole("--requests", optarg, 1000, 1e8);
        return true;
    case O_SEED:
        a->base.seed = sim_option_whole("--seed", optarg, 1, 9e15);
        return true;
    case O_SEEDS:
        a->seeds = (uint32_t)sim_option_whole("--seeds", optarg, 1, SIM_POLICY_SEEDS_MAX);
        return true;
    case O_JSON:
        a->json = optarg;
        return true;
    case O_CSV:
        a->csv = optarg;
        return true;
    case O_LOAD:
        a->loads = sim_option_list("--load", optarg, 0.001, 10, a->load, SIM_POLICY_LIST_MAX);
        return true;
    case O_SLO:
        a->slo_us = sim_option_number("--slo", optarg, 0.001, 1e9);
        return true;
    case O_RATE:
        a->rates = sim_option_list("--rate", optarg, 1, 1e12, a->rate, SIM_POLICY_LIST_MAX);
        return true;
    case O_PERCENTILE:
        a->percentile = sim_option_number("--percentile", optarg, 50, 99.99);
        return true;
    case 'j':
        a->jobs = (uint32_t)sim_option_whole("--jobs", optarg, 1, 64);
        return true;
    default:
        return false;
    }
}

static bool take(struct sim_policy_ask *a, int c)
{
    return take_system(a, c) || take_question(a, c);
}

/* What does not go together, NULL if all does. */
static const char *contradiction(const struct sim_policy_ask *a)
{
    if (a->stages_given && a->base.service.kind != SIM_DIST_ERLANG) {
        return "--stages is of --distribution=erlang";
    }
    if (a->c2_given && a->base.service.kind != SIM_DIST_HYPEREXPONENTIAL) {
        return "--squared-variation is of --distribution=hyperexponential";
    }
    if (a->rates > 0 && a->slo_us <= 0) {
        return "--rate needs --slo: how late may its percentile be?";
    }
    if (a->base.service.kind == SIM_DIST_TRACE && a->mean_given) {
        return "--mean: a trace has its own; leave it out";
    }
    return NULL;
}

/* What was not said. */
static void fill_in(struct sim_policy_ask *a)
{
    if (a->base.service.kind == SIM_DIST_TRACE) {
        a->base.service.mean_ns = a->times.mean_ns;
        a->base.times = &a->times;
    }
    a->question = a->rates > 0 ? SIM_POLICY_PLAN : a->slo_us > 0 ? SIM_POLICY_SLO : SIM_POLICY_TABLE;
    if (a->choices == 0) {
        policies(a, "JBSQ:1-5");
    }
    if (a->loads == 0) {
        for (int i = 1; i <= 9; i++) {
            a->load[a->loads++] = i / 10.0;
        }
    }
}

static int check(struct sim_policy_ask *a)
{
    const char *why = contradiction(a);
    if (why == NULL) {
        fill_in(a);
    }
    for (uint32_t i = 0; why == NULL && i < a->choices; i++) {
        struct sim_policy_model m = sim_policy_model_of(a, &a->choice[i], 0.5, 1);
        why = sim_policy_refuse(&m);
    }
    if (why != NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", why);
        return 2;
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
    opterr = 0;                                                             /* the second reading complains */
    while ((c = getopt_long(argc, argv, "j:", long_options, NULL)) != -1) { /* a preset comes before what changes it */
        if (c == O_PATH) {
            take_path(out, optarg);
        }
    }
    optind = opterr = 1;
    while ((c = getopt_long(argc, argv, "j:", long_options, NULL)) != -1) {
        if (c == O_HELP) {
            fputs(usage_text, stdout);
            return 0;
        }
        if (c == O_PATH) {
            continue;
        }
        if (!take(out, c)) {
            fputs("bobtail-sim: see bobtail-sim policy --help\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bobtail-sim: policy takes options only; got %s\n", argv[optind]);
        return 2;
    }
    int code = check(out);
    *done = code != 0;
    return code;
}
