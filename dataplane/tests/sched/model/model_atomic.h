// SPDX-License-Identifier: Apache-2.0
// What src/sched/atomic.h is for the model checker (relacy): every access to shared memory is a place where another
// thread may go on, an atomic gives any value that the C11 memory model allows, and a plain field that two threads
// touch without order is an error.
#ifndef BT_TESTS_SCHED_MODEL_ATOMIC_H
#define BT_TESTS_SCHED_MODEL_ATOMIC_H

#include <relacy/relacy.hpp>

#include <cstdint>

typedef rl::atomic<uint32_t> sched_word;

#define sched_load(p, order)            (*(p))(RL_INFO).load(rl::mo_##order)
#define sched_store(p, value, order)    (*(p))(RL_INFO).store((value), rl::mo_##order)
#define sched_exchange(p, value, order) (*(p))(RL_INFO).exchange((value), rl::mo_##order)
#define sched_replace(p, expected, value, order)                                                                       \
    (*(p))(RL_INFO).compare_exchange_strong(*(expected), (value), rl::mo_##order, rl::mo_relaxed)
#define sched_fence() rl::atomic_thread_fence(rl::mo_seq_cst, RL_INFO)

#define SCHED_PLAIN(type)     rl::var<type>
#define sched_get(p)          (*(p))(RL_INFO).load()
#define sched_put(p, value)   (*(p))(RL_INFO).store(value)
#define sched_count(p, value) sched_store((p), sched_load((p), relaxed) + (value), relaxed)
#define sched_note(p)         ((void)0)

#define SCHED_ALIGNED

static inline void sched_pause()
{
    rl::yield(1, RL_INFO);
}

#endif
