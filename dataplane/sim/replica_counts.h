/* SPDX-License-Identifier: Apache-2.0 */
// Messages of the leader for one request: table 12.1 of the thesis, Raft and HovercRaft.
#ifndef BOBTAIL_SIM_REPLICA_COUNTS_H
#define BOBTAIL_SIM_REPLICA_COUNTS_H

/* Prints the table, and writes its figures to a file unless that is NULL. 0: all within 2 percent; 1; 2: no file. */
int replica_counts(const char *measurements);

#endif
