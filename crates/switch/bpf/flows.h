// What each connection wrote, until its server has answered it (docs/decisions/0033): a value that was
// asked for before the server applied a write is forgotten when the write's answer leaves.
#pragma once
#include "holds.h"

// Everything of memcached's is forgotten, and nothing is stored for a while.
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

// Writes of several clients may pass at once: the latest of their times holds.
INLINE void ask_no_sooner(struct entry *entry, u64 from_ns)
{
    UNROLL
    for (u32 attempt = 0; attempt < 2; attempt++) {
        u64 before = READ_ONCE(entry->ask_from_ns);
        if (before >= from_ns || __sync_bool_compare_and_swap(&entry->ask_from_ns, before, from_ns))
            break;
    }
}

// Nobody is served what is stored under this name any more. It is asked for anew from then on, unless
// that is ANSWERED: when the write's answer leaves, then; or LEAVES: never.
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

// The key's gets and its meta gets.
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

// What is known of the connection, or nothing.
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

// Goes on with a connection that may wait for what was asked for before: everything is forgotten until as many
// answers have left, and what it writes until as many more have. A datagram begins and ends with itself.
INLINE void go_on_unseen(struct flow *flow, const struct flow_key *key, u64 now)
{
    begin_flow(flow, key, now);
    if (is_datagram(key))
        return;
    flow->asked = flow->noted = flow->lost = UNSEEN_MAX;
    flow->barriers = UNSEEN_MAX;  // as many mn may be among it: none that is asked for is trusted
    flow->unseen = 1;
}

// Takes up a connection that has no place. Who began under the program's eyes gave it away while it waited for
// nothing, and so did who waited for a minute.
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

// What was asked for before the program saw it is answered if nothing that it saw waits, and nothing was said for
// a while.
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

// What is known of the connection, from now on at the latest. One that waits for nothing gives its place to
// another; two that do share one, and forget everything with each answer, until nothing was said for a long
// time. A datagram gives its place in any case, and takes none of a connection that waits: its answer, of which
// nothing is known then, forgets everything.
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

// A connection opens. Its first segment may come twice.
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

// Whether the answer to any datagram may be waited for. Where nobody writes by datagrams, answers need not look for
// themselves among connections: a place drawn at random is seldom in a processor's cache.
INLINE int datagrams_wait(void)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    return !all || READ_ONCE(all->datagrams);
}

// A datagram asks: its number may be that of one that was answered.
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

// Takes up the connection with a segment of so many bytes.
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

// One more answer is to come.
INLINE void expect(struct scratch *scratch)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    if (flow && !scratch->again)
        flow->asked += 1;
}

// What the last that was asked for writes is not known: nothing that is asked for before its answer lasts. A quiet
// one has none, and waits for the next.
INLINE void lose_key(struct scratch *scratch, u32 quiet)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    flush();
    if (!flow || scratch->again)
        return;
    flow->cut = 1;
    flow->lost = flow->noted = flow->asked + quiet;
}

// What a packet writes is not known, nor how many answers it has.
INLINE void lose_track(struct scratch *scratch)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    flush();
    if (flow)
        flow->cut = flow->unclear = 1;
}

// When a key is to be asked for anew whose write waits for this answer.
INLINE u64 ask_from(const struct flow *flow, u64 until, u64 now)
{
    if (until <= flow->answered)
        return now;
    return until <= flow->asked && !flow->unclear && !flow->unseen ? ANSWERED : now + FILL_WAIT_NS;
}

// Forgets the key in scratch, and notes that its write waits for the answer asked for last; a quiet one has
// none, and waits for the next.
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

// The key of the connection's write of that number is held no more, if it is answered.
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
    // Another write takes the place with its answer first, then with its hold.
    u64 made = READ_ONCE(of->of[number]);
    IN_ORDER();
    if (made && READ_ONCE(flow->until[number]) <= READ_ONCE(flow->answered)
        && __sync_bool_compare_and_swap(&of->of[number], made, 0))
        add_held(made, -1);
    return 0;
}

// Forgets the keys known of what the connection in scratch wrote and had no answer to when `answered` was
// the last. If no answer will come they are not asked for again: they leave.
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

// Forgets what the connection waited for when `answered` was the last answer.
INLINE void forget_awaited(const struct flow *flow, u64 answered, u32 is_over)
{
    if (flow->unclear || flow->lost > answered)
        flush();
    forget_noted(answered, is_over);
}

// The client resets the connection, here in its sequence or not: the server may still apply what it has.
INLINE void reset_flow(struct scratch *scratch, u32 sequence)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    if (!flow)
        return;
    forget_awaited(flow, flow->answered, 1);
    if (flow->spoke && flow->next == sequence && !flow->shared)
        flow->at_ns = 0;
}
