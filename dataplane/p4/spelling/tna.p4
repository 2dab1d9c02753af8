// SPDX-License-Identifier: Apache-2.0
// How Tofino (TNA) spells what the programs do alike (W-1). A program says what a word_t of its registers is, what pair_t
// is of two of them, and which objects hash (HASHES). README.md lists the macros.
#ifndef BOBTAIL_SPELLING
#define BOBTAIL_SPELLING

#define WORDS(NAME, SIZE) Register<word_t, bit<16>>(SIZE, 0) NAME;
#define PAIRS(NAME, SIZE) Register<pair_t, bit<16>>(SIZE, { 0, 0 }) NAME;
#define ON_WORD(OP, NAME, BODY) \
    RegisterAction<word_t, bit<16>, word_t>(NAME) OP = { \
        void apply(inout word_t v, out word_t rv) { \
            rv = 0; \
            BODY \
        } \
    };
#define ON_PAIR(OP, NAME, BODY) \
    RegisterAction<pair_t, bit<16>, word_t>(NAME) OP = { \
        void apply(inout pair_t v, out word_t rv) { \
            rv = 0; \
            BODY \
        } \
    };
#define RUN(TO, OP, AT) TO = (bit<32>)OP.execute((bit<16>)(AT))
#define DO(OP, AT) OP.execute((bit<16>)(AT))

#define COUNTER(NAME, SIZE, ID) @id(ID) Counter<bit<64>, bit<16>>(SIZE, CounterType_t.PACKETS) NAME;
#define COUNT(NAME, AT) NAME.count((bit<16>)(AT))
#define INDEX(A, B) ((A) ++ (B))

#define GENERATOR Random<bit<16>>() random_bits;
#define DRAW(TO) TO = random_bits.get();

#define HASH16(TO, NAME, A, B, C) TO = NAME.get({ A, B, C });
#define HASH32(TO, NAME, A, B, C) TO = NAME.get({ A, B, C });
#define HASH16_4(TO, NAME, A, B, C, D) TO = NAME.get({ A, B, C, D });
#define HASH32_4(TO, NAME, A, B, C, D) TO = NAME.get({ A, B, C, D });

#endif
