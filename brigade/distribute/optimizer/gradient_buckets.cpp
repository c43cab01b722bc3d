#include "brigade/distribute/optimizer/gradient_buckets.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

namespace {

constexpr std::int64_t kMaxValues = 16;

}  // namespace

GradientBuckets::GradientBuckets(const optim::OptimizerState& state,
                                 std::shared_ptr<comm::ProcessCommunicator> workers,
                                 const comm::ProcessLayout& layout, std::int64_t bytes_per_pack,
                                 const std::vector<bool>& is_trained)
    : state_(state),
      workers_(std::move(workers)),
      blocks_(layout.replicas),
      subtrees_(blocks_.own_parts_of(layout.process)),
      replicas_(layout.num_replicas()),
      locations_(state.variables().size()),
      sums_(state.variables().size()) {
  allocate_buffers(is_trained);
  partition(bytes_per_pack);
}

void GradientBuckets::allocate_buffers(const std::vector<bool>& is_trained) {
  const auto& variables = state_.variables();
  for (std::size_t i = variables.size(); i-- > 0;) {
    if (state_.is_frozen(i) || (!is_trained.empty() && !is_trained[i])) continue;
    const at::ScalarType dtype = comm::accumulation_dtype(variables[i].dtype());
    auto buffer = std::ranges::find(buffers_, dtype, &Buffer::dtype);
    if (buffer == buffers_.end()) {
      buffers_.push_back({.dtype = dtype});
      buffer = std::prev(buffers_.end());
    }
    locations_[i] = {.buffer = static_cast<std::size_t>(buffer - buffers_.begin()),
                     .offset = buffer->size,
                     .is_sent = true};
    buffer->variables.push_back(i);
    buffer->size += variables[i].numel();
  }
  const auto presences = static_cast<std::int64_t>(variables.size());
  for (Buffer& buffer : buffers_) {
    const std::int64_t extra = &buffer == &buffers_.front() ? presences + kMaxValues + 1 : 0;
    for (std::size_t set = 0; set < blocks_.most_parts(); ++set)
      buffer.sets.push_back(workers_->make_buffer(buffer.size + extra, buffer.dtype));
    if (extra == 0) continue;
    presence_ = buffer.values().narrow(0, buffer.size, presences);
    values_ = buffer.values().narrow(0, buffer.size + presences, kMaxValues + 1);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!locations_[i].is_sent) continue;
    sums_[i] =
        buffers_[locations_[i].buffer]
            .values()
            .narrow(0, locations_[i].offset, variables[i].numel())
            .view(variables::shape_in_memory(variables[i].shape(), variables[i].memory_format()));
  }
}

// A bucket is complete with its last gradient, which is that of its first variable. The bucket with
// the presence numbers is the last: they are known when backward is complete.
void GradientBuckets::partition(std::int64_t bytes_per_pack) {
  buckets_.clear();
  for (std::size_t number = 0; number < buffers_.size(); ++number)
    std::ranges::move(partition_buffer(number, bytes_per_pack), std::back_inserter(buckets_));
  std::ranges::stable_sort(buckets_, std::greater<>(), [&](const Bucket& bucket) {
    const bool has_presence = bucket.buffer == 0 && bucket.end == buffers_.front().values().numel();
    return std::pair(!has_presence, bucket.variables.back());
  });
  bucket_of_.assign(locations_.size(), std::nullopt);
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    for (const std::size_t i : buckets_[number].variables) bucket_of_[i] = number;
  }
}

std::vector<GradientBuckets::Bucket> GradientBuckets::partition_buffer(
    std::size_t number, std::int64_t bytes_per_pack) const {
  const Buffer& buffer = buffers_[number];
  std::vector<Bucket> buckets;
  for (const std::size_t i : buffer.variables) {
    const bool begins =
        buckets.empty() || (bytes_per_pack > 0 && (buckets.back().end - buckets.back().begin) *
                                                          buffer.values().element_size() >=
                                                      bytes_per_pack);
    if (begins)
      buckets.push_back({.buffer = number, .begin = locations_[i].offset, .variables = {}});
    buckets.back().variables.push_back(i);
    buckets.back().end = locations_[i].offset + state_.variables()[i].numel();
  }
  buckets.back().end = buffer.values().numel();
  for (Bucket& bucket : buckets) {
    for (const at::Tensor& set : buffer.sets)
      bucket.sets.push_back(set.narrow(0, bucket.begin, bucket.end - bucket.begin));
  }
  return buckets;
}

