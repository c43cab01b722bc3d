#pragma once

namespace brigade::cluster {

/// The environment variables that `brigade launch` sets for its processes and the resolver reads.
/// All but the first two are torchrun's, so that other programs understand them too.
inline constexpr const char* kRendezvousVariable = "BRIGADE_RENDEZVOUS";  ///< "host:port"
inline constexpr const char* kGenerationVariable = "BRIGADE_GENERATION";  ///< 0, then 1 a restart
inline constexpr const char* kRankVariable = "RANK";
inline constexpr const char* kWorldSizeVariable = "WORLD_SIZE";
inline constexpr const char* kLocalRankVariable = "LOCAL_RANK";
inline constexpr const char* kLocalWorldSizeVariable = "LOCAL_WORLD_SIZE";
/// The address of rank 0, for programs that use PyTorch's rendezvous.
inline constexpr const char* kMasterAddressVariable = "MASTER_ADDR";
inline constexpr const char* kMasterPortVariable = "MASTER_PORT";

}  // namespace brigade::cluster
