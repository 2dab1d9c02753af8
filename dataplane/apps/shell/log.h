// SPDX-License-Identifier: Apache-2.0
// One line per event on stderr, as text or JSON. Start, configuration, drain and failure are
// events; packets never are.
#ifndef BT_APPS_LOG_H
#define BT_APPS_LOG_H

enum bt_log_format { BT_LOG_TEXT, BT_LOG_JSON };

void bt_log_init(const char *program, enum bt_log_format format);
void bt_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bt_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bt_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
