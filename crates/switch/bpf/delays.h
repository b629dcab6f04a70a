// flush_all with a delay: memcached drops everything a second time, long after it replied OK. Items
// that it sent before are served until then at most.
#pragma once
#include "flows.h"

// State of reading a line: the number of bytes of `flush_all` read so far, or one of these.
enum { FLUSH_WORD = 9, FLUSH_BLANK, FLUSH_NUMBER, FLUSH_OVER, FLUSH_NOT };
enum { FLUSH_LINE_MAX = 256, DAYS_30_S = 60 * 60 * 24 * 30, CLOCK_LATE_S = 2 };
static const u64 second_ns = 1000000000;

// Records a flush that takes effect between `from` and `until`. If all places are taken, the last
// one stands for several flushes.
APART int remember_flush(u64 from, u64 until)
{
    u32 zero = 0;
    u64 now = now_coarse_ns();
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return 0;
    ROLLED
    for (u32 number = 0; number < FLUSHES_MAX; number++) {
        struct flush *one = &all->flushes[number];
        u64 before = READ_ONCE(one->until_ns);
        // Until the next line is executed, the record has an earlier `from`, which is safe.
        if (before < now && __sync_bool_compare_and_swap(&one->until_ns, before, until)) {
            WRITE_ONCE(one->from_ns, from);
            return 0;
        }
    }
    struct flush *last = &all->flushes[FLUSHES_MAX - 1];
    if (from < last->from_ns)
        WRITE_ONCE(last->from_ns, from);
    if (until > last->until_ns)
        WRITE_ONCE(last->until_ns, until);
    return 0;
}

// Sets the end of the flush that begins at `from`.
APART int end_flush(u64 from, u64 until)
{
    u32 zero = 0;
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return 0;
    ROLLED
    for (u32 number = 0; number < FLUSHES_MAX - 1; number++)
        if (READ_ONCE(all->flushes[number].from_ns) == from)
            WRITE_ONCE(all->flushes[number].until_ns, until);
    return 0;
}

// Records a flush of unknown time: it may take effect now or at any later time.
INLINE void remember_unclear_flush(void)
{
    remember_flush(now_coarse_ns(), ~0ull);
}

// Records a flush_all with this argument: a delay, or an absolute time in seconds. It takes effect
// a second earlier by the server's clock, which advances in whole seconds and may be late. Its
// reply shows when the server has executed the command.
APART int delay_flush(u32 seconds)
{
    u32 zero = 0;
    u64 now = now_coarse_ns(), at = now + seconds * second_ns;
    struct scratch *scratch = scratch_of_processor();
    struct shared *all = map_lookup(&shared, &zero);
    if (!scratch || !all || !seconds || (s32)seconds < 0)
        return 0;
    struct flow *flow = find_flow(&scratch->flow_key);
    if (seconds > DAYS_30_S) {
        u64 wall = READ_ONCE(all->wall_ns);
        at = seconds * second_ns;
        if (!wall) {
            remember_unclear_flush();
            return 0;
        }
        if (at + silent_ns < now + wall)
            return 0;
        at -= wall;
    }
    u64 early = CLOCK_LATE_S * second_ns + second_ns / 10;
    u64 from = (s64)(at - early - now) > 0 ? at - early : now;
    remember_flush(from, at + silent_ns);
    if (flow && seconds <= DAYS_30_S) {
        WRITE_ONCE(flow->flush_seconds, seconds);
        WRITE_ONCE(flow->flush_from_ns, from);
    }
    return 0;
}

// The reply to a delayed flush_all has left: the server has executed the command.
INLINE void settle_flush(struct flow *flow)
{
    u64 from = READ_ONCE(flow->flush_from_ns);
    if (!from || flow->unclear || flow->lost > flow->answered)
        return;
    end_flush(from, now_coarse_ns() + (flow->flush_seconds + CLOCK_LATE_S) * second_ns);
    WRITE_ONCE(flow->flush_from_ns, 0);
}

