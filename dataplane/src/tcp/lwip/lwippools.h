// SPDX-License-Identifier: Apache-2.0
// Memory of segments that are sent. No guard: lwIP includes it several times. The last one holds a whole segment with
// its headers.
LWIP_MALLOC_MEMPOOL_START
LWIP_MALLOC_MEMPOOL(4096, 256)
LWIP_MALLOC_MEMPOOL(1024, 512)
LWIP_MALLOC_MEMPOOL(2048, 1664)
LWIP_MALLOC_MEMPOOL_END
