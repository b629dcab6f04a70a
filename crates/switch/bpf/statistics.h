// Query statistics: counters of cached keys; a count-min sketch and a Bloom filter for the others;
// all sampled. docs/formats/hotkey.md defines the layout and all hashes.
#pragma once
#include "maps.h"

#define WORD_FACTOR 0x9e3779b97f4a7c15ull
#define LAST_FACTOR 0xbf58476d1ce4e5b9ull

enum { ROWS_MAX = 8 };

static const u64 sketch_factors[ROWS_MAX] = {
    0xe220a8397b1dcdafull, 0x6e789e6aa1b965f5ull, 0x06c45d188009454full, 0xf88bb8a8724c81edull,
    0x1b39896a51a8749bull, 0x53cb9f0c747ea2ebull, 0x2c829abe1f4532e1ull, 0xc584133ac916ab3dull,
};

static const u64 filter_factors[ROWS_MAX] = {
    0x3ee5789041c98ac3ull, 0xf3b8488c368cb0a7ull, 0x657eecdd3cb13d09ull, 0xc2d326e0055bdef7ull,
    0x8621a03fe0bbdb7bull, 0x8e1f7555983aa92full, 0xb54e0f1600cc4d19ull, 0x84bb3f97971d80abull,
};

INLINE u64 mix_word(u64 hash, u64 word)
{
    hash = (hash ^ word) * WORD_FACTOR;
    return hash ^ hash >> 32;
}

INLINE u64 mix_last(u64 hash)
{
    hash *= LAST_FACTOR;
    return hash ^ hash >> 32;
}

// docs/formats/hotkey.md, "Hash of a key", for a key of 16 bytes.
INLINE u64 hash_of_name(const struct name *name)
{
    const u64 *words = (const u64 *)name;
    return mix_last(mix_word(mix_word(seed ^ 16, words[0]), words[1]));
}

// Each processor has its own random sequence; that of the first begins with the seed.
INLINE int sampled(struct processor *self)
{
    if (sampled_per_65536 >= 65536 || sampled_per_65536 == 0)
        return sampled_per_65536 != 0;
    u64 drawn = (self->drawn += WORD_FACTOR) + seed + ((u64)processor_number() << 48);
    drawn = (drawn ^ drawn >> 30) * LAST_FACTOR;
    drawn = (drawn ^ drawn >> 27) * 0x94d049bb133111ebull;
    return drawn >> 48 < sampled_per_65536;
}

// Two processors that count the same key at the same time may lose one count; neither waits.
INLINE u16 raise(u16 *counter)
{
    u16 counted = *counter;
    if (counted < 0xffff)
        *counter = ++counted;
    return counted;
}

// Counts an access to a hash; returns the new estimate.
INLINE u32 sketch_add(u64 hash)
{
    u32 least = 0xffff;
    UNROLL
    for (u32 row = 0; row < ROWS_MAX; row++) {
        if (row >= sketch_rows)
            break;
        u32 place = (row << sketch_bits) + (u32)((hash * sketch_factors[row]) >> (64 - sketch_bits));
        u32 number = place / 32;
        struct line *line = map_lookup(&sketch, &number);
        if (!line)
            return 0;
        u16 counted = raise(&((u16 *)line->bytes)[place % 32]);
        least = counted < least ? counted : least;
    }
    return least;
}

// Inserts a hash into the filter; returns whether it was new.
INLINE int filter_insert(u64 hash)
{
    int fresh = 0;
    UNROLL
    for (u32 row = 0; row < ROWS_MAX; row++) {
        if (row >= filter_rows)
            break;
        u32 place = (row << filter_bits) + (u32)((hash * filter_factors[row]) >> (64 - filter_bits));
        u32 number = place / 512;
        struct line *line = map_lookup(&filter, &number);
        if (!line)
            return 0;
        u64 *word = &((u64 *)line->bytes)[place % 512 / 64];
        u64 bit = 1ull << place % 64;
        fresh |= !(*word & bit);
        *word |= bit;
    }
    return fresh;
}

// Counts an access to a cached key.
INLINE void count_cached(struct processor *self, u32 place)
{
    if (!sampled(self))
        return;
    u32 number = place / 32;
    struct line *line = map_lookup(&counters, &number);
    if (line)
        raise(&((u16 *)line->bytes)[place % 32]);
}

INLINE void send_report(struct report *report)
{
    count(ringbuf_output(&reports, report, sizeof(*report), 0) ? COUNT_REPORT_LOST : COUNT_REPORT);
}

// Counts an access to an uncached key; returns the estimate if the key must be reported as hot,
// else 0.
INLINE u32 count_uncached(struct processor *self, u64 hash)
{
    if (!sampled(self))
        return 0;
    u32 estimate = sketch_add(hash);
    return estimate >= threshold && filter_insert(hash) ? estimate : 0;
}
