#include "brigade/train/graph/operation_recorder.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "brigade/comm/replica.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::train {
namespace {

// libtorch's callbacks are plain functions. This thread-local debug information is propagated with
// the other thread state into replicas and backward passes; it holds the listeners. libtorch itself
// does not use this kind.
constexpr auto kListeners = c10::DebugInfoKind::PRODUCER_INFO;

}  // namespace

/// Collects the operations of one recorder.
class OperationRecorder::Sink {
 public:
  explicit Sink(const base::Clock& clock) : clock_(clock) {}

  std::chrono::nanoseconds now() const { return clock_.now().time_since_epoch(); }

  /// `forward_thread`: for a node of a backward pass, the thread that ran the forward pass.
  void add(Operation operation, std::uint64_t forward_thread) {
    const concurrency::MutexLock lock(mutex_);
    operations_.push_back(std::move(operation));
    forward_threads_.push_back(forward_thread);
  }

  void add_root(std::uint64_t forward_thread, std::shared_ptr<torch::autograd::Node> node) {
    const concurrency::MutexLock lock(mutex_);
    roots_.try_emplace(forward_thread, std::move(node));
  }

  bool has_root(std::uint64_t forward_thread) {
    const concurrency::MutexLock lock(mutex_);
    return roots_.contains(forward_thread);
  }

  OperationRecord take() {
    const concurrency::MutexLock lock(mutex_);
    std::map<std::uint64_t, std::int64_t> replicas;  // by thread
    for (const Operation& each : operations_) {
      if (each.replica >= 0) replicas[each.thread] = each.replica;
    }
    const auto replica_of = [&](std::uint64_t thread) {
      const auto found = replicas.find(thread);
      return found == replicas.end() ? -1 : found->second;
    };
    // On GPUs backward passes run on libtorch's own threads.
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].replica < 0) operations_[i].replica = replica_of(forward_threads_[i]);
    }
    OperationRecord record{.operations = std::move(operations_), .backward_roots = {}};
    for (auto& [thread, node] : roots_) {
      if (replica_of(thread) >= 0)
        record.backward_roots.emplace(replica_of(thread), std::move(node));
    }
    return record;
  }

 private:
  const base::Clock& clock_;
  concurrency::Mutex mutex_;
  std::vector<Operation> operations_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> forward_threads_ BRIGADE_GUARDED_BY(mutex_);  // [operation]
  std::map<std::uint64_t, std::shared_ptr<torch::autograd::Node>> roots_
      BRIGADE_GUARDED_BY(mutex_);  // by the thread of the forward pass
};

/// All recorders of a thread, with the callback that notifies them.
class OperationRecorder::Listeners final : public c10::DebugInfoBase {
 public:
  static Listeners* current() {
    return dynamic_cast<Listeners*>(c10::ThreadLocalDebugInfo::get(kListeners));
  }

  static void add(std::shared_ptr<Sink> sink) {
    Listeners* listeners = current();
    if (listeners == nullptr) {
      const auto created = std::make_shared<Listeners>();
      created->guard_ = std::make_unique<c10::DebugInfoGuard>(kListeners, created);
      created->callback_ = at::addThreadLocalCallback(
          at::RecordFunctionCallback(&Listeners::on_begin, &Listeners::on_end)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                       at::RecordScope::USER_SCOPE}));
      listeners = created.get();
    }
    const concurrency::MutexLock lock(listeners->mutex_);
    listeners->sinks_.push_back(std::move(sink));
  }

  /// The last recorder to stop removes the callback.
  static void remove(const std::shared_ptr<Sink>& sink) {
    Listeners* listeners = current();
    if (listeners == nullptr || !listeners->forget(sink)) return;
    at::removeCallback(listeners->callback_);
    const auto closing = std::move(listeners->guard_);  // its destructor may destroy the listeners
  }

 private:
  struct StartTimes final : at::ObserverContext {
    std::vector<std::pair<std::shared_ptr<Sink>, std::chrono::nanoseconds>> times;
  };

  bool forget(const std::shared_ptr<Sink>& sink) {
    const concurrency::MutexLock lock(mutex_);
    std::erase(sinks_, sink);
    return sinks_.empty();
  }

  std::vector<std::shared_ptr<Sink>> sinks() {
    const concurrency::MutexLock lock(mutex_);
    return sinks_;
  }

  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
    Listeners* listeners = current();
    if (listeners == nullptr) return nullptr;
    auto context = std::make_unique<StartTimes>();
    for (const std::shared_ptr<Sink>& sink : listeners->sinks()) {
      if (function.scope() == at::RecordScope::BACKWARD_FUNCTION &&
          !sink->has_root(function.forwardThreadId()))
        sink->add_root(function.forwardThreadId(), torch::autograd::get_current_node());
      context->times.emplace_back(sink, sink->now());
    }
    return context;
  }

  static void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (context == nullptr) return;
    const comm::Replica* replica = comm::current_replica();
    for (const auto& [sink, begin] : static_cast<StartTimes*>(context)->times) {
      const bool is_backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
      sink->add({.name = function.name(),
                 .kind = is_backward ? Operation::Kind::kBackward : Operation::Kind::kFunction,
                 .replica = replica == nullptr ? -1 : replica->id,
                 .thread = function.threadId(),
                 .begin = begin,
                 .duration = sink->now() - begin,
                 .sequence = function.seqNr()},
                function.forwardThreadId());
    }
  }

  concurrency::Mutex mutex_;
  std::vector<std::shared_ptr<Sink>> sinks_ BRIGADE_GUARDED_BY(mutex_);
  std::unique_ptr<c10::DebugInfoGuard> guard_;
  at::CallbackHandle callback_ = 0;
};

OperationRecorder::OperationRecorder(const base::Clock& clock) : clock_(clock) {}

OperationRecorder::~OperationRecorder() {
  stop();
}

void OperationRecorder::start() {
  if (sink_) return;
  sink_ = std::make_shared<Sink>(clock_);
  Listeners::add(sink_);
}

OperationRecord OperationRecorder::stop() {
  if (!sink_) return {};
  Listeners::remove(sink_);
  return std::exchange(sink_, nullptr)->take();
}

}  // namespace brigade::train
