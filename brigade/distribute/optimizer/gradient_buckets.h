#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_layout.h"
#include "brigade/comm/reduction_blocks.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// The gradients of one optimizer in the form in which they are reduced between processes. Each
/// dtype has one flat buffer of all its variables' gradients, from the last variable to the first,
/// which is the order in which backward completes them. After the gradients the first buffer has
/// one presence number per variable: whether it has a gradient. So the sums also show every process
/// which variables have a gradient in any process. It ends with room for a few values of each
/// replica that are added up as well, such as its loss. Gradients of half and bfloat16 are sent as
/// float32, so that only the global sum is rounded.
///
/// Additions follow the comm::ReductionTree of all replicas. A process whose replicas form several
/// of its subtrees has a buffer for each (comm::ReductionBlocks); the first one receives the total
/// sums.
///
/// The buffers may be partitioned into buckets of whole variables, which are reduced separately, in
/// the order in which backward completes them. The last bucket contains the presence numbers and
/// the values.
///
/// Thread-safety: different variables, shards and buckets from several threads at the same time,
/// each bucket reduced after it is filled; the rest from one thread.
class GradientBuckets {
 public:
  /// A collective of the processes: it allocates buffers with `ProcessCommunicator::make_buffer`.
  /// `is_trained`: [variable], those of which a process may have a gradient, equal in all of them;
  /// empty: all but frozen ones.
  GradientBuckets(const optim::OptimizerState& state,
                  std::shared_ptr<comm::ProcessCommunicator> workers,
                  const comm::ProcessLayout& layout, std::int64_t bytes_per_pack,
                  const std::vector<bool>& is_trained = {});

  /// Partitions the buffers into buckets of at least `bytes_per_pack` bytes; 0: one per dtype. It
  /// must be equal in all processes. The bits of the sums do not depend on it.
  void partition(std::int64_t bytes_per_pack);
  std::size_t num_buckets() const { return buckets_.size(); }
  /// [variable]: the bucket of its gradient; unset for frozen variables.
  const std::vector<std::optional<std::size_t>>& bucket_of() const { return bucket_of_; }
  /// The size of all buffers, of one subtree each.
  std::int64_t bytes() const;

  /// Writes the sums of variable `variable`'s `parts` ([replica], undefined: none).
  void fill_variable(std::size_t variable, std::span<const at::Tensor> parts);
  /// Writes shard `shard` of `num_shards` of the sums of `parts` ([replica][variable]).
  /// Skips variables that are filled in already (`is_filled[variable]`; empty: none). Shard 0
  /// includes the presence numbers.
  void fill(std::span<const std::span<const at::Tensor>> parts, int shard, int num_shards,
            const std::vector<bool>& is_filled = {});
  /// Whether there is room for a value of so many elements, which must have the buffer's dtype.
  bool has_room_for(at::ScalarType dtype, std::int64_t numel) const;
  /// Writes the sums of the replicas' values ([replica], contiguous, undefined: none), and how many
  /// numbers they are, before the last bucket is reduced; in each step.
  void fill_values(std::span<const at::Tensor> values);
  /// Reduces a bucket over the processes. A collective; a step reduces all buckets in their order.
  void reduce(std::size_t bucket);
  /// The sums in memory order and in the dtypes of their variables; undefined if no process has a
  /// gradient.
  /// They alias the buffers if the dtypes are the same. Valid until the next `fill`.
  std::vector<at::Tensor> sums() const;
  /// A copy of the sum of the values, in the shape of `like`. Throws kFailedPrecondition unless all
  /// replicas have given one of this size.
  at::Tensor sum_of_values(const at::Tensor& like) const;

 private:
  struct VariableLocation {
    std::size_t buffer = 0;
    std::int64_t offset = 0;
    bool is_sent = false;  // frozen variables are not, nor those that are not trained here
  };
  struct Buffer {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::size_t> variables;  // in their order in the buffer
    std::int64_t size = 0;
    std::vector<at::Tensor> sets;  // [subtree], as many as the process that has the most

    const at::Tensor& values() const { return sets.front(); }
  };
  struct Bucket {
    std::size_t buffer = 0;
    std::int64_t begin = 0, end = 0;     // elements of the buffer
    std::vector<std::size_t> variables;  // never empty: the last one's gradient comes last
    std::vector<at::Tensor> sets = {};   // the range of each of the buffer's
  };
  void allocate_buffers(const std::vector<bool>& is_trained);
  void add(std::span<const at::Tensor> parts, std::int64_t begin, std::int64_t end,
           const Buffer& buffer, std::int64_t at) const;
  std::vector<Bucket> partition_buffer(std::size_t number, std::int64_t bytes_per_pack) const;
  void fill_range(const Buffer& buffer, std::span<const std::span<const at::Tensor>> parts,
                  ElementRange range, const std::vector<bool>& is_filled);
  void write_presence(std::span<const std::span<const at::Tensor>> parts);

