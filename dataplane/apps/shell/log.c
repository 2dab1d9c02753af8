// SPDX-License-Identifier: Apache-2.0
// See log.h. A line is written by one call, so that threads do not mix theirs.
#include "shell/log.h"

#include "ctl/json_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 800, LINE_BYTES = 6 * TEXT_BYTES + 256 }; // JSON writes a control character in six

static const char *log_program = "bobtail";
static enum bt_log_format log_format;

void bt_log_init(const char *program, enum bt_log_format format)
{
    log_program = program;
    log_format = format;
}

static void write_line(const char *level, const char *text)
{
    char line[LINE_BYTES];
    char stamp[40];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(stamp + n, sizeof stamp - n, ".%03ldZ", now.tv_nsec / 1000000);
    if (log_format == BT_LOG_JSON) {
        struct bt_json_out o = {0};
        bt_json_out_open(&o, NULL, '{');
        bt_json_out_string(&o, "time", stamp);
        bt_json_out_string(&o, "level", level);
        bt_json_out_string(&o, "program", log_program);
        bt_json_out_string(&o, "message", text);
        bt_json_out_close(&o, '}');
        n = (size_t)snprintf(line, sizeof line, "%s\n", o.overflow ? "{}" : o.text);
        bt_json_out_free(&o);
    } else {
        n = (size_t)snprintf(line, sizeof line, "%s %s %s: %s\n", stamp, log_program, level, text);
    }
    ssize_t put = write(STDERR_FILENO, line, n < sizeof line ? n : sizeof line - 1);
    (void)put;
}

#define LEVEL(name, level)                                                                                             \
    void name(const char *format, ...)                                                                                 \
    {                                                                                                                  \
        char text[TEXT_BYTES];                                                                                         \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        vsnprintf(text, sizeof text, format, args);                                                                    \
        va_end(args);                                                                                                  \
        write_line(level, text);                                                                                       \
    }
LEVEL(bt_log_info, "info")
LEVEL(bt_log_warn, "warn")
LEVEL(bt_log_error, "error")
