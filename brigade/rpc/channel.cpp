#include "brigade/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace brigade::rpc {
namespace {

constexpr int kFirstReconnectMs = 20;
constexpr int kLongestReconnectMs = 300;
// A connection attempt without an answer for this long is given up and repeated.
constexpr int kConnectTimeoutMs = 5000;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> make_server_credentials(
    const std::optional<cluster::ClusterKey>& key) {
  if (!key) return grpc::InsecureServerCredentials();
  const auto identity = cluster::make_tls_identity(*key);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity.authority;
  options.pem_key_cert_pairs.push_back({identity.private_key, identity.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::Channel> make_channel(const std::string& target,
                                            const std::optional<cluster::ClusterKey>& key) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  if (!key) {
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  }
  const auto identity = cluster::make_tls_identity(*key);
  arguments.SetSslTargetNameOverride(cluster::kTlsName);
  return grpc::CreateCustomChannel(
      target,
      grpc::SslCredentials({identity.authority, identity.private_key, identity.certificate}),
      arguments);
}

}  // namespace brigade::rpc
