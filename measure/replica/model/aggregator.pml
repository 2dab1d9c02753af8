/* SPDX-License-Identifier: Apache-2.0 */
/* HovercRaft++ with an aggregator: R-335 to R-338, three members, ENTRIES entries, TERMS terms.
 *
 * What was ever sent may be taken at any time, in any order, any number of times, or never. So a message is a number
 * that only rises: up to which entry the leader of a term sent, a member answered, somebody knows of a commit. A term's
 * leader never takes entries back, so its messages are beginnings of one log. What costs nothing to do at once is done
 * at once, since it may be taken late: sending, counting, telling. An election takes a majority in one step, and a term
 * has one leader by construction: votes are not what is judged here. A follower writes before it answers; the leader's
 * own disk lags, and a crash takes what it had not written. The aggregator may lose all it knows, and take up any term
 * again whose messages are still under way.
 *
 * Judged: no two members ever commit different entries at an index, and none takes back what it committed. WRONG names
 * a rule that is broken on purpose. */
#ifndef ENTRIES
#define ENTRIES 3
#endif
#ifndef TERMS
#define TERMS 4
#endif
#define WRONG wrong /* 0: none */

#define OWN_LAST_INDEX 1         /* R-337: AGG_COMMIT up to the follower's own last entry */
#define COMMIT_OF_ANOTHER_TERM 2 /* R-337: AGG_COMMIT of a later term than the member's own */
#define ANSWER_OF_ANOTHER_TERM 3 /* R-342: the aggregator counts answers of another term */
#define BEFORE_THE_FIRST_ENTRY 4 /* R-336: used before an entry of the own term is committed */
#define NOT_YET_DURABLE 5        /* R-335: the leader counts itself and sends what it has not written */
#define WHAT_CAME_OTHERWISE 6    /* R-335: answers the aggregator for what the leader sent itself */
#define NO_FOLLOWER_NEEDED 7     /* R-335: one follower too few */
#define RAW_LAST_INDEX 8         /* R-310: the end of the own log is answered */
#define LATE_APPEND_TAKEN 9      /* an append of an earlier term */
#define OLD_TERM_COUNTED 10      /* R-336: the leader itself counts an entry of an earlier term */
#define LEADER_ANSWERS 11        /* a leader that fell answers its own messages, and counts twice */

/* The stories of these two are long, and appending or forgetting is no part of them; nor, of the first one, what the
 * leader sends itself. */
#define NARROW (WRONG == BEFORE_THE_FIRST_ENTRY || WRONG == OLD_TERM_COUNTED)

#define LOG(i, k)  log[(i) * ENTRIES + (k) - 1]  /* term of entry k at member i; k from 1 */
#define SENT(t, k) sent[(t) * ENTRIES + (k) - 1] /* the same in the messages of term t's leader; 0: not sent */
#define ACK(t, i)  ack[(t) * 3 + (i)]            /* to the leader */
#define ANSWER(t, i) answer[(t) * 3 + (i)]       /* to the aggregator */

byte term[3], size[3], dur[3], com[3];
byte ver[3];          /* verified by a message of this term */
byte way[3];          /* of that: by way of the aggregator */
bool lead[3];
byte log[3 * ENTRIES];
byte next = 1;        /* the next election's term */
byte who[TERMS + 1];  /* led it: member + 1 */

byte sent[(TERMS + 1) * ENTRIES], shared[TERMS + 1];
byte ack[(TERMS + 1) * 3], answer[(TERMS + 1) * 3];
byte known[TERMS + 1]; /* commit of this term, as the leader or the aggregator tells it */

byte agg_term, agg_commit;
byte chosen[ENTRIES + 1]; /* term of what somebody committed; 0: nothing */

byte wrong; /* the rule that is broken, of the environment: one program serves them all */
byte k, m; /* of one step, 0 between them */

#define RAISE(what, to) if :: what < (to) -> what = (to) :: else -> skip fi

/* Member i commits up to `to`. */
#define COMMIT(i, to)                                                                                                  \
    m = (to); k = com[i] + 1;                                                                                          \
    do                                                                                                                 \
    :: k <= m -> assert(chosen[k] == 0 || chosen[k] == LOG(i, k)); chosen[k] = LOG(i, k); k++                          \
    :: else -> break                                                                                                   \
    od;                                                                                                                \
    RAISE(com[i], m)

#define LEAST(x, y) ((x) < (y) -> (x) : (y))
#define MOST(x, y)  ((x) > (y) -> (x) : (y))

