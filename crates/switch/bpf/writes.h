// Whatever may change a key: makes its entry invalid before the server sees it, and is noted so that
// the server's answer makes it invalid once more. What is not understood forgets everything.
#pragma once
#include "text.h"

// Everything of memcached's is forgotten, and nothing is stored for as long as a write may take.
INLINE void flush(void)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return;
    WRITE_ONCE(all->fills_blocked_ns, now_coarse_ns() + answer_wait_ns);
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

// Nobody is served what is stored under this name any more.
INLINE void forget_name(const struct name *name, u64 now)
{
    struct cached cached = find_name(name, hash_of_name(name));
    struct entry *entry = cached.entry;
    if (!entry || (entry->kind & KIND_PROTOCOL) != PROTOCOL_MEMCACHE)
        return;
    count(COUNT_WRITE);
    u64 version = READ_ONCE(entry->version);
    int was_valid = is_valid(entry, version);
    WRITE_ONCE(entry->written_ns, now);
    __sync_fetch_and_add(&entry->version, 1);
    if (was_valid)
        report_entry(entry, name, cached.place);
}

// The key's gets and its meta gets.
INLINE void forget(const struct name *name, u64 now)
{
    struct name both = *name;
    forget_name(&both, now);
    both.bytes[8] |= 1;
    forget_name(&both, now);
}

// What is known of the connection, from now on at the latest; 0 if there is no room.
INLINE struct flow *flow_of(struct scratch *scratch)
{
    struct flow *flow = map_lookup(&flows, &scratch->flow_key);
    if (flow)
        return flow;
    __builtin_memset(&scratch->flow, 0, sizeof(scratch->flow));
    map_update(&flows, &scratch->flow_key, &scratch->flow, 0);
    return map_lookup(&flows, &scratch->flow_key);
}

// What the payload writes is not clear, nor, over TCP, what the next one goes on with.
INLINE void lose_track(struct scratch *scratch)
{
    flush();
    if (scratch->flow_key.transport != IP_TCP)
        return;
    struct flow *flow = flow_of(scratch);
    if (flow)
        flow->cut = 1;
}

// Notes that the connection wrote this key, and forgets it.
INLINE void write_key(struct scratch *scratch)
{
    u64 now = now_coarse_ns();
    struct flow *flow = flow_of(scratch);
    if (!flow) {
        flush();
        return;
    }
    u32 number = flow->writes++ % FLOW_WRITES;
    // One that is still waited for makes room: nothing is stored until it need not be any more.
    if (flow->named_at_ns[number] && now - flow->named_at_ns[number] < answer_wait_ns) {
        u32 zero = 0;
        struct shared *all = map_lookup(&shared, &zero);
        if (all)
            WRITE_ONCE(all->fills_blocked_ns, now + answer_wait_ns);
    }
    flow->names[number] = scratch->name;
    flow->named_at_ns[number] = now;
    flow->at_ns = now;
    forget(&scratch->name, now);
}

enum shape {
    SHAPE_KEY,      // word, key
    SHAPE_KEYS,     // word, number, keys
    SHAPE_META,     // word, key, flags; a flag may say that the key is coded
    SHAPE_ALL,      // everything
};

