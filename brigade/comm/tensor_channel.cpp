#include "brigade/comm/tensor_channel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/sub_membership.h"

namespace brigade::comm {

namespace {

/// What precedes the tensors of a message, as numbers: its kind, step, number and chunk (in one),
/// how many tensors follow, and of each its dtype, number of dimensions, sizes and strides.
constexpr std::int64_t kMessageFields = 4;
constexpr std::int64_t kTensorFields =
    2 + 2 * static_cast<std::int64_t>(TensorChannel::kMaxDimensions);
constexpr std::int64_t kFields =
    kMessageFields + static_cast<std::int64_t>(TensorChannel::kMaxTensors) * kTensorFields;

/// An idle channel waits for its next message for as long as it takes; `receive` has a deadline.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
/// How long an end waits until what was sent has arrived.
constexpr std::chrono::seconds kLastMessagesTimeout{10};

constexpr int kChunkShift = 32;

std::int64_t packed(const MessageKey& key) {
  return std::int64_t{key.chunk} << kChunkShift | key.number;
}

MessageKey key_of(std::int64_t step, std::int64_t number_and_chunk) {
  constexpr std::int64_t kNumber = (std::int64_t{1} << kChunkShift) - 1;
  return {.step = step,
          .number = static_cast<int>(number_and_chunk & kNumber),
          .chunk = static_cast<int>(number_and_chunk >> kChunkShift)};
}

void describe_tensor(const at::Tensor& tensor, std::int64_t* fields) {
  fields[0] = static_cast<std::int64_t>(tensor.scalar_type());
  fields[1] = tensor.dim();
  std::ranges::copy(tensor.sizes(), fields + 2);
  std::ranges::copy(tensor.strides(), fields + 2 + TensorChannel::kMaxDimensions);
}

at::Tensor allocate(const std::int64_t* fields) {
  const auto dtype = static_cast<at::ScalarType>(fields[0]);
  const auto dimensions = static_cast<std::size_t>(fields[1]);
  check_argument(fields[0] >= 0 &&
                     fields[0] < static_cast<std::int64_t>(at::ScalarType::NumOptions) &&
                     dimensions <= TensorChannel::kMaxDimensions,
                 "A channel received a description of no tensor.");
  return at::empty_strided({fields + 2, dimensions},
                           {fields + 2 + TensorChannel::kMaxDimensions, dimensions},
                           at::TensorOptions(dtype));
}

/// All elements in the order in which they are in memory.
at::Tensor in_memory_order(const at::Tensor& dense) {
  return at::as_strided(dense, {dense.numel()}, {1}, dense.storage_offset());
}

std::vector<at::Tensor> in_memory_order(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(in_memory_order(tensor));
  return flat;
}

at::Tensor text_tensor(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  base::copy_bytes(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

}  // namespace

TensorChannel::TensorChannel(ChannelGroup group, const TensorChannelOptions& options)
    : communicator_(std::move(group.communicator)),
      source_(group.source),
      is_source_(communicator_->rank() == group.source),
      interrupt_(std::move(group.interrupt)),
      options_(options),
      thread_([this] { serve(); }) {}

TensorChannel::~TensorChannel() {
  {
    const concurrency::MutexLock lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
    const auto until = std::chrono::steady_clock::now() + kLastMessagesTimeout;
    while ((!outbox_.empty() || is_sending_) && !failure_) {
      if (!changed_.wait_until(mutex_, until)) break;
    }
  }
  interrupt_();
  thread_.join();
}

void TensorChannel::send(const MessageKey& key, std::vector<at::Tensor> tensors) {
  check_argument(tensors.size() <= kMaxTensors, "A message of ", options_.name, " has ",
                 tensors.size(), " tensors; it has at most ", kMaxTensors, ".");
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided ||
        tensor.dim() > static_cast<std::int64_t>(kMaxDimensions)) {
      refuse("A message of ", options_.name, " has ",
             tensor.defined() ? shape_of(tensor) : "an undefined tensor",
             "; send dense tensors on CPU of at most ", kMaxDimensions, " dimensions.");
    }
    tensor = tensor.detach();
    if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
  }
  push({.kind = Kind::kTensors, .key = key, .tensors = std::move(tensors)});
}

void TensorChannel::end_step(std::int64_t step, const std::optional<Error>& failure) {
  Message message{.kind = Kind::kStepEnded, .key = {.step = step, .number = 0}, .tensors = {}};
  if (failure) {
    message.kind = Kind::kStepFailed;
    message.key.number = static_cast<int>(failure->code());
    message.tensors.push_back(text_tensor(failure->what()));
    const concurrency::MutexLock lock(mutex_);
    std::erase_if(outbox_, [&](const Message& each) {
      if (each.key.step != step) return false;
      bytes_sent_ -= bytes_of(each);
      return true;
    });
  }
  try {
    push(std::move(message));
  } catch (const Error&) {  // the receivers know
  }
}

void TensorChannel::push(Message message) {
  const concurrency::MutexLock lock(mutex_);
  if (failure_) throw Error(*failure_);
  bytes_sent_ += bytes_of(message);
  outbox_.push_back(std::move(message));
  changed_.notify_all();
}

std::int64_t TensorChannel::bytes_of(const Message& message) const {
  auto bytes = kFields * static_cast<std::int64_t>(sizeof(std::int64_t));
  for (const at::Tensor& tensor : message.tensors)
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes * (communicator_->world_size() - 1);
}

std::vector<at::Tensor> TensorChannel::receive(const MessageKey& key) {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  const concurrency::MutexLock lock(mutex_);
  for (;;) {
    if (aborted_) throw Error(ErrorCode::kAborted, *aborted_);
    const auto found = inbox_.find(key);
    if (found != inbox_.end()) {
      std::vector<at::Tensor> tensors = std::move(found->second);
      inbox_.erase(found);
      return tensors;
    }
    if (const auto error = reason_to_stop(key)) throw Error(*error);
    if (changed_.wait_until(mutex_, deadline)) continue;
    throw Error(ErrorCode::kDeadlineExceeded, "The ", options_.name, " of micro-batch ", key.number,
                " in step ", key.step, " did not come within ", options_.timeout.count(), " ms.");
  }
}

std::optional<Error> TensorChannel::reason_to_stop(const MessageKey& key) const {
  const auto ended = ended_.find(key.step);
  if (ended != ended_.end()) {
    if (ended->second) return ended->second;
    return Error(ErrorCode::kFailedPrecondition, "The sender of the ", options_.name,
                 " has ended step ", key.step, " without those of micro-batch ", key.number,
                 ": every worker must compute the same passes.");
  }
  return failure_;
}

void TensorChannel::begin_step(std::int64_t step) {
  const concurrency::MutexLock lock(mutex_);
  step_ = step;
  aborted_.reset();
  std::erase_if(inbox_, [&](const auto& each) { return each.first.step < step; });
  std::erase_if(ended_, [&](const auto& each) { return each.first < step; });
}

void TensorChannel::abort(const std::string& reason) {
  const concurrency::MutexLock lock(mutex_);
  if (!aborted_) aborted_ = reason;
  changed_.notify_all();
}

std::int64_t TensorChannel::bytes_sent() const {
  const concurrency::MutexLock lock(mutex_);
  return bytes_sent_;
}

void TensorChannel::serve() {
  try {
    if (is_source_) {
      send_all();
    } else {
      receive_all();
    }
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception& error) {
    fail(Error(ErrorCode::kInternal, std::string(base::without_stack_trace(error.what()))));
  }
}

void TensorChannel::fail(const Error& error) {
  const concurrency::MutexLock lock(mutex_);
  failure_ = error;
  outbox_.clear();
  is_sending_ = false;
  changed_.notify_all();
}

void TensorChannel::send_all() {
  for (;;) {
    Message message;
    {
      const concurrency::MutexLock lock(mutex_);
      is_sending_ = false;
      changed_.notify_all();
      while (outbox_.empty() && !is_closing_) changed_.wait(mutex_);
      if (outbox_.empty()) return;
      message = std::move(outbox_.front());
      outbox_.pop_front();
      is_sending_ = true;
    }
    transfer(message);
  }
}

void TensorChannel::transfer(const Message& message) {
  const at::Tensor fields = at::zeros({kFields}, at::kLong);
  auto* const numbers = fields.mutable_data_ptr<std::int64_t>();
  numbers[0] = static_cast<std::int64_t>(message.kind);
  numbers[1] = message.key.step;
  numbers[2] = packed(message.key);
  numbers[3] = static_cast<std::int64_t>(message.tensors.size());
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    describe_tensor(message.tensors[i],
                    numbers + kMessageFields + static_cast<std::int64_t>(i) * kTensorFields);
  }
  communicator_->broadcast({&fields, 1}, source_)->wait();
  if (!message.tensors.empty())
    communicator_->broadcast(in_memory_order(message.tensors), source_)->wait();
}

