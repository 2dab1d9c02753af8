// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers it wants in the order it wants them, and how many seeds a random test takes.
#ifndef BT_TESTS_UNIT_H
#define BT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Every seed of n in an ordinary build. AddressSanitizer makes each cost five to ten times as much, and what it looks
// for does not hide in one seed among many: a fifth of them is enough there.
#ifdef __SANITIZE_ADDRESS__
#define SEEDS(n) (((n) + 4) / 5)
#else
#define SEEDS(n) (n)
#endif

#endif
