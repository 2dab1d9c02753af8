// SPDX-License-Identifier: Apache-2.0
// What the DPDK fixtures share: one end on a port, and frames no driver would send.
#ifndef BT_TESTS_FIXTURE_DPDK_H
#define BT_TESTS_FIXTURE_DPDK_H

#include "packet_suite.h"

#include "io/dpdk.h"

enum { DPDK_BUFFERS = 8192 };

// "v4 10.99.0.<n>/24, v6 fd99::<n>/64".
void dpdk_addresses(unsigned n, struct bt_link_prefix out[2]);
struct bt_addr dpdk_address(bool v6, unsigned n, uint16_t port);

// Starts DPDK with what BT_TEST_HUGEPAGES asks for; false with the reason.
bool dpdk_begin(const char *port, char *why, size_t len);

// Opens end i of the rig on `port` with address number i + 1; fails the test when it cannot.
struct bt_dpdk_device *dpdk_open_end(struct packet_rig *r, unsigned i, const char *port, uint32_t link_wait_ms);

// A UDP datagram whose IP header promises more than the frame holds. Returns its length.
unsigned dpdk_broken_frame(const uint8_t to_mac[6], const uint8_t from_mac[6], struct bt_addr from, struct bt_addr to,
                           uint8_t frame[128]);

// Puts it on the wire by the device, past its io.
bool dpdk_send_raw(struct bt_dpdk_device *dev, const uint8_t *frame, unsigned len);

bool dpdk_transparent(struct packet_end *e, char *why, size_t len);

#endif
