// SPDX-License-Identifier: Apache-2.0
// See device_told.h.
#include "shell/device_told.h"

#include "ctl/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 60 };

// Takes an address as Linux writes it, dddd:bb:dd.f; false: it is none.
static bool take(const char *text, size_t len, char pci[BT_DEVICE_PCI])
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
    bool is = take(port, strcspn(port, ","), pci);
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
    if (!take(told->value, strlen(told->value), pci)) {
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
            found = found || (take(key, strlen(key), other) && strcmp(other, pci) == 0);
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

static bool file_agrees(const struct bt_device_told *told, const char *pci, char *why, size_t whylen)
{
    char other[BT_DEVICE_PCI];
    size_t len = strcspn(told->file_text, "\r\n");
    if (take(told->file_text, len, other) && strcmp(other, pci) == 0) {
        return true;
    }
    snprintf(why, whylen,
             "%s says %s and network-status (%s) says %.*s: the network took another device than the container got",
             told->name, pci, told->file, (int)(len < MOST_SHOWN ? len : MOST_SHOWN), told->file_text);
    return false;
}

bool bt_device_agreed(const struct bt_device_told *told, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    return value_of(told, pci, why, whylen) && (told->info == NULL || info_agrees(told, pci, why, whylen)) &&
           (told->file_text == NULL || file_agrees(told, pci, why, whylen));
}

// Reads a short file; 1: done, 0: it is not there, -1: why says what failed.
static int read_file(const char *file, char *text, size_t len, char *why, size_t whylen)
{
    FILE *f = fopen(file, "re");
    if (f == NULL && errno == ENOENT) {
        return 0;
    }
    size_t n = f != NULL ? fread(text, 1, len - 1, f) : 0;
    bool failed = f == NULL || ferror(f) != 0;
    if (failed) {
        snprintf(why, whylen, "cannot read %s: %s", file, strerror(errno));
    }
    if (f != NULL) {
        fclose(f);
    }
    text[n] = '\0';
    return failed ? -1 : 1;
}

bool bt_device_from_environment(const char *name, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    char info[256];
    char text[256];
    struct bt_device_told told = {.name = name, .value = getenv(name), .file = file};
    int there = file != NULL ? read_file(file, text, sizeof text, why, whylen) : 0;
    if (there < 0) {
        return false;
    }
    told.file_text = there > 0 ? text : NULL;
    if (snprintf(info, sizeof info, "%s_INFO", name) < (int)sizeof info) {
        told.info = getenv(info);
    }
    return bt_device_agreed(&told, pci, why, whylen);
}
