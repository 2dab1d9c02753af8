// SPDX-License-Identifier: Apache-2.0
// The kinds of network device a packet may travel through; timers differ by them, because a
// shared vCPU is descheduled for tens of milliseconds and a pinned one behind SR-IOV is not.
#ifndef BT_BASE_DEVICE_H
#define BT_BASE_DEVICE_H

enum bt_device { BT_DEVICE_KERNEL = 0, BT_DEVICE_AFXDP = 1, BT_DEVICE_SRIOV = 2, BT_DEVICES };

#endif
