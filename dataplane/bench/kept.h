// SPDX-License-Identifier: Apache-2.0
// Callgrind counts functions by name: what it shall count must stay one function of that name, not cloned, and not
// merged with another that does the same.
#ifndef BOBTAIL_BENCH_KEPT_H
#define BOBTAIL_BENCH_KEPT_H

#if defined(__clang__) // neither clones nor merges
#define KEPT __attribute__((noinline)) static
#else
#define KEPT __attribute__((noinline, noclone, no_icf)) static
#endif

#endif
