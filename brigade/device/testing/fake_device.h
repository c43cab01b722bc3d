#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace brigade::device::testing {

/// For tests: a fake GPU that runs all work as late as allowed. Work queued on a stream runs only
/// when a tensor is read on the host: then the earlier work of the reader's stream runs, and
/// everything that it waits for. So a missing wait shows as a wrong value, and memory that is
/// reused too early as another tensor's value. The device is `c10::Device(c10::kPrivateUse1, 0)`;
/// its tensors can be made, copied, sliced and concatenated, no more.
///
/// New streams are taken from a pool in rotation, as libtorch takes CUDA's, with one pool for each
/// priority. Work takes no time, except that of `compute_for`; events measure it.
///
/// Thread-safety: all functions from any thread.
class FakeDevice {
 public:
  /// Of each pool.
  static constexpr int kPooledStreams = 32;

  /// The only instance of the process; the first call registers it with libtorch.
  static FakeDevice& get() {
    static auto* card = new FakeDevice;  // libtorch keeps it to the end
    return *card;
  }
  static c10::Device device() { return c10::Device(c10::kPrivateUse1, 0); }

  /// Copies that were queued from pinned memory, and those for which the host had to wait.
  int queued_copies() const { return queued_copies_; }
  int waited_copies() const { return waited_copies_; }
  /// Copies to the host, queued and waited for.
  int copies_to_host() const { return copies_to_host_; }
  /// How often the host has waited for the card: for a copy, a stream or an event.
  int host_waits() const { return host_waits_; }
  /// Queues work of so many milliseconds on the calling thread's current stream.
  void compute_for(double milliseconds) {
    const std::lock_guard lock(mutex_);
    queue([this, stream = current(), milliseconds] { streams_[stream].time += milliseconds; });
  }

  /// A point of a stream's work, for work that several streams do together.
  struct Mark {
    c10::StreamId stream = 0;
    std::size_t position = 0;  // operations before it
  };
  /// Queues `work` on the calling thread's current stream. Returns the point before it.
  Mark queue_work(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    const Mark before = end_of(current());
    queue(std::move(work));
    return before;
  }
  /// Runs the work before `mark`; for `work` of `queue_work`.
  void run_up_to(Mark mark) {
    const std::lock_guard lock(mutex_);
    run_to(mark);
  }
  /// Runs the work queued on all streams except the current one, and what it waits for: the other
  /// extreme of what a GPU may do.
  void run_other_streams() {
    const std::lock_guard lock(mutex_);
    std::vector<StreamId> all;
    for (const auto& [stream, queued] : streams_) all.push_back(stream);
    for (const StreamId stream : all) {
      if (stream != current()) run_to(end_of(stream));
    }
  }
  /// The values on the host, after running everything that the current stream waits for.
  static at::Tensor read(const at::Tensor& tensor) { return tensor.to(c10::kCPU); }

 private:
  using StreamId = c10::StreamId;
  struct EventMark : Mark {
    std::shared_ptr<double> time = nullptr;  // of its stream, when its work has run
  };
  struct Operation {
    std::function<void()> act;  // or none:
    EventMark waits_for;
  };
  struct Stream {
    std::vector<Operation> operations;
    std::size_t done = 0;
    double time = 0.0;  // of what has run, in milliseconds
  };
  struct Block {
    StreamId stream = 0;
    std::size_t bytes = 0;
    std::set<StreamId> used_on;
    std::vector<Mark> free_after;  // the block is reusable after these, once it is free
    std::unique_ptr<std::byte[]> memory;
  };

  FakeDevice();

  StreamId current() { return current_[std::this_thread::get_id()]; }
  void run_to(Mark mark) {
    Stream& stream = streams_[mark.stream];
    while (stream.done < mark.position) {
      Operation& next = stream.operations[stream.done++];
      if (next.act) {
        const std::function<void()> act = std::exchange(next.act, nullptr);
        act();  // may queue more, which moves `next`
      } else {
        const EventMark event = next.waits_for;
        run_to(event);
        stream.time = std::max(stream.time, *event.time);
      }
    }
  }
  Mark end_of(StreamId stream) { return {stream, streams_[stream].operations.size()}; }
  bool is_done(const Mark& mark) { return streams_[mark.stream].done >= mark.position; }
  void wait_for(const Mark& mark) {
    ++host_waits_;
    run_to(mark);
  }
  void queue(std::function<void()> act) {
    streams_[current()].operations.push_back({std::move(act), {}});
  }

