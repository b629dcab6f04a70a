// The outer header and its option, as switches read and write them: docs/protocols/switchv2p.md.
#pragma once
#include "config.h"
#include "header.h"

enum {
    OPTION_TYPE = 94,   // experimental (RFC 4727), not copied to fragments
    FLAG_PROMOTION = 1,
    FLAG_RETURNED = 2,  // by the host: its ToR may not see that the packet is not its own
    CONTROL_PORT = 333,
    CONTROL_MAGIC = 0x76327031,
    CONTROL_LEARNING = 1,
    CONTROL_INVALIDATION = 2,
    VXLAN_PORT = 4789,
    IP_IN_IP = 4,
    VXLAN_HAS_NETWORK = 0x08,
};

// Not packed, so that fields are read as words: the kernel's interface allows that in a frame.
struct ether {
    u16 destination[3], source[3], type;
};

struct ip {
    u8 version_length, service;
    u16 total_bytes, id, fragment;
    u8 hops, protocol;
    u16 checksum;
    u32 source, destination;
};

struct datagram {
    u16 source, destination, bytes, checksum;
};

// Follows the outer header. Fields that switches do not use are 0.
struct option {
    u8 type, bytes;
    u16 hit;
    u8 flags, unused[3];
    u32 tag_vip, tag_address;
    u32 misdelivered_from;
};

struct vxlan {
    struct datagram udp;
    u8 flags, unused[3];
    u32 network;
};

// A learning or invalidation packet, after the UDP header.
struct control {
    u32 magic;
    u8 kind, unused[3];
    u32 vip, address;
    u32 zero[12];
};

enum {
    ETHER_BYTES = sizeof(struct ether),
    IP_BYTES = sizeof(struct ip),
    OPTION_BYTES = sizeof(struct option),
    OUTER_BYTES = ETHER_BYTES + IP_BYTES,
};
_Static_assert(ETHER_BYTES == 14 && IP_BYTES == 20 && OPTION_BYTES == 20, "as on the wire");
_Static_assert(sizeof(struct vxlan) == 16 && sizeof(struct control) == 64, "as on the wire");

enum kind {
    OTHER,       // not the overlay's, or nothing that a switch can do anything with
    TUNNELLED,
    CONTROL,
    MALFORMED,   // ours, and contradicting itself
};

// A parsed frame.
struct seen {
    u32 option;          // bytes of it that are there: 0 or OPTION_BYTES
    u32 returned;
    u32 destination;     // of the outer header, as it came
    u16 source_port, destination_port;
    u16 bytes;           // of the outer packet
    u8 protocol, hops;
};

// Addresses in the policy's form: the first bit, which is the same in all, stores the access bit.
INLINE u32 pip_from(u32 address)
{
    return HTONL(address) ^ address_top;
}

INLINE u32 address_from(u32 pip)
{
    return HTONL(pip ^ address_top);
}

INLINE int is_physical(u32 pip)
{
    return pip && !(pip >> 31);
}

INLINE enum kind read_option(void *start, void *end, struct seen *seen, struct header *header)
{
    struct option *option = start + OUTER_BYTES;
    if ((void *)(option + 1) > end || option->type != OPTION_TYPE)
        return OTHER;
    if (option->bytes != OPTION_BYTES)
        return MALFORMED;
    seen->option = OPTION_BYTES;
    seen->returned = option->flags & FLAG_RETURNED;
    header->hit = HTONS(option->hit);
    header->promotion = option->flags & FLAG_PROMOTION;
    header->tag_vip = HTONL(option->tag_vip);
    header->tag_pip = option->tag_address ? pip_from(option->tag_address) : 0;
    header->misdelivered_from = option->misdelivered_from ? pip_from(option->misdelivered_from) : 0;
    if (header->tag_pip >> 31 || header->misdelivered_from >> 31)
        return MALFORMED;
    return header->promotion && !header->tag_pip ? MALFORMED : TUNNELLED;
}

// Virtual source and destination. Address 0 is unused: it is that of a machine that requests one.
INLINE enum kind read_inner(const struct ip *inner, u32 room, struct header *header)
{
    u32 bytes = HTONS(inner->total_bytes), head = (inner->version_length & 15) * 4;
    if (inner->version_length >> 4 != 4 || head < IP_BYTES || bytes < head || bytes > room)
        return MALFORMED;
    header->source_vip = HTONL(inner->source);
    header->destination_vip = HTONL(inner->destination);
    return header->source_vip && header->destination_vip ? TUNNELLED : OTHER;
}

INLINE enum kind read_tunnel(void *layer4, void *end, u32 room, struct header *header)
{
    struct ip *inner = layer4;
    if (!ip_in_ip) {
        struct vxlan *vxlan = layer4;
        struct ether *ether = (void *)(vxlan + 1);
        inner = (void *)(ether + 1);
        if ((void *)inner > end || HTONS(vxlan->udp.bytes) != room || room < sizeof(*vxlan) + ETHER_BYTES)
            return MALFORMED;
        if (vxlan->flags != VXLAN_HAS_NETWORK || HTONL(vxlan->network) >> 8 != network
            || ether->type != HTONS(TYPE_IPV4))
            return OTHER;
        room -= sizeof(*vxlan) + ETHER_BYTES;
    }
    return (void *)(inner + 1) > end || room < IP_BYTES ? MALFORMED : read_inner(inner, room, header);
}

