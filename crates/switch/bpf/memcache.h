// memcached's protocols: docs/protocols/memcached.md. Gets over UDP are answered; whatever may
// change a key makes its entry invalid before the server sees it, and once more when the server's
// answer leaves. Values come from the controller, which asks the server for them.
#pragma once
#include "entry.h"

enum { UDP_FRAME_BYTES = 8, REPLY_BYTES_MAX = 1400 };  // as memcached splits its own

// Copies what the packet carries to where the parser below works; 0 if it is too long.
APART int copy_payload(struct xdp_md *context, u32 offset, u32 bytes)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset > 256 || bytes > PAYLOAD_BYTES_MAX)
        return 0;
    u8 *from = start_of(context) + offset;
    void *end = end_of(context);
    u8 *to = scratch->payload;
    u32 left = bytes;
    ROLLED
    for (u32 word = 0; word < PAYLOAD_BYTES_MAX / 8; word++) {
        if (left < 8 || (void *)(from + 8) > end)
            break;
        *(u64 *)to = *(u64 *)from;
        from += 8;
        to += 8;
        left -= 8;
    }
    ROLLED
    for (u32 byte = 0; byte < 8; byte++) {
        if (byte >= left || (void *)(from + 1) > end)
            break;
        *to++ = *from++;
    }
    scratch->payload_bytes = bytes;
    return 1;
}

// Offsets behind the payload read as anything; whoever asks has compared with payload_bytes.
INLINE u8 byte_at(struct scratch *scratch, u32 offset)
{
    offset &= PAYLOAD_BYTES_MAX - 1;
    CHECKED(offset);
    return scratch->payload[offset & (PAYLOAD_BYTES_MAX - 1)];
}

INLINE u64 word_at(struct scratch *scratch, u32 offset)
{
    offset &= PAYLOAD_BYTES_MAX - 1;
    CHECKED(offset);
    return *(u64 *)&scratch->payload[offset & (PAYLOAD_BYTES_MAX - 1)];
}

// Takes the token at `offset` as a key, with its hashes; the offset behind it, or 0 if there is none
// or it does not end in this packet.
APART int take_key(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset > PAYLOAD_BYTES_MAX)
        return 0;
    u64 *words = (u64 *)scratch->key;
    u32 bytes = 0;
    u64 word = 0, hash = seed, end = 0;
    ROLLED
    for (u32 at = 0; at <= KEY_BYTES_MAX; at++) {
        if (offset + at >= scratch->payload_bytes)
            return 0;
        u8 byte = byte_at(scratch, offset + at);
        if (byte <= ' ') {
            end = offset + at;
            bytes = at;
            break;
        }
        word |= (u64)byte << 8 * (at & 7);
        if ((at & 7) == 7) {
            words[at / 8] = word;
            word = 0;
        }
    }
    if (!bytes)
        return 0;
    if (bytes & 7)
        words[bytes / 8 & 31] = word;
    u64 second = scratch->server_mix ^ bytes;
    hash = seed ^ bytes;
    ROLLED
    for (u32 number = 0; number < KEY_BYTES_BUFFER / 8; number++) {
        if (number * 8 >= bytes)
            break;
        hash = mix_word(hash, words[number]);
        second = mix_word(second, words[number]);
    }
    scratch->hash = mix_last(hash);
    scratch->key_bytes = bytes;
    u64 *name = (u64 *)&scratch->name;
    name[0] = scratch->hash;
    name[1] = mix_last(second) & ~1ull;
    return end;
}

// Equal keys of different servers are different keys.
INLINE void name_server(struct scratch *scratch, const u8 *server, u16 port)
{
    const u64 *words = (const u64 *)server;
    scratch->server_mix = mix_last(mix_word(mix_word(seed + port, words[0]), words[1]));
}

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
    u32 *place = map_lookup(&lookup, name);
    if (!place)
        return;
    u32 number = *place;
    struct entry *entry = map_lookup(&entries, &number);
    if (!entry || entry->protocol != PROTOCOL_MEMCACHE)
        return;
    count(COUNT_WRITE);
    u64 version = READ_ONCE(entry->version);
    int was_valid = is_valid(entry, version);
    WRITE_ONCE(entry->written_ns, now);
    __sync_fetch_and_add(&entry->version, 1);
    if (was_valid)
        report_entry(entry, name, number);
}

// The key's gets and its meta gets.
INLINE void forget(const struct name *name, u64 now)
{
    struct name both = *name;
    forget_name(&both, now);
    both.bytes[8] |= 1;
    forget_name(&both, now);
}