void TensorChannel::receive_all() {
  for (;;) {
    Message message = transfer();
    const concurrency::MutexLock lock(mutex_);
    store(std::move(message));
    changed_.notify_all();
  }
}

TensorChannel::Message TensorChannel::transfer() {
  const at::Tensor fields = at::zeros({kFields}, at::kLong);
  communicator_->broadcast({&fields, 1}, source_)->wait();
  const auto* const numbers = fields.const_data_ptr<std::int64_t>();
  const auto kind = static_cast<Kind>(numbers[0]);
  const bool is_message = kind == Kind::kStepFailed
                              ? numbers[3] == 1  // the error's text
                              : (kind == Kind::kTensors || kind == Kind::kStepEnded) &&
                                    numbers[3] >= 0 &&
                                    numbers[3] <= static_cast<std::int64_t>(kMaxTensors);
  check_argument(is_message, "A channel received a description of no message: its kind is ",
                 numbers[0], ", and it has ", numbers[3], " tensors.");
  Message message{.kind = kind, .key = key_of(numbers[1], numbers[2]), .tensors = {}};
  for (std::int64_t i = 0; i < numbers[3]; ++i)
    message.tensors.push_back(allocate(numbers + kMessageFields + i * kTensorFields));
  if (!message.tensors.empty())
    communicator_->broadcast(in_memory_order(message.tensors), source_)->wait();
  return message;
}

void TensorChannel::store(Message message) {
  if (message.key.step < step_) return;
  switch (message.kind) {
    case Kind::kTensors:
      inbox_[message.key] = std::move(message.tensors);
      return;
    case Kind::kStepEnded:
      ended_[message.key.step] = std::nullopt;
      return;
    case Kind::kStepFailed:
      ended_[message.key.step] =
          Error(static_cast<ErrorCode>(message.key.number), text_of(message.tensors.front()));
      return;
  }
}

ChannelGroup make_channel_group(const std::shared_ptr<cluster::Membership>& membership, int source,
                                const std::vector<int>& receivers, const std::string& name,
                                const CommunicationOptions& options) {
  std::vector<int> ranks = receivers;
  ranks.push_back(source);
  std::ranges::sort(ranks);
  const auto pair = std::make_shared<cluster::SubMembership>(membership, ranks, name);
  CommunicationOptions patient = options;
  patient.timeout = kForever;
  patient.slow_after = kForever;
  const auto found = std::ranges::find(ranks, source);
  return {.communicator = make_process_communicator(pair, patient),
          .source = static_cast<int>(found - ranks.begin()),
          .interrupt = [pair] { pair->close("its channel was closed"); }};
}

}  // namespace brigade::comm
