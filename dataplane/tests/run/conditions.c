// SPDX-License-Identifier: Apache-2.0
#include "conditions.h"

bool leads(struct bed *bed, uint16_t id)
{
    (void)id;
    return bed_leader(bed) != 0;
}

bool takes_requests(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready && bed_status(bed, id).takes_requests;
}

bool level(struct bed *bed, uint16_t id)
{
    uint16_t l = bed_leader(bed);
    return l != 0 && bed_status(bed, id).core.applied == bed_status(bed, l).core.commit;
}

bool aggregated(struct bed *bed, uint16_t id)
{
    (void)id;
    uint16_t l = bed_leader(bed);
    return l != 0 && bed_status(bed, l).core.aggregated;
}

bool by_itself(struct bed *bed, uint16_t id)
{
    return !aggregated(bed, id);
}
