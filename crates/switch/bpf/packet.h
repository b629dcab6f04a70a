// Ethernet, VLAN tags, IPv4 and IPv6, UDP and TCP: parses a packet, and turns it into a reply.
#pragma once
#include "maps.h"

enum { VLAN_TAGS_MAX = 2, HOPS = 64 };

// Offsets from the start of the frame. On each branch all are small constants for the verifier, and
// every use checks against data_end again.
struct packet {
    u32 layer3, layer4, payload;
    u32 payload_bytes;     // from the headers; the rest is padding. May be unset if UNCLEAR
    u16 source, destination;
    u8 version;            // 4 or 6
    u8 transport;
};

enum parsed {
    PARSED,
    NOT_OURS,   // certainly not to a configured port
    UNCLEAR,    // a fragment, options, or lengths that contradict each other
};

// The first 4 bytes of UDP and TCP are the ports.
INLINE enum parsed parse_transport(void *start, void *end, struct packet *packet, u32 layer4_bytes)
{
    struct udp *udp = start + packet->layer4;
    if ((void *)(udp + 1) > end)
        return layer4_bytes < sizeof(*udp) ? NOT_OURS : UNCLEAR;
    packet->source = udp->source;
    packet->destination = udp->destination;
    u32 header = sizeof(*udp);
    if (packet->transport == IP_TCP) {
        struct tcp *tcp = start + packet->layer4;
        if ((void *)(tcp + 1) > end)
            return UNCLEAR;
        header = (tcp->length >> 4) * 4;
        if (header < sizeof(*tcp))
            return UNCLEAR;
    } else if (HTONS(udp->bytes) != layer4_bytes) {
        return UNCLEAR;
    }
    if (header > layer4_bytes)
        return UNCLEAR;
    packet->payload = packet->layer4 + header;
    packet->payload_bytes = layer4_bytes - header;
    if (layer4_bytes > 4000)
        return UNCLEAR;
    return start + packet->layer4 + layer4_bytes > end ? UNCLEAR : PARSED;
}

INLINE enum parsed parse_ipv4(void *start, void *end, struct packet *packet)
{
    struct ipv4 *ip = start + packet->layer3;
    if ((void *)(ip + 1) > end)
        return NOT_OURS;
    packet->version = 4;
    packet->transport = ip->protocol;
    packet->layer4 = packet->layer3 + sizeof(*ip);
    if (ip->protocol != IP_UDP && ip->protocol != IP_TCP)
        return NOT_OURS;
    u32 total = HTONS(ip->total_bytes);
    if (ip->version_length != 0x45 || total < sizeof(*ip))
        return UNCLEAR;
    u16 fragment = HTONS(ip->fragment);
    if (fragment & FRAGMENT_OFFSET)
        return NOT_OURS;   // the first fragment had its ports
    enum parsed parsed = parse_transport(start, end, packet, total - sizeof(*ip));
    return fragment & FRAGMENT_MORE && parsed != NOT_OURS ? UNCLEAR : parsed;
}

// Extension headers of IPv6 that may precede UDP or TCP.
INLINE int hides_ports(u8 next)
{
    return next == 0 || next == 43 || next == 44 || next == 51 || next == 60 || next == 135
        || next == 139 || next == 140;
}

INLINE enum parsed parse_ipv6(void *start, void *end, struct packet *packet)
{
    struct ipv6 *ip = start + packet->layer3;
    if ((void *)(ip + 1) > end)
        return NOT_OURS;
    packet->version = 6;
    packet->transport = ip->next;
    packet->layer4 = packet->layer3 + sizeof(*ip);
    u32 bytes = HTONS(ip->payload_bytes);
    if (ip->next == IP_UDP || ip->next == IP_TCP)
        return parse_transport(start, end, packet, bytes);
    struct fragment *fragment = (void *)(ip + 1);
    if (ip->next == IPV6_FRAGMENT && (void *)(fragment + 1) <= end && bytes >= sizeof(*fragment)
        && (fragment->next == IP_UDP || fragment->next == IP_TCP)) {
        if (HTONS(fragment->offset) >= 8)
            return NOT_OURS;
        packet->transport = fragment->next;
        packet->layer4 += sizeof(*fragment);
        return parse_transport(start, end, packet, bytes - sizeof(*fragment)) == NOT_OURS ? NOT_OURS : UNCLEAR;
    }
    // Multicast listener reports regularly have such a header.
    u8 *hop_by_hop = (void *)(ip + 1);
    if (ip->next == 0 && (void *)(hop_by_hop + 1) <= end && *hop_by_hop == IP_ICMPV6)
        return NOT_OURS;
    return hides_ports(ip->next) ? UNCLEAR : NOT_OURS;
}

INLINE enum parsed parse(void *start, void *end, struct packet *packet)
{
    struct ethernet *ethernet = start;
    if ((void *)(ethernet + 1) > end)
        return NOT_OURS;
    u16 type = ethernet->type;
    packet->layer3 = sizeof(*ethernet);
    packet->source = packet->destination = 0;
    UNROLL
    for (int tags = 0; tags < VLAN_TAGS_MAX; tags++) {
        if (type != HTONS(TYPE_VLAN) && type != HTONS(TYPE_VLAN_OUTER))
            break;
        struct vlan_tag *tag = start + packet->layer3;
        if ((void *)(tag + 1) > end)
            return NOT_OURS;
        type = tag->type;
        packet->layer3 += sizeof(*tag);
    }
    if (type == HTONS(TYPE_IPV4))
        return parse_ipv4(start, end, packet);
    if (type == HTONS(TYPE_IPV6))
        return parse_ipv6(start, end, packet);
    return NOT_OURS;
}