static const struct command {
    u64 word;
    u32 bytes;
    u32 shape;
} commands[32] = {
    {WORD8('s', 'e', 't', ' ', 0, 0, 0, 0), 4, SHAPE_KEY},
    {WORD8('a', 'd', 'd', ' ', 0, 0, 0, 0), 4, SHAPE_KEY},
    {WORD8('c', 'a', 's', ' ', 0, 0, 0, 0), 4, SHAPE_KEY},
    {WORD8('i', 'n', 'c', 'r', ' ', 0, 0, 0), 5, SHAPE_KEY},
    {WORD8('d', 'e', 'c', 'r', ' ', 0, 0, 0), 5, SHAPE_KEY},
    {WORD8('t', 'o', 'u', 'c', 'h', ' ', 0, 0), 6, SHAPE_KEY},
    {WORD8('a', 'p', 'p', 'e', 'n', 'd', ' ', 0), 7, SHAPE_KEY},
    {WORD8('d', 'e', 'l', 'e', 't', 'e', ' ', 0), 7, SHAPE_KEY},
    {WORD8('r', 'e', 'p', 'l', 'a', 'c', 'e', ' '), 8, SHAPE_KEY},
    {WORD8('p', 'r', 'e', 'p', 'e', 'n', 'd', ' '), 8, SHAPE_KEY},
    {WORD8('g', 'a', 't', ' ', 0, 0, 0, 0), 4, SHAPE_KEYS},
    {WORD8('g', 'a', 't', 's', ' ', 0, 0, 0), 5, SHAPE_KEYS},
    {WORD8('m', 's', ' ', 0, 0, 0, 0, 0), 3, SHAPE_META},
    {WORD8('m', 'd', ' ', 0, 0, 0, 0, 0), 3, SHAPE_META},
    {WORD8('m', 'a', ' ', 0, 0, 0, 0, 0), 3, SHAPE_META},
    {WORD8('m', 'g', ' ', 0, 0, 0, 0, 0), 3, SHAPE_META},   // its flags may touch, create, vivify
    {WORD8('f', 'l', 'u', 's', 'h', '_', 'a', 'l'), 8, SHAPE_ALL},
};
enum { COMMANDS = 17 };

enum { LINE_OTHER = 0, LINE_CUT = -1 };

// The command the line at `offset` begins with, counted from 1; LINE_CUT if it ends too early to
// tell.
APART int command_at(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset >= scratch->payload_bytes)
        return LINE_OTHER;
    u32 available = scratch->payload_bytes - offset;
    u64 there = available >= 8 ? ~0ull : (1ull << 8 * (available & 7)) - 1;
    u64 line = word_at(scratch, offset);
    UNROLL
    for (u32 number = 0; number < COMMANDS; number++) {
        u32 bytes = commands[number].bytes;
        u64 whole = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
        if ((line ^ commands[number].word) & whole & there)
            continue;
        return available >= bytes ? (int)number + 1 : LINE_CUT;
    }
    return LINE_OTHER;
}

// Flags behind a meta command's key: whether the line ends here, and no flag says that the key is
// coded. 0 if not.
APART int plain_flags(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    u8 before = ' ';
    ROLLED
    for (u32 at = 0; at < 128; at++) {
        if (offset + at >= scratch->payload_bytes)
            return 0;
        u8 byte = byte_at(scratch, offset + at);
        if (byte == '\r' || byte == '\n')
            return 1;
        if (before == ' ' && byte == 'b')
            return 0;
        before = byte;
    }
    return 0;
}

// Up to ITEMS_MAX keys to the end of the line; 0 if there are more or it does not end.
APART int write_keys(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    ROLLED
    for (u32 keys = 0; keys < ITEMS_MAX; keys++) {
        offset = skip_blanks(scratch, offset);
        if (!offset)
            return 0;
        u8 byte = byte_at(scratch, offset);
        if (byte == '\r' || byte == '\n')
            return 1;
        offset = take_key(offset);
        if (!offset)
            return 0;
        write_key(scratch);
    }
    return 0;
}

// Does what the line at `offset` asks for as far as the cache goes; 0 if that is not clear.
APART int write_line(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset >= scratch->payload_bytes)
        return 1;
    int number = command_at(offset);
    if (number == LINE_OTHER || number > COMMANDS)
        return 1;
    if (number == LINE_CUT)
        return 0;
    const struct command *command = &commands[(number - 1) & 31];
    u32 shape = command->shape, bytes = command->bytes;
    if (shape == SHAPE_ALL)
        return 0;
    offset = skip_blanks(scratch, offset + bytes);
    if (!offset)
        return 0;
    u32 behind = take_key(offset);
    if (!behind)
        return 0;
    if (shape == SHAPE_KEYS)
        return write_keys(behind);
    write_key(scratch);
    return shape == SHAPE_KEY || plain_flags(behind);
}

