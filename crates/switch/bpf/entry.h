// Finds the entry of a key, and decides whether it may be served.
#pragma once
#include "statistics.h"
#include "values.h"

struct cached {
    struct entry *entry;
    u32 place;
};

INLINE int same_name(const void *a, const void *b)
{
    const u64 *left = a, *right = b;
    return left[0] == right[0] && left[1] == right[1];
}

// The entry of that name; `hash` is hash_of_name(name). User space never puts two names with the
// same tag into one bucket, so the first match is the only one.
INLINE struct cached find_name(const struct name *name, u64 hash)
{
    struct cached none = {0, 0};
    u32 number = hash >> lookup_shift, tag = (u32)hash | 1;
    struct bucket *bucket = map_lookup(&lookup, &number);
    if (!bucket)
        return none;
    u64 word = 0;
    UNROLL
    for (int slot = 0; slot < BUCKET_WORDS; slot++) {
        u64 here = READ_ONCE(bucket->words[slot]);
        if ((u32)here == tag)
            word = here;
    }
    if (!word)
        return none;
    struct cached cached = {0, word >> 32};
    if (!registers) {
        // The slot has the number of the entry, so both are fetched from memory at the same time.
        struct slot *slot = map_lookup(&slots, &cached.place);
        if (slot)
            (void)READ_ONCE(slot->words[0]);
    }
    struct entry *entry = map_lookup(&entries, &cached.place);
    if (entry && same_name(&entry->name, name))
        cached.entry = entry;
    return cached;
}

// The entry of a key, if the key of this server is cached.
INLINE struct cached find(const struct name *name, u64 hash, const u8 *server, u16 port, u32 protocol)
{
    struct cached cached = find_name(name, hash);
    struct entry *entry = cached.entry;
    if (entry && ((entry->kind & KIND_PROTOCOL) != protocol || entry->port != port
                  || !same_name(entry->server, server)))
        cached.entry = 0;
    return cached;
}

INLINE int is_valid(const struct entry *entry, u64 version)
{
    return READ_ONCE(entry->valid_version) == version;
}