  Block* take_block(std::size_t bytes) {
    const auto has_run = [&](const Mark& mark) { return is_done(mark); };
    for (auto free = free_.begin(); free != free_.end(); ++free) {
      Block* block = *free;
      if (block->stream != current() || block->bytes != bytes) continue;
      if (!std::ranges::all_of(block->free_after, has_run)) continue;
      free_.erase(free);
      return block;
    }
    blocks_.push_back(std::make_unique<Block>());
    Block* block = blocks_.back().get();
    block->stream = current();
    block->bytes = bytes;
    block->memory = std::make_unique<std::byte[]>(bytes + 1);
    return block;
  }
  static void give_back(void* context) {
    FakeDevice& card = get();
    const std::lock_guard lock(card.mutex_);
    auto* block = static_cast<Block*>(context);
    block->free_after.clear();
    for (const StreamId stream : block->used_on) block->free_after.push_back(card.end_of(stream));
    block->used_on.clear();
    card.free_.push_back(block);
  }

  void copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking);

  class Memory;
  class PinnedMemory;
  class Guard;
  class Hooks;

  std::recursive_mutex mutex_;  // guards all below; destructors run under it may lock it again
  std::map<StreamId, Stream> streams_;
  std::map<std::thread::id, StreamId> current_;
  std::map<int, int> streams_made_;  // [priority]
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_;
  std::set<const void*> pinned_;
  std::set<const void*> events_;  // that exist
  int queued_copies_ = 0;
  int waited_copies_ = 0;
  int copies_to_host_ = 0;
  int host_waits_ = 0;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<PinnedMemory> pinned_memory_;
  std::unique_ptr<torch::Library> kernels_;
};

class FakeDevice::Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    FakeDevice& card = get();
    const std::lock_guard lock(card.mutex_);
    Block* block = card.take_block(bytes);
    return {block->memory.get(), block, &FakeDevice::give_back, device()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

class FakeDevice::PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = ::operator new(bytes + 1);
    const std::lock_guard lock(get().mutex_);
    get().pinned_.insert(memory);
    return {memory, memory, &PinnedMemory::free, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void free(void* memory) {
    {
      const std::lock_guard lock(get().mutex_);
      get().pinned_.erase(memory);
    }
    ::operator delete(memory);
  }
};

class FakeDevice::Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override {
    const std::lock_guard lock(get().mutex_);
    return stream(get().current());
  }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getNewStream(c10::Device, int priority) const override {
    const std::lock_guard lock(get().mutex_);
    const int number = get().streams_made_[priority]++ % kPooledStreams;
    return stream(1 + number + (priority < 0 ? kPooledStreams : 0));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const std::lock_guard lock(get().mutex_);
    return stream(std::exchange(get().current_[std::this_thread::get_id()], next.id()));
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    const std::lock_guard lock(get().mutex_);
    if (*event == nullptr) get().events_.insert(*event = new EventMark);
    FakeDevice& card = get();
    auto time = std::make_shared<double>(0.0);
    card.streams_[on.id()].operations.push_back(
        {[&card, time, id = on.id()] { *time = card.streams_[id].time; }, {}});
    *static_cast<EventMark*>(*event) = {card.end_of(on.id()), time};
  }
  void block(void* event, const c10::Stream& waiter) const override {
    const std::lock_guard lock(get().mutex_);
    TORCH_CHECK(get().events_.contains(event),
                "The event was destroyed while a stream waits for it.");
    get().streams_[waiter.id()].operations.push_back({nullptr, *static_cast<EventMark*>(event)});
  }
  bool queryEvent(void* event) const override {
    const std::lock_guard lock(get().mutex_);
    return get().is_done(*static_cast<EventMark*>(event));
  }
  void synchronizeEvent(void* event) const override {
    const std::lock_guard lock(get().mutex_);
    get().wait_for(*static_cast<EventMark*>(event));
  }
  void synchronizeStream(const c10::Stream& on) const override {
    const std::lock_guard lock(get().mutex_);
    get().wait_for(get().end_of(on.id()));
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    const std::lock_guard lock(get().mutex_);
    return *static_cast<EventMark*>(to)->time - *static_cast<EventMark*>(from)->time;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    const std::lock_guard lock(get().mutex_);
    get().events_.erase(event);
    delete static_cast<EventMark*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const override {
    const std::lock_guard lock(get().mutex_);
    auto* block = static_cast<Block*>(data.get_context());
    if (block->stream != on.id()) block->used_on.insert(on.id());
  }

 private:
  static c10::Stream stream(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device(), id); }
};

