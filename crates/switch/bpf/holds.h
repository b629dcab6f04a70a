// A key is held, and not requested, while writes of it that passed wait for their replies, from any
// client. The item that the server would send may be older than a write that it applies later, and
// another client may read that write at the server before the writer has its reply
// (DataPlane::asking, in asking.rs). asking.rs also ends the holds of connections that have been
// silent for some time.
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

// Holds the key in scratch for the connection's write with this number, if its reply is known to
// come. If another write still has the place, it is not known when that one is applied, so fills
// are blocked.
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
