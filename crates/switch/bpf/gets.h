// Gets over UDP: the requested keys, and the reply. Values come from the controller, which requests
// them from the server.
#pragma once
#include "text.h"

enum { REPLY_BYTES_MAX = 1400 };  // as for the datagrams of memcached

// Adds the entry of the key in scratch as item number `item`; 0 if it may not be served, with the
// reason counted.
APART int take_item(u32 item, u32 meta)
{
    struct scratch *scratch = scratch_of_processor();
    struct processor *self = this_processor();
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!scratch || !self || !all || item >= ITEMS_MAX)
        return 0;
    if (meta)
        scratch->name.bytes[8] |= 1;
    struct cached cached = find(&scratch->name, hash_of_name(&scratch->name),
                                scratch->flow_key.server, scratch->flow_key.server_port,
                                PROTOCOL_MEMCACHE);
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
        self->counts[COUNT_MISS] += 1;
        u32 estimate = count_uncached(self, scratch->hash ^ (meta ? 1 : 0));
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
    count_cached(self, cached.place);
    if (!is_valid(entry, version) || READ_ONCE(entry->epoch) != READ_ONCE(all->epoch)) {
        self->counts[COUNT_INVALID] += 1;
        return 0;
    }
    if (now_coarse_ns() >= READ_ONCE(entry->expires_ns)) {
        self->counts[COUNT_EXPIRED] += 1;
        return 0;
    }
    scratch->item[item] = cached.place;
    scratch->item_version[item] = version;
    scratch->reply_bytes += entry->value_bytes;
    return 1;
}

// Like take_items, for a plain get whose key is in scratch.
INLINE int take_only_item(struct scratch *scratch)
{
    scratch->reply_bytes = 0;
    return take_item(0, 0);
}

// Reads the keys of a get, or the one of a meta get. Returns the number of items that answer it, or
// 0 if the server must.
APART int take_items(u32 offset, u32 meta)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    scratch->reply_bytes = 0;
    ROLLED
    for (u32 item = 0; item < ITEMS_MAX; item++) {
        offset = take_key(offset);
        if (!offset)
            return meta ? -1 : 0;
        u32 left = scratch->payload_bytes - offset;
        u64 rest = word_at(scratch, offset);
        // With anything but " v" after its key a meta get may change the item.
        if (meta && (left != 4 || (u32)rest != (u32)WORD8(' ', 'v', '\r', '\n', 0, 0, 0, 0)))
            return -1;
        if (!take_item(item, meta))
            return 0;
        if (meta)
            return 1;
        if (left == 2 && (u16)rest == (u16)WORD8('\r', '\n', 0, 0, 0, 0, 0, 0))
            return item + 1;
        if ((u8)rest != ' ')
            return 0;
        offset++;
    }
    return 0;
}

INLINE u64 blank_in(u64 word)
{
    const u64 each = 0x0101010101010101ull;
    return (word - 0x21 * each) & ~word & 0x80 * each;
}

enum { PLAIN_HEAD_BYTES = UDP_FRAME_BYTES + 4 };

// Reads a plain get, of one key and nothing else, without copying it: 1 if the packet is one, with
// its key in scratch.
APART int take_plain_get(struct xdp_md *context, u32 payload, u32 payload_bytes)
{
    struct scratch *scratch = scratch_of_processor();
    u32 bytes = payload_bytes - PLAIN_HEAD_BYTES - 2;
    if (!scratch || payload > 256 || bytes - 1 >= KEY_BYTES_MAX)
        return 0;
    u8 *start = start_of(context) + payload;
    void *end = end_of(context);
    if ((void *)(start + PLAIN_HEAD_BYTES) > end)
        return 0;
    // Datagram 0 of 1.
    u64 head = *(u64 *)start >> 16 & 0xffffffff;
    u32 word_get = *(u32 *)(start + UDP_FRAME_BYTES);
    if (head != (u64)HTONS(1) << 16 || word_get != (u32)WORD8('g', 'e', 't', ' ', 0, 0, 0, 0))
        return 0;
    u8 *behind = start + PLAIN_HEAD_BYTES + bytes;
    if ((void *)(behind + 2) > end || *(u16 *)behind != (u16)WORD8('\r', '\n', 0, 0, 0, 0, 0, 0))
        return 0;
    u8 *at = start + PLAIN_HEAD_BYTES;
    u64 *words = (u64 *)scratch->key;
    u32 number = 0;
    ROLLED
    for (; number < KEY_BYTES_MAX / 8; number++) {
        if (number * 8 + 8 > bytes)
            break;
        if ((void *)(at + 8) > end || blank_in(*(u64 *)at))
            return 0;
        words[number] = *(u64 *)at;
        at += 8;
    }
    u32 left = bytes & 7;
    if (left) {
        // The last 8 bytes of the key.
        u8 *last = start + PLAIN_HEAD_BYTES - 8 + bytes;
        if ((void *)(last + 8) > end)
            return 0;
        u64 word = *(u64 *)last >> 8 * (8 - left);
        if (blank_in(word | ~0ull << 8 * left))
            return 0;
        words[number & 31] = word;
    }
    name_key(scratch, bytes);
    return 1;
}

// Writes the plain get of the key in scratch to the place from which `restore` reads it.
INLINE void spell_plain_get(struct scratch *scratch)
{
    u8 *to = scratch->payload + UDP_FRAME_BYTES;
    *(u32 *)to = (u32)WORD8('g', 'e', 't', ' ', 0, 0, 0, 0);
    __builtin_memcpy(to + 4, scratch->key, KEY_BYTES_BUFFER);
    u32 bytes = scratch->key_bytes;
    CHECKED(bytes);
    if (bytes <= KEY_BYTES_MAX)
        *(u16 *)(to + 4 + bytes) = (u16)WORD8('\r', '\n', 0, 0, 0, 0, 0, 0);
}

// Writes item `item` of the reply at offset `at` of the payload: its checksum, or NO_ROOM.
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

// Restores the request in place of an incomplete reply; the UDP frame of memcached is unchanged.
APART int restore(struct xdp_md *context, u32 payload, u32 bytes)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || payload > 256 || bytes < UDP_FRAME_BYTES || bytes > PAYLOAD_BYTES_MAX)
        return 0;
    u32 text = bytes - UDP_FRAME_BYTES;
    u8 *to = start_of(context) + payload + UDP_FRAME_BYTES;
    void *end = end_of(context);
    u64 *from = (u64 *)&scratch->payload[UDP_FRAME_BYTES];
    return copy_to_packet(to, end, from, text, PAYLOAD_BYTES_MAX) == text;
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
    if (!make_room(context, packet->payload + bytes, packet->payload + UDP_FRAME_BYTES)) {
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
    // The request number stays; datagram 0 of 1.
    frame[1] = 0;
    frame[2] = HTONS(1);
    frame[3] = 0;
    sum += frame[0] + frame[2];
    count(COUNT_HIT);
    return turn_round(start, end, packet, bytes, sum) ? XDP_TX : XDP_DROP;
torn:
    count(COUNT_TORN);
    if (scratch->is_plain)
        spell_plain_get(scratch);
    if (!resize(context, frame_bytes) || !restore(context, packet->payload, request_bytes))
        return XDP_DROP;
    return XDP_PASS;
}
