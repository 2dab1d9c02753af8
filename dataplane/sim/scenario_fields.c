// SPDX-License-Identifier: Apache-2.0
// Every key of a scenario file: type, bounds, unit and meaning.
#include "scenario_fields.h"

#include <stddef.h>
#include <stdio.h>

#include "router/words.h"

const char *const sim_packet_names[] = {"REQ0", "REPLY", "FEEDBACK", "REQRDY", "DROP",
                                        "SACK", "REQN",  "CANCEL",   "ANY",    NULL};
const char *const sim_fault_names[] = {"loss",         "duplicate", "reorder", "delay", "corrupt",
                                       "corruptBurst", "truncate",  "resend",  NULL};
const char *const sim_event_names[] = {"crashServer",  "crashRouter",   "leaveServer", "setDepth",    "partition",
                                       "reconfigure",  "setBackServer", "pause",       "slowServer",  "stallServer",
                                       "refuseServer", "cut",           "clockLeap",   "clockStop",   "clockDrift",
                                       "clockBack",    "unreachable",   "starve",      "pauseThread", NULL};
/* Of enum sim_who, enum sim_between, enum sim_direction. */
static const char *const who_names[] = {"client", "router", "server", NULL};
static const char *const between_names[] = {"clientRouter", "clientServer", "routerServer", NULL};
static const char *const direction_names[] = {"both", "forth", "back", NULL};
/* Of enum sim_dist_kind and enum sim_arrivals; what follows "=" is another word for the one named there. */
const char *const sim_discipline_names[] = {"FCFS", "SJF", "EDF", NULL};
static const char *const dist_names[] = {"deterministic",
                                         "exponential",
                                         "bimodal1",
                                         "bimodal2",
                                         "lognormal",
                                         "bimodal10",
                                         "erlang",
                                         "hyperexponential",
                                         "trace",
                                         "fixed=deterministic",
                                         "bimodal-1=bimodal1",
                                         "bimodal-2=bimodal2",
                                         NULL};
static const char *const arrival_names[] = {"poisson", "fixed", "mmpp", "trace", "deterministic=fixed", NULL};
static const char *const end_names[] = {"client", "router", "worker", "any", NULL};
const char *const sim_measure_names[] = {"mean",
                                         "p50",
                                         "p99",
                                         "p999",
                                         "throughput",
                                         "littleError",
                                         "idleWhileWaiting",
                                         "success",
                                         "successShare",
                                         "timeouts",
                                         "dropped",
                                         "errors",
                                         "faults",
                                         "restarts",
                                         "creditsLost",
                                         "creditsReclaimed",
                                         "held",
                                         "droppedShare",
                                         "ejected",
                                         "failovers",
                                         "idWraps",
                                         "copies",
                                         "copiesWon",
                                         "copiesCancelled",
                                         "preemptions",
                                         "admissionRefused",
                                         "singleAnswered",
                                         "multiAnswered",
                                         "halfOpened",
                                         NULL};
static const char *const jitter_names[] = {"uniform", "exponential", "lognormal", NULL};

#define AT(m)    offsetof(struct sim_scenario, m)
#define US       1e3
#define MS       1e6
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

