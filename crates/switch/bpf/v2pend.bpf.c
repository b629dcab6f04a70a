// The ends of the overlay: a gateway, which knows the server of every machine, and a server, which
// decapsulates packets for its machines, and sends packets for a machine that has left it to a
// gateway.
#include "v2p/frame.h"
#include "v2p/hash.h"

// Of a gateway: the server of each virtual address, in host order. Of a server: its own virtual
// addresses.
struct { OF_TYPE(MAP_HASH); OF_ENTRIES(1 << 20); OF_FLAGS(1); OF_KEY(u32); OF_VALUE(u32); } machines MAP;
struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1024); OF_KEY(u32); OF_VALUE(u32); } gateways MAP;

// Returns the packet to the ToR, with another destination.
INLINE int send_back(struct xdp_md *context, const struct seen *seen, const struct header *header)
{
    if (seen->hops <= 1 || !write_frame(context, seen, header, 1))
        return XDP_DROP;
    struct ether *ether = start_of(context);
    if ((void *)(ether + 1) > end_of(context))
        return XDP_DROP;
    u16 station[3];
    __builtin_memcpy(station, ether->source, 6);
    __builtin_memcpy(ether->source, ether->destination, 6);
    __builtin_memcpy(ether->destination, station, 6);
    return XDP_TX;
}

SECTION("xdp") int pass_gateway(struct xdp_md *context)
{
    struct seen seen = {0};
    struct header header = {0};
    enum kind kind = read_frame(start_of(context), end_of(context), &seen, &header);
    if (kind != TUNNELLED || seen.destination != HTONL(own_address))
        return kind == MALFORMED || kind == CONTROL ? XDP_DROP : XDP_PASS;
    u32 *address = map_lookup(&machines, &header.destination_vip);
    if (!address) {
        count(V2P_COUNT_UNKNOWN);
        return XDP_DROP;
    }
    count(V2P_COUNT_PACKETS);
    header.destination_pip = *address ^ address_top;
    header.tag_vip = header.tag_pip = header.promotion = header.misdelivered_from = 0;
    return send_back(context, &seen, &header);
}

// Decapsulates the inner packet.
INLINE int decapsulate(struct xdp_md *context, const struct seen *seen)
{
    struct ether *ether = start_of(context);
    if ((void *)(ether + 1) > end_of(context))
        return XDP_DROP;
    u32 stations[3] = {((u32 *)ether)[0], ((u32 *)ether)[1], ((u32 *)ether)[2]};
    u32 bytes = IP_BYTES + seen->option + (ip_in_ip ? 0 : sizeof(struct vxlan) + ETHER_BYTES);
    if (xdp_adjust_head(context, bytes))
        return XDP_DROP;
    ether = start_of(context);
    if ((void *)(ether + 1) > end_of(context))
        return XDP_DROP;
    UNROLL
    for (u32 word = 0; word < 3; word++)
        ((u32 *)ether)[word] = stations[word];
    ether->type = HTONS(TYPE_IPV4);
    return XDP_PASS;
}

// A machine that has left is found through a gateway. The packet keeps its source, by which the ToR
// recognizes that it was misdelivered; if this server is the source, the option states it.
SECTION("xdp") int pass_server(struct xdp_md *context)
{
    struct seen seen = {0};
    struct header header = {0};
    enum kind kind = read_frame(start_of(context), end_of(context), &seen, &header);
    if (kind != TUNNELLED || seen.destination != HTONL(own_address))
        return kind == MALFORMED || kind == CONTROL ? XDP_DROP : XDP_PASS;
    if (map_lookup(&machines, &header.destination_vip)) {
        count(V2P_COUNT_PACKETS);
        return decapsulate(context, &seen);
    }
    u32 number = gateways_known ? vip_hash(header.source_vip ^ header.destination_vip) % gateways_known : 0;
    u32 *gateway = map_lookup(&gateways, &number);
    if (!gateway || !*gateway) {
        count(V2P_COUNT_UNKNOWN);
        return XDP_DROP;
    }
    count(V2P_COUNT_MISDELIVERED);
    header.destination_pip = *gateway ^ address_top;
    header.tag_vip = header.tag_pip = header.promotion = header.misdelivered_from = 0;
    seen.returned = 1;
    return send_back(context, &seen, &header);
}
