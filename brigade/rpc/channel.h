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

/// With a key: mutual TLS with certificates derived from the key. Without: no encryption.
std::shared_ptr<grpc::ServerCredentials> make_server_credentials(
    const std::optional<cluster::ClusterKey>& key);

/// A separate connection to `target`, made at first use, without proxies and gRPC's retries.
std::shared_ptr<grpc::Channel> make_channel(const std::string& target,
                                            const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::rpc