static const struct sim_field top_fields[] = {
    {"name", SIM_F_TEXT, AT(name), 0, SIM_NAME, 0, NULL, "what reports call it"},
    {"about", SIM_F_ANY, 0, 0, 0, 0, NULL, "what it is for; not read"},
    {"seed", SIM_F_U64, AT(seed), 1, 9e15, 0, NULL, "of every random choice; --seed overrides"},
    {"requests", SIM_F_U64, AT(requests), 1, 1e9, 0, NULL, "RPCs of the load; --requests overrides"},
    {"warmup", SIM_F_DOUBLE, AT(warmup), 0, 0.9, 0, NULL, "share of them, from the first on, that is not measured"},
    {"deviceProfile", SIM_F_NAME, AT(device), 0, 0, 0, bt_device_words, "timers of all sides"},
    {"tagged", SIM_F_BOOL, AT(tagged), 0, 0, 0, NULL, "the service has a key (R-57)"},
    {"settleMilliseconds", SIM_F_U32, AT(settle_ms), 0, 60000, 0, NULL,
     "idle time before \"nothing may be left\" is checked; 0: not checked"},
    {"probes", SIM_F_U32, AT(probes), 0, 10000, 0, NULL, "requests after the idle time, all of which must succeed"},
    {"oneSeedIn", SIM_F_U32, AT(one_seed_in), 0, 1000000, 0, NULL,
     "a sweep deals this file only every so many of its turns, because it is slow; the first file takes the others"},
    {"clocksDiffer", SIM_F_BOOL, AT(clocks_differ), 0, 0, 0, NULL, "the clock of every node starts somewhere else"},
    {"garbagePerSecond", SIM_F_DOUBLE, AT(garbage_per_second), 0, 1e5, 0, NULL,
     "malformed and forged packets to random nodes"},
    {"checks", SIM_F_BOOL, AT(checks), 0, 0, 0, NULL,
     "judge every packet (faults and events switch it on by themselves)"},
    {"seriesMilliseconds", SIM_F_U32, AT(series_ms), 1, 3600000, 0, NULL, "width of one row of --series"},
    {"traceFile", SIM_F_TEXT, AT(trace_file), 0, SIM_PATH, 0, NULL,
     "CSV beside this file with a header row and columns among gapMicroseconds, timeMicroseconds, "
     "serviceMicroseconds; beside service times alone, count: how often each was seen, and it is drawn so often"},
    {"traceRepeat", SIM_F_BOOL, AT(trace_repeat), 0, 0, 0, NULL,
     "start the trace again when there are more requests than rows; otherwise that is an error"},
};
static const struct sim_field worker_fields[] = {
    {"count", SIM_F_U32, AT(workers), 1, SIM_WORKERS_MAX, 0, NULL, "servers"},
    {"threads", SIM_F_U32, AT(threads), 1, SIM_THREADS_MAX, 0, NULL, "requests one server executes at once"},
    {"queueDepth", SIM_F_U32, AT(depth), 1, 64, 0, NULL, "n of JBSQ(n), those in execution included"},
    {"discipline", SIM_F_NAME, AT(discipline), 0, 0, 0, sim_discipline_names,
     "which waiting request a server takes next: the first that came, the shortest, the one with the earliest deadline "
     "(five own service times after it was sent)"},
    {"legacy", SIM_F_U32, AT(legacy_workers), 0, SIM_WORKERS_MAX, 0, NULL,
     "so many of them speak 16-byte FEEDBACK (needs Transparent)"},
    {"distribution", SIM_F_NAME, AT(service.kind), 0, 0, 0, dist_names,
     "of the service time; trace: column of traceFile"},
    {"meanMicroseconds", SIM_F_DOUBLE, AT(service.mean_ns), 0.1, 1e7, 0, NULL, "of the service time; not with trace"},
    {"hiccups", SIM_F_DOUBLE, AT(hiccups), 0, 1, 0, NULL, "share of executions that last longer; two copies differ"},
    {"hiccupMicroseconds", SIM_F_NS, AT(hiccup_ns), 0, 1e7, US, NULL, "by how much"},
    {"ignoredCancels", SIM_F_DOUBLE, AT(ignored_cancels), 0, 1, 0, NULL,
     "share of CANCELs that the application does not heed"},
    {"sigma", SIM_F_DOUBLE, AT(service.sigma), 0, 3, 0, NULL, "lognormal: standard deviation of the logarithm"},
    {"stages", SIM_F_U32, AT(service.stages), 1, 1000, 0, NULL, "erlang: exponential stages of one service time"},
    {"squaredVariation", SIM_F_DOUBLE, AT(service.c2), 1, 1000, 0, NULL,
     "hyperexponential: squared coefficient of variation; either of its two kinds makes half of the work"},
    {"maxPairs", SIM_F_U32, AT(server_pairs), 0, 65535, 0, NULL, "pair table of a server; 0: ample, here and below"},
    {"maxAssemblies", SIM_F_U32, AT(server_assemblies), 0, 65535, 0, NULL, "long requests a server receives at once"},
    {"maxHeld", SIM_F_U32, AT(server_held), 0, 65535, 0, NULL, "packets a server keeps that came before their first"},
    {"packets", SIM_F_U32, AT(server_packets), 0, 1 << 18, 0, NULL, "packet buffers of a server"},
    {"maxMessageBytes", SIM_F_U32, AT(server_max_message), 64, 1 << 20, 0, NULL, "longest request a server takes"},
};
static const struct sim_field router_fields[] = {
    {"count", SIM_F_U32, AT(routers), 1, SIM_ROUTERS_MAX, 0, NULL, "clients are dealt round them"},
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, bt_router_policy_words, "how a worker is chosen"},
    {"forwarding", SIM_F_NAME, AT(forwarding), 0, 0, 0, bt_router_forwarding_words, "as in RpcService"},
    {"maxPairs", SIM_F_U32, AT(router_pairs), 0, 1 << 20, 0, NULL, "requests a router watches until their FEEDBACK"},
    {"packets", SIM_F_U32, AT(router_packets), 0, 1 << 18, 0, NULL, "packet buffers; more than centralQueueLimit"},
    {"centralQueueLimit", SIM_F_U32, AT(central_limit), 1, 1048576, 0, NULL, "as in RpcService"},
    {"maxQueueMilliseconds", SIM_F_NS, AT(max_queue_ns), 1, 600000, MS, NULL, "as in RpcService"},
    {"requestTimeoutMilliseconds", SIM_F_NS, AT(request_timeout_ns), 1, 600000, MS, NULL, "as in RpcService"},
    {"holdBackPackets", SIM_F_U32, AT(hold_back_packets), 0, 64, 0, NULL, "R-122; off in conformance runs"},
    {"holdBackMicroseconds", SIM_F_NS, AT(hold_back_ns), 0, 1000, US, NULL, "R-122"},
    {"threads", SIM_F_U32, AT(router_threads), 1, 2, 0, NULL, "2: REQ0 and FEEDBACK run apart (R-119)"},
};
static const struct sim_field thread_fields[] = {
    {"microseconds", SIM_F_NS, AT(thread_lag_ns), 0, 1e5, US, NULL,
     "a thread that is wanted runs at once, or, every other time, up to so much later"},
    {"between", SIM_F_DOUBLE, AT(thread_between), 0, 1, 0, NULL,
     "share of FEEDBACKs behind which the REQ0 thread runs before the FEEDBACK thread goes on with its burst"},
    {"notes", SIM_F_U32, AT(notes_room), 0, 65536, 0, NULL,
     "entries of the queue that tells what was sent, rounded up to a power of two; 0: as shipped"},
    {"credits", SIM_F_U32, AT(credits_room), 0, 65536, 0, NULL,
     "entries of the queue that tells which workers' credit changed, likewise"},
};
static const struct sim_field admission_fields[] = {
    {"mode", SIM_F_NAME, AT(admission_mode), 0, 0, 0, bt_admission_mode_words, "Observe: off"},
    {"controller", SIM_F_NAME, AT(admission_controller), 0, 0, 0, bt_controller_words, "as in ServiceLevelObjective"},
    {"latencyMicroseconds", SIM_F_NS, AT(admission_slo_ns), 1, 1e8, US, NULL, "the objective"},
    {"percentile", SIM_F_DOUBLE, AT(admission_percentile), 50, 99.99, 0, NULL, "of it"},
};
static const struct sim_field hedging_fields[] = {
    {"mode", SIM_F_NAME, AT(hedging_mode), 0, 0, 0, bt_hedging_mode_words, "as in RpcService (needs policy JBSQ)"},
    {"busyPercent", SIM_F_U32, AT(hedging_busy), 1, 100, 0, NULL,
     "copies begin while at most so many workers are busy"},
    {"budgetPercent", SIM_F_U32, AT(hedging_budget), 1, 100, 0, NULL, "copies, of requests"},
    {"percentile", SIM_F_DOUBLE, AT(hedging_percentile), 50, 99.99, 0, NULL,
     "Delayed: of the response time, waited for"},
    {"probePerMillion", SIM_F_U32, AT(hedging_probes), 0, 1000000, 0, NULL,
     "requests copied at once to measure jitter"},
    {"cancellation", SIM_F_NAME, AT(hedging_cancellation), 0, 0, 0, bt_cancellation_words, "as in RpcService"},
    {"cancelWithinMicroseconds", SIM_F_NS, AT(hedging_cancel_ns), 0, 1e6, US, NULL,
     "copies of answered requests must have ended by then; 0: not checked"},
};
static const struct sim_field client_fields[] = {
    {"count", SIM_F_U32, AT(clients), 1, SIM_CLIENTS_MAX, 0, NULL, "each request starts at a random one"},
    {"load", SIM_F_DOUBLE, AT(load), 0.001, 10, 0, NULL,
     "offered share of workers x threads / mean service time; not with mmpp, phases or a trace of arrivals"},
    {"burst", SIM_F_DOUBLE, AT(burst), 0, 0.95, 0, NULL,
     "share of arrivals that come at the instant of the one before"},
    {"arrivals", SIM_F_NAME, AT(arrivals), 0, 0, 0, arrival_names,
     "mmpp: see clients.mmpp; trace: column of traceFile"},
    {"timeoutMilliseconds", SIM_F_NS, AT(timeout_ns), 0.001, 600000, MS, NULL, "of a request at its client"},
    {"maxPending", SIM_F_U32, AT(client_calls), 0, 65535, 0, NULL, "requests a client has outstanding at most"},
    {"maxReplies", SIM_F_U32, AT(client_replies), 0, 65535, 0, NULL, "long replies a client receives at once"},
    {"packets", SIM_F_U32, AT(client_packets), 0, 1 << 18, 0, NULL, "packet buffers of a client"},
    {"withoutExtensions", SIM_F_DOUBLE, AT(plain_share), 0, 1, 0, NULL, "share of clients that do not set X"},
    {"requestBytes", SIM_F_U32, AT(request_bytes), 16, 1400, 0, NULL, "of a short request"},
    {"replyBytes", SIM_F_U32, AT(reply_bytes), 16, 1400, 0, NULL, "of a short reply"},
    {"longBytes", SIM_F_U32, AT(long_bytes), 1465, 60000, 0, NULL, "of a long request or reply"},
    {"longRequests", SIM_F_DOUBLE, AT(long_requests), 0, 1, 0, NULL, "share"},
    {"longReplies", SIM_F_DOUBLE, AT(long_replies), 0, 1, 0, NULL, "share"},
    {"sticky", SIM_F_DOUBLE, AT(sticky), 0, 1, 0, NULL, "share of requests with policy Sticky"},
    {"prioritised", SIM_F_DOUBLE, AT(prioritised), 0, 1, 0, NULL, "share that asks for a class from 4 to 7 (R-214)"},
    {"notDroppable", SIM_F_DOUBLE, AT(spared), 0, 1, 0, NULL, "share that admission must not refuse (R-58)"},
    {"direct", SIM_F_DOUBLE, AT(direct), 0, 1, 0, NULL, "share of requests sent to a random worker, past the router"},
};
static const struct sim_field half_open_fields[] = {
    {"sources", SIM_F_U32, AT(half_open_sources), 0, 10000, 0, NULL,
     "strangers that send first packets of requests and never the rest; 0: none"},
    {"perSecond", SIM_F_DOUBLE, AT(half_open_per_second), 0.1, 1e6, 0, NULL, "of each of them"},
    {"spoofed", SIM_F_BOOL, AT(half_open_spoofed), 0, 0, 0, NULL,
     "each request names an address of its own as its source"},
};
static const struct sim_field mmpp_fields[] = {
    {"quietLoad", SIM_F_DOUBLE, AT(mmpp.quiet_load), 0, 10, 0, NULL, "load in the quiet state"},
    {"burstLoad", SIM_F_DOUBLE, AT(mmpp.burst_load), 0.001, 10, 0, NULL, "load in the other"},
    {"quietMilliseconds", SIM_F_NS, AT(mmpp.quiet_ns), 0.001, 1e7, MS, NULL, "mean time in the quiet state"},
    {"burstMilliseconds", SIM_F_NS, AT(mmpp.burst_ns), 0.001, 1e7, MS, NULL, "mean time in the other"},
};
static const struct sim_field network_fields[] = {
    {"clientToRouterMicroseconds", SIM_F_NS, AT(delay.client_router_ns), 0, 1e6, US, NULL, "both ways"},
    {"routerToServerMicroseconds", SIM_F_NS, AT(delay.router_server_ns), 0, 1e6, US, NULL, ""},
    {"serverToRouterMicroseconds", SIM_F_NS, AT(delay.server_router_ns), 0, 1e6, US, NULL, ""},
    {"serverToClientMicroseconds", SIM_F_NS, AT(delay.server_client_ns), 0, 1e6, US, NULL, ""},
    {"clientToServerMicroseconds", SIM_F_NS, AT(delay.client_server_ns), 0, 1e6, US, NULL, ""},
    {"unreachable", SIM_F_DOUBLE, AT(unreachable), 0, 1, 0, NULL,
     "share of packets to a dead process that its host answers by ICMP"},
    {"jitterMicroseconds", SIM_F_NS, AT(delay.jitter_ns), 0, 1e6, US, NULL,
     "uniform from 0 up, on every link; two nodes keep their order"},
};
static const struct sim_field topology_fields[] = {
    {"racks", SIM_F_U32, AT(racks), 1, 1000, 0, NULL, "node i of every role stands in rack i modulo this"},
    {"sameRackMicroseconds", SIM_F_NS, AT(same_rack_ns), 0, 1e6, US, NULL, "more delay inside a rack"},
    {"crossRackMicroseconds", SIM_F_NS, AT(cross_rack_ns), 0, 1e6, US, NULL, "more delay between racks"},
};
static const struct sim_field grid_fields[] = {
    {"load", SIM_F_NUMBERS, AT(grid.load), 0.001, 10, 0, NULL, "values of clients.load"},
    {"queueDepth", SIM_F_NUMBERS, AT(grid.depth), 1, 64, 1, NULL, "values of workers.queueDepth"},
    {"workers", SIM_F_NUMBERS, AT(grid.workers), 1, SIM_WORKERS_MAX, 1, NULL, "values of workers.count"},
    {"policy", SIM_F_NAMES, AT(grid.policy), 0, 0, 0, bt_router_policy_words, "values of routers.policy"},
    {"seeds", SIM_F_U32, AT(grid.seeds), 1, 1000, 0, NULL, "seeds of each point, from the scenario's own on"},
};

