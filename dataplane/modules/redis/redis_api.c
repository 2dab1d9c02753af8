// SPDX-License-Identifier: Apache-2.0
// See redis_api.h.
#include "redis_api.h"

#include <string.h>

#define DEFINE(result, name, arguments) result(*bt_redis_##name) arguments;
BT_REDIS_API(DEFINE)

typedef int (*get_api)(const char *name, void **out);

const char *bt_redis_begin(RedisModuleCtx *ctx, const char *name, int version)
{
    get_api get;
    memcpy(&get, ctx, sizeof get);
#define FIND(result, what, arguments)                                                                                  \
    if (get("RedisModule_" #what, (void **)&bt_redis_##what) != REDISMODULE_OK) {                                      \
        return #what;                                                                                                  \
    }
    BT_REDIS_API(FIND)
    if (RM(IsModuleNameBusy)(name)) {
        return "a free name: the module is loaded already";
    }
    RM(SetModuleAttribs)(ctx, name, version, REDISMODULE_APIVER_1);
    return NULL;
}
