// SPDX-License-Identifier: Apache-2.0
// What a DRA driver's metadata files and a device plugin's variables tell a program of its device: any bytes. Whatever
// is believed is a PCI address, and whatever is not has a reason.
#include "shell/device_claim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must(bool good)
{
    if (!good) {
        abort();
    }
}

static void is_address(const char *pci)
{
    char again[BT_DEVICE_PCI];
    must(bt_device_take(pci, strlen(pci), again) && strcmp(pci, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[800] = "";
    char pci[BT_DEVICE_PCI] = "";
    char *text = malloc(size + 1); // a NUL ends what is read of a file
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    size_t len = strlen(text);
    if (bt_device_claim_read("/f", text, len, pci, why, sizeof why)) {
        if (pci[0] != '\0') {
            is_address(pci);
        }
    } else {
        must(why[0] != '\0');
    }
    struct bt_device_told told = {
        .name = "PCIDEVICE_X", .value = "0000:01:10.0", .info = text, .file = "/p", .file_text = text};
    why[0] = '\0';
    must(bt_device_agreed(&told, pci, why, sizeof why) || why[0] != '\0');
    told = (struct bt_device_told){.name = "PCIDEVICE_X", .value = text};
    why[0] = '\0';
    if (bt_device_agreed(&told, pci, why, sizeof why)) {
        is_address(pci);
    } else {
        must(why[0] != '\0');
    }
    struct bt_device_claim claim = {.metadata = "/m", .file = "/p", .file_text = text};
    why[0] = '\0';
    if (bt_device_claimed(&claim, pci, why, sizeof why)) {
        is_address(pci);
    } else {
        must(why[0] != '\0');
    }
    free(text);
    return 0;
}
