/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* clang-format off */
/*
 * Why a program did what it did: one counter each (map crab_counters, per CPU).
 * CRAB_REASON(NAME, "name in Go and in metrics", "what it counts [rule]").
 * Only ever append: the place in this list is the index in a pinned map.
 */
CRAB_REASON(NOT_COUNTED, "not_counted", "never used: index 0 means a program forgot to say why")
/* client host */
CRAB_REASON(CLIENT_SYN_MARKED, "client_syn_marked", "SYN to a VIP left with a placeholder [C-10]")
CRAB_REASON(CLIENT_SYN_NO_SPACE, "client_syn_no_space", "SYN had too few bytes of options free: 8, IPv6 20 [C-8, C-9]")
CRAB_REASON(CLIENT_SYN_UNMARKED_RETRY, "client_syn_unmarked_retry", "SYN after two unanswered ones left without placeholder [C-105]")
CRAB_REASON(CLIENT_SYN_FOREIGN_OPTION, "client_syn_foreign_option", "SYN carried the option already and was left alone [C-93]")
CRAB_REASON(CLIENT_SYN_REWRITE_FAILED, "client_syn_rewrite_failed", "the kernel refused to enlarge the SYN; it is dropped, and the client sends another")
CRAB_REASON(CLIENT_SYNACK_ACCEPTED, "client_synack_accepted", "redirect accepted, translation installed [C-100]")
CRAB_REASON(CLIENT_SYNACK_REPEATED, "client_synack_repeated", "SYN-ACK of the accepted server came again [C-104]")
CRAB_REASON(CLIENT_SYNACK_OTHER_SERVER, "client_synack_other_server", "SYN-ACK of a second server answered with RST [C-104]")
CRAB_REASON(CLIENT_FORGED_NO_PENDING, "client_forged_no_pending", "redirect without a SYN waiting for it dropped [C-101, C-92]")
CRAB_REASON(CLIENT_FORGED_ACK, "client_forged_ack", "redirect whose ack is not ISS+1 dropped [C-90]")
CRAB_REASON(CLIENT_FORGED_DIP, "client_forged_dip", "redirect from outside the VIP's prefixes dropped [C-91, C-95]")
CRAB_REASON(CLIENT_FALLBACK_SYNACK, "client_fallback_synack", "the VIP itself answered: ordinary connection [C-40]")
CRAB_REASON(CLIENT_TO_SERVER, "client_to_server", "packets translated VIP to DIP [C-70]")
CRAB_REASON(CLIENT_FROM_SERVER, "client_from_server", "packets translated DIP to VIP [C-70]")
CRAB_REASON(CLIENT_STALE_REMOVED, "client_stale_removed", "translation removed because a new SYN reuses its addresses and ports")
CRAB_REASON(CLIENT_FLOW_CREATED, "client_flow_created", "translations installed")
CRAB_REASON(CLIENT_FLOW_REMOVED, "client_flow_removed", "translations removed by a program")
CRAB_REASON(CLIENT_FLOW_EXPIRED, "client_flow_expired", "translations whose life was over, removed by the agent [C-72]")
CRAB_REASON(CLIENT_FLOW_MAP_FULL, "client_flow_map_full", "translation could not be installed; SYN-ACK dropped")
CRAB_REASON(CLIENT_NO_ROUTE, "client_no_route", "no route to the chosen server; packet dropped [C-103]")
/* server host */
CRAB_REASON(SERVER_SYN_SEEN, "server_syn_seen", "SYN with an allowed redirect remembered [C-30]")
CRAB_REASON(SERVER_SYN_NOT_ALLOWED, "server_syn_not_allowed", "redirect of a VIP that is not allowed here ignored [C-34]")
CRAB_REASON(SERVER_ECHO, "server_echo", "SYN-ACK left with the echo [C-30]")
CRAB_REASON(SERVER_ECHO_NO_TIMESTAMPS, "server_echo_no_timestamps", "timestamps gave way to the echo; not with IPv6 [C-33]")
CRAB_REASON(SERVER_ECHO_FAILED, "server_echo_failed", "no room for the echo even so; SYN-ACK dropped [C-33]")
CRAB_REASON(SERVER_RULE_DONE, "server_rule_done", "echo rule removed on the client's ACK [C-73]")
CRAB_REASON(SERVER_DSR_SEEN, "server_dsr_seen", "fall-back SYN: replies will carry the VIP [C-42]")
CRAB_REASON(SERVER_DSR_REPLY, "server_dsr_reply", "packets translated DIP to VIP on the fall-back path [C-42]")
/* balancer */
CRAB_REASON(LB_SYN_REDIRECTED, "lb_syn_redirected", "SYN sent to the chosen server [C-21]")
CRAB_REASON(LB_SYN_REPEATED, "lb_syn_repeated", "the same SYN again, same server [C-25]")
CRAB_REASON(LB_SYN_TO_STACK, "lb_syn_to_stack", "SYN rewritten and left to the kernel to deliver")
CRAB_REASON(LB_NO_BACKEND, "lb_no_backend", "no server is up; SYN dropped")
CRAB_REASON(LB_FOREIGN_REDIRECT, "lb_foreign_redirect", "non-zero redirect of a VIP without trusted tier overwritten [C-28]")
CRAB_REASON(LB_BAD_CHECKSUM, "lb_bad_checksum", "SYN with a wrong checksum dropped")
CRAB_REASON(LB_NO_ROUTE, "lb_no_route", "no route to the chosen server; packet dropped")
CRAB_REASON(LB_FALLBACK_SYN, "lb_fallback_syn", "SYN without placeholder sent by consistent hash [C-40]")
CRAB_REASON(LB_FALLBACK_OTHER, "lb_fallback_other", "other packet to the VIP sent by consistent hash [C-41]")
CRAB_REASON(LB_FALLBACK_TO_STACK, "lb_fallback_to_stack", "packet to a node port left to the node's own DNAT")
CRAB_REASON(LB_FALLBACK_NO_SPACE, "lb_fallback_no_space", "SYN without room for the fall-back mark dropped [C-8]")
CRAB_REASON(LB_STALE_REPORT, "lb_stale_report", "a choice by load fell back to random: report too old [C-62]")
/* every program */
CRAB_REASON(OPTION_MALFORMED, "option_malformed", "option list with a length below 2 or beyond the header; parsing ended there [C-4]")
CRAB_REASON(OPTION_DUPLICATE, "option_duplicate", "option repeated; the first valid one counts [C-3]")
CRAB_REASON(OPTION_IGNORED, "option_ignored", "option of the wrong length [C-3]")
CRAB_REASON(HEADER_MALFORMED, "header_malformed", "IP or TCP header shorter than it says; passed on untouched, but a SYN to a VIP is dropped where it is balanced")
CRAB_REASON(FRAGMENT, "fragment", "IP fragment passed on untouched")
/* server host, again */
CRAB_REASON(SERVER_WATCH_FULL, "server_watch_full", "no room to count a connection; its server looks less loaded than it is [C-62]")
/* every program, again */
CRAB_REASON(EXTENSION_HEADER, "extension_header", "IPv6 extension header between IP and what follows; passed on untouched [C-9]")
/* client host, again */
CRAB_REASON(CLIENT_CONNECT_FULL, "client_connect_full", "no room to count how long a connection took; the connection is not touched")
CRAB_REASON(CLIENT_SYN_FROM_SERVER, "client_syn_from_server", "SYN of the server's on a live connection, left to the client's TCP as a part of it [C-92]")
CRAB_REASON(CLIENT_SYN_PORT_IN_USE, "client_syn_port_in_use", "SYN past the VIP from the port of a live connection to the same server; that one goes on [C-92]")
/* state that is bounded: what the agent finds evictions by */
CRAB_REASON(CLIENT_PENDING_CREATED, "client_pending_created", "SYNs that wait for an answer remembered")
CRAB_REASON(CLIENT_PENDING_REMOVED, "client_pending_removed", "SYNs that wait for an answer forgotten by a program")
CRAB_REASON(CLIENT_PENDING_EXPIRED, "client_pending_expired", "SYNs that wait for an answer whose life was over, removed by the agent [C-72, C-73]")
CRAB_REASON(CLIENT_BACK_CREATED, "client_back_created", "translations in the direction of the client remembered")
CRAB_REASON(CLIENT_BACK_REMOVED, "client_back_removed", "translations in the direction of the client forgotten by a program")
CRAB_REASON(CLIENT_BACK_EXPIRED, "client_back_expired", "translations in the direction of the client whose life was over, removed by the agent [C-72, C-73]")
CRAB_REASON(SERVER_OPENING_CREATED, "server_opening_created", "handshakes of servers remembered")
CRAB_REASON(SERVER_OPENING_REMOVED, "server_opening_removed", "handshakes of servers forgotten by a program")
CRAB_REASON(SERVER_OPENING_EXPIRED, "server_opening_expired", "handshakes of servers whose life was over, removed by the agent [C-72, C-73]")
CRAB_REASON(SERVER_DSR_CREATED, "server_dsr_created", "connections on the fall-back path remembered")
CRAB_REASON(SERVER_DSR_REMOVED, "server_dsr_removed", "connections on the fall-back path forgotten by a program")
CRAB_REASON(SERVER_DSR_EXPIRED, "server_dsr_expired", "connections on the fall-back path whose life was over, removed by the agent [C-72, C-73]")
/* balancer, again */
CRAB_REASON(LB_RELAY_TO_SERVER, "lb_relay_to_server", "packets to a server without agent, sent on in the VIP's name [C-42]")
CRAB_REASON(LB_RELAY_FROM_SERVER, "lb_relay_from_server", "answers of a server without agent, sent on to the client [C-42]")
CRAB_REASON(LB_RELAY_FULL, "lb_relay_full", "SYN dropped: no port of the VIP is left towards this server without agent [C-42]")
CRAB_REASON(LB_RELAY_UNKNOWN, "lb_relay_unknown", "answer of a server without agent whose connection was pushed out; dropped")
CRAB_REASON(LB_RELAY_CREATED, "lb_relay_created", "connections to servers without agent remembered")
CRAB_REASON(LB_RELAY_REMOVED, "lb_relay_removed", "connections to servers without agent forgotten by a program")
CRAB_REASON(LB_RELAY_EXPIRED, "lb_relay_expired", "connections to servers without agent whose life was over, removed by the agent [C-72]")
/* client host, again */
CRAB_REASON(CLIENT_RST_NOT_NEAR, "client_rst_not_near", "RST from the server's address far from where the client is: handed on, but it ends no translation [C-72]")
CRAB_REASON(CLIENT_BY_UPLINK, "client_by_uplink", "packets of this host's pods to clients of this host, let in by the uplink to be translated there [C-70]")
CRAB_REASON(CLIENT_ERROR_IN, "client_error_in", "ICMP errors about redirected connections told to their clients [C-103]")
CRAB_REASON(CLIENT_ERROR_OUT, "client_error_out", "ICMP errors about redirected connections told to their servers [C-103]")
/* balancer, again */
CRAB_REASON(LB_ERROR_TO_SERVER, "lb_error_to_server", "ICMP errors about answers from the VIP told to the server that sent them [C-103]")
CRAB_REASON(LB_ERROR_TO_CLIENT, "lb_error_to_client", "ICMP errors about packets of a relay told to the client that sent them [C-103]")
/* every program, again */
CRAB_REASON(REWRITE_FAILED, "rewrite_failed", "the kernel refused to write into a packet, which may be half rewritten; it is dropped")
/* client host, again */
CRAB_REASON(CLIENT_OWN_HOST, "client_own_host", "packets between a client of this host and a server in its own network, let in by the uplink with the VIP as their source [C-70]")
CRAB_REASON(CLIENT_OWN_HOST_PORT, "client_own_host_port", "SYN to a server in this host's own network dropped: another client of this host has the same port there")
CRAB_REASON(CLIENT_ERROR_OWN_HOST, "client_error_own_host", "ICMP errors about connections to servers in this host's own network, let in by the uplink for the end that must know [C-103]")
CRAB_REASON(CLIENT_SYN_IN_TRANSIT, "client_syn_in_transit", "SYN to a VIP that came in by the uplink it leaves by: of no client of this host, left as it is [C-92]")
/* balancer, again */
CRAB_REASON(LB_SYN_TUNNELLED, "lb_syn_tunnelled", "of the SYNs sent to a server, those that left in a tunnel to its host [C-80]")
CRAB_REASON(LB_TUNNEL_TOO_LONG, "lb_tunnel_too_long", "SYN with so much data that no tunnel takes it; dropped, and clients send the next one without [C-80]")
/* server host, again */
CRAB_REASON(TUNNEL_OPENED, "tunnel_opened", "SYN let out of the tunnel it came by [C-80]")
CRAB_REASON(TUNNEL_FOREIGN, "tunnel_foreign", "datagram to the tunnels' port from a host that balances nothing here; left to whoever it is for [C-80]")
CRAB_REASON(TUNNEL_REFUSED, "tunnel_refused", "in the tunnel was no SYN with a redirect for a server of this host; dropped [C-80]")
/* state that is bounded, again */
CRAB_REASON(SERVER_LATER_CREATED, "server_later_created", "SYNs within a handshake of their name remembered [C-92]")
CRAB_REASON(SERVER_LATER_REMOVED, "server_later_removed", "SYNs within a handshake of their name forgotten by a program")
CRAB_REASON(SERVER_LATER_EXPIRED, "server_later_expired", "SYNs within a handshake of their name whose life was over, removed by the agent [C-73]")
CRAB_REASON(LB_RELAY_BACK_CREATED, "lb_relay_back_created", "ports of the VIP towards servers without agent taken")
CRAB_REASON(LB_RELAY_BACK_REMOVED, "lb_relay_back_removed", "ports of the VIP towards servers without agent given back by a program")
CRAB_REASON(LB_RELAY_BACK_EXPIRED, "lb_relay_back_expired", "ports of the VIP towards servers without agent whose connection's life was over, given back by the agent [C-72]")
CRAB_REASON(CLIENT_FLOW_EARLY, "client_flow_early", "of the translations removed by the agent, those whose connection had ended and whose map was three quarters full [C-72]")
CRAB_REASON(LB_RELAY_EARLY, "lb_relay_early", "of the connections to servers without agent removed by the agent, those that had ended or never begun and whose map was three quarters full [C-72]")
CRAB_REASON(SERVER_DSR_EARLY, "server_dsr_early", "of the connections on the fall-back path removed by the agent, those that had ended and whose map was three quarters full [C-72]")
/* balancer, again */
CRAB_REASON(LB_RELAY_REFUSED, "lb_relay_refused", "SYN dropped that a relay alone could serve, since its VIP keeps clients' addresses [C-42]")
/* the agent */
CRAB_REASON(DEVICE_GONE, "device_gone", "devices of bobtail-redirect's file that were deleted, renamed or replaced while it ran")
CRAB_REASON(DEVICE_ATTACHED_AGAIN, "device_attached_again", "of these, those that are there again, or another one by their name, and have our programs")
