// The one file that includes c10d's Gloo backend, whose header needs Gloo's own.
#define USE_C10D_GLOO

#include "brigade/comm/exchange/gloo.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "brigade/base/strings.h"
#include "brigade/comm/exchange/byte_exchange.h"
#include "brigade/comm/exchange/c10d_store.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/exchange/collective_watchdog.h"
#include "brigade/comm/exchange/exchange_link.h"
#include "brigade/comm/exchange/gloo_device.h"
#include "brigade/comm/peer_status.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

bool gloo_is_built_in() {
  return true;
}

namespace {

using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// How long the members may take to connect after all have started.
constexpr milliseconds kConnectTimeout = std::chrono::seconds(30);
/// How long a broken collective may take to end after all its connections were closed.
constexpr milliseconds kEndTimeout = std::chrono::seconds(2);

/// Which works have ended, and whether a member was lost. Waiting threads sleep on it. It is shared
/// with callbacks that may outlive the exchange.
class Progress {
 public:
  /// The state of one work.
  struct Entry {
    bool has_ended = false;
  };

  std::shared_ptr<Entry> begin() {
    const concurrency::MutexLock lock(mutex_);
    ++running_;
    return std::make_shared<Entry>();
  }
  void mark_ended(Entry& entry) {
    const concurrency::MutexLock lock(mutex_);
    entry.has_ended = true;
    --running_;
    changed_.notify_all();
  }
  void mark_lost() {
    const concurrency::MutexLock lock(mutex_);
    is_lost_ = true;
    changed_.notify_all();
  }
  /// Waits until the work has ended, a member is lost, or `time` has passed. Returns whether the
  /// work has ended.
  bool wait(const Entry& entry, milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const concurrency::MutexLock lock(mutex_);
    while (!entry.has_ended && !is_lost_) {
      if (!changed_.wait_until(mutex_, until)) break;
    }
    return entry.has_ended;
  }
  /// Waits until no work is running, or `time` has passed. Returns whether none is running.
  bool wait_for_all(milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    const concurrency::MutexLock lock(mutex_);
    while (running_ > 0) {
      if (!changed_.wait_until(mutex_, until)) return running_ == 0;
    }
    return true;
  }

 private:
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  int running_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_lost_ BRIGADE_GUARDED_BY(mutex_) = false;
};

class GlooExchange final : public ByteExchange {
 public:
  GlooExchange(std::shared_ptr<cluster::Membership> membership, const std::string& name,
               const CommunicationOptions& options)
      : membership_(std::move(membership)),
        rank_(membership_->self().rank),
        world_size_(static_cast<int>(membership_->members().size())),
        options_(options),
        peer_status_(membership_, name) {
    on_lost_ =
        membership_->lost_token().on_cancel([progress = progress_] { progress->mark_lost(); });
    connect(name);
  }

  ~GlooExchange() override { peer_status_.leave(); }

  Transport transport() const override { return Transport::kGloo; }
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  void begin_call(std::string_view what) override {
    what_ = what;
    peer_status_.begin_call();
  }

  /// Two ranks send directly to each other.
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine,
                                             const at::Tensor& all) override {
    at::Tensor own = mine;
    if (world_size_ != 2) {
      at::Tensor flat = all.view(-1);
      return begin(group_->_allgather_base(flat, own));
    }
    const int other = 1 - rank_;
    if (all[rank_].const_data_ptr() != mine.const_data_ptr()) all[rank_].copy_(mine);
    at::Tensor theirs = all[other];
    std::vector<std::int64_t> counts(2, 0);
    counts[other] = mine.numel();
    std::vector<std::int64_t> same = counts;
    return begin(group_->alltoall_base(theirs, own, counts, same));
  }

