// SPDX-License-Identifier: Apache-2.0
// Every field of the configuration document: where it goes, and what it may be.
#include "ctl/config_internal.h"

#include "router/words.h"

#include <stdio.h>
#include <string.h>

#define CFG(m) BT_SHAPE_AT(struct bt_config, m)
#define SVC(m) BT_SHAPE_AT(struct bt_config_service, m)
#define ADM(m) BT_SHAPE_AT(struct bt_config_admission, m)
#define HDG(m) BT_SHAPE_AT(struct bt_config_hedging, m)
#define FLW(m) BT_SHAPE_AT(struct bt_config_flow, m)
#define SCH(m) BT_SHAPE_AT(struct bt_config_scheduling, m)
#define SRC(m) BT_SHAPE_AT(struct bt_config_source, m)
#define MEM(m) BT_SHAPE_AT(struct bt_config_member, m)
#define RTR(m) BT_SHAPE_AT(struct bt_config_router, m)

// Rows of required fields.
#define TEXT(name, place, least)      {name, BT_SHAPE_TEXT, true, place, .min = least}
#define WHOLE(name, place, low, high) {name, BT_SHAPE_WHOLE, true, place, .min = low, .max = high}
#define WORD(name, place, list)       {name, BT_SHAPE_WORD, true, place, .words = list}
#define PARSED(name, place, how)      {name, BT_SHAPE_PARSED, true, place, .parse = how}
#define SHAPE(rows, type)             {rows, sizeof rows / sizeof *rows, sizeof(struct type), false}

enum { US_MAX = 1000000, MS_MAX = 600000, PERCENTILE_MIN = 50000, PERCENTILE_MAX = 99990 };

static const char *const placement_words[] = {"Software", "None", NULL};
static const char *const legacy_words[] = {"Deny", "Allow", NULL};

// A bare IP address, without port or brackets.
static const char *parse_address(const char *text, void *to)
{
    struct bt_addr *out = to;
    char full[64];
    if (text == NULL || strlen(text) >= sizeof full - 8 || strpbrk(text, "[]%") != NULL) {
        return "must be an IP address";
    }
    snprintf(full, sizeof full, strchr(text, ':') != NULL ? "[%s]:1" : "%s:1", text);
    if (bt_addr_parse(full, 0, out) != 0) {
        return "must be an IP address";
    }
    // What nobody could send from, such as 240.0.0.0/4, nobody can be reached at.
    return bt_addr_bad_source(out) ? "must be a unicast address" : NULL;
}

static const char *parse_version(const char *text, void *to)
{
    (void)to;
    return strcmp(text, BT_CONFIG_API_VERSION) == 0 ? NULL : "must be \"" BT_CONFIG_API_VERSION "\"";
}

static const struct bt_shape_field source_fields[] = {
    TEXT("kind", SRC(kind), 1), TEXT("namespace", SRC(namespace), 1),       TEXT("name", SRC(name), 1),
    TEXT("uid", SRC(uid), 0),   WHOLE("generation", SRC(generation), 0, 0), // any
};

static const struct bt_shape_field hold_back_fields[] = {
    WHOLE("packets", SVC(hold_back_packets), 0, 1024),
    WHOLE("microseconds", SVC(hold_back_us), 0, US_MAX),
};

static const struct bt_shape_field class = {"", BT_SHAPE_WHOLE, true, {0, sizeof(int64_t)}, .max = 7};
static const struct bt_shape_field admission_fields[] = {
    {"mode", BT_SHAPE_WORD, true, ADM(mode), .words = bt_admission_mode_words + 1, .first_word = 1},
    WORD("controller", ADM(controller), bt_controller_words),
    WHOLE("latencyMicroseconds", ADM(latency_us), 1, 100 * US_MAX),
    WHOLE("percentilePer100000", ADM(per_100k), PERCENTILE_MIN, PERCENTILE_MAX),
    {"droppableClasses", BT_SHAPE_LIST, true, ADM(droppable), ADM(n_droppable), .max = BT_CONFIG_WORKERS_MAX,
     .item = &class, .check = bt_config_check_classes},
};

static const struct bt_shape_field hedging_fields[] = {
    {"mode", BT_SHAPE_WORD, true, HDG(mode), .words = bt_hedging_mode_words + 1, .first_word = 1},
    WHOLE("busyPercent", HDG(busy_percent), 1, 100),
    WHOLE("budgetPercent", HDG(budget_percent), 1, 100),
    WHOLE("percentilePer100000", HDG(per_100k), PERCENTILE_MIN, PERCENTILE_MAX),
    WHOLE("probePerMillion", HDG(probe_per_million), 0, 1000000),
    {"cancellation", BT_SHAPE_WORD, false, HDG(cancellation), .words = bt_cancellation_words + 1, .first_word = 1},
};

static const char *const wait_model_words[] = {"Refined", "Paper", NULL};
static const struct bt_shape_field flow_fields[] = {
    WHOLE("waitMicroseconds", FLW(wait_us), 1, 10 * US_MAX),
    WHOLE("percentilePer100000", FLW(per_100k), PERCENTILE_MIN, PERCENTILE_MAX),
    WORD("model", FLW(model), wait_model_words),
};

