#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "brigade/distribute/input/input_agreement.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Whether every worker walks over the same data, or over data of its own.
enum class InputSource { kSameForAll, kOwn };

/// What the workers have to settle about their input, apart from the batches themselves.
///
/// Thread-safety: one thread at a time.
class InputCoordinator {
 public:
  InputCoordinator(WorkerLayout layout, InputSource source);

  const WorkerLayout& layout() const { return layout_; }
  /// Whether there are other workers, with whose input this one's was not compared yet.
  bool must_compare() const { return !is_compared_ && layout_.workers != nullptr; }
  /// A collective of the workers: throws as `check_same_input`.
  void compare(const InputDescription& own);

  /// Whether several workers have data of their own, so that all below is collective.
  bool has_own_data() const;

  struct Agreement {
    bool any_has_data = false;
    std::int64_t examples = 0;  ///< of all workers
  };
  /// What all have of the next step. Throws kAborted if others could not read theirs, naming them
  /// and why.
  Agreement agree(std::span<const std::int64_t> own_counts) const;
  /// Tells the others that this worker cannot read its data of the next step, for `reason`: they
  /// all throw it, in `agree`, or where they wait for this worker's gradients.
  void fail(const std::string& reason) const;

  /// The state of the workers' walks, of which this one's stands at `position`: every worker's,
  /// where they have data of their own.
  io::StateTree save(const io::StateTree& position) const;
  /// This worker's position. Throws kInvalidArgument if another number of workers with data of
  /// their own saved it, or workers that all had the same.
  const io::StateTree& restore(const io::StateTree& state) const;

 private:
  Agreement exchange(std::span<const std::int64_t> own_counts, std::string_view failure) const;

  WorkerLayout layout_;
  InputSource source_;
  bool is_compared_ = false;
};

}  // namespace brigade::distribute
