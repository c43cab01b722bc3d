#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
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

#include "brigade/device/testing/deferred_calls.h"
#include "brigade/device/testing/stream_recording.h"

namespace brigade::device::testing {

/// For tests: a fake GPU that runs all work as late as allowed. Work queued on a stream runs only
/// when a tensor is read on the host: then the earlier work of the reader's stream runs, and
/// everything that it waits for. So a missing wait shows as a wrong value, and memory that is
/// reused too early as another tensor's value. The device is `c10::Device(c10::kPrivateUse1, 0)`.
/// Its operations are the CPU's, on the same memory, when it is their time (`DeferredCalls`).
/// Pinned memory is recycled as libtorch's: a block as soon as the copies that use it have run.
///
/// It counts how often the host waits for the device, and can capture what is queued on several
/// streams (`RecordedGraph`). New streams are taken from a pool in rotation, as libtorch takes
/// CUDA's, with one pool for each priority. Work takes no time, except that of `compute_for`;
/// events measure it.
///
/// Thread-safety: all functions from any thread.
class FakeDevice {
 public:
  /// Of each pool.
  static constexpr int kPooledStreams = 32;
  /// The first of the streams that replayed graphs use.
  static constexpr c10::StreamId kGraphStreams = 1000;
  using Act = DeferredCalls::Act;

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
  /// How often the host has waited for the device: to read a value, or for a copy from or to memory
  /// that is not pinned, or for a stream or an event.
  int host_waits() const { return host_waits_; }
  /// How often pinned memory was asked for, and how many blocks of it exist.
  int pinned_allocations() const { return pinned_allocations_; }
  int pinned_blocks() const { return static_cast<int>(pinned_.size()); }
  /// Queues work of so many milliseconds on the calling thread's current stream.
  void compute_for(double milliseconds) {
    const std::lock_guard lock(mutex_);
    const Act act = [this, stream = current(), milliseconds] {
      streams_[stream].time += milliseconds;
    };
    queue([act] { return act; });
  }

  /// A point of a stream's work, for work that several streams do together.
  struct Mark {
    c10::StreamId stream = 0;
    std::size_t position = 0;  // operations before it
  };
  /// Queues `work` on the calling thread's current stream. Returns the point before it.
  Mark queue_work(const std::function<void()>& work) {
    const std::lock_guard lock(mutex_);
    const Mark before = end_of(current());
    queue([work] { return work; });
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

  /// For kernels: queues an operation on the current stream, or captures it.
  void queue(DeferredCalls::MakeAct make) {
    const std::lock_guard lock(mutex_);
    const auto capture = captures_.find(current());
    if (capture != captures_.end()) return capture->second->add(current(), std::move(make));
    streams_[current()].operations.push_back({make(), {}});
  }
  /// For kernels: runs what the current stream waits for, and counts a wait of the host. Throws in
  /// a capture, as libtorch does.
  void wait() {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!captures_.contains(current()),
                "operation not permitted when stream is capturing: the host waits for the device");
    wait_for(end_of(current()));
  }
  /// For graphs: from now on what is queued on the current stream is captured, and on streams that
  /// wait for it. Throws at the end, as CUDA does, if one of these streams was not waited for.
  void begin_capture() {
    const std::lock_guard lock(mutex_);
    captures_[current()] = std::make_shared<StreamRecording>(current());
  }
  std::shared_ptr<const StreamRecording> end_capture() {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<StreamRecording> recording = captures_.at(current());
    TORCH_CHECK(recording->origin() == current(), "A capture ends on the stream where it began.");
    std::erase_if(captures_, [&](const auto& each) { return each.second == recording; });
    recording->end();
    TORCH_CHECK(recording->is_joined(),
                "The capture has work that its first stream does not wait "
                "for.");
    return recording;
  }
  /// For graphs: queues the captured work, what began on the captured stream on the current one,
  /// the rest on streams of the graph's own.
  void replay(const StreamRecording& recording) {
    const std::lock_guard lock(mutex_);
    std::map<StreamId, Mark> begins{{recording.origin(), end_of(current())}};
    for (const StreamRecording::Step& step : recording.steps()) {
      if (!begins.contains(step.stream))
        begins[step.stream] = {kGraphStreams + graph_streams_++, 0};
      std::vector<Operation>& operations = streams_[begins[step.stream].stream].operations;
      if (step.make) {
        operations.push_back({step.make(), {}});
        continue;
      }
      const Mark& of_other = begins.at(step.waits_for.stream);
      operations.push_back(
          {nullptr, EventMark{{of_other.stream, of_other.position + step.waits_for.position}}});
    }
  }

