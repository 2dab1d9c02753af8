#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpack Debian's Redis for the suite of replicated Redis servers; print shell variables that say where it is."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "measure/bench"))
import packages  # noqa: E402

PEERS = ("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblua5.1-0", "liblzf1", "libhiredis0.14", "libsystemd0", "lua-cjson",
         "lua-bitop")

if __name__ == "__main__":
    root, env = packages.unpacked("redis-peers", PEERS)
    print(f"export REDIS_PEERS={root} REDIS_PEERS_LIB={env['LD_LIBRARY_PATH']}")
