// SPDX-License-Identifier: Apache-2.0
// The runtime under load over real sockets: WINDOW requests are always under way, of times that differ.
//
//   serve_stress REQUESTS THREADS MODE [BATCH]    MODE 0: to completion, 1: stealing. Prints what was lost and doubled;
//                                                 exit 1 when anything was, or when nobody stole though two could
//
// Every request is executed once and gets its own answer (Z-21, R-26), whoever executes it.
#include "serve_bed.h"

enum { WINDOW = 192 };

static _Atomic uint8_t *executed;
static _Atomic uint64_t doubled;

static void handle(void *arg, struct bobtail_request *request)
{
    uint64_t serial = 0;
    (void)arg;
    bobtail_request_copy(request, &serial, sizeof serial);
    doubled += atomic_fetch_add(&executed[serial], 1) != 0;
    if (serial % 7 == 0) {
        bed_spin(serial % 3 * 20000);
    }
    bobtail_reply(request, &serial, sizeof serial);
}

int main(int argc, char **argv)
{
    uint64_t requests = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, missing = 0;
    struct bobtail_server_counts counts;
    struct bed_client client;
    uint16_t port;
    struct bobtail_server_config config = {.threads = (uint16_t)(argc > 2 ? atoi(argv[2]) : 2),
                                           .mode = (uint8_t)(argc > 3 ? atoi(argv[3]) : 1),
                                           .batch = (uint16_t)(argc > 4 ? atoi(argv[4]) : 64),
                                           .queue_depth = 64,
                                           .fast_timers = 1,
                                           .seed = 1,
                                           .handler = handle};
    executed = calloc(requests + 1, 1);
    struct bobtail_server *server = bed_serve(config, &port);
    unsigned ports = config.mode == BOBTAIL_WORK_STEALING ? 1 : config.threads;
    bed_open(&client, true);
    for (uint64_t i = 1; i <= requests; i++) {
        while (!bed_call(&client, (uint16_t)(port + i % ports), i, NULL, 0)) {
            bed_await(&client, client.under_way - (client.under_way > 0));
        }
        bed_await(&client, WINDOW - 1);
    }
    bed_await(&client, 0);
    int drained = bobtail_server_drain(server, 10000);
    bobtail_server_read_counts(server, &counts);
    bobtail_server_close(server);
    r2p2_endpoint_close(client.ep);
    for (uint64_t i = 1; i <= requests; i++) {
        missing += executed[i] == 0;
    }
    uint64_t lost = requests - client.answered;
    printf("requests %lu lost %lu doubled %lu wrong %lu missing %lu handled %lu stolen %lu borrowed %lu assisted %lu\n",
           requests, lost, doubled, client.wrong, missing, counts.handled, counts.stolen, counts.borrowed,
           counts.assisted);
    bool helped = config.mode != BOBTAIL_WORK_STEALING || config.threads == 1 || counts.stolen > 0;
    free((void *)(uintptr_t)executed);
    return lost != 0 || doubled != 0 || client.wrong != 0 || missing != 0 || !drained || !helped;
}
