// policy::v2p::Cache: direct-mapped lines of (virtual address, physical address, access bit). A
// line is read and written whole: if two processors change it at the same time, one change is lost,
// and no line mixes both.
#pragma once
#include "hash.h"
#include "maps.h"

#define ACCESSED (1ull << 63)

INLINE u32 vip_of(u64 line)
{
    return line;
}

INLINE u32 pip_of(u64 line)
{
    return line >> 32 & 0x7fffffff;
}

INLINE int line_holds(u64 line, u32 vip)
{
    return vip_of(line) == vip && pip_of(line);
}

INLINE u64 *line_of(u32 vip)
{
    u32 hash = vip_hash(vip), number = lines_mask ? hash & lines_mask : hash % entries;
    return map_lookup(&lines, &number);
}

INLINE int cache_accessed(const u64 *line)
{
    return (READ_ONCE(*line) & ACCESSED) != 0;
}

INLINE int cache_holds(const u64 *line, u32 vip)
{
    return line_holds(READ_ONCE(*line), vip);
}

INLINE u32 cache_get(u64 *line, u32 vip)
{
    u64 was = READ_ONCE(*line);
    if (line_holds(was, vip)) {
        if (!(was & ACCESSED))
            WRITE_ONCE(*line, was | ACCESSED);
        return pip_of(was);
    }
    if (was & ACCESSED)
        WRITE_ONCE(*line, was & ~ACCESSED);
    return 0;
}

// Returns the evicted line, or 0.
INLINE u64 cache_put(u64 *line, u32 vip, u32 pip)
{
    u64 was = READ_ONCE(*line), is = (u64)pip << 32 | vip;
    if (was != is)
        WRITE_ONCE(*line, is);
    return vip_of(was) && vip_of(was) != vip && pip_of(was) ? was & ~ACCESSED : 0;
}

INLINE void cache_put_if_free(u64 *line, u32 vip, u32 pip)
{
    u64 was = READ_ONCE(*line);
    if (!vip_of(was) || vip_of(was) == vip)
        WRITE_ONCE(*line, (u64)pip << 32 | vip | (was & ACCESSED));
}

INLINE void cache_invalidate(u64 *line, u32 vip, u32 pip)
{
    if (cache_get(line, vip) == pip)
        WRITE_ONCE(*line, 0);
}
