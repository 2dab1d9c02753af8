// SPDX-License-Identifier: Apache-2.0
// What a DRA driver tells of a claim's devices (Kubernetes 1.36 and later): files of JSON objects, one of them for each
// version of the format that the driver writes.
#ifndef BT_APPS_DEVICE_CLAIM_H
#define BT_APPS_DEVICE_CLAIM_H

#include "shell/device_told.h"

// Where containers find them, below it a folder for each claim.
#define BT_DEVICE_CLAIMS "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates"

// Reads the PCI address that the text of the file, which ends with a NUL at len, tells of all devices in it; pci stays
// as it is where none is told. An address that stands in pci already must be the same. False: why says what is wrong,
// with the file's name.
bool bt_device_claim_read(const char *file, const char *text, size_t len, char pci[BT_DEVICE_PCI], char *why,
                          size_t whylen);

// Reads a short file; 1: done, 0: it is not there, -1: why says what failed.
int bt_device_read_file(const char *file, char *text, size_t len, char *why, size_t whylen);

#endif
