#include "brigade/rpc/endpoint.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {
namespace {

bool is_ip_address(const std::string& host) {
  in6_addr scratch{};
  return inet_pton(AF_INET, host.c_str(), &scratch) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &scratch) == 1;
}

/// With the address of a name that means this machine, so that both sides take the same one.
cluster::Address without_localhost(cluster::Address address) {
  if (auto loopback = cluster::loopback_address(address.host)) address.host = std::move(*loopback);
  return address;
}

}  // namespace

void require_key_beyond_loopback(const cluster::Address& address, KeyState key,
                                 std::string_view what) {
  if (key == KeyState::kPresent || cluster::is_loopback(address.host)) return;
  throw Error(
      ErrorCode::kPermissionDenied, "Without a cluster key this process does not ", what, " ",
      address,
      ", which is beyond this machine; make a key with `brigade launch --new-key` and give it to "
      "every process in BRIGADE_CLUSTER_KEY or in the file that BRIGADE_CLUSTER_KEY_FILE names.");
}

std::string listen_text(const cluster::Address& address) {
  const cluster::Address plain = without_localhost(address);
  if (is_ip_address(plain.host)) return cluster::to_string(plain);
  return cluster::to_string(cluster::Address{"::", plain.port});
}

std::string connect_text(const cluster::Address& address) {
  return cluster::to_string(without_localhost(address));
}

std::string connect_to_self_text(const cluster::Address& address) {
  const cluster::Address plain = without_localhost(address);
  const bool is_any = plain.host == "0.0.0.0" || plain.host == "::";
  if (is_ip_address(plain.host) && !is_any) return cluster::to_string(plain);
  return base::str_cat("localhost:", plain.port);
}

}  // namespace brigade::rpc
