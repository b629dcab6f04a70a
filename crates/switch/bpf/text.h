// memcached's text protocol: copies the payload to memory that can be read at any offset, and reads
// the keys in it.
#pragma once
#include "entry.h"

enum { UDP_FRAME_BYTES = 8 };

#define WORD8(a, b, c, d, e, f, g, h) \
    ((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 \
     | (u64)(g) << 48 | (u64)(h) << 56)

// Copies the payload to the memory of the parser below; 0 if it is too long.
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

// The bytes after the payload are those of an earlier packet: the caller has compared with
// payload_bytes.
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

INLINE int is_digit(u64 byte)
{
    return byte - '0' <= 9;
}

// Sets the hashes of the key in scratch, and its length.
INLINE void name_key(struct scratch *scratch, u32 bytes)
{
    const u64 *words = (const u64 *)scratch->key;
    u64 hash = seed ^ bytes, second = scratch->server_mix ^ bytes;
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
}

// Reads the token at `offset` as a key, with its hashes. Returns the offset after it, or 0 if there
// is none or it does not end in this packet.
APART int take_key(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset > PAYLOAD_BYTES_MAX)
        return 0;
    u64 *words = (u64 *)scratch->key;
    u32 bytes = 0;
    u64 word = 0, end = 0;
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
    name_key(scratch, bytes);
    return end;
}

// Equal keys of different servers are different keys.
INLINE void name_server(struct scratch *scratch, const u8 *server, u16 port)
{
    const u64 *words = (const u64 *)server;
    scratch->server_mix = mix_last(mix_word(mix_word(seed + port, words[0]), words[1]));
}

// Skips blanks at `offset`; 0 if there are more than a client would send, or nothing else.
INLINE u32 skip_blanks(struct scratch *scratch, u32 offset)
{
    ROLLED
    for (u32 blanks = 0; blanks < 4; blanks++) {
        if (offset >= scratch->payload_bytes)
            return 0;
        if (byte_at(scratch, offset) != ' ')
            return offset;
        offset++;
    }
    return 0;
}
