// SPDX-License-Identifier: Apache-2.0
// test_io_packets DRIVER: the packet suite over one driver. One process each: DPDK starts once per process.
#include "packet_suite.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct packet_driver *const drivers[] = {
        &packet_driver_sim,  &packet_driver_udp,
#ifdef BT_HAVE_DPDK
        &packet_driver_ring, &packet_driver_memif, &packet_driver_af_packet, &packet_driver_af_xdp,
#endif
    };
    const unsigned n = sizeof drivers / sizeof drivers[0];
    for (unsigned i = 0; argc == 2 && i < n; i++) {
        if (strcmp(argv[1], drivers[i]->name) == 0) {
            return packet_suite_run(drivers[i]);
        }
    }
    fprintf(stderr, "usage: %s DRIVER, one of:", argv[0]);
    for (unsigned i = 0; i < n; i++) {
        fprintf(stderr, " %s", drivers[i]->name);
    }
    fprintf(stderr, "\n");
    return 2;
}
