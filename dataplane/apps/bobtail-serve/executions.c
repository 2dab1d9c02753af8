// SPDX-License-Identifier: Apache-2.0
// What was executed, for whoever wants to match it with what clients got (bobtail-load
// --outcome-log). One line per request at the moment it is handed to a worker:
//   SERIAL WORKER_PORT CLIENT REQ_ID
// SERIAL is what the first 8 bytes of the request hold, in hexadecimal. Each line is one write, so
// that a log ends with the last execution even if the process is killed.
#include "serve_app.h"

#include "shell/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool serve_executions_open(struct serve_app *app)
{
    app->executions = -1;
    if (app->opt.execution_log == NULL) {
        return true;
    }
    app->executions = open(app->opt.execution_log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (app->executions < 0) {
        bt_log_error("--execution-log=%s: %s", app->opt.execution_log, strerror(errno));
    }
    return app->executions >= 0;
}

void serve_executions_write(const struct serve_app *app, const struct serve_execution *x)
{
    char client[BT_ADDR_TEXT];
    char line[128];
    int n = snprintf(line, sizeof line, "%016" PRIx64 " %u %s %u\n", x->serial, x->port,
                     bt_addr_format(x->client, client), x->req_id);
    if (write(app->executions, line, (size_t)n) != n) {
        bt_log_warn("--execution-log: a line is missing: %s", strerror(errno));
    }
}

void serve_executions_add(const struct serve_worker *w, const struct bt_server_request *rq)
{
    struct serve_execution x = {0, w->app->opt.first.port + w->index, &rq->client, rq->req_id};
    if (w->app->executions < 0) {
        return;
    }
    bt_msg_copy(&rq->msg, &x.serial, sizeof x.serial);
    serve_executions_write(w->app, &x);
}
