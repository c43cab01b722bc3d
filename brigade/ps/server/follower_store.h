#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/io/file_system.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/server/open_store.h"
#include "brigade/ps/server/state_transfer.h"

namespace brigade::ps {

struct FollowerStoreOptions {
  ParameterStoreOptions store;
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
};

/// The store of a process of a replicated server that does not act: filled with the state of the
/// one that acts, and kept up to date by its records.
///
/// Thread-safety: one thread.
class FollowerStore {
 public:
  /// Opens what is in the folder; one that was being filled is emptied first. Throws as
  /// ParameterStore and `read_epoch`.
  FollowerStore(std::shared_ptr<io::FileSystem> files, FollowerStoreOptions options);

  /// What is in the folder.
  const std::optional<std::int64_t>& epoch() const { return epoch_; }
  /// It is on the disk when this returns.
  void write_epoch(std::int64_t epoch);

  /// Null while another has it.
  const ParameterStore* store() const { return open_ ? open_->store.get() : nullptr; }
  /// Gives the store away, to act with it.
  OpenStore release();
  /// Takes it back.
  void adopt(OpenStore store);

  /// Says in a call what it has, and what it asks for.
  void describe(FollowRequest& request) const;
  enum class Taken {
    kNothing,     ///< or a part of what it needs
    kState,       ///< all parts of a state: `fill` follows
    kEverything,  ///< all that was acknowledged
  };
  /// Takes the reply of `source`, which acts. Records are on the disk when this returns.
  Taken take(const FollowSource& source, FollowReply reply);
  /// Replaces everything, in memory and on the disk, by the state that was received.
  void fill();

 private:
  void open();

  const std::shared_ptr<io::FileSystem> files_;
  const FollowerStoreOptions options_;
  std::optional<std::int64_t> epoch_;
  std::optional<OpenStore> open_;
  FollowSource source_;     // of the store
  FollowSource receiving_;  // of reception_
  std::optional<StateReception> reception_;
};

}  // namespace brigade::ps
