// SPDX-License-Identifier: Apache-2.0
// Recorded arrivals and service times from a CSV file.
#ifndef BOBTAIL_SIM_RECORDING_H
#define BOBTAIL_SIM_RECORDING_H

#include "scenario.h"

enum { SIM_RECORDING_ROWS = 50000000 };

/* Reads a file whose first row names its columns: gapMicroseconds (since the row before) or timeMicroseconds (rising),
 * and serviceMicroseconds; count, without arrivals, says how often that was seen. 0, or -1 with
 * "FILE:LINE:COLUMN: what is wrong". */
int sim_recording_load(const char *path, struct sim_recording *out, char *err, size_t err_n);
/* The same of n bytes in memory. */
int sim_recording_parse(const char *path, const char *text, size_t n, struct sim_recording *out, char *err,
                        size_t err_n);
void sim_recording_free(struct sim_recording *r);

#endif
