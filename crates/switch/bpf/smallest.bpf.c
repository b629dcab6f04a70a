// The smallest possible responder, for comparison: hash lookup, swap, transmit. IPv4 without
// options, keys of 16 bytes, values of 128 bytes, no statistics, no coherence, no UDP checksum.
//
// Programs that do nothing are the lower bound of all.
#include "kernel.h"

struct name {
    u8 bytes[16];
};

struct value {
    u64 words[16];
};

struct { OF_TYPE(MAP_HASH); OF_ENTRIES(65536); OF_KEY(struct name); OF_VALUE(struct value); } items MAP;

struct request {
    struct ethernet ethernet;
    struct ipv4 ip;
    struct udp udp;
    u8 header[8];
    struct name key;
    u64 version;
} __attribute__((packed));

SECTION("xdp") int respond(struct xdp_md *context)
{
    struct request *request = (void *)(u64)context->data;
    if ((void *)(request + 1) > (void *)(u64)context->data_end)
        return XDP_PASS;
    if (request->ethernet.type != HTONS(TYPE_IPV4) || request->ip.protocol != IP_UDP
        || request->udp.destination != HTONS(50000))
        return XDP_PASS;
    struct name key = request->key;
    struct value *value = map_lookup(&items, &key);
    if (!value)
        return XDP_PASS;
    if (xdp_adjust_tail(context, sizeof(*value)))
        return XDP_PASS;
    request = (void *)(u64)context->data;
    u64 *to = (void *)(request + 1);
    if ((void *)(to + 16) > (void *)(u64)context->data_end)
        return XDP_PASS;
    UNROLL
    for (int word = 0; word < 16; word++)
        to[word] = value->words[word];
    u8 station[6];
    __builtin_memcpy(station, request->ethernet.source, 6);
    __builtin_memcpy(request->ethernet.source, request->ethernet.destination, 6);
    __builtin_memcpy(request->ethernet.destination, station, 6);
    u32 address = request->ip.source;
    request->ip.source = request->ip.destination;
    request->ip.destination = address;
    u16 port = request->udp.source;
    request->udp.source = request->udp.destination;
    request->udp.destination = port;
    request->ip.total_bytes = HTONS(20 + 8 + 32 + 128);
    // Except for swapped bytes, only the length has changed.
    u32 sum = (u16)~request->ip.checksum + HTONS(128);
    request->ip.checksum = ~((sum & 0xffff) + (sum >> 16));
    request->udp.bytes = HTONS(8 + 32 + 128);
    request->udp.checksum = 0;
    return XDP_TX;
}

SECTION("xdp") int pass(struct xdp_md *context)
{
    (void)context;
    return XDP_PASS;
}