#undef AT
#define AT(m) offsetof(struct sim_phase, m)
static const struct sim_field phase_fields[] = {
    {"load", SIM_F_DOUBLE, AT(load), 0.001, 10, 0, NULL, "as clients.load", true},
    {"forMilliseconds", SIM_F_NS, AT(for_ns), 0.001, 1e9, MS, NULL, "how long; the last phase lasts to the end"},
};
#undef AT
#define AT(m) offsetof(struct sim_link, m)
static const struct sim_field link_fields[] = {
    {"name", SIM_F_TEXT, AT(name), 0, SIM_NAME, 0, NULL, "for people"},
    {"from", SIM_F_NAME, AT(from), 0, 0, 0, end_names, "role of the sender"},
    {"to", SIM_F_NAME, AT(to), 0, 0, 0, end_names, "role of the receiver"},
    {"fromIndex", SIM_F_DOUBLE, AT(from_index), -1, SIM_CLIENTS_MAX - 1, 0, NULL,
     "only this node of the role; -1: all"},
    {"toIndex", SIM_F_DOUBLE, AT(to_index), -1, SIM_CLIENTS_MAX - 1, 0, NULL, "likewise"},
    {"microseconds", SIM_F_DOUBLE, AT(delay_us), -1, 1e6, 0, NULL, "delay instead of the one in network; -1: that one"},
    {"jitter", SIM_F_NAME, AT(jitter), 0, 0, 0, jitter_names, "distribution of the jitter"},
    {"jitterMicroseconds", SIM_F_NS, AT(jitter_ns), 0, 1e6, US, NULL,
     "greatest value of uniform, mean of the others; added to the delay"},
    {"gigabitsPerSecond", SIM_F_DOUBLE, AT(gigabits), 0, 1000, 0, NULL,
     "the sender's device sends one packet after the other at this rate, 66 bytes of frame, IP and UDP added; 0: at "
     "once"},
    {"loss", SIM_F_DOUBLE, AT(loss), 0, 1, 0, NULL, "share of packets"},
    {"duplicate", SIM_F_DOUBLE, AT(duplicate), 0, 1, 0, NULL, "share of packets that arrive twice"},
    {"reorder", SIM_F_DOUBLE, AT(reorder), 0, 1, 0, NULL,
     "share of packets held back, so that later ones overtake them"},
    {"reorderMicroseconds", SIM_F_NS, AT(reorder_ns), 0, 1e6, US, NULL, "how long at most"},
};
#undef AT
#define AT(m) offsetof(struct sim_fault, m)
static const struct sim_field fault_fields[] = {
    {"name", SIM_F_TEXT, AT(name), 0, SIM_NAME, 0, NULL, "for --without; default PACKETS-KIND"},
    {"packets", SIM_F_NAME, AT(packet), 0, 0, 0, sim_packet_names, "which packets"},
    {"kind", SIM_F_NAME, AT(kind), 0, 0, 0, sim_fault_names, "what happens to them"},
    {"probability", SIM_F_DOUBLE, AT(probability), 0, 1, 0, NULL, "to each of them", true},
    {"microseconds", SIM_F_NS, AT(extra_ns), 0, 1e7, US, NULL, "reorder, delay, duplicate, resend: how late"},
    {"fromMilliseconds", SIM_F_NS, AT(from_ns), 0, 1e7, MS, NULL, "after the load starts"},
    {"untilMilliseconds", SIM_F_NS, AT(until_ns), 0, 1e7, MS, NULL, "after the load starts; default: always"},
};
#undef AT
#define AT(m) offsetof(struct sim_happening, m)
static const struct sim_field event_fields[] = {
    {"kind", SIM_F_NAME, AT(kind), 0, 0, 0, sim_event_names, "what happens"},
    {"atMilliseconds", SIM_F_NS, AT(at_ns), 0, 1e7, MS, NULL, "after the load starts"},
    {"forMilliseconds", SIM_F_NS, AT(for_ns), 0, 1e7, MS, NULL, "until it is over"},
    {"target", SIM_F_U32, AT(target), 0, SIM_CLIENTS_MAX - 1, 0, NULL, "which node, modulo their number"},
    {"value", SIM_F_U32, AT(value), 0, 64, 0, NULL,
     "setDepth, reconfigure: n; slowServer: factor; starve: buffers left; clockDrift: rate 960 + 2 x value of 1024; "
     "unreachable: worker; pauseThread: odd for that of FEEDBACK"},
    {"role", SIM_F_NAME, AT(role), 0, 0, 0, who_names, "clock..., pause, starve: whose"},
    {"between", SIM_F_NAME, AT(between), 0, 0, 0, between_names, "cut: target is one of the first, against all others"},
    {"direction", SIM_F_NAME, AT(direction), 0, 0, 0, direction_names, "cut: which packets are lost"},
};
#undef AT
#define AT(m) offsetof(struct sim_expect, m)
static const struct sim_field expect_fields[] = {
    {"measure", SIM_F_TEXT, AT(measure), 0, SIM_NAME, 0, sim_measure_names,
     "mean and percentiles are in mean service times", true},
    {"atLeast", SIM_F_DOUBLE, AT(low), -1e18, 1e18, 0, NULL, ""},
    {"atMost", SIM_F_DOUBLE, AT(high), -1e18, 1e18, 0, NULL, ""},
};
#undef AT

