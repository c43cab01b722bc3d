#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// Reads the variables of one source, with messages that name the variable, its value and the
/// source. All throw kInvalidArgument.
///
/// Thread-safety: one thread at a time. The environment must outlive it.
class VariableReader {
 public:
  /// `source` as in "the torchrun environment".
  VariableReader(const Environment& environment, std::string source)
      : environment_(environment), source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  bool has(const std::string& name) const { return environment_(name).has_value(); }
  std::optional<std::string> text(const std::string& name) const { return environment_(name); }
  /// Throws if it is missing or empty.
  std::string required_text(const std::string& name) const;
  /// A whole number from `lowest` on; throws for anything else.
  std::optional<int> number(const std::string& name, int lowest) const;
  /// Throws if it is missing too.
  int required_number(const std::string& name, int lowest) const;
  /// Reads a rank and a world size into `config`; the rank must be below the size. Rank 0 is worker
  /// 0.
  void read_rank(ClusterConfig& config, const std::string& rank, const std::string& size) const;
  /// The same for the local rank and size, which may be missing.
  void read_local_rank(ClusterConfig& config, const std::string& rank,
                       const std::string& size) const;
  /// An address, "host:port", unchanged; throws if it is not one.
  std::string required_address(const std::string& name) const;
  /// MASTER_ADDR and MASTER_PORT; throws if the port is missing and there is no default.
  Address required_master(std::optional<int> default_port = std::nullopt) const;
  /// Throws with `why`, naming the source.
  template <class... Pieces>
  [[noreturn]] void refuse(const Pieces&... why) const {
    throw Error(ErrorCode::kInvalidArgument, "In ", source_, ", ", why...);
  }

 private:
  const Environment& environment_;
  std::string source_;
};

/// A port derived from a name that all processes know (a batch job's number): 15000 to 24999, the
/// same for the same name. Below the system's range of ephemeral ports.
int port_of_job(std::string_view name);

}  // namespace brigade::cluster
