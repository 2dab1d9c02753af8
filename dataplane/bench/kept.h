// SPDX-License-Identifier: Apache-2.0
// Callgrind counts functions by name: what it shall count must stay one function of that name.
#ifndef BOBTAIL_BENCH_KEPT_H
#define BOBTAIL_BENCH_KEPT_H

#if defined(__clang__) // never clones
#define KEPT __attribute__((noinline)) static
#else
#define KEPT __attribute__((noinline, noclone)) static
#endif

#endif