// Reads the next byte of a line that may be a flush_all. The state is in memory whose contents the
// verifier does not track, so the loop is a single state for it.
INLINE void read_flush_byte(struct scratch *scratch, u8 byte)
{
    u32 at = READ_ONCE(scratch->flush_at);
    u8 wanted = at < 8 ? WORD8('f', 'l', 'u', 's', 'h', '_', 'a', 'l') >> (8 * (at & 7)) : 'l';
    if (at < FLUSH_WORD)
        at = byte == wanted ? at + 1 : FLUSH_NOT;
    else if (at == FLUSH_WORD)
        at = byte == ' ' ? FLUSH_BLANK : byte == '\r' ? FLUSH_WORD : FLUSH_NOT;
    else if (is_digit(byte) && at < FLUSH_OVER) {
        at = FLUSH_NUMBER;
        // In 32 bits, as in the server.
        WRITE_ONCE(scratch->flush_seconds, READ_ONCE(scratch->flush_seconds) * 10 + (byte - '0'));
    } else if (at == FLUSH_NUMBER || (at < FLUSH_OVER && byte > ' ' && byte != '+'))
        at = FLUSH_OVER;
    WRITE_ONCE(scratch->flush_at, at);
}

// Continues at `offset` with a line that may be a flush_all. Returns 1 if the packet contains its
// end, or if it is none.
APART int read_flush(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    ROLLED
    for (u32 step = 0; step < FLUSH_LINE_MAX; step++) {
        if (offset + step >= scratch->payload_bytes)
            return 0;
        u8 byte = byte_at(scratch, offset + step);
        if (byte == '\n' || READ_ONCE(scratch->flush_at) == FLUSH_NOT)
            return 1;
        read_flush_byte(scratch, byte);
    }
    return 0;
}

// Handles a flush_all whose line begins or continues at `offset`. If the segment ends first, the
// state is kept for the next segment.
INLINE void take_flush(struct scratch *scratch, u32 offset)
{
    struct flow *flow = find_flow(&scratch->flow_key);
    int ended = read_flush(offset);
    u32 at = scratch->flush_at;
    if (ended && at >= FLUSH_NUMBER && at != FLUSH_NOT)
        delay_flush(scratch->flush_seconds);
    if (ended || at == FLUSH_NOT)
        return;
    // A datagram has no continuation.
    if (is_datagram(&scratch->flow_key))
        return;
    if (flow && !flow->shared && !scratch->again && scratch->payload_bytes - offset < FLUSH_LINE_MAX) {
        flow->flush_at = at;
        flow->flush_read = scratch->flush_seconds;
    } else if (at >= FLUSH_WORD) {
        remember_unclear_flush();
    }
}

APART int begin_flush(u32 offset)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    scratch->flush_at = scratch->flush_seconds = 0;
    take_flush(scratch, offset);
    return 0;
}

// The rest of the line will not be read: its delay is unknown.
INLINE void lose_flush(struct flow *flow)
{
    if (flow->flush_at >= FLUSH_WORD)
        remember_unclear_flush();
    flow->flush_at = 0;
}

// The first line of a segment may continue a flush_all.
APART int go_on_with_flush(u32 first)
{
    struct scratch *scratch = scratch_of_processor();
    struct flow *flow = scratch ? find_flow(&scratch->flow_key) : 0;
    if (!flow || !flow->flush_at || scratch->again)
        return 0;
    if (scratch->gap) {
        lose_flush(flow);
        return 0;
    }
    scratch->flush_at = flow->flush_at;
    scratch->flush_seconds = flow->flush_read;
    flow->flush_at = 0;
    take_flush(scratch, first);
    return 0;
}

enum { BINARY_FLUSH_BYTES = 28, BINARY_DELAY_OFFSET = 24 };

// Finds flush and flushq of the binary protocol with a delay, anywhere in the packet.
APART int find_binary_flushes(void)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return 0;
    ROLLED
    for (u32 offset = 0; offset < PAYLOAD_BYTES_MAX; offset++) {
        if (offset + 8 > scratch->payload_bytes)
            break;
        // Magic, operation, no key, 4 bytes of extras, no data type.
        if ((word_at(scratch, offset) & 0xffffffffefffull) != WORD8(0x80, 0x08, 0, 0, 4, 0, 0, 0))
            continue;
        if (offset + BINARY_FLUSH_BYTES > scratch->payload_bytes) {
            remember_unclear_flush();
            break;
        }
        delay_flush(HTONL((u32)word_at(scratch, offset + BINARY_DELAY_OFFSET)));
    }
    return 0;
}