const char *const bt_scheduling_mode_words[] = {"RunToCompletion", "WorkStealing", NULL};
static const char *const ordering_words[] = {"PerRequest", "PerClient", NULL};
static const struct bt_shape_field scheduling_fields[] = {
    WORD("mode", SCH(mode), bt_scheduling_mode_words), WHOLE("batchSize", SCH(batch), 1, 1024),
    WHOLE("minCores", SCH(min_cores), 1, 64),          WHOLE("maxCores", SCH(max_cores), 1, 64),
    WORD("ordering", SCH(ordering), ordering_words),
};

static const struct bt_shape source_shape = SHAPE(source_fields, bt_config_source);
static const struct bt_shape hold_back_shape = SHAPE(hold_back_fields, bt_config_service);
static const struct bt_shape admission_shape = SHAPE(admission_fields, bt_config_admission);
static const struct bt_shape hedging_shape = SHAPE(hedging_fields, bt_config_hedging);
static const struct bt_shape flow_shape = SHAPE(flow_fields, bt_config_flow);
static const struct bt_shape scheduling_shape = SHAPE(scheduling_fields, bt_config_scheduling);

static const struct bt_shape_field service_fields[] = {
    TEXT("name", SVC(name), 1),
    TEXT("namespace", SVC(namespace), 1),
    WORD("placement", SVC(placement), placement_words),
    WORD("policy", SVC(policy), bt_router_policy_words),
    WHOLE("workerQueueDepth", SVC(worker_queue_depth), 1, BT_ROUTER_DEPTH_MAX),
    WHOLE("centralQueueLimit", SVC(central_queue_limit), 1, 1048576),
    WHOLE("maxQueueMilliseconds", SVC(max_queue_ms), 1, MS_MAX),
    WORD("forwarding", SVC(forwarding), bt_router_forwarding_words),
    WORD("deviceProfile", SVC(device), bt_device_words),
    WORD("legacyPeers", SVC(legacy_peers), legacy_words),
    WHOLE("requestTimeoutMilliseconds", SVC(request_timeout_ms), 1, MS_MAX),
    WHOLE("workersPerReplica", SVC(workers_per_replica), 1, 64),
    {"holdBack", BT_SHAPE_OBJECT, true, .shape = &hold_back_shape},
    {"admission", BT_SHAPE_OBJECT, false, SVC(admission), .given = SVC(admission.given), .shape = &admission_shape},
    {"hedging", BT_SHAPE_OBJECT, false, SVC(hedging), .given = SVC(hedging.given), .shape = &hedging_shape},
    {"flowControl", BT_SHAPE_OBJECT, false, SVC(flow), .given = SVC(flow.given), .shape = &flow_shape},
    {"scheduling", BT_SHAPE_OBJECT, false, SVC(scheduling), .given = SVC(scheduling.given), .shape = &scheduling_shape},
};

static const struct bt_shape_field member_fields[] = {
    PARSED("address", MEM(addr), parse_address),
    WHOLE("firstPort", MEM(first_port), 1, 65535),
    WHOLE("workers", MEM(workers), 1, 64),
    TEXT("name", MEM(name), 1),
};

static const struct bt_shape_field router_fields[] = {
    PARSED("address", RTR(request), parse_address),
    WHOLE("requestPort", RTR(request_port), 1, 65535),
    WHOLE("feedbackPort", RTR(feedback_port), 1, 65535),
    TEXT("name", RTR(name), 1),
};

static const struct bt_shape service_shape = SHAPE(service_fields, bt_config_service);
static const struct bt_shape member_shape = SHAPE(member_fields, bt_config_member);
static const struct bt_shape router_shape = SHAPE(router_fields, bt_config_router);
static const struct bt_shape_field source = {"", BT_SHAPE_OBJECT, .shape = &source_shape};
static const struct bt_shape_field member = {"", BT_SHAPE_OBJECT, .shape = &member_shape};
static const struct bt_shape_field router = {"", BT_SHAPE_OBJECT, .shape = &router_shape};
static const struct bt_shape_field key_id = {"", BT_SHAPE_WHOLE, true, {0, sizeof(int64_t)}, .min = 1, .max = 255};

static const struct bt_shape_field document_fields[] = {
    PARSED("apiVersion", {0}, parse_version),
    {"sources", BT_SHAPE_LIST, true, CFG(sources), CFG(n_sources), .max = BT_CONFIG_SOURCES_MAX, .item = &source},
    {"service", BT_SHAPE_OBJECT, true, CFG(service), .shape = &service_shape, .check = bt_config_check_service},
    {"members", BT_SHAPE_LIST, true, CFG(members), CFG(n_members), .max = BT_CONFIG_WORKERS_MAX, .item = &member,
     .check = bt_config_check_members},
    {"routers", BT_SHAPE_LIST, true, CFG(routers), CFG(n_routers), .max = BT_CONFIG_ROUTERS_MAX, .item = &router,
     .check = bt_config_check_routers},
    {"keyIds", BT_SHAPE_LIST, true, CFG(key_ids), CFG(n_key_ids), .max = BT_CONFIG_KEYS_MAX, .item = &key_id,
     .check = bt_config_check_key_ids},
};

const struct bt_shape bt_config_shape = SHAPE(document_fields, bt_config);
