#pragma once

#include <gloo/transport/device.h>
#include <signal.h>

#include <memory>
#include <optional>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/shared_memory/private_folder.h"

namespace brigade::comm {

/// Keeps the threads that are made while it lives from dying of SIGPIPE: Gloo's write to
/// connections without asking for the error alone, which is what should come of a broken one.
///
/// Thread-safety: made and destroyed by one thread, whose children's signals it is about.
class PipeSignalBlock {
 public:
  PipeSignalBlock();
  ~PipeSignalBlock();
  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t former_;
};

/// Where Gloo listens and how it connects.
struct GlooDevice {
  /// Goes when the group is made, in the thread that makes both.
  std::unique_ptr<PipeSignalBlock> pipe_signal;
  std::shared_ptr<gloo::transport::Device> device;
  /// The files of the TLS identity, which are read when a group is made of the device, and are to
  /// be removed after that. Null without TLS.
  std::unique_ptr<PrivateFolder> identity = nullptr;
};

/// Listens on the loopback interface if all members share it, without asking for any host's name;
/// otherwise on the address from which the others are reached, or that of the interface that
/// GLOO_SOCKET_IFNAME names. With a key every connection is mutual TLS. Throws kPermissionDenied
/// between hosts without a key.
GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::comm