// Notes that the connection wrote this key, and forgets it.
INLINE void write_key(struct scratch *scratch)
{
    u64 now = now_coarse_ns();
    struct flow *flow = map_lookup(&flows, &scratch->flow_key);
    if (!flow) {
        __builtin_memset(&scratch->flow, 0, sizeof(scratch->flow));
        map_update(&flows, &scratch->flow_key, &scratch->flow, 0);
        flow = map_lookup(&flows, &scratch->flow_key);
    }
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

#define WORD8(a, b, c, d, e, f, g, h) \
    ((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 \
     | (u64)(g) << 48 | (u64)(h) << 56)

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

// Skips blanks at `offset`; 0 if there are too many to be honest.
INLINE u32 skip_blanks(struct scratch *scratch, u32 offset)
{
    ROLLED
    for (u32 blanks = 0; blanks < 4; blanks++) {
        if (byte_at(scratch, offset) != ' ')
            return offset;
        offset++;
    }
    return 0;
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
        // What lies behind the payload is an earlier packet's.
        if (!offset || offset >= scratch->payload_bytes)
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
        flush();
    return 0;
}

// memcached's binary protocol is not read: a connection that speaks it forgets everything with each
// packet, except for a lone get.
INLINE int speaks_binary(struct scratch *scratch)
{
    struct flow *flow = map_lookup(&flows, &scratch->flow_key);
    if (flow && flow->binary)
        return 1;
    if (scratch->payload[0] != 0x80)
        return 0;
    if (!flow) {
        __builtin_memset(&scratch->flow, 0, sizeof(scratch->flow));
        scratch->flow.binary = 1;
        map_update(&flows, &scratch->flow_key, &scratch->flow, 0);
    } else {
        flow->binary = 1;
    }
    return 1;
}

// The entry at `number` for the key in scratch, in its place among the items; 0 if it may not be
// served, with the reason counted.
APART int take_item(u32 item, u32 meta)
{
    struct scratch *scratch = scratch_of_processor();
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!scratch || !all || item >= ITEMS_MAX)
        return 0;
    if (meta)
        scratch->name.bytes[8] |= 1;
    struct cached cached = find(&scratch->name, scratch->flow_key.server,
                                scratch->flow_key.server_port, PROTOCOL_MEMCACHE);
    struct entry *entry = cached.entry;
    int same = entry && entry->key_bytes == scratch->key_bytes;
    u64 version = 0;
    if (same) {
        CHECKED(entry);
        version = READ_ONCE(entry->version);
        IN_ORDER();
        const u64 *asked = (const u64 *)scratch->key, *stored = (const u64 *)entry->key;
        ROLLED
        for (u32 word = 0; word < KEY_BYTES_BUFFER / 8; word++) {
            if (word * 8 >= scratch->key_bytes)
                break;
            if (asked[word] != stored[word]) {
                same = 0;
                break;
            }
        }
    }
    if (!same) {
        count(COUNT_MISS);
        u32 estimate = count_uncached(scratch->hash ^ (meta ? 1 : 0));
        if (estimate) {
            struct report *report = &scratch->report;
            report->name = scratch->name;
            report->hash = scratch->hash;
            report->kind = REPORT_HOT;
            report->estimate = estimate;
            report->port = scratch->flow_key.server_port;
            report->key_bytes = scratch->key_bytes;
            report->protocol = PROTOCOL_MEMCACHE;
            __builtin_memcpy(report->server, scratch->flow_key.server, 16);
            __builtin_memcpy(report->key, scratch->key, KEY_BYTES_BUFFER);
            send_report(report);
        }
        return 0;
    }
    count_cached(cached.place);
    if (!is_valid(entry, version) || READ_ONCE(entry->epoch) != READ_ONCE(all->epoch)) {
        count(COUNT_INVALID);
        return 0;
    }
    if (now_coarse_ns() >= READ_ONCE(entry->expires_ns)) {
        count(COUNT_EXPIRED);
        return 0;
    }
    scratch->item[item] = cached.place;
    scratch->item_version[item] = version;
    scratch->reply_bytes += entry->value_bytes;
    return 1;
}

// The keys of a get, or a meta get's one: how many items answer it, or 0 if the server must.
APART int take_items(u32 offset, u32 meta)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    scratch->reply_bytes = 0;
    ROLLED
    for (u32 item = 0; item < ITEMS_MAX; item++) {
        offset = take_key(offset);
        if (!offset || !take_item(item, meta))
            return 0;
        u32 left = scratch->payload_bytes - offset;
        u64 rest = word_at(scratch, offset);
        if (meta)   // only " v" behind it
            return left == 4 && (u32)rest == (u32)WORD8(' ', 'v', '\r', '\n', 0, 0, 0, 0);
        if (left == 2 && (u16)rest == (u16)WORD8('\r', '\n', 0, 0, 0, 0, 0, 0))
            return item + 1;
        if ((u8)rest != ' ')
            return 0;
        offset++;
    }
    return 0;
}

// Item `item` of the reply, at `at` behind the payload's start: its sum, or NO_ROOM.
APART int put_item(struct xdp_md *context, u32 payload, u32 at, u32 item)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || item >= ITEMS_MAX)
        return NO_ROOM;
    u32 number = scratch->item[item];
    u64 version = scratch->item_version[item];
    struct entry *entry = map_lookup(&entries, &number);
    if (!entry)
        return NO_ROOM;
    u32 bytes = entry->value_bytes;
    u64 sum = entry->value_sum;
    int loaded = load_value(context, payload + at, entry->place, entry->bitmap, bytes);
    IN_ORDER();
    if (!loaded || READ_ONCE(entry->version) != version || !is_valid(entry, version))
        return NO_ROOM;
    scratch->reply_bytes = at + bytes;
    return at & 1 ? __builtin_bswap16(fold(sum)) : fold(sum);
}

