#pragma once

#include <gloo/transport/device.h>
#include <signal.h>

#include <memory>
#include <optional>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"

namespace brigade::comm {

/// Blocks SIGPIPE in threads that are started while it exists. Gloo's threads write to connections
/// without suppressing this signal, so that a broken connection would end the process.
///
/// Thread-safety: created and destroyed by one thread; affects that thread and those it starts.
class PipeSignalBlock {
 public:
  PipeSignalBlock();
  ~PipeSignalBlock();
  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t former_;
};

/// The address on which Gloo listens, and how it connects.
struct GlooDevice {
  /// Destroyed when the group has been made, in the thread that makes both.
  std::unique_ptr<PipeSignalBlock> pipe_signal;
  std::shared_ptr<gloo::transport::Device> device;
  /// The files of the TLS identity. They are read when a group is made with the device, and are
  /// removed after that. Null without TLS.
  std::shared_ptr<const void> identity = nullptr;
};

/// Listens on the loopback interface if all members share it, without resolving any host name;
/// otherwise on the address from which the other members are reached, or that of the interface
/// GLOO_SOCKET_IFNAME. With a key every connection uses mutual TLS. Throws kPermissionDenied
/// between hosts without a key.
GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::comm
