// memcached's protocols: docs/protocols/memcached.md.
#pragma once
#include "answers.h"
#include "gets.h"
#include "writes.h"

// Reads the addresses and ports of the packet; 0 if its addresses are missing.
INLINE int take_flow(struct xdp_md *context, const struct packet *packet, struct scratch *scratch)
{
    struct flow_key *key = &scratch->flow_key;
    if (!addresses(start_of(context), end_of(context), packet, key->client, key->server))
        return 0;
    key->client_port = packet->source;
    key->server_port = packet->destination;
    key->transport = packet->transport;
    scratch->again = scratch->gap = 0;
    name_server(scratch, key->server, key->server_port);
    scratch->payload_bytes = packet->payload_bytes;
    return 1;
}

// Number of items that answer the get in scratch; -1 if it is not a get.
INLINE int take_get(struct scratch *scratch, u32 *meta)
{
    // Datagram 0 of 1; memcached refuses anything else.
    u64 frame = word_at(scratch, 0), line = word_at(scratch, UDP_FRAME_BYTES);
    int whole = (u32)(frame >> 16) == (u32)HTONS(1) << 16;
    if (scratch->payload_bytes < UDP_FRAME_BYTES + 4)
        return -1;
    *meta = (line & 0xffffff) == WORD8('m', 'g', ' ', 0, 0, 0, 0, 0);
    if (*meta)
        return whole ? take_items(UDP_FRAME_BYTES + 3, 1) : -1;
    if ((u32)line != (u32)WORD8('g', 'e', 't', ' ', 0, 0, 0, 0))
        return -1;
    return whole ? take_items(UDP_FRAME_BYTES + 4, 0) : 0;
}

// Updates the TCP connection with this segment: 0 if the segment is empty.
INLINE int take_segment_of(struct xdp_md *context, const struct packet *packet, struct scratch *scratch)
{
    struct tcp *tcp = start_of(context) + packet->layer4;
    if ((void *)(tcp + 1) > end_of(context))
        return 0;
    u32 sequence = HTONL(tcp->sequence);
    if ((tcp->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
        open_flow(&scratch->flow_key, sequence);
    if (tcp->flags & TCP_RST)
        reset_flow(scratch, sequence);
    if (packet->payload_bytes)
        follow(scratch, sequence, packet->payload_bytes);
    return packet->payload_bytes != 0;
}

// The reply to a datagram is recognized by its number: 0 if the number is missing.
INLINE int take_request(struct xdp_md *context, const struct packet *packet, struct scratch *scratch)
{
    u16 *number = start_of(context) + packet->layer4 + sizeof(struct udp);
    if ((void *)(number + 1) > end_of(context))
        return 0;
    scratch->flow_key.transport |= (u32)*number << 16;
    begin_request(&scratch->flow_key);
    return 1;
}

// Handles a packet that may be a write and cannot be read. The reply to the first fragment of a
// datagram is awaited.
INLINE void hidden(struct xdp_md *context, const struct packet *packet)
{
    struct scratch *scratch = scratch_of_processor();
    if (scratch && packet->destination && packet->transport == IP_UDP && take_flow(context, packet, scratch)
        && take_request(context, packet, scratch))
        lose_track(scratch);
    else
        flush();
}

INLINE int memcache(struct xdp_md *context, struct packet *packet)
{
    struct scratch *scratch = scratch_of_processor();
    struct processor *self = this_processor();
    if (!scratch || !self || !take_flow(context, packet, scratch)) {
        flush();
        return XDP_PASS;
    }
    if (packet->transport == IP_TCP ? !take_segment_of(context, packet, scratch) : !packet->payload_bytes)
        return XDP_PASS;
    self->counts[COUNT_PACKETS] += 1;
    u32 meta = 0, first = 0;
    int items = -1;
    scratch->is_plain = packet->transport == IP_UDP
        && take_plain_get(context, packet->payload, packet->payload_bytes);
    if (scratch->is_plain) {
        items = take_only_item(scratch);
    } else if (!copy_payload(context, packet->payload, packet->payload_bytes)) {
        if (packet->transport == IP_UDP)
            take_request(context, packet, scratch);
        struct flow *flow = find_flow(&scratch->flow_key);
        if (flow)
            lose_flush(flow);
        lose_track(scratch);
        return XDP_PASS;
    } else if (packet->transport == IP_UDP) {
        first = UDP_FRAME_BYTES;
        if (packet->payload_bytes <= first)
            return XDP_PASS;
        items = take_get(scratch, &meta);
    }
    if (items > 0)
        return answer_items(context, packet, scratch, items, meta);
    if (items == 0)
        return XDP_PASS;
    if (packet->transport == IP_UDP)
        take_request(context, packet, scratch);
    if (speaks_binary(scratch, first)) {
        find_binary_flushes();
        flush();
        return XDP_PASS;
    }
    if (packet->transport == IP_TCP) {
        go_on_with_flush(first);
        go_on();
    }
    write_payload(first);
    return XDP_PASS;
}