class FakeDevice::Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* data) const override {
    const std::lock_guard lock(get().mutex_);
    return get().pinned_.contains(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return get().pinned_memory_.get(); }
};

inline void FakeDevice::copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.is_contiguous() && to.is_contiguous() && from.dtype() == to.dtype(),
              "The fake device copies whole tensors only.");
  const bool is_from_host = from.device().is_cpu();
  const bool is_to_host = to.device().is_cpu();
  const bool is_on_card = !is_from_host && !is_to_host;
  const bool can_queue =
      is_on_card || (non_blocking && (is_from_host ? from.is_pinned() : to.is_pinned()));
  const std::lock_guard lock(mutex_);
  void* target = to.mutable_data_ptr();
  const void* source = from.const_data_ptr();
  const std::size_t bytes = from.nbytes();
  // Like libtorch's pinned memory, which is not reused before the GPU has read it. Memory of the
  // device itself may belong to another tensor by then.
  const at::Tensor kept = is_from_host ? from : (is_to_host ? to : at::Tensor());
  const auto act = [target, source, bytes, kept] { std::memcpy(target, source, bytes); };
  if (is_to_host) ++copies_to_host_;
  if (!can_queue) {
    wait_for(end_of(current()));
    act();
    if (is_from_host) ++waited_copies_;
    return;
  }
  queue(act);
  if (is_from_host) ++queued_copies_;
}

inline FakeDevice::FakeDevice()
    : memory_(std::make_unique<Memory>()), pinned_memory_(std::make_unique<PinnedMemory>()) {
  using MaybeFormat = std::optional<at::MemoryFormat>;
  c10::register_privateuse1_backend("made_up");
  static const c10::impl::DeviceGuardImplRegistrar guard(c10::kPrivateUse1, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  kernels_ = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  kernels_->impl("empty.memory_format",
                 [this, keys](at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout>, std::optional<at::Device>,
                              std::optional<bool>, MaybeFormat format) -> at::Tensor {
                   return at::detail::empty_generic(size, memory_.get(), keys,
                                                    dtype.value_or(at::kFloat), format);
                 });
  kernels_->impl("empty_strided",
                 [this, keys](at::IntArrayRef size, at::IntArrayRef stride,
                              std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                              std::optional<at::Device>, std::optional<bool>) -> at::Tensor {
                   return at::detail::empty_strided_generic(size, stride, memory_.get(), keys,
                                                            dtype.value_or(at::kFloat));
                 });
  kernels_->impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  kernels_->impl("view", TORCH_FN(at::native::view));
  kernels_->impl("cat.out",
                 [](const at::ITensorListRef& parts, std::int64_t, at::Tensor& all) -> at::Tensor& {
                   std::int64_t at = 0;  // along the first dimension, of one
                   for (const at::Tensor& part : parts) {
                     all.narrow(0, at, part.numel()).copy_(part);
                     at += part.numel();
                   }
                   return all;
                 });
  kernels_->impl(
      "_copy_from",
      [this](const at::Tensor& from, const at::Tensor& to, bool non_blocking) -> at::Tensor {
        if (from.numel() > 0) copy(from, to, non_blocking);
        return to;
      });
  kernels_->impl("record_stream", [](at::Tensor& tensor, c10::Stream stream) {
    Guard().recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
  });
}

}  // namespace brigade::device::testing
