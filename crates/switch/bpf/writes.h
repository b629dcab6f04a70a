// Commands that may change a key: they invalidate its entry before the server receives them, and
// are recorded so that the reply invalidates it once more. Commands that are not understood drop
// all items.
#pragma once
#include "delays.h"

enum shape {
    SHAPE_KEY,      // word, key
    SHAPE_KEYS,     // word, number, keys
    SHAPE_META,     // word, key, flags; a flag may state that the key is encoded
    SHAPE_ALL,      // everything
    SHAPE_READ,     // writes nothing
    SHAPE_BARRIER,  // writes nothing; all earlier commands are done when it is answered
    SHAPE_UNCOUNTED, // writes nothing, and its reply is not counted
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
    {WORD8('m', 'g', ' ', 0, 0, 0, 0, 0), 3, SHAPE_META},   // flags may touch or create it
    {WORD8('f', 'l', 'u', 's', 'h', '_', 'a', 'l'), 8, SHAPE_ALL},
    {WORD8('g', 'e', 't', ' ', 0, 0, 0, 0), 4, SHAPE_READ},
    {WORD8('g', 'e', 't', 's', ' ', 0, 0, 0), 5, SHAPE_READ},
    {WORD8('s', 't', 'a', 't', 's', 0, 0, 0), 5, SHAPE_READ},
    {WORD8('v', 'e', 'r', 'b', 'o', 's', 'i', 0), 7, SHAPE_READ},
    {WORD8('m', 'e', ' ', 0, 0, 0, 0, 0), 3, SHAPE_READ},
    {WORD8('m', 'n', '\r', '\n', 0, 0, 0, 0), 4, SHAPE_BARRIER},
    {WORD8('v', 'e', 'r', 's', 'i', 'o', 'n', 0), 7, SHAPE_UNCOUNTED},
    {WORD8('q', 'u', 'i', 't', 0, 0, 0, 0), 4, SHAPE_UNCOUNTED},
};
enum { COMMANDS = 25, LINE_OTHER = 0 };

// The first command with which the line at `offset` may begin, counted from 1; if the packet ends,
// by its first bytes.
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
        return number + 1;
    }
    return LINE_OTHER;
}

// Whether the packet ends within the command with which the line at `offset` begins.
INLINE int is_cut(const struct scratch *scratch, u32 offset, const struct command *command)
{
    return scratch->payload_bytes - offset < command->bytes;
}

INLINE void expect_read(struct scratch *scratch, u32 shape)
{
    expect(scratch);
    struct flow *flow = find_flow(&scratch->flow_key);
    if (!flow || shape != SHAPE_BARRIER || scratch->again)
        return;
    // If several are unanswered, only the first can be recognized by its reply.
    if (flow->barriers++ == READ_ONCE(flow->barriers_answered))
        flow->barrier = flow->asked;
}

// Whether the rest of the line requests no reply.
APART int is_quiet(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    u64 last = 0;
    ROLLED
    for (u32 at = 0; at < 128; at++) {
        if (offset + at >= scratch->payload_bytes)
            return 0;
        u8 byte = byte_at(scratch, offset + at);
        if (byte == '\r' || byte == '\n')
            return last == WORD8('y', 'l', 'p', 'e', 'r', 'o', 'n', ' ');
        last = last << 8 | byte;
    }
    return 0;
}

// Reads the flags after the key of a meta command: 1 if the line ends in this packet and no flag
// states that the key is encoded.
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

// Writes up to ITEMS_MAX keys to the end of the line; 0 if there are more, or the line does not end
// in this packet.
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
        write_key(scratch, 0);
    }
    return 0;
}

enum { BLANKS_MAX = 128 };

// Offset of the first word of a line after blanks, which memcached skips; 0 if there are too many.
APART u32 first_word(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    ROLLED
    for (u32 blanks = 0; blanks < BLANKS_MAX; blanks++) {
        if (offset + blanks >= scratch->payload_bytes || byte_at(scratch, offset + blanks) != ' ')
            return offset + blanks;
    }
    return 0;
}

