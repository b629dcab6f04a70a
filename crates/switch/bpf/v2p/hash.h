// The hash of a virtual address.
#pragma once
#include "../kernel.h"
#include "v2p_hash.h"

// policy::v2p::vip_hash, byte by byte: CRC is linear.
INLINE u32 vip_hash(u32 vip)
{
    return V2P_HASH_OF_0 ^ v2p_hash[0][vip & 255] ^ v2p_hash[1][vip >> 8 & 255] ^ v2p_hash[2][vip >> 16 & 255]
         ^ v2p_hash[3][vip >> 24];
}
