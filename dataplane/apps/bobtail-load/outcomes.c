// SPDX-License-Identifier: Apache-2.0
// What became of each single request, for whoever wants to match it with what servers executed
// (bobtail-serve --execution-log). One line each:
//   SERIAL RESULT PORT ROUTER SENT_MS ENDED_MS
// SERIAL is the number in the first 8 bytes of the body in hexadecimal, RESULT one of answered,
// corrupt, dropped, timeout and error, PORT our own, and the times count from the start of the load.
#include "load_app.h"

#include "shell/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool load_outcomes_open(struct load_app *app)
{
    if (app->opt.outcome_log == NULL) {
        return true;
    }
    app->outcomes = fopen(app->opt.outcome_log, "we");
    if (app->outcomes == NULL) {
        bt_log_error("--outcome-log=%s: %s", app->opt.outcome_log, strerror(errno));
    }
    return app->outcomes != NULL;
}

void load_outcomes_add(struct load_app *app, const struct load_record *r, const char *result)
{
    char router[BT_ADDR_TEXT];
    if (app->outcomes == NULL) {
        return;
    }
    fprintf(app->outcomes, "%016" PRIx64 " %s %u %s %" PRIu64 " %" PRIu64 "\n", r->serial, result,
            (unsigned)app->io->ops->local(app->io, r->connection).port,
            bt_addr_format(&app->routers[r->router].addr, router), (r->sent_ns - app->start_ns) / 1000000,
            (bt_io_now(app->io) - app->start_ns) / 1000000);
}

bool load_outcomes_close(struct load_app *app)
{
    bool bad = app->outcomes != NULL && ferror(app->outcomes) != 0;
    if (app->outcomes != NULL && (fclose(app->outcomes) != 0 || bad)) {
        bt_log_error("--outcome-log=%s: could not be written whole", app->opt.outcome_log);
        return false;
    }
    return true;
}