static void begin_link(void *item, uint32_t i, int line)
{
    struct sim_link *l = item;
    (void)i;
    (void)line;
    *l = (struct sim_link){.from = SIM_END_ANY, .to = SIM_END_ANY, .from_index = -1, .to_index = -1, .delay_us = -1};
}

static void begin_fault(void *item, uint32_t i, int line)
{
    (void)i;
    (void)line;
    ((struct sim_fault *)item)->until_ns = UINT64_MAX;
}

static void end_fault(void *item)
{
    struct sim_fault *f = item;
    if (f->name[0] == '\0') {
        snprintf(f->name, sizeof f->name, "%s-%s", sim_packet_names[f->packet], sim_fault_names[f->kind]);
    }
}

static void begin_event(void *item, uint32_t i, int line)
{
    (void)line;
    ((struct sim_happening *)item)->number = i;
}

static void begin_expect(void *item, uint32_t i, int line)
{
    (void)i;
    *(struct sim_expect *)item = (struct sim_expect){.low = -1e300, .high = 1e300, .line = line};
}

#define MAP(path, fields, about) {path, fields, ARRAY(fields), about, 0, 0, 0, 0, NULL, NULL}
#define LIST(path, fields, about, items, count, begin, end)                                                            \
    {path,                                                                                                             \
     fields,                                                                                                           \
     ARRAY(fields),                                                                                                    \
     about,                                                                                                            \
     ARRAY(((struct sim_scenario *)0)->items),                                                                         \
     offsetof(struct sim_scenario, items),                                                                             \
     sizeof(((struct sim_scenario *)0)->items[0]),                                                                     \
     offsetof(struct sim_scenario, count),                                                                             \
     begin,                                                                                                            \
     end}

