// SPDX-License-Identifier: Apache-2.0
// See tcp.h.
#include "tcp.h"

#include "base/bytes.h"
#include "scheduled.h"

#include <stdio.h>
#include <string.h>

// By number of the protocol, less one: enum serve_protocol begins with R2P2.
static const enum bt_framing framing_of[] = {BT_FRAMING_RESP, BT_FRAMING_HTTP, BT_FRAMING_MEMCACHED, BT_FRAMING_U32};

static const struct bt_counter_desc tcp_desc[BT_RUN_TCP_COUNTERS] = {
    [BT_RUN_TCP_ACCEPTED] = {"server_connections_total", NULL, NULL},
    [BT_RUN_TCP_REQUESTS] = {"server_tcp_requests_total", NULL, NULL},
    [BT_RUN_TCP_MALFORMED] = {"server_connections_closed_total", "reason", "malformed"},
    [BT_RUN_TCP_TOO_LONG] = {"server_connections_closed_total", "reason", "too_long"},
    [BT_RUN_TCP_CUT] = {"server_connections_closed_total", "reason", "cut"},
    [BT_RUN_TCP_REFUSED] = {"server_connections_closed_total", "reason", "refused"},
    [BT_RUN_TCP_MEMORY] = {"server_connections_closed_total", "reason", "memory"},
    [BT_RUN_TCP_FULL] = {"server_connections_closed_total", "reason", "full"},
    [BT_RUN_TCP_RESET] = {"server_connections_closed_total", "reason", "reset"},
    [BT_RUN_TCP_NOT_TCP] = {"server_packets_dropped_total", "reason", "not_tcp"},
};

bool serve_tcp_setup(struct serve_app *app, struct bt_run_tcp *tcp)
{
    const struct serve_options *o = &app->opt;
    *tcp = (struct bt_run_tcp){.local = o->first,
                               .framing = framing_of[o->protocol - 1],
                               .max_message = o->max_message,
                               .connections = o->connections};
    return o->network.driver != BT_NETWORK_DPDK || serve_stack_open(app, tcp);
}

static void answer_framed(const struct serve_app *app, struct bobtail_request *request, const char *head, size_t n,
                          const char *tail)
{
    const struct bobtail_bytes piece[] = {{head, n}, {app->reply, app->opt.reply_size}, {tail, strlen(tail)}};
    bobtail_reply_pieces(request, piece, 3);
}

static void answer_u32(const struct serve_app *app, struct bobtail_request *request)
{
    uint8_t head[4];
    bt_put32(head, app->opt.reply_size);
    answer_framed(app, request, (const char *)head, sizeof head, "");
}

static void answer_resp(const struct serve_app *app, struct bobtail_request *request)
{
    char head[24];
    int n = snprintf(head, sizeof head, "$%u\r\n", app->opt.reply_size);
    answer_framed(app, request, head, (size_t)n, "\r\n");
}

/* The body is what came, or zeros. */
static void answer_http(const struct serve_app *app, struct bobtail_request *request)
{
    char head[80];
    bool echo = app->opt.reply_size == SERVE_ECHO;
    size_t body = echo ? bobtail_request_length(request) : app->opt.reply_size;
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", body);
    if (!echo) {
        answer_framed(app, request, head, (size_t)n, "");
        return;
    }
    struct bobtail_bytes all[18] = {{head, (size_t)n}};
    int pieces;
    const struct bobtail_bytes *came = bobtail_request_bytes(request, &pieces);
    for (int i = 0; i < pieces && i < 17; i++) {
        all[1 + i] = came[i];
    }
    if (pieces <= 17) { // a longer request is not answered, and its connection ends
        bobtail_reply_pieces(request, all, 1 + pieces);
    }
}

// A store that wants no answer ends with this word; a key may be called so, too.
static bool wants_none(const char *arguments)
{
    static const char word[] = " noreply";
    size_t n = strlen(arguments), len = sizeof word - 1;
    return n > len && strcmp(arguments + n - len, word) == 0;
}

/* Nothing is kept: every key is unknown, and whatever is stored is forgotten. */
static void answer_memcached(const struct serve_app *app, struct bobtail_request *request)
{
    static const struct {
        const char *command, *says;
        bool always; // also where the last of what it asks for is called noreply
    } table[] = {{"get", "END\r\n", true},
                 {"gets", "END\r\n", true},
                 {"set", "STORED\r\n", false},
                 {"add", "STORED\r\n", false},
                 {"replace", "STORED\r\n", false},
                 {"append", "STORED\r\n", false},
                 {"prepend", "STORED\r\n", false},
                 {"cas", "STORED\r\n", false},
                 {"version", "VERSION " BOBTAIL_VERSION "\r\n", true}};
    char line[300] = {0};
    const char *says = "NOT_FOUND\r\n";
    bool always = false;
    (void)app;
    bobtail_request_copy(request, line, sizeof line - 1);
    line[strcspn(line, "\r\n")] = '\0';
    size_t n = strcspn(line, " ");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].command) == n && strncmp(table[i].command, line, n) == 0) {
            says = table[i].says;
            always = table[i].always;
        }
    }
    bool quiet = !always && wants_none(line + n);
    bobtail_reply(request, says, quiet ? 0 : strlen(says));
}

void serve_tcp_answer(const struct serve_app *app, struct bobtail_request *request)
{
    int n;
    if (app->opt.protocol == SERVE_HTTP) {
        answer_http(app, request);
    } else if (app->opt.protocol == SERVE_MEMCACHED) {
        answer_memcached(app, request);
    } else if (app->opt.reply_size == SERVE_ECHO) { // what came is an answer, too
        const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
        bobtail_reply_pieces(request, piece, n);
    } else if (app->opt.protocol == SERVE_RESP) {
        answer_resp(app, request);
    } else {
        answer_u32(app, request);
    }
}

void serve_tcp_counters(const struct serve_app *app, struct bt_ctl_samples *out)
{
    uint64_t values[BT_RUN_TCP_COUNTERS];
    bt_run_read_tcp(app->scheduled->run, values);
    bt_ctl_add_counters(out, tcp_desc, values, BT_RUN_TCP_COUNTERS);
}
