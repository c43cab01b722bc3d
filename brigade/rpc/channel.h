#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"

namespace grpc {
class Channel;
class ServerCredentials;
}  // namespace grpc

namespace brigade::rpc {

/// Larger than the key store's largest value.
inline constexpr int kLargestMessage = 32 << 20;

/// With a key: TLS on which both sides show certificates that come from the key. Without: none.
std::shared_ptr<grpc::ServerCredentials> make_server_credentials(
    const std::optional<cluster::ClusterKey>& key);

/// A connection of its own to `target`, made when first used; no proxy, no retries of gRPC's.
std::shared_ptr<grpc::Channel> make_channel(const std::string& target,
                                            const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::rpc
