// Writes of each connection until their replies have left (docs/decisions/0033): a value that was
// requested before the server applied a write is invalidated when the reply to the write leaves.
#pragma once
#include "holds.h"

// Drops all memcached items, and blocks fills for a while.
INLINE void flush(void)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return;
    block_fills(all);
    __sync_fetch_and_add(&all->epoch, 1);
    count(COUNT_FLUSH);
}

INLINE void report_entry(const struct entry *entry, const struct name *name, u32 place)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return;
    struct report *report = &scratch->report;
    report->name = *name;
    report->kind = REPORT_STALE;
    report->place = place;
    report->port = entry->port;
    report->protocol = PROTOCOL_MEMCACHE;
    report->key_bytes = 0;
    send_report(report);
}

// Writes of several clients may pass at the same time: the latest of their times counts.
INLINE void ask_no_sooner(struct entry *entry, u64 from_ns)
{
    UNROLL
    for (u32 attempt = 0; attempt < 2; attempt++) {
        u64 before = READ_ONCE(entry->ask_from_ns);
        if (before >= from_ns || __sync_bool_compare_and_swap(&entry->ask_from_ns, before, from_ns))
            break;
    }
}

// Invalidates the entry of this name. It is requested again from `ask_from_ns` on; with ANSWERED,
// when the reply to the write leaves; with LEAVES, never.
INLINE void forget_name(const struct name *name, u64 ask_from_ns)
{
    struct cached cached = find_name(name, hash_of_name(name));
    struct entry *entry = cached.entry;
    if (!entry || (entry->kind & KIND_PROTOCOL) != PROTOCOL_MEMCACHE)
        return;
    count(COUNT_WRITE);
    if (ask_from_ns == LEAVES)
        WRITE_ONCE(entry->leaves, 1);
    else if (ask_from_ns != ANSWERED)
        ask_no_sooner(entry, ask_from_ns);
    __sync_fetch_and_add(&entry->version, 1);
    if (ask_from_ns < LEAVES)
        report_entry(entry, name, cached.place);
}

// Invalidates the entries of the key for get and for meta get.
INLINE void forget(const struct name *name, u64 ask_from_ns)
{
    struct name both = *name;
    forget_name(&both, ask_from_ns);
    both.bytes[8] |= 1;
    forget_name(&both, ask_from_ns);
}

INLINE struct flow *flow_at(const struct flow_key *key)
{
    u32 place = place_of(key);
    return map_lookup(&flows, &place);
}

INLINE int is_of(const struct flow *flow, const struct flow_key *key)
{
    const u64 *left = (const u64 *)&flow->key, *right = (const u64 *)key;
    u64 differ = 0;
    UNROLL
    for (u32 number = 0; number < sizeof(*key) / 8; number++)
        differ |= left[number] ^ right[number];
    return !differ || flow->shared;
}

// The record of the connection, or 0.
INLINE struct flow *find_flow(const struct flow_key *key)
{
    struct flow *flow = flow_at(key);
    return flow && flow->at_ns && is_of(flow, key) ? flow : 0;
}

INLINE void begin_flow(struct flow *flow, const struct flow_key *key, u64 now)
{
    u8 displaced = flow->displaced;
    __builtin_memset(flow, 0, sizeof(*flow) - sizeof(flow->names));
    flow->displaced = displaced;
    flow->key = *key;
    flow->at_ns = now;
}

INLINE int is_datagram(const struct flow_key *key)
{
    return (u8)key->transport == IP_UDP;
}

// Begins a record for a connection that may have up to UNSEEN_MAX unanswered requests. All items
// are dropped until that many replies have left, and keys that it writes are invalidated until as
// many further replies have left. A datagram is a whole connection.
INLINE void go_on_unseen(struct flow *flow, const struct flow_key *key, u64 now)
{
    begin_flow(flow, key, now);
    if (is_datagram(key))
        return;
    flow->asked = flow->noted = flow->lost = UNSEEN_MAX;
    flow->barriers = UNSEEN_MAX;  // each may be an mn, so the reply to a later mn is not trusted
    flow->unseen = 1;
}

