// SPDX-License-Identifier: Apache-2.0
// Nothing of core.p4 needs to be declared: packet_in, packet_out, NoAction, the match kinds and errors are known.