// An IPv4 address in the form of IPv6.
INLINE void mapped(u32 ipv4, u8 *out)
{
    u64 *words = (u64 *)out;
    words[0] = 0;
    words[1] = (u64)ipv4 << 32 | 0xffff0000ull;
}

// Source and destination of a parsed packet; 0 if they are missing.
INLINE int addresses(void *start, void *end, const struct packet *packet, u8 *source, u8 *destination)
{
    if (packet->version == 4) {
        struct ipv4 *ip = start + packet->layer3;
        if ((void *)(ip + 1) > end)
            return 0;
        mapped(ip->source, source);
        mapped(ip->destination, destination);
        return 1;
    }
    struct ipv6 *ip = start + packet->layer3;
    if ((void *)(ip + 1) > end)
        return 0;
    __builtin_memcpy(source, ip->source, 16);
    __builtin_memcpy(destination, ip->destination, 16);
    return 1;
}

// Folds a ones' complement sum to 16 bits: adding one half to the other adds the carry correctly.
INLINE u16 fold(u64 sum)
{
    sum += sum >> 32 | sum << 32;
    u32 half = sum >> 32;
    half += half >> 16 | half << 16;
    return half >> 16;
}

// Turns the packet into a reply to its sender, as UDP with `payload_bytes` whose ones' complement
// sum is given. The frame already has its length. 0 if the packet is incomplete.
INLINE int turn_round(void *start, void *end, const struct packet *packet, u32 payload_bytes, u64 sum)
{
    struct ethernet *ethernet = start;
    struct udp *udp = start + packet->layer4;
    if ((void *)(ethernet + 1) > end || (void *)(udp + 1) > end)
        return 0;
    u8 station[6];
    __builtin_memcpy(station, ethernet->source, 6);
    __builtin_memcpy(ethernet->source, ethernet->destination, 6);
    __builtin_memcpy(ethernet->destination, station, 6);

    // Words are built before they are stored: reading back a word stored in parts would stall.
    u32 udp_bytes = sizeof(*udp) + payload_bytes;
    u32 length = HTONS(udp_bytes);
    if (packet->version == 4) {
        struct ipv4 *ip = start + packet->layer3;
        if ((void *)(ip + 1) > end)
            return 0;
        u32 *words = (u32 *)ip, from = words[3], to = words[4];
        u32 first = (words[0] & 0xffff) | (u32)HTONS(sizeof(*ip) + udp_bytes) << 16;
        u32 third = HOPS | IP_UDP << 8;
        u64 header = (u64)first + words[1] + third + from + to;
        words[0] = first;
        words[2] = third | (u32)(u16)~fold(header) << 16;
        words[3] = to;
        words[4] = from;
        sum += (u64)from + to;
    } else {
        struct ipv6 *ip = start + packet->layer3;
        if ((void *)(ip + 1) > end)
            return 0;
        UNROLL
        for (int word = 0; word < 4; word++) {
            u32 address = ip->source[word];
            ip->source[word] = ip->destination[word];
            ip->destination[word] = address;
            sum += (u64)address + ip->source[word];
        }
        ip->payload_bytes = length;
        ip->hops = HOPS;
    }
    u32 *words = (u32 *)udp, ports = words[0] >> 16 | words[0] << 16;
    sum += (u64)ports + length + length + HTONS(IP_UDP);
    u16 checksum = ~fold(sum);
    words[0] = ports;
    words[1] = length | (u32)(checksum ? checksum : 0xffff) << 16;
    return 1;
}

INLINE u32 length_of(struct xdp_md *context)
{
    u64 bytes = end_of(context) - start_of(context);
    __asm__ volatile("" : "+r"(bytes));
    return bytes;
}

// Makes the frame `bytes` long, at its end.
INLINE int resize(struct xdp_md *context, u32 bytes)
{
    int delta = (int)bytes - (int)length_of(context);
    return delta == 0 || xdp_adjust_tail(context, delta) == 0;
}

enum { KEPT_BYTES_MAX = 104, GROWN_BYTES_MAX = 2048 };

// Makes the frame `grown` bytes longer at its start; only its first `kept` bytes, an even number,
// keep their contents. 0 if there is no room there either.
APART int grow_at_start(struct xdp_md *context, u32 grown, u32 kept)
{
    if (!grown || grown > GROWN_BYTES_MAX || kept > KEPT_BYTES_MAX || length_of(context) < kept)
        return 0;
    if (xdp_adjust_head(context, -(int)grown))
        return 0;
    u8 *to = start_of(context);
    void *end = end_of(context);
    u8 *from = to + grown;
    CHECKED(from);
    // The frame is long enough, which the verifier does not know.
    ROLLED
    for (u32 word = 0; word < KEPT_BYTES_MAX / 8; word++) {
        if (kept < 8 || (void *)(from + 8) > end || (void *)(to + 8) > end)
            break;
        *(u64 *)to = *(u64 *)from;
        to += 8;
        from += 8;
        kept -= 8;
    }
    ROLLED
    for (u32 half = 0; half < 4; half++) {
        if (!kept || (void *)(from + 2) > end || (void *)(to + 2) > end)
            break;
        *(u16 *)to = *(u16 *)from;
        to += 2;
        from += 2;
        kept -= 2;
    }
    return 1;
}

// Makes room for a reply: sets the length of the frame to `bytes` and keeps its first `kept` bytes.
// A driver that makes a frame from a socket's packet (veth) leaves no room after it, but some
// before it.
INLINE int make_room(struct xdp_md *context, u32 bytes, u32 kept)
{
    int delta = (int)bytes - (int)length_of(context);
    return delta == 0 || xdp_adjust_tail(context, delta) == 0
        || (delta > 0 && grow_at_start(context, delta, kept));
}
