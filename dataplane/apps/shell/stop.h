// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT ask the packet loop to drain; a second one asks it to stop at once.
#ifndef BT_APPS_STOP_H
#define BT_APPS_STOP_H

#include "io/io.h"

// Installs the handlers; they wake `io`, if not NULL: call it again with NULL before `io` is closed.
// Also ignores SIGPIPE.
void bt_stop_install(struct bt_io *io);

// How many such signals came so far. Any thread.
unsigned bt_stop_count(void);

#endif