// Begins a record for a connection that has none. A connection whose beginning was seen lost its
// record only while it waited for no reply, or after a minute of silence.
INLINE void take_up(struct flow *flow, const struct flow_key *key, u64 now)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return;
    if (!all->watched_ns)
        WRITE_ONCE(all->watched_ns, now);
    if (flow->displaced || (s64)(now - all->watched_ns) <= (s64)silent_ns)
        go_on_unseen(flow, key, now);
    else
        begin_flow(flow, key, now);
}

INLINE int waits(const struct flow *flow)
{
    return flow->unclear || flow->asked != flow->answered || flow->noted > flow->answered;
}

// Requests from before the program saw the connection count as answered once no request that it saw
// is unanswered and the connection has been silent for a while.
INLINE void settle(struct flow *flow, u64 now)
{
    u64 answered = READ_ONCE(flow->answered);
    if (!flow->unseen || flow->unclear || (s64)(now - flow->at_ns) < UNCLEAR_WAIT_NS
        || flow->asked > answered + UNSEEN_MAX || flow->noted > answered + UNSEEN_MAX)
        return;
    __builtin_memset(flow->until, 0, sizeof(flow->until));
    flow->asked = flow->noted = flow->lost = answered;
    flow->barriers = READ_ONCE(flow->barriers_answered);
    flow->unseen = 0;
}

// The record of the connection; created if missing. A connection without unanswered requests gives
// its place to another. Two connections with unanswered requests share a place, and every reply
// drops all items, until both have been silent for a long time. A datagram always gives up its
// place, and never takes that of a connection with unanswered requests: its reply, which then has
// no record, drops all items.
INLINE struct flow *flow_of(const struct flow_key *key, u64 now)
{
    struct flow *flow = flow_at(key);
    if (!flow)
        return 0;
    int is_silent = (s64)(now - flow->at_ns) > (s64)silent_ns;
    settle(flow, now);
    if (!flow->at_ns) {
        take_up(flow, key, now);
    } else if (is_of(flow, key)) {
        if (flow->unclear && is_silent) {
            flow->displaced |= flow->shared;
            go_on_unseen(flow, key, now);
        }
    } else if (!waits(flow) || is_datagram(&flow->key)) {
        take_up(flow, key, now);
    } else if (is_datagram(key)) {
        return 0;
    } else if (is_silent) {
        flow->displaced = 1;
        take_up(flow, key, now);
    } else {
        flow->shared = flow->unclear = 1;
    }
    flow->at_ns = now;
    return flow;
}

// Handles the opening of a connection. Its first segment may be retransmitted.
INLINE void open_flow(const struct flow_key *key, u32 sequence)
{
    u64 now = now_coarse_ns();
    struct flow *flow = flow_of(key, now);
    if (!flow || flow->shared || (flow->spoke && flow->first == sequence + 1))
        return;
    begin_flow(flow, key, now);
    flow->first = flow->next = sequence + 1;
    flow->spoke = 1;
}

// Whether the reply to any datagram may be awaited. If no client writes by datagrams, replies need
// no lookup among the connections: the record is seldom in the processor's cache.
INLINE int datagrams_wait(void)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    return !all || READ_ONCE(all->datagrams);
}

// Handles a request datagram. Its number may be that of an earlier one that was answered.
INLINE void begin_request(const struct flow_key *key)
{
    u64 now = now_coarse_ns();
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (all && !all->datagrams)
        WRITE_ONCE(all->datagrams, 1);
    struct flow *flow = flow_of(key, now);
    if (flow && flow->answered && !flow->shared)
        begin_flow(flow, key, now);
}

// Updates the connection with a segment of this many bytes.
INLINE void follow(struct scratch *scratch, u32 sequence, u32 bytes)
{
    struct flow *flow = flow_of(&scratch->flow_key, now_coarse_ns());
    if (!flow)
        return;
    u32 end = sequence + bytes;
    if (!flow->spoke) {
        flow->spoke = 1;
        flow->next = sequence;
    }
    if (sequence != flow->next) {
        scratch->again = (s32)(end - flow->next) <= 0;
        if (scratch->again)
            return;
        flow->unclear = scratch->gap = 1;
    }
    flow->next = end;
}