INLINE u64 newlines_of(u64 word)
{
    word ^= 0x0a0a0a0a0a0a0a0aull;
    return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

// Notes the lines that begin behind one of the 8 bytes at `offset`; 0 if there are too many.
APART int find_lines_in(u32 offset, u32 first)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    ROLLED
    for (u32 byte = 0; byte < 8; byte++) {
        u32 next = offset + byte + 1;
        if (byte_at(scratch, offset + byte) != '\n' || next >= scratch->payload_bytes || next <= first)
            continue;
        u32 lines = scratch->lines;
        if (lines >= LINES_MAX)
            return 0;
        scratch->line[lines] = next;
        scratch->lines = lines + 1;
    }
    return 1;
}

// Notes where lines begin, the first at `first`.
APART int find_lines(u32 first)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    scratch->lines = 1;
    scratch->line[0] = first;
    u64 *words = (u64 *)scratch->payload;
    ROLLED
    for (u32 number = 0; number < PAYLOAD_BYTES_MAX / 8; number++) {
        if (number * 8 >= scratch->payload_bytes)
            break;
        if (LIKELY(!newlines_of(words[number])))
            continue;
        if (!find_lines_in(number * 8, first))
            return 0;
    }
    return 1;
}

// Everything the payload may write; flushes where that is not clear.
APART int write_payload(u32 first)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    int clear = find_lines(first);
    ROLLED
    for (u32 number = 0; number < LINES_MAX; number++) {
        if (!clear || number >= scratch->lines)
            break;
        clear = write_line(scratch->line[number]);
    }
    if (!clear)
        lose_track(scratch);
    return 0;
}

// Whether the payload begins with a command, told by its first word.
INLINE int begins_command(struct scratch *scratch)
{
    u64 line = word_at(scratch, 0), reads[] = {
        WORD8('g', 'e', 't', ' ', 0, 0, 0, 0), WORD8('g', 'e', 't', 's', ' ', 0, 0, 0),
        WORD8('s', 't', 'a', 't', 's', 0, 0, 0), WORD8('v', 'e', 'r', 's', 'i', 'o', 'n', 0),
        WORD8('v', 'e', 'r', 'b', 'o', 's', 'i', 0), WORD8('q', 'u', 'i', 't', 0, 0, 0, 0),
        WORD8('m', 'n', '\r', '\n', 0, 0, 0, 0), WORD8('m', 'e', ' ', 0, 0, 0, 0, 0),
    };
    const u32 bytes[] = {4, 5, 5, 7, 7, 4, 4, 3};
    UNROLL
    for (u32 number = 0; number < sizeof(bytes) / 4; number++) {
        u32 unread = 8 * (8 - bytes[number]);
        if (bytes[number] <= scratch->payload_bytes && !((line ^ reads[number]) << unread))
            return 1;
    }
    return command_at(0) > 0;
}

// A segment may go on with a line or a value that began in an earlier one, however long ago: the
// write is done once its last byte is there, so until then each segment makes its key invalid again.
// 1 if the key is not known, and everything was forgotten.
APART int go_on(void)
{
    struct scratch *scratch = scratch_of_processor();
    struct flow *flow = scratch ? map_lookup(&flows, &scratch->flow_key) : 0;
    if (!flow)
        return 0;
    if (begins_command(scratch)) {
        flow->cut = 0;
        return 0;
    }
    if (flow->cut) {
        flush();
        return 1;
    }
    u64 now = now_coarse_ns();
    flow->at_ns = now;
    ROLLED
    for (u32 number = 0; number < FLOW_WRITES; number++) {
        if (!flow->named_at_ns[number])
            continue;
        flow->named_at_ns[number] = now;
        struct name name = flow->names[number];
        forget(&name, now);
    }
    return 0;
}

// memcached's binary protocol is not read: a connection, or datagram, that speaks it forgets everything
// with each packet.
INLINE int speaks_binary(struct scratch *scratch, u32 first)
{
    struct flow *flow = map_lookup(&flows, &scratch->flow_key);
    if (flow && flow->binary)
        return 1;
    if (scratch->payload[first] != 0x80)
        return 0;
    flow = flow_of(scratch);
    if (flow)
        flow->binary = 1;
    return 1;
}
