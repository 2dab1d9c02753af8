// SPDX-License-Identifier: Apache-2.0
// How bmv2 (v1model) spells what the programs do alike (W-1). A program says what a word_t of its registers is, and what
// pair_t is of two of them; a result that nobody asked for is left in meta.spent. README.md lists the macros.
#ifndef BOBTAIL_SPELLING
#define BOBTAIL_SPELLING

#define WORDS(NAME, SIZE) register<bit<32>>(SIZE) NAME;
#define PAIRS(NAME, SIZE) register<bit<64>>(SIZE) NAME;
#define ON_WORD(OP, NAME, BODY) \
    action OP(in bit<16> at, out bit<32> told) { \
        bit<32> word; \
        @atomic { \
            NAME.read(word, (bit<32>)at); \
            word_t v = (word_t)word; \
            word_t rv = 0; \
            BODY \
            NAME.write((bit<32>)at, (bit<32>)v); \
            told = (bit<32>)rv; \
        } \
    }
#define ON_PAIR(OP, NAME, BODY) \
    action OP(in bit<16> at, out bit<32> told) { \
        bit<64> word; \
        @atomic { \
            NAME.read(word, (bit<32>)at); \
            pair_t v; \
            v.lo = (word_t)word[31:0]; \
            v.hi = (word_t)word[63:32]; \
            word_t rv = 0; \
            BODY \
            NAME.write((bit<32>)at, (bit<32>)v.hi ++ (bit<32>)v.lo); \
            told = (bit<32>)rv; \
        } \
    }
#define RUN(TO, OP, AT) OP((bit<16>)(AT), TO)
#define DO(OP, AT) OP((bit<16>)(AT), meta.spent)

#define COUNTER(NAME, SIZE, ID) @id(ID) counter(SIZE, CounterType.packets) NAME;
#define COUNT(NAME, AT) NAME.count((bit<32>)(AT))
#define INDEX(A, B) ((A) ++ (B))

#define GENERATOR
#define DRAW(TO) random(TO, (bit<16>)0, (bit<16>)0xffff);

// A hash needs no object here.
#define HASHES
#define HASH16(TO, NAME, A, B, C) hash(TO, HashAlgorithm.crc16, (bit<16>)0, { A, B, C }, (bit<32>)0x10000);
#define HASH32(TO, NAME, A, B, C) hash(TO, HashAlgorithm.crc32, (bit<32>)0, { A, B, C }, (bit<64>)0x100000000);
#define HASH16_4(TO, NAME, A, B, C, D) hash(TO, HashAlgorithm.crc16, (bit<16>)0, { A, B, C, D }, (bit<32>)0x10000);
#define HASH32_4(TO, NAME, A, B, C, D) \
    hash(TO, HashAlgorithm.crc32, (bit<32>)0, { A, B, C, D }, (bit<64>)0x100000000);

#endif