std::int64_t GradientBuckets::bytes() const {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : buffers_)
    bytes += static_cast<std::int64_t>(buffer.values().nbytes());
  return bytes;
}

void GradientBuckets::fill_variable(std::size_t variable, std::span<const at::Tensor> parts) {
  const VariableLocation& location = locations_[variable];
  add(parts, 0, state_.variables()[variable].numel(), buffers_[location.buffer], location.offset);
}

/// Writes the elements [begin, end) of the sums of `parts` to the buffer's sets, from element `at`.
void GradientBuckets::add(std::span<const at::Tensor> parts, std::int64_t begin, std::int64_t end,
                          const Buffer& buffer, std::int64_t at) const {
  for (std::size_t i = 0; i < subtrees_.size(); ++i) {
    const auto of_subtree = parts.subspan(static_cast<std::size_t>(subtrees_[i].begin),
                                          static_cast<std::size_t>(subtrees_[i].size()));
    comm::add_by_tree(of_subtree, begin, end, buffer.sets[i], at);
  }
}

void GradientBuckets::fill(std::span<const std::span<const at::Tensor>> parts, int shard,
                           int num_shards, const std::vector<bool>& is_filled) {
  for (const Buffer& buffer : buffers_)
    fill_range(buffer, parts, element_shard({0, buffer.size}, shard, num_shards), is_filled);
  if (shard == 0 && !buffers_.empty()) write_presence(parts);
}

void GradientBuckets::fill_range(const Buffer& buffer,
                                 std::span<const std::span<const at::Tensor>> parts,
                                 ElementRange range, const std::vector<bool>& is_filled) {
  std::vector<at::Tensor> of_variable(parts.size());
  for (const std::size_t i : buffer.variables) {
    if (!is_filled.empty() && is_filled[i]) continue;
    const std::int64_t offset = locations_[i].offset;
    const std::int64_t from = std::max(offset, range.begin);
    const std::int64_t to = std::min(offset + state_.variables()[i].numel(), range.end);
    if (from >= to) continue;
    for (std::size_t replica = 0; replica < parts.size(); ++replica)
      of_variable[replica] = parts[replica][i];
    add(of_variable, from - offset, to - offset, buffer, from);
  }
}

void GradientBuckets::write_presence(std::span<const std::span<const at::Tensor>> parts) {
  std::vector<double> is_present;
  for (std::size_t i = 0; i < locations_.size(); ++i) {
    const bool is_one =
        locations_[i].is_sent &&
        std::ranges::any_of(parts, [&](const auto& of_replica) { return of_replica[i].defined(); });
    is_present.push_back(is_one ? 1.0 : 0.0);
  }
  presence_.copy_(at::from_blob(is_present.data(), presence_.sizes(), at::kDouble));
}

bool GradientBuckets::has_room_for(at::ScalarType dtype, std::int64_t numel) const {
  return !buffers_.empty() && buffers_.front().dtype == dtype && numel <= kMaxValues;
}

// The last number is how many numbers the replicas have given. Without it, one that gives none
// would have its value of an earlier step added, unnoticed.
void GradientBuckets::fill_values(std::span<const at::Tensor> values) {
  if (buffers_.empty()) return;
  std::int64_t count = 0;
  for (const at::Tensor& value : values) count += value.defined() ? value.numel() : 0;
  values_[kMaxValues].fill_(count);
  if (count == 0) return;
  const auto first = std::ranges::find_if(values, &at::Tensor::defined);
  const Buffer& buffer = buffers_.front();
  add(values, 0, first->numel(), buffer, buffer.size + presence_.numel());
}

void GradientBuckets::reduce(std::size_t bucket) {
  workers_->all_reduce_subtrees(buckets_[bucket].sets, blocks_);
}

std::vector<at::Tensor> GradientBuckets::sums() const {
  if (buffers_.empty()) return sums_;
  const at::Tensor counts = presence_.to(at::kDouble);
  const double* there = counts.const_data_ptr<double>();
  std::vector<at::Tensor> sums(sums_.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (there[i] > 0) sums[i] = sums_[i].to(state_.variables()[i].dtype());
  }
  return sums;
}

