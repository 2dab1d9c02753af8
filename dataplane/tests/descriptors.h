// SPDX-License-Identifier: Apache-2.0
// How many descriptors this process has open: as many as before, where a test says that nothing stays open.
#ifndef BT_TESTS_DESCRIPTORS_H
#define BT_TESTS_DESCRIPTORS_H

#include "unit.h"

#include <dirent.h>

static inline int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

#endif