  const optim::OptimizerState& state_;
  const std::shared_ptr<comm::ProcessCommunicator> workers_;
  const comm::ReductionBlocks blocks_;       // the replicas of each process
  std::vector<comm::LeafRange> subtrees_;    // this process's: ranges of its replicas
  const int replicas_;                       // of all processes
  std::vector<VariableLocation> locations_;  // [variable]
  std::vector<Buffer> buffers_;
  std::vector<Bucket> buckets_;
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]
  at::Tensor presence_;                                // after the gradients of the first buffer
  at::Tensor values_;                                  // at its end
  std::vector<at::Tensor> sums_;
};

/// Tracks a step's gradients as a process's replicas deliver them. When all replicas have delivered
/// a variable's gradient, the last one fills it into its bucket; when all variables of a bucket are
/// filled in, the bucket is complete.
///
/// Thread-safety: `deliver` and `filled` from any thread; writes before a call are visible after
/// the call that returns the result. The rest while no other call is made.
class BucketProgress {
 public:
  explicit BucketProgress(int replicas) : replicas_(replicas) {}

  /// Starts a step: no gradient has been delivered. `bucket_of[variable]` is the variable's bucket;
  /// unset: it is in none.
  void start(const std::vector<std::optional<std::size_t>>& bucket_of, std::size_t num_buckets);
  /// A replica delivers the gradient of `variable`, once per step. Returns whether it is the last
  /// replica, which then fills the variable in.
  bool deliver(std::size_t variable) { return arrived_[variable].fetch_add(1) + 1 == replicas_; }
  /// The variable, for which `deliver` returned true, is filled in. Returns its bucket if that is
  /// now complete.
  std::optional<std::size_t> filled(std::size_t variable);
  /// Which variables have been delivered by all replicas. Not while replicas deliver.
  std::vector<bool> is_filled() const;

 private:
  const int replicas_;
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]
  std::vector<std::atomic<int>> arrived_;              // [variable]: replicas that delivered it
  std::vector<std::atomic<int>> missing_;              // [bucket]: variables not filled in yet
};

/// Reduces the buckets of a step's gradients on a separate thread, one after another from the first
/// to the last, each as soon as it and all before it are ready. So every process makes the same
/// calls in the same order, whenever its gradients are ready. The thread that applies the gradients
/// stops the reducer and reduces the remaining buckets itself, in the same order.
///
/// `reduce` is called only between `start` and the return of `stop`. Outside that, other threads
/// may use what it uses.
///
/// Thread-safety: `ready` and `stop` from any thread; `start` while no other call is made.
class GradientReducer {
 public:
  /// `reduce(bucket)` is called on the reducer's thread, whose tensor operations are
  /// single-threaded.
  explicit GradientReducer(std::function<void(std::size_t)> reduce);
  /// Ends the thread after the bucket that is being reduced.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Starts a step of `num_buckets` buckets, none of which is ready.
  void start(std::size_t num_buckets);
  /// The bucket is complete. After `stop` the thread does not reduce it.
  void ready(std::size_t bucket);
  /// Stops before the next bucket, waits for the one that is being reduced, and returns how many
  /// are reduced: these are the first ones. Throws what `reduce` threw, at each call until `start`.
  std::size_t stop();
  /// Waits until all buckets are reduced; all must be ready, or become so. Throws as `stop`, and if
  /// `stop` was called.
  void finish();
  /// How many buckets are reduced so far.
  std::size_t reduced() const;

 private:
  void serve();
  bool has_work() const BRIGADE_REQUIRES(mutex_) {
    return !is_stopped_ && next_ < ready_.size() && ready_[next_];
  }

  const std::function<void(std::size_t)> reduce_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::vector<bool> ready_ BRIGADE_GUARDED_BY(mutex_);  // [bucket]
  std::size_t next_ BRIGADE_GUARDED_BY(mutex_) = 0;     // the first that is not reduced
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = true;   // starts no bucket
  bool is_busy_ BRIGADE_GUARDED_BY(mutex_) = false;     // inside of `reduce_`
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_serving_ BRIGADE_GUARDED_BY(mutex_) = false;  // the thread is set up
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace brigade::distribute