// Puts the request back where a reply was begun.
APART int restore(struct xdp_md *context, u32 payload, u32 bytes)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || payload > 256 || bytes > PAYLOAD_BYTES_MAX)
        return 0;
    u8 *to = start_of(context) + payload;
    void *end = end_of(context);
    return copy_to_packet(to, end, (u64 *)scratch->payload, bytes, PAYLOAD_BYTES_MAX) == bytes;
}

INLINE int write_end(struct xdp_md *context, u32 payload, u32 at, u64 *sum)
{
    const u8 end_line[] = {'E', 'N', 'D', '\r', '\n'};
    u8 *to = start_of(context) + payload;
    if (at > 4000)
        return 0;
    to += at;
    if ((void *)(to + sizeof(end_line)) > end_of(context))
        return 0;
    u64 added = 0;
    UNROLL
    for (u32 byte = 0; byte < sizeof(end_line); byte++) {
        to[byte] = end_line[byte];
        added += (u64)end_line[byte] << ((at + byte) & 1 ? 8 : 0);
    }
    *sum += added;
    return 1;
}

INLINE int answer_items(struct xdp_md *context, const struct packet *packet, struct scratch *scratch,
                        u32 items, u32 meta)
{
    u32 frame_bytes = length_of(context);
    u32 tail = meta ? 0 : 5;
    u32 bytes = UDP_FRAME_BYTES + scratch->reply_bytes + tail;
    u32 request_bytes = scratch->payload_bytes;
    if (bytes > REPLY_BYTES_MAX)
        return XDP_PASS;
    if (!resize(context, packet->payload + bytes)) {
        count(COUNT_NO_ROOM);
        return XDP_PASS;
    }
    u64 sum = 0;
    u32 at = UDP_FRAME_BYTES;
    ROLLED
    for (u32 item = 0; item < ITEMS_MAX; item++) {
        if (item >= items)
            break;
        int added = put_item(context, packet->payload, at, item);
        if (added == NO_ROOM)
            goto torn;
        sum += added;
        at = scratch->reply_bytes;
    }
    if (at + tail != bytes || (tail && !write_end(context, packet->payload, at, &sum)))
        goto torn;
    void *start = start_of(context), *end = end_of(context);
    u16 *frame = start + packet->payload;
    if ((void *)(frame + 4) > end)
        goto torn;
    // The request's number stays; one datagram, the first of one.
    frame[1] = 0;
    frame[2] = HTONS(1);
    frame[3] = 0;
    sum += frame[0] + frame[2];
    count(COUNT_HIT);
    return turn_round(start, end, packet, bytes, sum) ? XDP_TX : XDP_DROP;
torn:
    count(COUNT_TORN);
    if (!resize(context, frame_bytes) || !restore(context, packet->payload, request_bytes))
        return XDP_DROP;
    return XDP_PASS;
}

INLINE int memcache(struct xdp_md *context, struct packet *packet)
{
    struct scratch *scratch = scratch_of_processor();
    count(COUNT_PACKETS);
    if (!packet->payload_bytes)
        return XDP_PASS;
    if (!scratch || !copy_payload(context, packet->payload, packet->payload_bytes)) {
        flush();
        return XDP_PASS;
    }
    struct flow_key *key = &scratch->flow_key;
    if (!addresses(start_of(context), end_of(context), packet, key->client, key->server))
        return XDP_PASS;
    key->client_port = packet->source;
    key->server_port = packet->destination;
    key->transport = packet->transport;
    name_server(scratch, key->server, key->server_port);
    u32 first = 0;
    if (packet->transport == IP_UDP) {
        first = UDP_FRAME_BYTES;
        if (packet->payload_bytes <= first)
            return XDP_PASS;
        // Sequence 0 of 1; anything else memcached refuses.
        u64 line = word_at(scratch, first);
        u32 get = (u32)line == (u32)WORD8('g', 'e', 't', ' ', 0, 0, 0, 0);
        u32 meta = (line & 0xffffff) == WORD8('m', 'g', ' ', 0, 0, 0, 0, 0);
        if (get || meta) {
            u32 items = word_at(scratch, 0) >> 16 & 0xffffffff;
            items = items == (u32)HTONS(1) << 16 ? take_items(first + (get ? 4 : 3), meta) : 0;
            if (items)
                return answer_items(context, packet, scratch, items, meta);
            if (get)
                return XDP_PASS;
            // A meta get that only reads changes nothing.
        }
    } else if (speaks_binary(scratch)) {
        flush();
        return XDP_PASS;
    }
    write_payload(first);
    return XDP_PASS;
}
