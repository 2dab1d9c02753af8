// SPDX-License-Identifier: Apache-2.0
// The parser's states, between the braces of a shell's parser: it begins with parse_ethernet.
    state parse_ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            ETHERNET_IPV4: parse_ipv4;
            ETHERNET_ARP: parse_arp;
            default: accept;
        }
    }

    state parse_arp {
        pkt.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
        IPV4_READ
        transition select(hdr.ipv4.version, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (IPV4_PLAIN, 0 &&& 0x3fff, IP_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        pkt.extract(hdr.udp);
        transition accept;
    }
