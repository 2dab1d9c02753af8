// SPDX-License-Identifier: Apache-2.0
// See device_claim.h.
#include "shell/device_claim.h"

#include "ctl/json.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_FILE = 65536, LONGEST_PATH = 256 };

static const char attribute[] = "resource.kubernetes.io/pciBusID";

// What was found so far, and what is wrong with it.
struct found {
    char *pci;
    char odd[64]; // an address that is none, or another one
    bool other;
};

typedef bool reader(struct bt_json *j, struct found *f);

// Reads one member of an object; the others are passed over.
static bool member(struct bt_json *j, struct found *f, const char *name, reader *read)
{
    char key[64];
    int more = -1;
    if (bt_json_peek(j) != BT_JSON_OBJECT || !bt_json_enter(j)) {
        return false;
    }
    while ((more = bt_json_key(j, key, sizeof key)) == 1) {
        bool null = bt_json_peek(j) == BT_JSON_NULL; // as left out
        if (!(strcmp(key, name) == 0 && !null ? read(j, f) : bt_json_skip(j, NULL, NULL))) {
            return false;
        }
    }
    return more == 0;
}

static bool items(struct bt_json *j, struct found *f, reader *read)
{
    int more = -1;
    if (bt_json_peek(j) != BT_JSON_LIST || !bt_json_enter(j)) {
        return false;
    }
    while ((more = bt_json_item(j)) == 1) {
        if (!read(j, f)) {
            return false;
        }
    }
    return more == 0;
}

static bool read_address(struct bt_json *j, struct found *f)
{
    char text[64];
    char pci[BT_DEVICE_PCI];
    size_t len = 0;
    if (bt_json_peek(j) != BT_JSON_STRING || !bt_json_string(j, text, sizeof text, &len)) {
        return false;
    }
    bool is = len < sizeof text && bt_device_take(text, len, pci);
    if (is && f->pci[0] == '\0') {
        memcpy(f->pci, pci, sizeof pci);
    } else if (f->odd[0] == '\0' && (!is || strcmp(f->pci, pci) != 0)) {
        snprintf(f->odd, sizeof f->odd, "%s", len > 0 ? text : "nothing");
        f->other = is;
    }
    return true;
}

static bool read_attribute(struct bt_json *j, struct found *f)
{
    return member(j, f, "string", read_address);
}

static bool read_attributes(struct bt_json *j, struct found *f)
{
    return member(j, f, attribute, read_attribute);
}

static bool read_device(struct bt_json *j, struct found *f)
{
    return member(j, f, "attributes", read_attributes);
}

static bool read_devices(struct bt_json *j, struct found *f)
{
    return items(j, f, read_device);
}

static bool read_request(struct bt_json *j, struct found *f)
{
    return member(j, f, "devices", read_devices);
}

static bool read_requests(struct bt_json *j, struct found *f)
{
    return items(j, f, read_request);
}

bool bt_device_claim_read(const char *file, const char *text, size_t len, char pci[BT_DEVICE_PCI], char *why,
                          size_t whylen)
{
    struct found f = {.pci = pci};
    size_t at = 0;
    do {
        struct bt_json j;
        bt_json_init(&j, text + at, len - at);
        if (!member(&j, &f, "requests", read_requests)) {
            snprintf(why, whylen, "%s must be DRA metadata, which is JSON objects; it cannot be read from byte %zu on",
                     file, at + j.at);
            return false;
        }
        at += j.at;
        at += strspn(text + at, " \t\r\n");
    } while (at < len);
    if (f.odd[0] != '\0' && f.other) {
        snprintf(why, whylen,
                 "DRA metadata says %s and, in %s, %s: a program drives one device, so let the claim ask for one", pci,
                 file, f.odd);
    } else if (f.odd[0] != '\0') {
        snprintf(why, whylen, "%s: %s must be a PCI address such as 0000:05:00.0; got \"%s\"", file, attribute, f.odd);
    }
    return f.odd[0] == '\0';
}

int bt_device_read_file(const char *file, char *text, size_t len, char *why, size_t whylen)
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

// Reads all files of the claim; shown is the first of them, or where they would be.
static bool read_metadata(const char *claim, struct bt_device_claim *told, char shown[LONGEST_PATH], char *why,
                          size_t whylen)
{
    static char text[LONGEST_FILE];
    glob_t all = {0};
    bool named = strchr(claim, '/') == NULL;
    int n = snprintf(shown, LONGEST_PATH, "%s%s%s/*/*-metadata.json", named ? BT_DEVICE_CLAIMS : "", named ? "/" : "",
                     claim);
    if (n < 0 || n >= LONGEST_PATH) {
        snprintf(why, whylen, "the name of a claim must be shorter than %.60s", claim);
        return false;
    }
    bool good = true;
    int failed = glob(shown, 0, NULL, &all);
    for (size_t i = 0; failed == 0 && good && i < all.gl_pathc; i++) {
        snprintf(shown, LONGEST_PATH, "%s", all.gl_pathv[i]);
        good = bt_device_read_file(shown, text, sizeof text, why, whylen) > 0 &&
               bt_device_claim_read(shown, text, strlen(text), told->metadata_pci, why, whylen);
    }
    if (failed == 0) {
        globfree(&all);
    }
    return good;
}

bool bt_device_from_claim(const char *claim, const char *file, char pci[BT_DEVICE_PCI], char *why, size_t whylen)
{
    char text[256];
    char shown[LONGEST_PATH];
    struct bt_device_claim told = {.metadata = shown, .file = file};
    int there = file != NULL ? bt_device_read_file(file, text, sizeof text, why, whylen) : 0;
    told.file_text = there > 0 ? text : NULL;
    return there >= 0 && read_metadata(claim, &told, shown, why, whylen) && bt_device_claimed(&told, pci, why, whylen);
}
