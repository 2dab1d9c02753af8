# SPDX-License-Identifier: Apache-2.0
#
# Every image of Bobtail, one target per component:
#   operator agent sidecar lancet router serve load crab-lb replica redis example
# `make images` builds them all; with Docker: docker build --target router .
#
# Go programs are static and stand alone; C programs are linked against the
# few shared libraries of the distribution, so that its security updates reach
# them by rebuilding. DPDK alone is inside them: of its hundreds of drivers they
# carry the ones docs/guides/dpdk.md lists. Nothing runs as root but the agent, whose
# state in the kernel belongs to root.
ARG GO_VERSION=1.26

# ---------------------------------------------------------------- Go programs
FROM docker.io/library/golang:${GO_VERSION}-bookworm AS go-source
# Given by builders behind a module proxy; they stay out of the images.
ARG GOPROXY=
ARG GOSUMDB=
ARG GONOSUMDB=
ARG GONOPROXY=
ARG GOPRIVATE=
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOCACHE=/go/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY VERSION ./
COPY clients clients

FROM go-source AS operator-source
COPY operator operator

FROM operator-source AS operator-build
RUN go build -trimpath -buildvcs=false -o /out/operator \
      -ldflags="-s -w -X main.version=$(cat VERSION)" ./operator/cmd/operator

FROM operator-source AS agent-build
RUN go build -trimpath -buildvcs=false -o /out/agent \
      -ldflags="-s -w -X main.version=$(cat VERSION)" ./operator/cmd/agent

FROM operator-source AS sidecar-build
RUN go build -trimpath -buildvcs=false -o /out/sidecar \
      -ldflags="-s -w -X github.com/bobtail-dev/bobtail/operator/internal/sidecar.version=$(cat VERSION)" ./operator/cmd/sidecar \
 && go build -trimpath -buildvcs=false -o /out/connectivity -ldflags="-s -w" ./operator/cmd/connectivity

FROM operator-source AS lancet-build
RUN go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/lancet ./operator/cmd/lancet

FROM go-source AS example-build
COPY examples/redis-group examples/redis-group
RUN go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/ ./clients/go/r2p2/example/minimal ./examples/redis-group

FROM scratch AS operator
COPY --from=operator-build /out/operator /operator
USER 65532:65532
ENTRYPOINT ["/operator"]

FROM scratch AS agent
COPY --from=agent-build /out/agent /agent
USER 0:0
ENTRYPOINT ["/agent"]

FROM scratch AS sidecar
COPY --from=sidecar-build /out/sidecar /out/connectivity /
USER 65532:65532
ENTRYPOINT ["/sidecar"]

FROM scratch AS lancet
COPY --from=lancet-build /out/lancet /lancet
USER 65532:65532
ENTRYPOINT ["/lancet"]

FROM scratch AS example
COPY --from=example-build /out/minimal /out/redis-group /
USER 65532:65532
ENTRYPOINT ["/minimal"]

# ----------------------------------------------------------------- C programs
FROM docker.io/library/debian:bookworm-slim AS c-build
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      binutils gcc libc6-dev libdpdk-dev libsodium-dev meson ninja-build pkg-config python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY VERSION ./
# lwIP's source, pinned; apt here is what hack/deps uses, too.
ARG DEBIAN_MIRROR=http://deb.debian.org/debian
COPY hack/deps/lwip hack/deps/versions.env hack/deps/
RUN BOBTAIL_CACHE=/lwip DEBIAN_MIRROR=$DEBIAN_MIRROR hack/deps/lwip
COPY dataplane dataplane
# /build may be a volume that outlives this build: then only what changed is compiled.
RUN meson setup /build/dataplane dataplane $(test ! -e /build/dataplane/build.ninja || echo --reconfigure) \
      --buildtype=release -Dtests=false -Dlwip=enabled -Dlwip_source="$(BOBTAIL_CACHE=/lwip hack/deps/lwip --print)" -Ddpdk=enabled -Ddpdk_link=static -Dfast_path=enabled \
 && ninja -C /build/dataplane \
      apps/bobtail-router/bobtail-router apps/bobtail-serve/bobtail-serve apps/bobtail-load/bobtail-load \
      apps/bobtail-crab-lb/bobtail-crab-lb apps/bobtail-replica/bobtail-replica apps/bobtail-box/bobtail-box \
       apps/bobtail-aggregator/bobtail-aggregator \
       modules/redis/bobtail-redis.so modules/redis/bobtail-ycsb.so \
 && for p in router serve load crab-lb replica box aggregator; do \
      install -D -s /build/dataplane/apps/bobtail-$p/bobtail-$p /out/bobtail-$p || exit 1; \
    done \
 && : Redis loads no module that may not be executed && for m in redis ycsb; do \
      install -D -s -m 755 /build/dataplane/modules/redis/bobtail-$m.so /out/modules/bobtail-$m.so || exit 1; \
    done

FROM docker.io/library/debian:bookworm-slim AS c-runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends libbsd0 libnuma1 libsodium23 libxdp1 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
USER 65532:65532

FROM c-runtime AS router
COPY --from=c-build /out/bobtail-router /usr/bin/bobtail-router
ENTRYPOINT ["/usr/bin/bobtail-router"]

FROM c-runtime AS serve
COPY --from=c-build /out/bobtail-serve /usr/bin/bobtail-serve
ENTRYPOINT ["/usr/bin/bobtail-serve"]

FROM c-runtime AS load
COPY --from=c-build /out/bobtail-load /usr/bin/bobtail-load
ENTRYPOINT ["/usr/bin/bobtail-load"]

FROM c-runtime AS crab-lb
COPY --from=c-build /out/bobtail-crab-lb /usr/bin/bobtail-crab-lb
ENTRYPOINT ["/usr/bin/bobtail-crab-lb"]

FROM c-runtime AS replica
COPY --from=c-build /out/bobtail-replica /out/bobtail-box /out/bobtail-aggregator /usr/bin/
ENTRYPOINT ["/usr/bin/bobtail-replica"]

# Debian's Redis, unmodified, with a member of a group inside.
FROM docker.io/library/debian:bookworm-slim AS redis
RUN apt-get update \
 && apt-get install -y --no-install-recommends libsodium23 redis-server redis-tools \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=c-build /out/bobtail-replica /out/bobtail-box /out/bobtail-aggregator /usr/bin/
COPY --from=c-build /out/modules /usr/lib/bobtail
COPY dataplane/modules/redis/bobtail-redis /usr/bin/
USER 65532:65532
ENTRYPOINT ["/usr/bin/bobtail-redis"]
