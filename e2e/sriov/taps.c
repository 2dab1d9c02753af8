// SPDX-License-Identifier: Apache-2.0
// taps DEVICE ADDRESS: counts the SYNs to an IPv4 address that come up from a device until SIGTERM, and prints how
// many. What XDP has sent back never comes up.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

int main(int argc, char **argv)
{
    struct in_addr to;
    if (argc != 3 || inet_pton(AF_INET, argv[2], &to) != 1) {
        fprintf(stderr, "usage: taps DEVICE ADDRESS\n");
        return 2;
    }
    int s = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex(argv[1])};
    struct sigaction stop = {.sa_handler = end}; // no SA_RESTART: it ends the wait
    if (s < 0 || at.sll_ifindex == 0 || bind(s, (struct sockaddr *)&at, sizeof at) != 0) {
        perror(argv[1]);
        return 1;
    }
    sigaction(SIGTERM, &stop, NULL);
    unsigned seen = 0;
    while (!ended) {
        unsigned char frame[128];
        struct sockaddr_ll from;
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(s, frame, sizeof frame, 0, (struct sockaddr *)&from, &size);
        if (n < 54 || from.sll_pkttype == PACKET_OUTGOING || frame[23] != IPPROTO_TCP ||
            memcmp(frame + 30, &to, 4) != 0) {
            continue;
        }
        const unsigned char *tcp = frame + 14 + (frame[14] & 15) * 4;
        seen += tcp + 14 <= frame + n && (tcp[13] & 0x12) == 0x02;
    }
    printf("%u\n", seen);
    return 0;
}