at::Tensor GradientBuckets::sum_of_values(const at::Tensor& like) const {
  const auto count = values_[kMaxValues].item<double>();
  check_state(count == static_cast<double>(like.numel() * replicas_),
              "The replicas' losses differ: one has ", like.numel(), " numbers, and all ",
              replicas_, " together ", count,
              ". Give the optimizers of all replicas a loss of one size.");
  return values_.narrow(0, 0, like.numel()).clone().view(like.sizes());
}

void BucketProgress::start(const std::vector<std::optional<std::size_t>>& bucket_of,
                           std::size_t num_buckets) {
  if (arrived_.size() != bucket_of.size())
    arrived_ = std::vector<std::atomic<int>>(bucket_of.size());
  if (missing_.size() != num_buckets) missing_ = std::vector<std::atomic<int>>(num_buckets);
  bucket_of_ = bucket_of;
  for (auto& arrived : arrived_) arrived = 0;
  for (auto& missing : missing_) missing = 0;
  for (const auto& bucket : bucket_of_) {
    if (bucket) ++missing_[*bucket];
  }
}

std::optional<std::size_t> BucketProgress::filled(std::size_t variable) {
  const std::size_t bucket = *bucket_of_[variable];
  if (missing_[bucket].fetch_sub(1) > 1) return std::nullopt;
  return bucket;
}

std::vector<bool> BucketProgress::is_filled() const {
  std::vector<bool> is_filled(arrived_.size());
  for (std::size_t i = 0; i < arrived_.size(); ++i) is_filled[i] = arrived_[i] == replicas_;
  return is_filled;
}

using concurrency::MutexLock;

// A thread that sets its number of threads also sets the default of every thread started later:
// restore the caller's.
GradientReducer::GradientReducer(std::function<void(std::size_t)> reduce)
    : reduce_(std::move(reduce)) {
  const int callers_threads = at::get_num_threads();
  thread_ = std::thread([this] { serve(); });
  {
    const MutexLock lock(mutex_);
    while (!is_serving_) changed_.wait(mutex_);
  }
  at::set_num_threads(callers_threads);
}

GradientReducer::~GradientReducer() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GradientReducer::start(std::size_t num_buckets) {
  const MutexLock lock(mutex_);
  ready_.assign(num_buckets, false);
  next_ = 0;
  is_stopped_ = false;
  failure_ = nullptr;
}

void GradientReducer::ready(std::size_t bucket) {
  const MutexLock lock(mutex_);
  check_argument(bucket < ready_.size(), "GradientReducer: there is no bucket ", bucket,
                 "; there are ", ready_.size(), ".");
  ready_[bucket] = true;
  if (has_work() && !is_busy_) changed_.notify_all();
}

std::size_t GradientReducer::stop() {
  const MutexLock lock(mutex_);
  is_stopped_ = true;
  while (is_busy_) changed_.wait(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return next_;
}

void GradientReducer::finish() {
  const MutexLock lock(mutex_);
  while (is_busy_ || (next_ < ready_.size() && !is_stopped_)) changed_.wait(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  check_state(next_ == ready_.size(), "The reduction of gradients was stopped by a failure.");
}

std::size_t GradientReducer::reduced() const {
  const MutexLock lock(mutex_);
  return next_;
}

void GradientReducer::serve() {
  at::get_num_threads();  // the first call sets the number to the default: call it before setting
  at::set_num_threads(1);
  mutex_.lock();
  is_serving_ = true;
  changed_.notify_all();
  while (!is_ending_) {
    if (!has_work()) {
      changed_.wait(mutex_);
      continue;
    }
    const std::size_t bucket = next_;
    is_busy_ = true;
    mutex_.unlock();
    std::exception_ptr failure;
    try {
      reduce_(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    mutex_.lock();
    is_busy_ = false;
    if (failure) {
      failure_ = failure;
      is_stopped_ = true;
    } else {
      ++next_;
    }
    changed_.notify_all();
  }
  mutex_.unlock();
}

}  // namespace brigade::distribute
