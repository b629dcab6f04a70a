// Replies of memcached: counts which of the replies that a connection waits for have left.
#pragma once
#include "delays.h"

enum said {
    SAID_NOTHING,     // not counted
    SAID_READ,        // last line of a reply to a read
    SAID_WRITTEN,     // the line that answers a write
    SAID_BARRIER,
    SAID_ITEM,        // a value follows, then more lines of the reply
    SAID_VALUE,       // a value follows and ends the reply
};

// Lines that end a reply, and lines that are followed by a value. An error is not counted, because
// it may answer a line that was not recognized as a command; writes that wait for a reply then wait
// a little longer.
static const struct answer {
    u64 word;
    u32 bytes;
    u32 said;
} answers[] = {
    {WORD8('S', 'T', 'O', 'R', 'E', 'D', '\r', 0), 7, SAID_WRITTEN},
    {WORD8('N', 'O', 'T', '_', 'S', 'T', 'O', 'R'), 8, SAID_WRITTEN},
    {WORD8('E', 'X', 'I', 'S', 'T', 'S', '\r', 0), 7, SAID_WRITTEN},
    {WORD8('N', 'O', 'T', '_', 'F', 'O', 'U', 'N'), 8, SAID_WRITTEN},
    {WORD8('D', 'E', 'L', 'E', 'T', 'E', 'D', '\r'), 8, SAID_WRITTEN},
    {WORD8('T', 'O', 'U', 'C', 'H', 'E', 'D', '\r'), 8, SAID_WRITTEN},
    {WORD8('S', 'E', 'R', 'V', 'E', 'R', '_', 'E'), 8, SAID_WRITTEN},
    {WORD8('C', 'L', 'I', 'E', 'N', 'T', '_', 'E'), 8, SAID_WRITTEN},
    {WORD8('O', 'K', '\r', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('H', 'D', '\r', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('H', 'D', ' ', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('N', 'S', '\r', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('N', 'S', ' ', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('E', 'X', '\r', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('E', 'X', ' ', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('N', 'F', '\r', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('N', 'F', ' ', 0, 0, 0, 0, 0), 3, SAID_WRITTEN},
    {WORD8('E', 'N', 'D', '\r', 0, 0, 0, 0), 4, SAID_READ},
    {WORD8('E', 'N', '\r', 0, 0, 0, 0, 0), 3, SAID_READ},
    {WORD8('M', 'E', ' ', 0, 0, 0, 0, 0), 3, SAID_READ},
    {WORD8('M', 'N', '\r', 0, 0, 0, 0, 0), 3, SAID_BARRIER},
    {WORD8('V', 'A', 'L', 'U', 'E', ' ', 0, 0), 6, SAID_ITEM},
    {WORD8('V', 'A', ' ', 0, 0, 0, 0, 0), 3, SAID_VALUE},
};

// Meaning of a reply line that begins with this word.
APART int line_says(u64 word)
{
    UNROLL
    for (u32 number = 0; number < sizeof(answers) / sizeof(answers[0]); number++) {
        u32 unread = 8 * (8 - answers[number].bytes);
        if (!((word ^ answers[number].word) << unread))
            return answers[number].said;
    }
    // incr and decr answer with a number.
    return is_digit(word & 0xff) ? SAID_WRITTEN : SAID_NOTHING;
}

INLINE void end_line(struct scratch *scratch)
{
    struct heard *heard = &scratch->heard;
    int said = line_says(heard->word);
    if (said == SAID_ITEM || said == SAID_VALUE)
        heard->value_bytes = heard->number + 2;
    if (said == SAID_BARRIER && scratch->barrier > scratch->answered)
        scratch->answered = scratch->barrier;
    else if (said != SAID_NOTHING && said != SAID_ITEM)
        scratch->answered += 1;
    scratch->barriers_answered += said == SAID_BARRIER;
    heard->word = 0;
    heard->bytes = heard->blanks = heard->number = 0;
}

enum { HEARD_BYTES = 64, HEARD_STEPS = 512 };

// Reads from `at` to the end of a value or line, or at most HEARD_BYTES. Returns the position after
// it, or 0.
APART u32 hear(struct __sk_buff *context, u32 at, u32 end)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || at >= end)
        return 0;
    struct heard *heard = &scratch->heard;
    u32 left = end - at;
    if (heard->value_bytes) {
        u32 skipped = heard->value_bytes < left ? heard->value_bytes : left;
        heard->value_bytes -= skipped;
        return at + skipped;
    }
    // Older verifiers do not learn from a comparison that it is not 0.
    u32 last = (left < HEARD_BYTES ? left : HEARD_BYTES) - 1;
    CHECKED(last);
    last &= HEARD_BYTES - 1;
    CHECKED(last);
    u32 bytes = last + 1;
    if (skb_load_bytes(context, at, scratch->payload, bytes))
        return 0;
    ROLLED
    for (u32 number = 0; number < HEARD_BYTES; number++) {
        if (number >= bytes)
            break;
        u64 byte = byte_at(scratch, number);
        if (byte == '\n') {
            end_line(scratch);
            return at + number + 1;
        }
        if (heard->bytes < 8)
            heard->word |= byte << 8 * (heard->bytes & 7);
        heard->bytes += 1;
        // VALUE key flags bytes; VA bytes
        u32 blanks = (u8)(heard->word >> 16) == 'L' ? 3 : 1;
        if (byte == ' ')
            heard->blanks += 1;
        else if (heard->blanks == blanks && is_digit(byte))
            heard->number = heard->number * 10 + (byte - '0');
    }
    return at + bytes;
}

INLINE void hear_answer(struct flow *flow, u64 before)
{
    if (flow->noted > before)
        count(COUNT_ANSWERED);
    forget_awaited(flow, before, 0);
    settle_flush(flow);
}

// Marks all requests as answered.
INLINE void answer_all(struct flow *flow)
{
    WRITE_ONCE(flow->answered, flow->asked + 1);
}

// Whether a reply of an unknown connection may be that to a write.
INLINE int surprises(struct __sk_buff *context, u32 at, u32 bytes)
{
    u64 word = 0;
    return bytes >= 8 ? !skb_load_bytes(context, at, &word, 8) && line_says(word) == SAID_WRITTEN
        : bytes >= 3 && !skb_load_bytes(context, at, &word, 3) && line_says(word) == SAID_WRITTEN;
}

// Counts the replies in a segment with this sequence number, unless it is a retransmission.
INLINE void count_answers(struct __sk_buff *context, struct scratch *scratch, struct flow *flow, u32 at,
                          u32 bytes, u32 sequence)
{
    u32 end = sequence + bytes;
    if (!flow->spoken) {
        flow->spoken = 1;
        flow->next_answer = sequence;
    }
    if (sequence != flow->next_answer) {
        if ((s32)(end - flow->next_answer) > 0)
            flow->unclear = 1;
        return;
    }
    flow->next_answer = end;
    scratch->heard = flow->heard;
    scratch->answered = flow->answered;
    scratch->barrier = flow->barrier;
    scratch->barriers_answered = flow->barriers_answered;
    u32 behind = at + bytes;
    ROLLED
    for (u32 step = 0; step < HEARD_STEPS; step++) {
        if (at >= behind)
            break;
        at = hear(context, at, behind);
        if (!at)
            break;
    }
    flow->heard = scratch->heard;
    if (at != behind)
        flow->unclear = 1;
    if (scratch->answered > flow->asked) {
        flush();
        scratch->answered = flow->asked;
    }
    WRITE_ONCE(flow->answered, scratch->answered);
    WRITE_ONCE(flow->barriers_answered, scratch->barriers_answered);
}

INLINE void take_segment(struct __sk_buff *context, struct scratch *scratch, const struct packet *packet,
                         u32 sequence, u32 is_last)
{
    u32 bytes = packet->payload_bytes;
    if (!bytes && !is_last)
        return;
    u64 now = now_coarse_ns();
    struct flow *flow = find_flow(&scratch->flow_key);
    // No request was seen. The reply may span segments, and other replies may precede it.
    if (!flow && bytes)
        flow = flow_of(&scratch->flow_key, now);
    if (!flow)
        return;
    flow->at_ns = now;
    u64 before = flow->answered;
    if (bytes && !flow->unclear)
        count_answers(context, scratch, flow, packet->payload, bytes, sequence);
    if (is_last)
        answer_all(flow);
    hear_answer(flow, before);
    if (is_last && !flow->shared)
        flow->at_ns = 0;
}

INLINE void take_datagram(struct __sk_buff *context, struct scratch *scratch, const struct packet *packet)
{
    u16 request = 0;
    u32 text = packet->payload + UDP_FRAME_BYTES;
    if (packet->payload_bytes <= UDP_FRAME_BYTES
        || skb_load_bytes(context, packet->payload, &request, sizeof(request)))
        return;
    scratch->flow_key.transport |= (u32)request << 16;
    struct flow *flow = datagrams_wait() ? find_flow(&scratch->flow_key) : 0;
    if (flow && !flow->shared) {
        u64 before = flow->answered;
        answer_all(flow);
        hear_answer(flow, before);
    } else if (surprises(context, text, packet->payload_bytes - UDP_FRAME_BYTES)) {
        flush();
    }
}

// Handles a reply, or the end of a connection, before it leaves.
INLINE void answer(struct __sk_buff *context, struct scratch *scratch, const struct packet *packet)
{
    void *start = start_of_skb(context), *end = end_of_skb(context);
    struct flow_key *key = &scratch->flow_key;
    if (!addresses(start, end, packet, key->server, key->client))
        return;
    key->client_port = packet->destination;
    key->server_port = packet->source;
    key->transport = packet->transport;
    if (packet->transport == IP_UDP) {
        take_datagram(context, scratch, packet);
        return;
    }
    struct tcp *tcp = start + packet->layer4;
    if ((void *)(tcp + 1) > end)
        return;
    take_segment(context, scratch, packet, HTONL(tcp->sequence), tcp->flags & (TCP_FIN | TCP_RST));
}
