#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/comm/process_communicator.h"
#include "brigade/distribute/input/element_shard.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// The gradients of one optimizer as they travel between processes: for each dtype one flat buffer
/// with all variables behind one another, from the last to the first, as backward finishes them,
/// and behind the gradients of the first buffer one number a variable that says whether there is
/// one. So a step is one reduction a dtype, and every process learns with the sums which variables
/// have a gradient anywhere. Gradients of half and bfloat16 travel as float32: a process's sum is
/// rounded by nobody but who applies the sum of all.
///
/// The buffers may be cut into packs of whole variables, which are reduced by themselves. Their
/// order is that in which backward completes them; the last one has the presence numbers.
///
/// Thread-safety: different variables, shares and packs by several threads at once, each pack
/// reduced when it is filled; the rest by one thread.
class GradientBuckets {
 public:
  /// Collective of the processes: buffers lie where their communicator reads them best.
  GradientBuckets(const optim::OptimizerState& state,
              std::shared_ptr<comm::ProcessCommunicator> workers, std::int64_t bytes_per_pack);

  /// Cuts into packs of at least so many bytes, 0: one a dtype. No bit of the sums depends on it.
  /// Equal in all processes.
  void partition(std::int64_t bytes_per_pack);
  std::size_t num_buckets() const { return buckets_.size(); }
  /// In which pack each variable travels; unset: in none, as it is frozen.
  const std::vector<std::optional<std::size_t>>& bucket_of() const { return bucket_of_; }
  /// Of all buffers.
  std::int64_t bytes() const;

  /// Writes the sum of variable `variable`'s `parts` ([replica], undefined: none), in replica
  /// order.
  void fill_variable(std::size_t variable, std::span<const at::Tensor> parts);
  /// Writes share `shard` of `num_shards` of all variables but those that `is_filled` says are there
  /// ([variable]; empty: none), from `parts` ([replica][variable]), in replica order. Share 0
  /// includes the presence numbers.
  void fill(std::span<const std::span<const at::Tensor>> parts, int shard, int num_shards,
            const std::vector<bool>& is_filled = {});
  /// Adds a pack over the processes. A collective; all packs, in their order, are a step.
  void reduce(std::size_t bucket);
  /// The sums in the shapes and dtypes of their variables, as aliases of the buffers where the
  /// dtypes are the same; undefined where no process has a gradient. Valid until the next `fill`.
  std::vector<at::Tensor> sums() const;

 private:
  struct VariableLocation {
    std::size_t buffer = 0;
    std::int64_t offset = 0;
    bool is_sent = false;  // frozen variables are not
  };
  struct Buffer {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::size_t> variables;  // in their order there
    std::int64_t size = 0;
    at::Tensor values;
  };
  struct Bucket {
    std::size_t buffer = 0;
    std::int64_t begin = 0, end = 0;     // elements of the buffer
    std::vector<std::size_t> variables;  // never empty: the last one's gradient comes last
    at::Tensor values = {};
  };
  void allocate_buffers();
  std::vector<Bucket> partition_buffer(std::size_t number, std::int64_t bytes_per_pack) const;
  void fill_range(const Buffer& buffer, std::span<const std::span<const at::Tensor>> parts,
                 ElementRange range, const std::vector<bool>& is_filled);
  void write_presence(std::span<const std::span<const at::Tensor>> parts);

  const optim::OptimizerState& state_;
  const std::shared_ptr<comm::ProcessCommunicator> workers_;
  std::vector<VariableLocation> locations_;  // [variable]
  std::vector<Buffer> buffers_;
  std::vector<Bucket> buckets_;
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]
  at::Tensor presence_;                              // the end of the first buffer
  std::vector<at::Tensor> sums_;
};

}  // namespace brigade::distribute
