// SPDX-License-Identifier: Apache-2.0
// Whether the program behind a control socket goes round its loop: what a probe of its container asks.
#ifndef BOBTAIL_SHELL_ALIVE_H
#define BOBTAIL_SHELL_ALIVE_H

#include <stdbool.h>

// Asks for the state, which the packet loop itself gives, and waits 2 s at most. Says on stderr what was wrong.
bool bt_alive(const char *socket_path);

#endif