const struct sim_section sim_sections[] = {
    MAP("", top_fields, "The whole run."),
    MAP("workers", worker_fields, "Servers and what a request costs them."),
    MAP("routers", router_fields, "Routers and how they choose."),
    MAP("routers.twoThreads", thread_fields, "How the threads of a router on two threads lag behind each other."),
    MAP("admission", admission_fields, "Admission control in the routers (SVEN)."),
    MAP("hedging", hedging_fields, "Hedged requests, sent by the routers (R-249)."),
    MAP("clients", client_fields, "Clients, arrivals and sizes."),
    MAP("clients.mmpp", mmpp_fields, "Bursts: Poisson arrivals whose rate switches between two states."),
    MAP("halfOpen", half_open_fields, "Strangers whose requests never become whole (R-63)."),
    LIST("clients.phases", phase_fields, "Load steps, one after the other.", phase, phases_n, NULL, NULL),
    MAP("network", network_fields, "One-way delays by role."),
    MAP("topology", topology_fields, "Racks: a delay class for pairs of nodes in the same rack, another for the rest."),
    LIST("links", link_fields,
         "What differs for packets between certain nodes; of several that match, the last counts.", link, links_n,
         begin_link, NULL),
    MAP("grid", grid_fields, "Points to run: every combination of the lists, each with so many seeds."),
    LIST("faults", fault_fields, "What happens to packets at random.", fault, faults_n, begin_fault, end_fault),
    LIST("events", event_fields, "What happens to nodes at a time.", event, events_n, begin_event, NULL),
    LIST("expect", expect_fields, "What the run must show.", expect, expect_n, begin_expect, NULL),
};
const size_t sim_sections_n = ARRAY(sim_sections);
