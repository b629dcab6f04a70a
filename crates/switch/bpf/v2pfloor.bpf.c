// For comparison with a SwitchV2P switch: the smallest forwarder that encapsulates (one hash
// lookup, one route, no rules, no counters), one that only forwards, and a program that runs
// another repeatedly.
#include "v2p/route.h"

enum { REQUEST_BYTES_MAX = 256, TUNNEL_BYTES = IP_BYTES + sizeof(struct vxlan) + ETHER_BYTES };

struct request {
    u32 bytes;
    u32 machines;   // a power of two; 0 leaves the frame as it is
    u32 first;      // virtual address
    u32 at;         // offset of the address in the frame
    u32 counter, unused;
    u8 frame[REQUEST_BYTES_MAX];
};

struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct request); } requests MAP;
struct { OF_TYPE(3); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(u32); } next MAP;
struct { OF_TYPE(MAP_HASH); OF_ENTRIES(1 << 16); OF_KEY(u32); OF_VALUE(u32); } machines MAP;

static long (*const tail_call)(void *context, void *programs, u32 number) = (void *)12;
static long (*const xdp_adjust_meta)(void *context, int delta) = (void *)54;

// Restores the frame, with the address of the next machine.
SECTION("xdp") int again(struct xdp_md *context)
{
    u32 zero = 0;
    struct request *request = map_lookup(&requests, &zero);
    if (!request)
        return XDP_ABORTED;
    s64 note = start_of(context) - POINTER_AT(context, 8);
    if (note && xdp_adjust_meta(context, note))
        return XDP_ABORTED;
    s64 there = end_of(context) - start_of(context);
    __asm__ volatile("" : "+r"(there));
    int delta = (int)there - (int)request->bytes;
    if (delta && xdp_adjust_head(context, delta))
        return XDP_ABORTED;
    u8 *to = start_of(context), *end = end_of(context), *start = to, *from = request->frame;
    ROLLED
    for (u32 word = 0; word < REQUEST_BYTES_MAX / 8 - 1; word++) {
        if (to + 8 > end)
            break;
        *(u64 *)to = *(u64 *)from;
        to += 8;
        from += 8;
    }
    ROLLED
    for (u32 half = 0; half < 3; half++) {
        if (to + 2 > end)
            break;
        *(u16 *)to = *(u16 *)from;
        to += 2;
        from += 2;
    }
    u32 at = request->at;
    if (request->machines && at < REQUEST_BYTES_MAX && start + at + 4 <= end)
        *(u32 *)(start + at) = HTONL(request->first + ((++request->counter * 2654435761u >> 7) & (request->machines - 1)));
    tail_call(context, &next, 0);
    return XDP_ABORTED;
}

SECTION("xdp") int nothing(struct xdp_md *context)
{
    (void)context;
    return XDP_PASS;
}

// Sends the frame to the next hop; its outer header is complete except for the time to live.
INLINE int hand_on(struct xdp_md *context, const struct seen *seen)
{
    struct ether *ether = start_of(context);
    struct ip *ip = (void *)(ether + 1);
    if ((void *)(ip + 1) > end_of(context) || ip->hops <= 1)
        return XDP_PASS;
    struct fib fib = fib_of(seen, ip->source, ip->destination, context->ingress_ifindex);
    if (fib_lookup(context, &fib, sizeof(fib), 0))
        return XDP_PASS;
    u32 before = ((u32 *)ip)[2];
    ip->hops -= 1;
    ip->checksum = changed(ip->checksum, before, ((u32 *)ip)[2]);
    __builtin_memcpy(ether->destination, fib.to, 6);
    __builtin_memcpy(ether->source, fib.from, 6);
    return redirect(fib.interface, 0);
}

SECTION("xdp") int only_forward(struct xdp_md *context)
{
    struct ether *ether = start_of(context);
    struct ip *ip = (void *)(ether + 1);
    struct datagram *udp = (void *)(ip + 1);
    if ((void *)(udp + 1) > end_of(context) || ether->type != HTONS(TYPE_IPV4) || ip->version_length != 0x45)
        return XDP_PASS;
    struct seen seen = {.protocol = ip->protocol, .bytes = HTONS(ip->total_bytes)};
    seen.source_port = udp->source;
    seen.destination_port = udp->destination;
    return hand_on(context, &seen);
}

SECTION("xdp") int encapsulate(struct xdp_md *context)
{
    struct ether *ether = start_of(context);
    struct ip *ip = (void *)(ether + 1);
    if ((void *)(ip + 1) > end_of(context) || ether->type != HTONS(TYPE_IPV4) || ip->version_length != 0x45)
        return XDP_PASS;
    u32 *address = map_lookup(&machines, &ip->destination);
    u32 bytes = HTONS(ip->total_bytes) + TUNNEL_BYTES;
    u16 port = ip->source ^ ip->destination;
    if (!address || xdp_adjust_head(context, -(int)TUNNEL_BYTES))
        return XDP_PASS;
    ether = start_of(context);
    ip = (void *)(ether + 1);
    struct vxlan *vxlan = (void *)(ip + 1);
    struct ether *inner = (void *)(vxlan + 1);
    if ((void *)(inner + 1) > end_of(context))
        return XDP_PASS;
    ether->type = HTONS(TYPE_IPV4);
    *ip = (struct ip){
        .version_length = 0x45,
        .total_bytes = HTONS(bytes),
        .hops = 64,
        .protocol = IP_UDP,
        .source = HTONL(own_address),
        .destination = *address,
    };
    ip->checksum = changed(0xffff, 0, sum_of((u32 *)ip, IP_BYTES / 4));
    *vxlan = (struct vxlan){
        .udp = {.source = port, .destination = HTONS(VXLAN_PORT), .bytes = HTONS(bytes - IP_BYTES)},
        .flags = VXLAN_HAS_NETWORK,
        .network = HTONL(network << 8),
    };
    struct seen seen = {.protocol = IP_UDP, .bytes = bytes, .source_port = port};
    seen.destination_port = HTONS(VXLAN_PORT);
    return hand_on(context, &seen);
}
