// SPDX-License-Identifier: Apache-2.0
// Coordinator and agent prove to each other that they know the same secret, each over a number the
// other one made up, so that nothing said once can be said again.
#include "agent/session.h"

#include <sodium.h>
#include <string.h>

void session_proof(const struct session_secret *secret, const char *label, const char *first, const char *second,
                   char out[65])
{
    crypto_auth_hmacsha256_state st;
    uint8_t mac[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_init(&st, secret->bytes, secret->n);
    crypto_auth_hmacsha256_update(&st, (const uint8_t *)label, strlen(label));
    crypto_auth_hmacsha256_update(&st, (const uint8_t *)first, strlen(first));
    crypto_auth_hmacsha256_update(&st, (const uint8_t *)":", 1);
    crypto_auth_hmacsha256_update(&st, (const uint8_t *)second, strlen(second));
    crypto_auth_hmacsha256_final(&st, mac);
    sodium_bin2hex(out, 65, mac, sizeof mac);
}
