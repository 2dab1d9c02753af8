// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers it wants in the order it wants them.
#ifndef BT_TESTS_UNIT_H
#define BT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
