// SPDX-License-Identifier: Apache-2.0
// The atomics of this room, and the fields that threads hand to one another under a lock or a token. The files that
// threads share name no other way to memory, so that the model checker, which is C++, can put its own in their place
// (tests/sched/model/model_atomic.h) and compile these very files. They are therefore written in what C17 and C++14
// have in common.
#ifndef BT_SCHED_ATOMIC_H
#define BT_SCHED_ATOMIC_H

#ifdef BT_SCHED_MODEL
#include "model_atomic.h"
#else

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint32_t sched_word;

// order: relaxed, acquire, release, acq_rel, seq_cst
#define sched_load(p, order)            atomic_load_explicit((p), memory_order_##order)
#define sched_store(p, value, order)    atomic_store_explicit((p), (value), memory_order_##order)
#define sched_exchange(p, value, order) atomic_exchange_explicit((p), (value), memory_order_##order)
// True when *p was `*expected` and is `value` now; else *expected is what was there.
#define sched_replace(p, expected, value, order)                                                                       \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_##order, memory_order_relaxed)
#define sched_fence()         atomic_thread_fence(memory_order_seq_cst)

// A field that is no atomic: who reads and writes it must be ordered by a lock, a token or a phase.
#define SCHED_PLAIN(type)     type
#define sched_get(p)          (*(p))
#define sched_put(p, value)   (*(p) = (value))
// A number that one thread at a time writes, and others may read.
#define sched_count(p, value) sched_store((p), sched_load((p), relaxed) + (value), relaxed)
// The same for statistics, which the model leaves out.
#define sched_note(p)         sched_count((p), 1u)

#define SCHED_ALIGNED __attribute__((aligned(64)))

// While waiting for a lock that another core holds for some instructions.
static inline void sched_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
#endif
