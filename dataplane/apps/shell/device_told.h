// SPDX-License-Identifier: Apache-2.0
// Which PCI device a pod got, by everyone who tells it: the device plugin by two variables, the network by a file that
// the sidecar leaves. One of them may be wrong about the device of this program, and nobody can tell which: so they
// must agree.
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

// Finds the address they all tell, in lower case. False: why says which two disagree, or which one cannot be read.
bool bt_device_agreed(const struct bt_device_told *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

// Whether a port is a PCI address, device arguments or not, and which.
bool bt_device_is_pci(const char *port, char pci[BT_DEVICE_PCI]);

// The same of this process' environment, and of that file (NULL, or one that is not there: it says nothing).
bool bt_device_from_environment(const char *name, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen);

#endif