/* The leader counts itself, as far as it wrote, and one follower; entries of its term (R-336). */
#define ACKED(i) MOST(ACK(term[i], (i + 1) % 3), ACK(term[i], (i + 2) % 3))
#define HELD(i)  LEAST(ACKED(i), dur[i])
#define OWN(i, k) ((k) > 0 && (WRONG == OLD_TERM_COUNTED || LOG(i, k) == term[i]))
#define MAY_SHARE(i) (WRONG == BEFORE_THE_FIRST_ENTRY || (com[i] > 0 && LOG(i, com[i]) == term[i]))

/* What a member concludes from what may be known to it: it may hear of a commit at any time, so it does at once. */
#define LEADER_LEARNS(i)                                                                                               \
    if :: HELD(i) > com[i] && OWN(i, HELD(i)) -> COMMIT(i, HELD(i)) :: else -> skip fi;                                \
    if :: known[term[i]] > com[i] && known[term[i]] <= dur[i] -> COMMIT(i, known[term[i]]) :: else -> skip fi;         \
    RAISE(known[term[i]], com[i]);                                                                                     \
    if :: MAY_SHARE(i) -> RAISE(shared[term[i]], (WRONG == NOT_YET_DURABLE -> size[i] : dur[i])) :: else -> skip fi

#define UP_TO(i) (WRONG == OWN_LAST_INDEX -> size[i] : ver[i])
#define LATER(i) (WRONG == COMMIT_OF_ANOTHER_TERM && term[i] < TERMS -> MOST(known[term[i]], known[term[i] + 1]) : known[term[i]])
#define FOLLOWER_LEARNS(i)                                                                                             \
    if :: LEAST(LATER(i), UP_TO(i)) > com[i] -> COMMIT(i, LEAST(LATER(i), UP_TO(i))) :: else -> skip fi
#define LEARNS(i) if :: lead[i] -> LEADER_LEARNS(i) :: else -> FOLLOWER_LEARNS(i) fi
/* Twice: what the leader concludes the followers may know. */
#define ALL_LEARN LEARNS(0); LEARNS(1); LEARNS(2); LEARNS(0); LEARNS(1); LEARNS(2); k = 0; m = 0

#define ENTER(i, t)                                                                                                    \
    if                                                                                                                 \
    :: term[i] < (t) ->                                                                                                \
        term[i] = (t); ver[i] = 0; way[i] = 0;                                                                         \
        if :: lead[i] -> lead[i] = false; dur[i] = size[i] :: else -> skip fi                                          \
    :: else -> skip                                                                                                    \
    fi

#define LAST(i) (size[i] == 0 -> 0 : LOG(i, size[i]))
#define AS_NEW(i, j) (LAST(i) > LAST(j) || (LAST(i) == LAST(j) && size[i] >= size[j]))
/* The first one is member 0 with the vote of 1: any other is the same with other names. */
#define FIRST(i, j) (next > 1 || (i == 0 && j == 1))

/* Member i wins the next term with j's vote, and begins it with an entry. */
#define ELECT(i, j)                                                                                                    \
    :: d_step {                                                                                                        \
        next <= TERMS && FIRST(i, j) && !lead[i] && AS_NEW(i, j) && size[i] < ENTRIES ->                               \
        ENTER(i, next); ENTER(j, next);                                                                                \
        lead[i] = true; dur[i] = size[i]; size[i]++; LOG(i, size[i]) = next; who[next] = i + 1;                        \
        k = 1; do :: k <= size[i] -> SENT(next, k) = LOG(i, k); k++ :: else -> break od;                               \
        next++; k = 0; m = 0\
    }

#define APPEND(i)                                                                                                      \
    :: d_step {                                                                                                        \
        lead[i] && size[i] < ENTRIES && !NARROW ->                                                                     \
        size[i]++; LOG(i, size[i]) = term[i]; SENT(term[i], size[i]) = term[i]; k = 0; m = 0                              \
    }
#define WRITE(i) :: d_step { lead[i] && dur[i] < size[i] -> dur[i]++; k = 0; m = 0 }
#define CRASH(i)                                                                                                       \
    :: d_step {                                                                                                        \
        lead[i] -> lead[i] = false; ver[i] = 0; way[i] = 0;                                                            \
        do :: size[i] > dur[i] -> LOG(i, size[i]) = 0; size[i]-- :: else -> break od; k = 0; m = 0\
    }

