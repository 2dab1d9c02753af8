// SPDX-License-Identifier: Apache-2.0
// Memory, or threads, that run out at a moment of the test's choice: of the allocations that follow, one fails. Only
// those of the program are asked, not those of the libraries behind it. Link with starve.c and its arguments
// (meson.build).
#ifndef BT_TESTS_RUN_STARVE_H
#define BT_TESTS_RUN_STARVE_H

#include <stdbool.h>

// The allocation after so many more fails, and no other one.
void starve_after(unsigned allocations);
// Likewise of threads that are started.
void starve_threads_after(unsigned threads);
// From now on none fails. True: one did.
bool starve_ended(void);

#endif