// Counts one more expected reply.
INLINE void expect(struct scratch *scratch)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    if (flow && !scratch->again)
        flow->asked += 1;
}

// The keys of the last request are not known: all items that are requested before its reply are
// dropped. A quiet command has no reply and waits for the next one.
INLINE void lose_key(struct scratch *scratch, u32 quiet)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    flush();
    if (!flow || scratch->again)
        return;
    flow->cut = 1;
    flow->lost = flow->noted = flow->asked + quiet;
}

// Neither the keys that a packet writes are known, nor the number of its replies.
INLINE void lose_track(struct scratch *scratch)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    flush();
    if (flow)
        flow->cut = flow->unclear = 1;
}

// Time from which a key is requested again whose write waits for this reply.
INLINE u64 ask_from(const struct flow *flow, u64 until, u64 now)
{
    if (until <= flow->answered)
        return now;
    return until <= flow->asked && !flow->unclear && !flow->unseen ? ANSWERED : now + FILL_WAIT_NS;
}

// Invalidates the key in scratch, and records that its write waits for the reply to the last
// request. A quiet write has no reply and waits for the next one.
INLINE void write_key(struct scratch *scratch, u32 quiet)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    u64 now = now_coarse_ns(), from = now + FILL_WAIT_NS;
    if (flow && !scratch->again) {
        u32 number = flow->writes % FLOW_WRITES;
        u64 until = flow->asked + quiet, before = flow->until[number];
        if (before > flow->answered && before > flow->lost)
            flow->lost = before;
        flow->until[number] = flow->noted = until;
        flow->names[number] = scratch->name;
        from = ask_from(flow, until, now);
        hold(flow->writes, from == ANSWERED);
        flow->writes += 1;
    }
    forget(&scratch->name, from);
}

// Ends the hold of the connection's write with this number, if the write is answered.
APART int release(u32 number)
{
    struct scratch *scratch = scratch_of_processor();
    struct flow *flow = scratch ? find_flow(&scratch->flow_key) : 0;
    if (!flow || number >= FLOW_WRITES)
        return 0;
    u32 place = place_of(&scratch->flow_key);
    struct holds *of = map_lookup(&holds, &place);
    if (!of)
        return 0;
    // Another write that takes the place stores the number of its reply first, then its hold.
    u64 made = READ_ONCE(of->of[number]);
    IN_ORDER();
    if (made && READ_ONCE(flow->until[number]) <= READ_ONCE(flow->answered)
        && __sync_bool_compare_and_swap(&of->of[number], made, 0))
        add_held(made, -1);
    return 0;
}

// Invalidates the known keys of the writes that had no reply when `answered` was the last one, of
// the connection in scratch. If no reply will come, they are removed instead of requested again.
APART int forget_noted(u64 answered, u32 is_over)
{
    struct scratch *scratch = scratch_of_processor();
    struct flow *flow = scratch ? find_flow(&scratch->flow_key) : 0;
    if (!flow || flow->noted <= answered)
        return 0;
    u64 now = now_coarse_ns();
    ROLLED
    for (u32 number = 0; number < FLOW_WRITES; number++) {
        if (flow->until[number] <= answered)
            continue;
        release(number);
        struct name name = flow->names[number];
        forget(&name, is_over ? LEAVES : ask_from(flow, flow->until[number], now));
    }
    return 0;
}

// Invalidates what the connection's unanswered writes may have changed, as of the reply `answered`.
INLINE void forget_awaited(const struct flow *flow, u64 answered, u32 is_over)
{
    if (flow->unclear || flow->lost > answered)
        flush();
    forget_noted(answered, is_over);
}

// The client resets the connection, in sequence or not: the server may still apply commands that it
// has received.
INLINE void reset_flow(struct scratch *scratch, u32 sequence)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    if (!flow)
        return;
    forget_awaited(flow, flow->answered, 1);
    if (flow->spoke && flow->next == sequence && !flow->shared)
        flow->at_ns = 0;
}