/* A follower takes an append of term t that ends at q: what contradicts it goes. */
#define MERGE(i, t, q)                                                                                                 \
    k = 1;                                                                                                             \
    do :: k <= q && k <= size[i] && LOG(i, k) == SENT(t, k) -> k++ :: else -> break od;                                \
    m = (k <= q && k <= size[i] -> k : 0);                                                                             \
    do                                                                                                                 \
    :: m > 0 && size[i] >= m -> assert(size[i] > com[i]); LOG(i, size[i]) = 0; size[i]--                               \
    :: else -> break                                                                                                   \
    od;                                                                                                                \
    k = size[i] + 1;                                                                                                   \
    do :: k <= q -> LOG(i, k) = SENT(t, k); size[i] = k; k++ :: else -> break od;                                      \
    dur[i] = size[i];                                                                                                  \
    if :: term[i] == t -> RAISE(ver[i], q) :: else -> skip fi

#define TIMELY(i, t) (!lead[i] && (term[i] <= t || WRONG == LATE_APPEND_TAKEN) && (who[t] != i + 1 || WRONG == LEADER_ANSWERS))
#define SAYS(i) (WRONG == RAW_LAST_INDEX -> size[i] : (WRONG == WHAT_CAME_OTHERWISE -> ver[i] : way[i]))

#define TAKE(i, t, q)                                                                                                  \
    :: d_step {                                                                                                        \
        SENT(t, q) > 0 && WRONG != BEFORE_THE_FIRST_ENTRY && TIMELY(i, t) && (term[i] != t || ver[i] < q) ->           \
        ENTER(i, t); MERGE(i, t, q); RAISE(ACK(t, i), ver[i]); k = 0; m = 0                                               \
    }                                                                                                                  \
    :: d_step {                                                                                                        \
        shared[t] >= q && TIMELY(i, t) && (term[i] != t || way[i] < q) ->                                              \
        ENTER(i, t); MERGE(i, t, q);                                                                                   \
        if :: term[i] == t -> RAISE(way[i], q); RAISE(ANSWER(t, i), SAYS(i)) :: else -> skip fi; k = 0; m = 0\
    }

/* The aggregator hears of a later term, or of any after it lost all. */
#define HEAR(t)                                                                                                        \
    :: d_step {                                                                                                        \
        t > agg_term && shared[t] > 0 ->                                                                               \
        agg_term = t;                                                                                                  \
        agg_commit = 0;                                                                                               \
        if :: WRONG == NO_FOLLOWER_NEEDED -> RAISE(known[t], shared[t]) :: else -> skip fi; k = 0; m = 0\
    }
#define COUNT(t, i)                                                                                                    \
    :: d_step {                                                                                                        \
        agg_term > 0 && (t == agg_term || WRONG == ANSWER_OF_ANOTHER_TERM) && ANSWER(t, i) > agg_commit ->             \
        agg_commit = ANSWER(t, i); RAISE(known[agg_term], agg_commit); k = 0; m = 0                                       \
    }
#define LOSE :: d_step { agg_term > 0 && !NARROW -> agg_term = 0; agg_commit = 0 }

#if ENTRIES == 2
#define TAKES(i, t) TAKE(i, t, 1) TAKE(i, t, 2)
#else
#define TAKES(i, t) TAKE(i, t, 1) TAKE(i, t, 2) TAKE(i, t, 3)
#endif
#define OF(i, t) TAKES(i, t) COUNT(t, i)
#if TERMS == 3
#define MEMBER_TERMS(i) OF(i, 1) OF(i, 2) OF(i, 3)
#define AGGREGATOR HEAR(1) HEAR(2) HEAR(3) LOSE
#else
#define MEMBER_TERMS(i) OF(i, 1) OF(i, 2) OF(i, 3) OF(i, 4)
#define AGGREGATOR HEAR(1) HEAR(2) HEAR(3) HEAR(4) LOSE
#endif
#define MEMBER(i) APPEND(i) WRITE(i) CRASH(i) MEMBER_TERMS(i)

c_decl { \#include <stdlib.h> };

active proctype group()
{
    c_code { now.wrong = getenv("WRONG") != NULL ? atoi(getenv("WRONG")) : 0; };
end:
    do
    :: atomic {
        if
        ELECT(0, 1) ELECT(0, 2) ELECT(1, 0) ELECT(1, 2) ELECT(2, 0) ELECT(2, 1)
        MEMBER(0) MEMBER(1) MEMBER(2)
        AGGREGATOR
        fi;
        d_step { ALL_LEARN }
    }
    od
}
