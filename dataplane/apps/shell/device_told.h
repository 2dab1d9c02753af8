// SPDX-License-Identifier: Apache-2.0
// Which PCI device a pod got, by everyone who tells it: the device plugin by two variables or the DRA driver by
// metadata files, the network by a file that the sidecar leaves. One of them may be wrong about the device of this
// program, and nobody can tell which: so they must agree.
#ifndef BT_APPS_DEVICE_TOLD_H
#define BT_APPS_DEVICE_TOLD_H

#include <stdbool.h>
#include <stddef.h>

// Room for a PCI address with its end.
#define BT_DEVICE_PCI 13u

// What is told of one device. Texts are NULL where a source says nothing.
struct bt_device_told {
    const char *name;      // of the variable: PCIDEVICE_INTEL_COM_VFS
    const char *value;     // its value: one PCI address
    const char *info;      // of NAME_INFO: a JSON object whose keys are PCI addresses
    const char *file;      // the file's name
    const char *file_text; // what stands in it: the address that network-status tells
};

// What is told of the device of a claim. A driver need not tell it, nor a network.
struct bt_device_claim {
    const char *metadata;             // the file that tells it, or where such files would be
    char metadata_pci[BT_DEVICE_PCI]; // what it tells; empty: nothing
    const char *file;                 // as above
    const char *file_text;
};

// Finds the address they all tell, in lower case. False: why says which two disagree, or which one cannot be read.
bool bt_device_agreed(const struct bt_device_told *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

// Takes a PCI address as Linux writes it, dddd:bb:dd.f, in lower case; false: it is none.
bool bt_device_take(const char *text, size_t len, char pci[BT_DEVICE_PCI]);

// Whether a port is a PCI address, device arguments or not, and which.
bool bt_device_is_pci(const char *port, char pci[BT_DEVICE_PCI]);

bool bt_device_claimed(const struct bt_device_claim *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

// The same of a claim of the pod, by the name that pod.spec.resourceClaims has for it, or by a folder: what stands
// there as REQUEST/DRIVER-metadata.json; and of that file.
bool bt_device_from_claim(const char *claim, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

// The same of this process' environment, and of that file (NULL, or one that is not there: it says nothing).
bool bt_device_from_environment(const char *name, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

#endif
