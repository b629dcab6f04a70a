// Constants that user space sets before the programs are loaded, and counters.
#pragma once
#include "../kernel.h"
#include "v2p_bits.h"

// Constants for the verifier, which removes branches that they rule out. Addresses are in host
// order.
const volatile u32 rules = 0;           // bits of v2p_bits.h: the role's row of Table 1, and the rules
const volatile u32 entries = 1;
const volatile u32 lines_mask = 0;      // entries - 1 if that is a power of two: a remainder without a division
const volatile u32 own_id = 0;
const volatile u32 own_address = 0;     // of a switch, a gateway or a server
const volatile u32 first_address = 0;   // of the switch with identifier 0; the others follow
const volatile u32 pod_first = 0, pod_end = 0;
const volatile u32 address_top = 0;     // the bit that all physical addresses begin with
const volatile u32 learn_max = 0;       // a random number up to this sends a learning packet
const volatile u64 base_rtt_ns = 0;
const volatile u32 ip_in_ip = 0;        // else VXLAN
const volatile u32 network = 0;         // VXLAN's, of the virtual addresses
const volatile u32 gateways_known = 0;

INLINE int has(u32 rule)
{
    return (rules & rule) != 0;
}

struct counts {
    u64 of[V2P_COUNTS];
};

struct { OF_TYPE(MAP_PERCPU_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct counts); } counters MAP;

INLINE void count(u32 what)
{
    u32 zero = 0;
    struct counts *counts = map_lookup(&counters, &zero);
    if (counts)
        counts->of[what] += 1;
}