  std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& rows,
                                             const at::Tensor& received) override {
    at::Tensor to = received.view(-1);
    at::Tensor from = rows.view(-1);
    std::vector<std::int64_t> equal;
    std::vector<std::int64_t> equal_too;
    return begin(group_->alltoall_base(to, from, equal, equal_too));
  }

  void broadcast(const at::Tensor& values, int root) override {
    std::vector<at::Tensor> sent = {values};
    c10d::BroadcastOptions to_all;
    to_all.rootRank = root;
    begin(group_->broadcast(sent, to_all))->wait();
  }

  void give_up(const Error& reason) noexcept override {
    peer_status_.give_up(reason);
    close();
  }

 private:
  class GlooTransfer final : public Transfer {
   public:
    GlooTransfer(GlooExchange& exchange, WorkPointer work)
        : exchange_(exchange), work_(std::move(work)), entry_(exchange.progress_->begin()) {
      work_->getFuture()->addCallback([progress = exchange.progress_, entry = entry_](
                                          c10::ivalue::Future&) { progress->mark_ended(*entry); });
    }
    void wait() override { exchange_.await(*work_, *entry_); }

   private:
    GlooExchange& exchange_;
    const WorkPointer work_;
    const std::shared_ptr<Progress::Entry> entry_;
  };

  void connect(const std::string& name) {
    what_ = "make_process_communicator";
    const milliseconds patience = std::min(options_.timeout, kConnectTimeout);
    auto options = ProcessGroupGloo::Options::create(patience);
    const GlooDevice device = make_gloo_device(
        *membership_, options_.key ? options_.key : cluster::ClusterKey::from_environment());
    options->devices.push_back(device.device);
    try {
      group_ = c10::make_intrusive<ProcessGroupGloo>(
          c10::make_intrusive<C10dStore>(membership_, name + "/gloo/", patience), rank_,
          world_size_, options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw peer_status_.explain(what_, base::without_stack_trace(error.what()));
    }
    // Longer than a collective's own timeout, whose error names the late members.
    group_->setTimeout(options_.timeout + kEndTimeout);
    // A rank that is done first must not close connections that others are still making.
    peer_status_.begin_call();
    const at::Tensor here = at::empty({sizeof(CallHeader)}, at::kByte);
    start_all_gather(here, at::empty({world_size_, here.numel()}, here.options()))->wait();
  }

  std::unique_ptr<Transfer> begin(WorkPointer work) {
    return std::make_unique<GlooTransfer>(*this, std::move(work));
  }

  void await(c10d::Work& work, const Progress::Entry& entry) {
    CollectiveWatchdog watch(*membership_, peer_status_, options_, what_);
    const milliseconds pause =
        std::min<milliseconds>({milliseconds(100), options_.slow_after, options_.timeout});
    try {
      while (!progress_->wait(entry, pause)) watch.check();
    } catch (const Error&) {
      close();
      throw;
    }
    try {
      work.wait();
    } catch (const std::exception& error) {
      throw peer_status_.explain(what_, base::without_stack_trace(error.what()));
    }
  }

  /// Ends all connections, and with them all transfers. c10d's backend has no call for this, but a
  /// receive that times out closes all connections.
  void close() noexcept {
    if (!group_) return;
    const PipeSignalBlock block;  // the receive writes to its connection, in this thread
    try {
      constexpr int kUnusedTag = 1 << 20;
      std::vector<at::Tensor> nothing = {at::empty({1}, at::kByte)};
      group_->recv(nothing, (rank_ + 1) % world_size_, kUnusedTag)->wait(milliseconds(1));
    } catch (const std::exception&) {
    }
    // Gloo may forget a send whose connection breaks: its thread then waits for the whole timeout,
    // and the group's destructor waits for the thread. Leak both instead.
    if (!progress_->wait_for_all(kEndTimeout)) group_.release();
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const int rank_;
  const int world_size_;
  const CommunicationOptions options_;
  PeerStatus peer_status_;
  c10::intrusive_ptr<ProcessGroupGloo> group_;
  std::string_view what_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  concurrency::CancelRegistration on_lost_;
};

}  // namespace

std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership> membership,
                                            const std::string& name,
                                            const CommunicationOptions& options) {
  return make_exchange_link(std::make_unique<GlooExchange>(std::move(membership), name, options),
                            options.wire);
}

}  // namespace brigade::comm
