// Values: one interface over two layouts. Fixed slots give every key VALUE_BYTES_MAX. Register
// arrays (NetCache's slides: lookup table → bitmap and index) give a key as many units as it needs,
// one from each array in its bitmap, all in the same row.
//
// docs/decisions/0031 has the measurement for the choice of the default.
#pragma once
#include "packet.h"

enum { WHOLE = 64 };  // bytes copied in one step

// Copies `bytes` from `from` (padded to 8) to the packet at `to`. Returns the number copied, less
// if the packet ends.
INLINE u32 copy_to_packet(u8 *to, void *end, const u64 *from, u32 bytes, u32 bytes_max)
{
    u32 done = 0;
    ROLLED
    for (u32 step = 0; step < bytes_max / WHOLE; step++) {
        if (bytes < WHOLE)
            break;
        if ((void *)(to + WHOLE) > end)
            return done;
        UNROLL
        for (int word = 0; word < WHOLE / 8; word++)
            ((u64 *)to)[word] = from[word];
        to += WHOLE;
        from += WHOLE / 8;
        bytes -= WHOLE;
        done += WHOLE;
    }
    ROLLED
    for (int step = 0; step < WHOLE / 8; step++) {
        if (bytes < 8)
            break;
        if ((void *)(to + 8) > end)
            return done;
        *(u64 *)to = *from++;
        to += 8;
        bytes -= 8;
        done += 8;
    }
    if (!bytes)
        return done;
    u64 last = *from;
    ROLLED
    for (u32 byte = 0; byte < 7; byte++) {
        if (byte >= bytes)
            break;
        if ((void *)(to + 1) > end)
            return done;
        *to++ = last;
        last >>= 8;
        done++;
    }
    return done;
}

enum { NO_ROOM = -1 };

// The words of one part of a value: of a slot, or the unit with that number.
INLINE u64 *part_of(u32 place, u32 part)
{
    if (!registers) {
        struct slot *slot = map_lookup(&slots, &place);
        if (!slot || part >= UNITS_MAX)
            return 0;
        CHECKED(slot);
        return &slot->words[part * (UNIT_BYTES / 8)];
    }
    struct unit *unit = map_lookup(&units, &place);
    if (!unit)
        return 0;
    CHECKED(unit);
    return unit->words;
}

// Copies one part to offset `offset` of the frame; 1 if it was copied.
APART int load_part(struct xdp_md *context, u32 offset, u32 place, u32 bytes)
{
    if (offset > 4000 || bytes > UNIT_BYTES)
        return 0;
    u8 *to = start_of(context) + offset;
    void *end = end_of(context);
    u64 *from = part_of(place, 0);
    if (!from)
        return 0;
    if (bytes < UNIT_BYTES)
        return copy_to_packet(to, end, from, bytes, UNIT_BYTES) == bytes;
    if ((void *)(to + UNIT_BYTES) > end)
        return 0;
    UNROLL
    for (int word = 0; word < UNIT_BYTES / 8; word++)
        ((u64 *)to)[word] = from[word];
    return 1;
}

// Copies the value at `place` to offset `offset` of the frame; 1 if all of it was copied.
APART int load_value(struct xdp_md *context, u32 offset, u32 place, u32 bitmap, u32 bytes)
{
    if (offset > 4000 || bytes > VALUE_BYTES_MAX - 8)
        return 0;
    if (!registers) {
        u8 *to = start_of(context) + offset;
        void *end = end_of(context);
        struct slot *slot = map_lookup(&slots, &place);
        return slot && copy_to_packet(to, end, slot->words, bytes, VALUE_BYTES_MAX) == bytes;
    }
    ROLLED
    for (u32 array = 0; array < UNITS_MAX; array++) {
        if (bytes == 0)
            break;
        if (!(bitmap >> array & 1))
            continue;
        u32 here = bytes < UNIT_BYTES ? bytes : UNIT_BYTES;
        if (!load_part(context, offset, array * rows + place, here))
            return 0;
        offset += here;
        bytes -= here;
    }
    return bytes == 0;
}

// Copies `bytes` of the frame from `offset` on into one part: their ones' complement sum, or
// NO_ROOM.
APART int store_part(struct xdp_md *context, u32 offset, u32 place, u32 part, u32 bytes)
{
    if (offset > 4000 || bytes > UNIT_BYTES)
        return NO_ROOM;
    u8 *from = start_of(context) + offset;
    void *end = end_of(context);
    u64 *to = part_of(place, part), sum = 0;
    if (!to)
        return NO_ROOM;
    u32 number = 0;
    ROLLED
    for (; number < UNIT_BYTES / 8; number++) {
        if (bytes < 8)
            break;
        if ((void *)(from + 8) > end)
            return NO_ROOM;
        u64 word = *(u64 *)from;
        *to++ = word;
        sum += (word & 0xffffffff) + (word >> 32);
        from += 8;
        bytes -= 8;
    }
    if (bytes == 0 || number == UNIT_BYTES / 8)
        return fold(sum);
    u64 word = 0;
    ROLLED
    for (u32 byte = 0; byte < 7; byte++) {
        if (byte >= bytes)
            break;
        if ((void *)(from + 1) > end)
            return NO_ROOM;
        word |= (u64)*from++ << 8 * byte;
    }
    *to = word;
    return fold(sum + (word & 0xffffffff) + (word >> 32));
}

// Stores `bytes` of the frame from `offset` on as the value at `place`. Returns its ones'
// complement sum, or NO_ROOM. The caller has claimed the entry.
APART int store_value(struct xdp_md *context, u32 offset, u32 place, u32 bitmap, u32 bytes)
{
    if (offset > 4000 || bytes > VALUE_BYTES_MAX - 8)
        return NO_ROOM;
    u64 sum = 0;
    ROLLED
    for (u32 array = 0; array < UNITS_MAX; array++) {
        if (bytes == 0)
            break;
        if (registers && !(bitmap >> array & 1))
            continue;
        u32 here = bytes < UNIT_BYTES ? bytes : UNIT_BYTES;
        int added = store_part(context, offset, registers ? array * rows + place : place,
                               registers ? 0 : array, here);
        if (added == NO_ROOM)
            return NO_ROOM;
        sum += added;
        offset += here;
        bytes -= here;
    }
    return bytes == 0 ? fold(sum) : NO_ROOM;
}