INLINE enum kind read_frame(void *start, void *end, struct seen *seen, struct header *header)
{
    struct ether *ether = start;
    struct ip *ip = (void *)(ether + 1);
    if ((void *)(ip + 1) > end || ether->type != HTONS(TYPE_IPV4))
        return OTHER;
    u32 head = (ip->version_length & 15) * 4;
    seen->bytes = HTONS(ip->total_bytes);
    seen->protocol = ip->protocol;
    seen->hops = ip->hops;
    seen->destination = ip->destination;
    header->source_pip = pip_from(ip->source);
    header->destination_pip = pip_from(ip->destination);
    if (ip->version_length >> 4 != 4 || !is_physical(header->source_pip) || !is_physical(header->destination_pip))
        return OTHER;
    if (start + ETHER_BYTES + seen->bytes > end || seen->bytes < head
        || HTONS(ip->fragment) & (FRAGMENT_MORE | FRAGMENT_OFFSET))
        return OTHER;
    if (head == IP_BYTES + OPTION_BYTES) {
        enum kind kind = read_option(start, end, seen, header);
        if (kind != TUNNELLED)
            return kind;
    } else if (head != IP_BYTES) {
        return OTHER;
    }
    void *layer4 = (void *)(ip + 1) + seen->option;
    u32 room = seen->bytes - head;
    if (ip_in_ip && ip->protocol == IP_IN_IP)
        return read_tunnel(layer4, end, room, header);
    struct datagram *udp = layer4;
    if (ip->protocol != IP_UDP || (void *)(udp + 1) > end)
        return OTHER;
    seen->source_port = udp->source;
    seen->destination_port = udp->destination;
    if (udp->destination == HTONS(CONTROL_PORT))
        return CONTROL;
    return !ip_in_ip && udp->destination == HTONS(VXLAN_PORT) ? read_tunnel(layer4, end, room, header) : OTHER;
}

// Folds a ones' complement sum to 16 bits.
INLINE u32 folded(u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

INLINE u64 sum_of(const u32 *words, u32 number)
{
    u64 sum = 0;
    UNROLL
    for (u32 word = 0; word < number; word++)
        sum += words[word];
    return sum;
}

// Updates a checksum for a change of the covered bytes; a wrong checksum stays wrong.
INLINE u16 changed(u16 checksum, u64 before, u64 after)
{
    return folded(checksum + folded(before) + (u64)(0xffff ^ folded(after)));
}

// Whether the packet needs the option.
INLINE int is_tagged(const struct header *header)
{
    return header->hit || header->tag_pip || header->misdelivered_from;
}

// Adds an empty option to the outer header. 0 if there is no room before the frame.
INLINE int add_option(struct xdp_md *context)
{
    if (xdp_adjust_head(context, -OPTION_BYTES))
        return 0;
    u8 *start = start_of(context);
    struct ip *ip = (void *)(start + ETHER_BYTES);
    struct option *option = (void *)(start + OUTER_BYTES);
    if ((void *)(option + 1) > end_of(context))
        return 0;
    UNROLL
    for (u32 at = 0; at < 32; at += 8)
        *(u64 *)(start + at) = *(u64 *)(start + at + OPTION_BYTES);
    *(u16 *)(start + 32) = *(u16 *)(start + 32 + OPTION_BYTES);
    u64 before = *(u32 *)ip;
    ip->version_length += OPTION_BYTES / 4;
    ip->total_bytes = HTONS(HTONS(ip->total_bytes) + OPTION_BYTES);
    *option = (struct option){.type = OPTION_TYPE, .bytes = OPTION_BYTES};
    ip->checksum = changed(ip->checksum, before, (u64) * (u32 *)ip + *(u32 *)option);
    return 1;
}

// Writes the header back, with a time to live reduced by `hops`. 0 if the frame has changed.
INLINE int write_frame(struct xdp_md *context, const struct seen *seen, const struct header *header, u32 hops)
{
    void *start = start_of(context), *end = end_of(context);
    struct ip *ip = start + ETHER_BYTES;
    if ((void *)(ip + 1) > end)
        return 0;
    u32 *words = (u32 *)ip;
    u32 destination = address_from(header->destination_pip);
    u64 before = (u64)words[2] + words[4];
    ip->hops -= hops;
    ip->destination = destination;
    u64 after = (u64)words[2] + destination;
    if (seen->option) {
        struct option *option = (void *)(ip + 1);
        if ((void *)(option + 1) > end)
            return 0;
        before += sum_of((u32 *)option, OPTION_BYTES / 4);
        option->hit = HTONS(header->hit);
        u32 promotes = header->promotion && header->tag_pip;
        option->flags = (promotes ? FLAG_PROMOTION : 0) | (seen->returned ? FLAG_RETURNED : 0);
        option->tag_vip = header->tag_pip ? HTONL(header->tag_vip) : 0;
        option->tag_address = header->tag_pip ? address_from(header->tag_pip) : 0;
        option->misdelivered_from = header->misdelivered_from ? address_from(header->misdelivered_from) : 0;
        after += sum_of((u32 *)option, OPTION_BYTES / 4);
    }
    ip->checksum = changed(ip->checksum, before, after);
    if (seen->protocol != IP_UDP || destination == seen->destination)
        return 1;
    struct datagram *udp = (void *)(ip + 1) + seen->option;
    if ((void *)(udp + 1) > end)
        return 0;
    if (udp->checksum) {
        u16 checksum = changed(udp->checksum, seen->destination, destination);
        udp->checksum = checksum ? checksum : 0xffff;
    }
    return 1;
}
