#pragma once

#include <cstdint>
#include <vector>

#include "brigade/ps/paired_service.h"
#include "brigade/ps/store/record_parts.h"
#include "brigade/ps/store/store_install.h"

namespace brigade::ps {

/// The state of a server in parts, each a message to its replica.
///
/// Thread-safety: it does not change.
class StateTransfer {
 public:
  StateTransfer(StoreMoment moment, std::uint64_t part_bytes);
  int parts() const { return static_cast<int>(ranges_.size()); }
  /// Shares the tensors.
  StatePart part(int index) const;

 private:
  const StoreMoment moment_;
  std::vector<RecordPart> ranges_;  // of its tensors
};

/// The inverse: takes the parts in their order.
///
/// Thread-safety: one thread.
class StateReception {
 public:
  /// The part that comes next.
  int next() const { return next_; }
  /// Whether the part is one of this transfer.
  bool fits(const StatePart& part) const;
  /// Returns whether it was the last one. Throws kInvalidArgument for a part that does not fit.
  bool add(StatePart part);
  /// When the last one was added.
  const StoreMoment& moment() const { return moment_; }

 private:
  int next_ = 0;
  int parts_ = 1;
  StoreMoment moment_;
};

}  // namespace brigade::ps
