#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpack the servers and load generators of the suite; print shell variables that say where they are."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "measure/bench"))
import packages  # noqa: E402

PEERS = ("nginx", "redis-server", "redis-tools", "wrk", "libatomic1", "libjemalloc2", "liblua5.1-0", "liblzf1", "libhiredis0.14",
         "libluajit-5.1-2", "libsystemd0", "lua-cjson", "lua-bitop")

if __name__ == "__main__":
    root, env = packages.unpacked("crab-peers", PEERS)
    print(f"export CRAB_PEERS={root} CRAB_PEERS_LIB={env['LD_LIBRARY_PATH']}")
