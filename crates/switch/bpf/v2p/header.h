// What a switch reads of a packet, and may rewrite.
#pragma once
#include "../kernel.h"

// policy::v2p::Header.
struct header {
    u32 source_pip, destination_pip, source_vip, destination_vip;
    u32 tag_vip, tag_pip;
    u32 misdelivered_from;
    u32 hit;           // 1 + the switch's identifier, or 0
    u32 resolved, promotion;
    u32 from_fabric;   // two hops or more behind it
};
