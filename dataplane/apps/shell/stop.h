// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT ask the packet loop to drain; a second one asks it to stop at once. So does a device that is taken
// away.
#ifndef BT_APPS_STOP_H
#define BT_APPS_STOP_H

#include "io/io.h"

// The exit status of a program whose device was taken away, or not there when it began (EX_UNAVAILABLE): starting it
// again in its place does not help. The operator has the same number (rpcservice/lost.go).
#define BT_EXIT_DEVICE_LOST 69

// Installs the handlers; they wake `io`, if not NULL: call it again with NULL before `io` is closed.
// Also ignores SIGPIPE.
void bt_stop_install(struct bt_io *io);

// How many such signals came so far. Any thread.
unsigned bt_stop_count(void);

// As one signal, or with `at_once` as two: the device is lost, by this reason. Any thread.
void bt_stop_without_device(bool at_once, const char *why);

// What a program that would end with `status` ends with; the reason of a lost device is then its last line.
int bt_stop_status(int status);

#endif
