/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What was odd about an option area is counted by whoever settles the packet, once (C-3, C-4). */
#ifndef CRAB_NOTES_H
#define CRAB_NOTES_H

#include "crab_maps.h"
#include "crab_option.h"

static __always_inline void crab_count_notes(struct crab_options *o)
{
    if (o->notes & CRAB_NOTE_MALFORMED) {
        crab_count(CRAB_OPTION_MALFORMED);
    }
    if (o->notes & CRAB_NOTE_DUPLICATE) {
        crab_count(CRAB_OPTION_DUPLICATE);
    }
    if (o->notes & CRAB_NOTE_IGNORED) {
        crab_count(CRAB_OPTION_IGNORED);
    }
}

#endif