 private:
  using StreamId = c10::StreamId;
  struct EventMark : Mark {
    std::shared_ptr<double> time = nullptr;              // of its stream, when its work has run
    std::shared_ptr<StreamRecording> capture = nullptr;  // in which it was recorded
    StreamRecording::Point captured_at = {};
  };
  struct Operation {
    Act act;  // or none:
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
    bool is_captured = false;  // by a graph, which uses it in each replay
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
        const Act act = std::exchange(next.act, nullptr);
        act();  // may queue more, which moves `next`
      } else {
        const EventMark event = next.waits_for;
        run_to(event);
        stream.time = std::max(stream.time, event.time ? *event.time : streams_[event.stream].time);
      }
    }
  }
  Mark end_of(StreamId stream) { return {stream, streams_[stream].operations.size()}; }
  bool is_done(const Mark& mark) { return streams_[mark.stream].done >= mark.position; }
  void wait_for(const Mark& mark) {
    ++host_waits_;
    run_to(mark);
  }

  struct PinnedBlock {
    std::size_t bytes = 0;
    std::vector<Mark> used_until;  // the ends of the copies that use it
    std::unique_ptr<std::byte[]> memory;
  };

  Block* take_block(std::size_t bytes) {
    const bool is_captured = captures_.contains(current());
    const auto has_run = [&](const Mark& mark) { return is_done(mark); };
    for (auto free = free_.begin(); !is_captured && free != free_.end(); ++free) {
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
    block->is_captured = is_captured;
    block->memory = std::make_unique<std::byte[]>(bytes + 1);
    return block;
  }
  static void give_back(void* context) {
    FakeDevice& card = get();
    const std::lock_guard lock(card.mutex_);
    auto* block = static_cast<Block*>(context);
    if (block->is_captured) return;
    block->free_after.clear();
    for (const StreamId stream : block->used_on) block->free_after.push_back(card.end_of(stream));
    block->used_on.clear();
    card.free_.push_back(block);
  }

  PinnedBlock* take_pinned(std::size_t bytes) {
    ++pinned_allocations_;
    const auto has_run = [&](const Mark& mark) { return is_done(mark); };
    for (auto free = free_pinned_.begin(); free != free_pinned_.end(); ++free) {
      PinnedBlock* block = *free;
      if (block->bytes != bytes || !std::ranges::all_of(block->used_until, has_run)) continue;
      free_pinned_.erase(free);
      block->used_until.clear();
      return block;
    }
    auto made = std::make_unique<PinnedBlock>();
    made->bytes = bytes;
    made->memory = std::make_unique<std::byte[]>(bytes + 1);
    const void* const memory = made->memory.get();
    return (pinned_[memory] = std::move(made)).get();
  }
  /// The memory of a pinned tensor, which is not kept: it may be recycled too early.
  static at::Tensor without_owner(const at::Tensor& pinned) {
    return at::from_blob(const_cast<void*>(pinned.const_data_ptr()), pinned.sizes(),
                         pinned.strides(), at::TensorOptions(pinned.scalar_type()));
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
  std::map<const void*, std::unique_ptr<PinnedBlock>> pinned_;
  std::vector<PinnedBlock*> free_pinned_;
  std::set<const void*> events_;                                   // that exist
  std::map<StreamId, std::shared_ptr<StreamRecording>> captures_;  // of streams in a capture
  c10::StreamId graph_streams_ = 0;                                // made for replays
  int pinned_allocations_ = 0;
  int queued_copies_ = 0;
  int waited_copies_ = 0;
  int copies_to_host_ = 0;
  int host_waits_ = 0;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<PinnedMemory> pinned_memory_;
  std::unique_ptr<torch::Library> kernels_;
  std::unique_ptr<torch::Library> fallback_;
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
    const std::lock_guard lock(get().mutex_);
    PinnedBlock* block = get().take_pinned(bytes);
    return {block->memory.get(), block, &PinnedMemory::free, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void free(void* context) {
    const std::lock_guard lock(get().mutex_);
    get().free_pinned_.push_back(static_cast<PinnedBlock*>(context));
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
    auto& mark = *static_cast<EventMark*>(*event);
    const auto capture = card.captures_.find(on.id());
    if (capture != card.captures_.end()) {
      mark = {{}, nullptr, capture->second, capture->second->end_of(on.id())};
      return;
    }
    auto time = std::make_shared<double>(0.0);
    card.streams_[on.id()].operations.push_back(
        {[&card, time, id = on.id()] { *time = card.streams_[id].time; }, {}});
    mark = {card.end_of(on.id()), time};
  }
  void block(void* event, const c10::Stream& waiter) const override {
    const std::lock_guard lock(get().mutex_);
    TORCH_CHECK(get().events_.contains(event),
                "The event was destroyed while a stream waits for it.");
    const EventMark& mark = *static_cast<EventMark*>(event);
    auto& captures = get().captures_;
    const auto waiting = captures.find(waiter.id());
    const bool is_captured = waiting != captures.end();
    if (mark.capture == nullptr) {
      TORCH_CHECK(!is_captured, "A capture depends on work outside of it.");
      get().streams_[waiter.id()].operations.push_back({nullptr, mark});
      return;
    }
    TORCH_CHECK(!mark.capture->has_ended(), "The event was recorded in a capture that has ended.");
    TORCH_CHECK(!is_captured || waiting->second == mark.capture,
                "A capture depends on another one.");
    captures[waiter.id()] = mark.capture;
    mark.capture->wait(waiter.id(), mark.captured_at);
  }
  void synchronizeStream(const c10::Stream& on) const override {
    const std::lock_guard lock(get().mutex_);
    TORCH_CHECK(!get().captures_.contains(on.id()),
                "operation not permitted when stream is capturing: a wait for the stream");
    get().wait_for(get().end_of(on.id()));
  }
  bool queryEvent(void* event) const override {
    const std::lock_guard lock(get().mutex_);
    const EventMark& mark = *static_cast<EventMark*>(event);
    TORCH_CHECK(mark.capture == nullptr, "An event that a capture has recorded cannot be asked.");
    return get().is_done(mark);
  }
  void synchronizeEvent(void* event) const override {
    const std::lock_guard lock(get().mutex_);
    get().wait_for(*static_cast<EventMark*>(event));
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
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<at::CPUGeneratorImpl>();
  }
};

inline void FakeDevice::copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool is_from_host = from.device().is_cpu();
  const bool is_to_host = to.device().is_cpu();
  const at::Tensor& on_host = is_from_host ? from : to;
  const bool can_queue = (!is_from_host && !is_to_host) || (non_blocking && on_host.is_pinned());
  const std::lock_guard lock(mutex_);
  const bool is_kept = !can_queue || captures_.contains(current());
  const auto view = [&](const at::Tensor& tensor) {
    return tensor.device().is_cpu() && !is_kept ? without_owner(tensor)
                                                : DeferredCalls::host_view(tensor);
  };
  // Memory of the device may belong to another tensor by the time the copy runs, and so may pinned
  // memory: it is recycled after the copies that are noted below.
  const at::Tensor source = view(from), target = view(to);
  const auto act = [source, target] {
    const at::AutoDispatchBelowAutograd below;
    target.copy_(source);
  };
  if (is_to_host) ++copies_to_host_;
  if (!can_queue) {
    wait();
    act();
    if (is_from_host) ++waited_copies_;
    return;
  }
  queue([act] { return act; });
  if (is_from_host) ++queued_copies_;
  if ((is_from_host || is_to_host) && !is_kept) {
    const auto block = pinned_.find(on_host.storage().data_ptr().get());
    if (block != pinned_.end()) block->second->used_until.push_back(end_of(current()));
  }
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
  kernels_->impl(
      "resize_",
      [this](const at::Tensor& tensor, at::IntArrayRef size, MaybeFormat) -> const at::Tensor& {
        at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
        std::size_t bytes = tensor.element_size();
        for (const std::int64_t each : size) bytes *= static_cast<std::size_t>(each);
        c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
        if (storage.nbytes() < bytes) {
          storage.set_data_ptr_noswap(memory_->allocate(bytes));
          storage.set_nbytes(bytes);
        }
        impl.set_sizes_contiguous(size);
        return tensor;
      });
  kernels_->impl("view", TORCH_FN(at::native::view));
  kernels_->impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  kernels_->impl("_local_scalar_dense", [this](const at::Tensor& tensor) -> at::Scalar {
    wait();
    return at::_local_scalar_dense(DeferredCalls::host_view(tensor));
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
  fallback_ = std::make_unique<torch::Library>(torch::Library::IMPL, "_",
                                               c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  fallback_->fallback(torch::CppFunction::makeFromBoxedKernel(
      c10::BoxedKernel::makeFromFunctor(std::make_unique<DeferredCalls>(DeferredCalls::DeviceQueue{
          .device = device(),
          .queue = [this](DeferredCalls::MakeAct make) { queue(std::move(make)); },
          .wait = [this] { wait(); }}))));
}

}  // namespace brigade::device::testing
