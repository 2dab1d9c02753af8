// SPDX-License-Identifier: Apache-2.0
// See device_told.h.
#include "shell/device_told.h"

#include "ctl/json.h"
#include "shell/device_claim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 60, MOST_NAMED = 300 };

bool bt_device_take(const char *text, size_t len, char pci[BT_DEVICE_PCI])
{
    static const char pattern[] = "xxxx:xx:xx.f";
    if (len != sizeof pattern - 1) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int c = tolower((unsigned char)text[i]);
        bool fits = pattern[i] == 'x' ? isxdigit(c) != 0 : pattern[i] == 'f' ? c >= '0' && c <= '7' : c == pattern[i];
        if (!fits) {
            return false;
        }
        pci[i] = (char)c;
    }
    pci[len] = '\0';
    return true;
}

bool bt_device_is_pci(const char *port, char pci[BT_DEVICE_PCI])
{
    bool is = bt_device_take(port, strcspn(port, ","), pci);
    pci[0] = is ? pci[0] : '\0';
    return is;
}

static bool value_of(const struct bt_device_told *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    if (told->value == NULL || told->value[0] == '\0') {
        snprintf(why, whylen, "%s is not set: no container of the pod got a device of that resource", told->name);
        return false;
    }
    if (strchr(told->value, ',') != NULL) {
        snprintf(why, whylen, "%s must tell one device, which is all that a program drives; got \"%.*s\"", told->name,
                 MOST_SHOWN, told->value);
        return false;
    }
    if (!bt_device_take(told->value, strlen(told->value), pci)) {
        snprintf(why, whylen, "%s must be a PCI address such as 0000:05:00.0; got \"%.*s\"", told->name, MOST_SHOWN,
                 told->value);
        return false;
    }
    return true;
}

// NAME_INFO has a key for each device.
static bool info_agrees(const struct bt_device_told *told, const char *pci, char *why, size_t whylen)
{
    struct bt_json j;
    char key[64] = "";
    char other[BT_DEVICE_PCI];
    int more = -1;
    unsigned n = 0;
    bool found = false;
    bt_json_init(&j, told->info, strlen(told->info));
    if (bt_json_peek(&j) == BT_JSON_OBJECT && bt_json_enter(&j)) {
        while ((more = bt_json_key(&j, key, sizeof key)) == 1 && bt_json_skip(&j, NULL, NULL)) {
            found = found || (bt_device_take(key, strlen(key), other) && strcmp(other, pci) == 0);
            n++;
        }
    }
    if (more != 0 || !bt_json_end(&j)) {
        snprintf(why, whylen, "%s_INFO must be a JSON object of devices; it cannot be read from byte %zu on",
                 told->name, j.at);
        return false;
    }
    if (!found) {
        snprintf(why, whylen, "%s says %s and %s_INFO says %.*s: ask who runs the device plugin", told->name, pci,
                 told->name, MOST_SHOWN, n == 0 ? "none" : key);
    }
    return found;
}

// What network-status told, beside what `who` says.
static bool file_agrees(const char *who, const char *pci, const char *file, const char *text, char *why, size_t whylen)
{
    char other[BT_DEVICE_PCI];
    size_t len = strcspn(text, "\r\n");
    if (bt_device_take(text, len, other) && strcmp(other, pci) == 0) {
        return true;
    }
    snprintf(why, whylen,
             "%s says %s and network-status (%s) says %.*s: the network took another device than the container got",
             who, pci, file, (int)(len < MOST_SHOWN ? len : MOST_SHOWN), text);
    return false;
}

bool bt_device_agreed(const struct bt_device_told *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    return value_of(told, pci, why, whylen) && (told->info == NULL || info_agrees(told, pci, why, whylen)) &&
           (told->file_text == NULL || file_agrees(told->name, pci, told->file, told->file_text, why, whylen));
}

bool bt_device_claimed(const struct bt_device_claim *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    char who[MOST_NAMED];
    snprintf(who, sizeof who, "DRA metadata (%s)", told->metadata);
    if (told->metadata_pci[0] != '\0') {
        memcpy(pci, told->metadata_pci, BT_DEVICE_PCI);
        return told->file_text == NULL || file_agrees(who, pci, told->file, told->file_text, why, whylen);
    }
    if (told->file_text == NULL) {
        snprintf(why, whylen, "nobody tells the PCI address of the claim's device: neither %s nor network-status (%s)",
                 who, told->file != NULL ? told->file : "no --dpdk-pci-file");
        return false;
    }
    size_t len = strcspn(told->file_text, "\r\n");
    if (!bt_device_take(told->file_text, len, pci)) {
        snprintf(why, whylen, "network-status (%s) must tell a PCI address such as 0000:05:00.0; got \"%.*s\"",
                 told->file, (int)(len < MOST_SHOWN ? len : MOST_SHOWN), told->file_text);
        return false;
    }
    return true;
}

bool bt_device_from_environment(const char *name, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    char info[256];
    char text[256];
    struct bt_device_told told = {.name = name, .value = getenv(name), .file = file};
    int there = file != NULL ? bt_device_read_file(file, text, sizeof text, why, whylen) : 0;
    if (there < 0) {
        return false;
    }
    told.file_text = there > 0 ? text : NULL;
    if (snprintf(info, sizeof info, "%s_INFO", name) < (int)sizeof info) {
        told.info = getenv(info);
    }
    return bt_device_agreed(&told, pci, why, whylen);
}
