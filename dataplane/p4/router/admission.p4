// SPDX-License-Identifier: Apache-2.0
// SVEN in the pipeline (R-201 to R-216, W-10): before the policy a request is refused with the rate of its class, and a
// FEEDBACK tells how long the one took that it names. The rates are the control plane's.
#ifndef BOBTAIL_ROUTER_ADMISSION
#define BOBTAIL_ROUTER_ADMISSION

#define PAIRS_KNOWN 65536
#define CLASSES 8192   // by number and whether it was refused
#define MEASURES 65536 // by histogram and bucket
#define NOTES 1024     // by histogram and what was noted
#define MOMENTS 64     // of a clock's digits

// Beside the look-ups of the router: what rate a request has, and which pair it is, or is told of.
control Ask(inout headers_t hdr, inout meta_t meta, in bit<32> now) {
    HASHES

    // Who sets rates learns what time it is here: of two digits, one of 2^20 units and one of 2^26, those count last
    // that are now. Nothing else of the pipeline tells its clock without a register that is read from outside (W-12).
    COUNTER(moments, MOMENTS, 0x12000007)
    COUNTER(spans, MOMENTS, 0x12000008)

    // A rate counts until a time (R-223): a controller that is dead refuses nobody.
    @id(0x0100000b)
    action rate(bit<12> number, bit<7> measure, bit<16> rate_16, bit<32> until) {
        meta.judged = 1;
        meta.class_number = number;
        meta.measure = measure;
        meta.rate = rate_16; // in units of 2^-16
        meta.until = until - now;
    }

    // Classes stand in `label`: class and flags of option 3, if that is the first one, else zeros (R-214).
    @id(0x02000009)
    table admit {
        key = {
            hdr.ipv4.dst: exact;
            hdr.udp.dst: exact;
            meta.label: ternary;
        }
        actions = { rate; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        meta.time = now;
        if (hdr.r2p2.isValid()) {
            COUNT(moments, now[25:20]);
            COUNT(spans, now[31:26]);
        }
        if (hdr.feedback.isValid()) {
            HASH16(meta.place, place_told, hdr.feedback.client, hdr.feedback.port, hdr.feedback.req_id)
            HASH32(meta.print, print_told, hdr.feedback.client, hdr.feedback.port, hdr.feedback.req_id)
        } else if (hdr.r2p2.isValid()) {
            admit.apply();
            HASH16(meta.place, place_asked, hdr.ipv4.src, hdr.udp.src, hdr.r2p2.req_id)
            HASH32(meta.print, print_asked, hdr.ipv4.src, hdr.udp.src, hdr.r2p2.req_id)
        }
    }
}

// Beside the credits: when a pair came, and how long it took.
control Watch(inout headers_t hdr, inout meta_t meta) {
    // A pair's fingerprint and the time of its request. What was there before is not known any more (R-209). The same pair
    // once more, a copy of the network's or a client's next one, is known to nobody: it might look fast.
    PAIRS(starts, PAIRS_KNOWN)
    ON_PAIR(remember, starts, {
        rv = v.lo;
        if (v.lo == (int<32>)meta.print) {
            v.hi = 0;
        } else {
            v.lo = (int<32>)meta.print;
            v.hi = (int<32>)meta.time;
        }
    })
    ON_PAIR(recall, starts, {
        if (v.lo == (int<32>)meta.print) {
            rv = v.hi;
            v.lo = 0;
            v.hi = 0;
        }
    })

    COUNTER(classes, CLASSES, 0x12000004)
    COUNTER(latencies, MEASURES, 0x12000005)
    COUNTER(notes, NOTES, 0x12000006)

    @id(0x0100000c)
    action measured(bit<7> measure) {
        meta.measure = measure;
        meta.told = 1;
    }

    // Services whose latency is measured.
    @id(0x0200000a)
    table objective {
        key = { meta.member_service: exact; }
        actions = { measured; NoAction; }
        default_action = NoAction();
        size = 128;
    }

    @id(0x0100000d)
    action in_bucket(bit<9> number) {
        meta.bucket = number;
    }

    // Ranges of latencies, as the control plane cuts them (R-212).
    @id(0x0200000b)
    table bucket {
        key = {
            meta.measure: ternary;
            meta.latency: ternary;
        }
        actions = { in_bucket; NoAction; }
        default_action = in_bucket(511);
        size = 8192;
    }

    apply {
        if (meta.admitted == 1) {
            RUN(meta.start, remember, meta.place);
            if (meta.start == 0) {
                meta.noted = NOTE_KNOWN;
            } else if (meta.start == meta.print) {
                meta.noted = NOTE_AGAIN;
            } else {
                meta.noted = NOTE_LOST;
            }
        } else if (meta.heard == 1) {
            objective.apply();
            RUN(meta.start, recall, meta.place);
            if (meta.told == 0) {
                meta.noted = NOTE_NONE;
            } else if (meta.start == 0) {
                meta.noted = NOTE_UNSEEN;
            } else if (hdr.feedback.flags[1:1] == 1) {
                meta.noted = NOTE_DROPPED; // no sample (R-211)
            } else {
                meta.noted = NOTE_MEASURED;
                meta.latency = meta.time - meta.start;
                bucket.apply();
                COUNT(latencies, INDEX(meta.measure, meta.bucket));
            }
        }
        if (meta.noted != NOTE_NONE) {
            COUNT(notes, INDEX(meta.measure, meta.noted));
        }
        if (meta.counted == 1) {
            COUNT(classes, INDEX(meta.class_number, meta.refused));
        }
    }
}
#endif
