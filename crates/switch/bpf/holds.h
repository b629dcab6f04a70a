// Keys are held while writes of them that passed wait for their answers, whoever wrote, and are not asked for: what a
// server says of one may be older than a write that it applies later, and that somebody may read there before the
// writer is answered (DataPlane::asking, in asking.rs). What is silent for some time holds nothing any more: asking.rs
// ends that, too.
#pragma once
#include "text.h"

INLINE void block_fills(struct shared *all)
{
    WRITE_ONCE(all->fills_blocked_ns, now_coarse_ns() + UNCLEAR_WAIT_NS);
}

INLINE u32 place_of(const struct flow_key *key)
{
    const u64 *words = (const u64 *)key;
    u64 hash = seed;
    UNROLL
    for (u32 number = 0; number < sizeof(*key) / 8; number++)
        hash = mix_word(hash, words[number]);
    return mix_last(hash) >> (64 - FLOW_BITS);
}

INLINE void add_held(u32 number, s64 writes)
{
    u32 line = number / HOLDS_IN_LINE & (HOLDS / HOLDS_IN_LINE - 1);
    struct held *counted = map_lookup(&held, &line);
    if (counted)
        __sync_fetch_and_add(&counted->writes[number & (HOLDS_IN_LINE - 1)], writes);
}

// Holds the key in scratch for the write of that number of the connection; not if its answer is not known to come.
// Where another still has its place it is not known when that is applied.
APART int hold(u32 write, u32 is_awaited)
{
    struct scratch *scratch = scratch_of_processor();
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!scratch || !all)
        return 0;
    u32 place = place_of(&scratch->flow_key);
    struct holds *of = map_lookup(&holds, &place);
    if (!of)
        return 0;
    u64 made = 0;
    if (is_awaited) {
        u32 number = *(u64 *)&scratch->name >> (64 - HOLD_BITS);
        made = (u64)write << 32 | 1 << HOLD_BITS | number;
        add_held(number, 1);
    }
    u64 before = __sync_lock_test_and_set(&of->of[write % FLOW_WRITES], made);
    if (before) {
        block_fills(all);
        add_held(before, -1);
    }
    return 0;
}
