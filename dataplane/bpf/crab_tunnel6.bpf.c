// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* crab_tunnel for IPv6: the same text on the other maps (crab_family.h), entered from there (crab_six.h). */
#define CRAB_SIX
#include "crab_tunnel.bpf.c"