// Drops all items; with a delay, once more after it.
INLINE void write_all(struct scratch *scratch, u32 offset)
{
    int quiet = is_quiet(offset);
    if (!quiet)
        expect(scratch);
    begin_flush(offset);
    lose_key(scratch, quiet);
}

// Applies the line at `offset` to the cache; 0 if its effect is not clear.
APART int write_line(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || offset >= scratch->payload_bytes)
        return 1;
    if (byte_at(scratch, offset) == ' ') {
        offset = first_word(offset);
        if (!offset)
            return 0;
        if (offset >= scratch->payload_bytes)
            return 1;
    }
    int number = command_at(offset);
    if (number == LINE_OTHER || number > COMMANDS)
        return 1;
    const struct command *command = &commands[(number - 1) & 31];
    u32 shape = command->shape, bytes = command->bytes;
    if (shape == SHAPE_UNCOUNTED)
        return 1;
    if (shape >= SHAPE_READ) {
        expect_read(scratch, shape);
        return 1;
    }
    if (shape == SHAPE_ALL && !is_cut(scratch, offset, command)) {
        write_all(scratch, offset);
        return 1;
    }
    if (is_cut(scratch, offset, command)) {
        if (shape == SHAPE_ALL)
            begin_flush(offset);
        // It may become an mn. If it does not, the count is one too high, and no later mn is
        // trusted.
        struct flow *flow = find_flow(&scratch->flow_key);
        if (flow && !scratch->again)
            flow->barriers += 1;
        expect(scratch);
        return 0;
    }
    u32 blanks = offset + bytes;
    offset = skip_blanks(scratch, blanks);
    u32 behind = offset ? take_key(offset) : 0;
    int quiet = behind && shape == SHAPE_KEY && is_quiet(behind);
    if (!quiet)
        expect(scratch);
    if (!behind)
        return 0;
    if (shape == SHAPE_KEYS)
        return write_keys(behind);
    write_key(scratch, quiet);
    return shape == SHAPE_KEY || plain_flags(behind);
}

INLINE u64 newlines_of(u64 word)
{
    word ^= 0x0a0a0a0a0a0a0a0aull;
    return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

// Records the lines that begin after one of the 8 bytes at `offset`; 0 if there are too many.
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

// Records the starts of lines, the first at `first`.
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

// Applies all commands of the payload; drops all items if their effect is not clear.
APART int write_payload(u32 first)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    if (!find_lines(first)) {
        lose_track(scratch);
        return 0;
    }
    struct flow *flow = find_flow(&scratch->flow_key);
    u32 before = flow ? flow->writes : 0;
    ROLLED
    for (u32 number = 0; number < LINES_MAX; number++) {
        if (number >= scratch->lines)
            break;
        if (!write_line(scratch->line[number]))
            lose_key(scratch, 0);
    }
    // The next segment may continue any of them.
    if (flow && flow->writes - before > FLOW_WRITES)
        flow->cut = 1;
    return 0;
}

// Whether the payload begins with a command, determined by its first word.
INLINE int begins_command(const struct scratch *scratch)
{
    int number = command_at(0);
    return number != LINE_OTHER && !is_cut(scratch, 0, &commands[(number - 1) & 31]);
}

// A segment may continue a line or value that began in any earlier one. The write is done when its
// last byte has arrived, so until then each segment invalidates its key again, or drops all items
// if the key is not known.
APART int go_on(void)
{
    struct scratch *scratch = scratch_of_processor();
    struct flow *flow = scratch ? find_flow(&scratch->flow_key) : 0;
    if (!flow)
        return 0;
    if (begins_command(scratch))
        flow->cut = 0;
    else if (flow->cut)
        flush();
    else
        forget_noted(flow->answered, 0);
    return 0;
}

// memcached's binary protocol is not interpreted: each packet of a connection or datagram that uses
// it drops all items.
INLINE int speaks_binary(struct scratch *scratch, u32 first)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    if (flow && flow->binary)
        return 1;
    if (scratch->payload[first] != 0x80)
        return 0;
    if (flow)
        flow->binary = flow->unclear = 1;
    return 1;
}
