#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <optional>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/private_folder.h"

namespace brigade::comm {

/// Where Gloo listens and how it connects.
struct GlooDevice {
  std::shared_ptr<gloo::transport::Device> device;
  /// The files of the TLS identity, which are read when a group is made of the device, and are to
  /// be removed after that. Null without TLS.
  std::unique_ptr<PrivateFolder> identity = nullptr;
};

/// Listens on the loopback interface if all members are on one host, without asking for any host's
/// name; otherwise on the address from which the others are reached, or that of the interface that
/// GLOO_SOCKET_IFNAME names. With a key every connection is mutual TLS. Throws kPermissionDenied
/// between hosts without a key.
GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::comm
