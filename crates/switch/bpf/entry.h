// Finding a key's entry, and whether it may be served.
#pragma once
#include "statistics.h"
#include "values.h"

struct cached {
    struct entry *entry;
    u32 place;
};

INLINE int same_name(const struct name *a, const struct name *b)
{
    const u64 *left = (const u64 *)a, *right = (const u64 *)b;
    return left[0] == right[0] && left[1] == right[1];
}

// The entry of a key, if this server's is cached.
INLINE struct cached find(const struct name *name, const u8 *server, u16 port, u32 protocol)
{
    struct cached cached = {0, 0};
    u32 *place = map_lookup(&lookup, name);
    if (!place)
        return cached;
    cached.place = *place;
    struct entry *entry = map_lookup(&entries, &cached.place);
    if (!entry || entry->protocol != protocol || entry->port != port)
        return cached;
    if (!same_name((const struct name *)entry->server, (const struct name *)server))
        return cached;
    cached.entry = entry;
    return cached;
}

INLINE int is_valid(const struct entry *entry, u64 version)
{
    return READ_ONCE(entry->valid_version) == version;
}
