// The one file that includes c10d's Gloo backend, whose header needs Gloo's own.
#define USE_C10D_GLOO

#include "brigade/comm/gloo.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "brigade/base/strings.h"
#include "brigade/comm/c10d_store.h"
#include "brigade/comm/chunks.h"
#include "brigade/comm/gloo_device.h"
#include "brigade/comm/late_report.h"
#include "brigade/comm/peer_notes.h"
#include "brigade/comm/reduce_kernel.h"
#include "brigade/comm/wire.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

bool gloo_is_built_in() {
  return true;
}

namespace {

using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

constexpr std::int64_t kChunkBytes = 4 << 20;
/// Up to here everybody sends all to all and adds up by itself: one round instead of two.
constexpr std::int64_t kSmallBytes = 4 * 1024;
/// How long the members may take to connect, once all are there.
constexpr milliseconds kConnectTimeout = std::chrono::seconds(30);
/// How long a broken collective may take to end after all its connections were closed.
constexpr milliseconds kEndTimeout = std::chrono::seconds(2);

/// How many works have ended, and whether a member was lost: what a waiter sleeps on. Shared with
/// callbacks that may outlive the link.
struct Progress {
  concurrency::Mutex mutex;
  concurrency::Condition changed;
  std::uint64_t ended BRIGADE_GUARDED_BY(mutex) = 0;
  bool is_lost BRIGADE_GUARDED_BY(mutex) = false;

  void note_end() {
    const concurrency::MutexLock lock(mutex);
    ++ended;
    changed.notify_all();
  }
  void note_loss() {
    const concurrency::MutexLock lock(mutex);
    is_lost = true;
    changed.notify_all();
  }
  /// Returns when `count` works have ended or a member is lost, or after `time`.
  void wait(std::uint64_t count, milliseconds time, bool also_lost) {
    const auto until = std::chrono::steady_clock::now() + time;
    const concurrency::MutexLock lock(mutex);
    while (ended < count && !(also_lost && is_lost)) {
      if (!changed.wait_until(mutex, until)) return;
    }
  }
  bool has_ended(std::uint64_t count) {
    const concurrency::MutexLock lock(mutex);
    return ended >= count;
  }
  bool has_lost() {
    const concurrency::MutexLock lock(mutex);
    return is_lost;
  }
};

/// A chunk whose parts are under way.
struct Gathering {
  const Chunk* chunk = nullptr;
  at::Tensor mine;
  at::Tensor all;  ///< everybody's, by rank
  WorkPointer work;
};

class GlooLink final : public ProcessLink {
 public:
  GlooLink(std::shared_ptr<cluster::Membership> membership, const std::string& name,
           const CommunicationOptions& options)
      : membership_(std::move(membership)),
        rank_(membership_->self().rank),
        world_size_(static_cast<int>(membership_->members().size())),
        options_(options),
        notes_(membership_, name),
        headers_(static_cast<std::size_t>(world_size_)) {
    on_lost_ =
        membership_->lost_token().on_cancel([progress = progress_] { progress->note_loss(); });
    connect(name);
  }

  ~GlooLink() override { notes_.leave(); }

  Transport transport() const override { return Transport::kGloo; }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

  std::span<const CallHeader> exchange(const CallHeader& mine) override {
    what_ = to_string(mine.call);
    notes_.begin_call();
    const at::Tensor all = gather(bytes_of(&mine, sizeof mine));
    std::copy_n(static_cast<const CallHeader*>(all.const_data_ptr()), world_size_,
                headers_.begin());
    return headers_;
  }

  std::vector<std::string> exchange_texts(const std::string& mine) override {
    std::array<char, kMaxText + 1> text = {};
    mine.copy(text.data(), kMaxText);
    const at::Tensor all = gather(bytes_of(text.data(), text.size()));
    std::vector<std::string> texts;
    for (int rank = 0; rank < world_size_; ++rank)
      texts.emplace_back(static_cast<const char*>(all[rank].const_data_ptr()));
    return texts;
  }

  void reduce(std::span<const FlatTensor> tensors, ReduceOp op) override {
    const std::vector<Chunk> chunks = cut_into_chunks(tensors, kChunkBytes);
    // While one chunk's parts are added up, the next one's are under way.
    Gathering last;
    for (const Chunk& chunk : chunks) {
      const bool in_one_round =
          world_size_ == 2 ||
          chunk.numel * static_cast<std::int64_t>(c10::elementSize(chunk.dtype)) <= kSmallBytes;
      Gathering next;
      if (in_one_round) next = start(chunk, tensors);
      if (last.work) finish(last, tensors, op);
      if (!in_one_round) reduce_by_shares(chunk, tensors, op);
      last = std::move(next);
    }
    if (last.work) finish(last, tensors, op);
  }

  void broadcast(std::span<const FlatTensor> tensors, int root) override {
    for (const Chunk& chunk : cut_into_chunks(tensors, kChunkBytes)) {
      const at::Tensor values = at::empty({chunk.numel}, at::TensorOptions(chunk.dtype));
      if (rank_ == root) copy_in(chunk, tensors, values);
      std::vector<at::Tensor> sent = {bytes_of(values)};
      c10d::BroadcastOptions to_all;
      to_all.rootRank = root;
      await(begin(group_->broadcast(sent, to_all)));
      bytes_sent_ += sends_of_broadcast(root) * static_cast<std::int64_t>(values.nbytes());
      if (rank_ != root) copy_out(chunk, tensors, values);
    }
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                     std::span<const CallHeader> headers) override {
    std::vector<at::Tensor> all;
    std::int64_t most = 0;
    for (const CallHeader& header : headers) {
      all.push_back(at::empty({header.sizes.data(), static_cast<std::size_t>(header.dimensions)},
                              mine.options()));
      most = std::max(most, static_cast<std::int64_t>(all.back().nbytes()));
    }
    // Shorter parts are filled up to the longest.
    for (std::int64_t at = 0; at < most; at += kChunkBytes) {
      const std::int64_t size = std::min(most - at, kChunkBytes);
      const at::Tensor padded = at::empty({size}, at::kByte);
      std::memcpy(padded.mutable_data_ptr(), data_of(mine) + at, piece_of(mine, at));
      const at::Tensor parts = gather(padded);
      bytes_sent_ += size * (world_size_ - 1);
      for (int rank = 0; rank < world_size_; ++rank)
        std::memcpy(data_of(all[rank]) + at, parts[rank].const_data_ptr(), piece_of(all[rank], at));
    }
    return all;
  }

  LinkBuffer make_buffer(std::int64_t bytes) override { return make_private_buffer(bytes); }

  void give_up(const Error& reason) noexcept override {
    notes_.give_up(reason);
    close();
  }

 private:
  void connect(const std::string& name) {
    what_ = "make_process_communicator";
    const milliseconds patience = std::min(options_.timeout, kConnectTimeout);
    auto options = ProcessGroupGloo::Options::create(patience);
    const GlooDevice device =
        make_gloo_device(*membership_, cluster::ClusterKey::from_environment());
    options->devices.push_back(device.device);
    try {
      group_ = c10::make_intrusive<ProcessGroupGloo>(
          c10::make_intrusive<C10dStore>(membership_, name + "/gloo/", patience), rank_,
          world_size_, options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw notes_.explain(what_, base::without_stack_trace(error.what()));
    }
    group_->setTimeout(options_.timeout);
    // Whoever is done first must not close connections that others are still making.
    const CallHeader here;
    notes_.begin_call();
    gather(bytes_of(&here, sizeof here));
  }

  static at::Tensor bytes_of(const void* data, std::size_t size) {
    return at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(size)}, at::kByte);
  }
  static at::Tensor bytes_of(const at::Tensor& tensor) {
    return bytes_of(tensor.const_data_ptr(), tensor.nbytes());
  }
  static std::byte* data_of(const at::Tensor& tensor) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr());
  }
  static std::size_t piece_of(const at::Tensor& tensor, std::int64_t at) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    return static_cast<std::size_t>(std::clamp<std::int64_t>(bytes - at, 0, kChunkBytes));
  }

  // --- one work of c10d's --------------------------------------------------------------------

  /// Counts the work's end, which its future reports.
  WorkPointer begin(WorkPointer work) {
    ++begun_;
    work->getFuture()->addCallback(
        [progress = progress_](c10::ivalue::Future&) { progress->note_end(); });
    return work;
  }

  /// Returns when `work`, the latest begun but for `behind` ones, has ended. Throws as collectives
  /// do.
  void await(const WorkPointer& work, std::uint64_t behind = 0) {
    const std::uint64_t count = begun_ - behind;
    LateReport report(options_.slow_after, options_.timeout);
    while (!progress_->has_ended(count)) {
      progress_->wait(
          count, std::min<milliseconds>({milliseconds(100), options_.slow_after, options_.timeout}),
          true);
      if (progress_->has_ended(count)) break;
      if (progress_->has_lost()) return abandon();
      if (report.is_over()) time_out();
      if (report.is_due()) report.report(what_, notes_.who_is_late());
    }
    try {
      work->wait();
    } catch (const std::exception& error) {
      throw notes_.explain(what_, base::without_stack_trace(error.what()));
    }
  }

  void abandon() {
    close();
    cluster::throw_if_lost(*membership_, what_);
  }

  [[noreturn]] void time_out() {
    const std::string late = notes_.who_is_late();
    close();
    throw Error(ErrorCode::kDeadlineExceeded,
                base::str_cat(what_, " waited ", options_.timeout.count(), " ms for ", late,
                              ", which did not come. Every process must make the same collective "
                              "calls; raise the timeout if one really needs longer."));
  }

  /// Ends all connections, so that nothing is under way any more. c10d's backend has no call for
  /// that; but a receive that runs out of time closes all of them.
  void close() noexcept {
    if (!group_) return;
    try {
      constexpr int kNobodySendsThis = 1 << 20;
      std::vector<at::Tensor> nothing = {at::empty({1}, at::kByte)};
      group_->recv(nothing, (rank_ + 1) % world_size_, kNobodySendsThis)->wait(milliseconds(1));
    } catch (const std::exception&) {
    }
    progress_->wait(begun_, kEndTimeout, false);
  }

  // --- collectives -----------------------------------------------------------------------------

  /// Everybody's `mine` by rank, of equal sizes, into `all`. Between two, straight to the other.
  WorkPointer start_gather(const at::Tensor& mine, const at::Tensor& all) {
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

  at::Tensor gather(const at::Tensor& mine) {
    const at::Tensor all = at::empty({world_size_, mine.numel()}, mine.options());
    await(start_gather(mine, all));
    return all;
  }

  /// Memory that is used again from call to call: fresh pages cost as much as the way over
  /// loopback. Works that are given up may still write there.
  at::Tensor scratch(std::size_t place, at::IntArrayRef shape, at::ScalarType dtype) {
    std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
    for (const std::int64_t size : shape) bytes *= size;
    at::Tensor& memory = scratch_[place];
    if (!memory.defined() || memory.numel() < bytes) memory = at::empty({bytes}, at::kByte);
    return at::from_blob(memory.mutable_data_ptr(), shape, at::TensorOptions(dtype));
  }

  at::ScalarType dtype_of(const Chunk& chunk) const {
    return chunk.narrow ? wire_dtype(options_.wire, chunk.dtype) : chunk.dtype;
  }

  /// Adds up parts as they came, in the chunk's own dtype.
  at::Tensor combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op) {
    std::vector<at::Tensor> widened;
    for (int rank = 0; rank < world_size_; ++rank) widened.push_back(parts[rank].to(chunk.dtype));
    const at::Tensor sums = scratch(4, {parts.size(1)}, chunk.dtype);
    combine_range(widened, op, 0, sums.numel(), sums);
    return sums;
  }

  Gathering start(const Chunk& chunk, std::span<const FlatTensor> tensors) {
    const std::size_t turn = ++turns_ % 2;
    Gathering gathering{.chunk = &chunk};
    gathering.all = scratch(turn, {world_size_, chunk.numel}, dtype_of(chunk));
    // Between two it is sent from where it is added up.
    gathering.mine =
        world_size_ == 2 ? gathering.all[rank_] : scratch(2 + turn, {chunk.numel}, dtype_of(chunk));
    copy_in(chunk, tensors, gathering.mine);
    const auto size = static_cast<std::int64_t>(gathering.mine.element_size());
    gathering.work = start_gather(bytes_of(gathering.mine),
                                  at::from_blob(gathering.all.mutable_data_ptr(),
                                                {world_size_, chunk.numel * size}, at::kByte));
    bytes_sent_ += chunk.numel * size * (world_size_ - 1);
    return gathering;
  }

  void finish(const Gathering& gathering, std::span<const FlatTensor> tensors, ReduceOp op) {
    await(gathering.work);
    const at::Tensor sums = combine(*gathering.chunk, gathering.all, op);
    if (gathering.chunk->narrow) round_to_wire(sums, options_.wire);
    copy_out(*gathering.chunk, tensors, sums);
  }

  /// Each rank gets everybody's part of its share, adds them up, and sends the sums to all. Shares
  /// are equal: the last one is filled up.
  void reduce_by_shares(const Chunk& chunk, std::span<const FlatTensor> tensors, ReduceOp op) {
    const std::int64_t share = (chunk.numel + world_size_ - 1) / world_size_;
    const at::Tensor mine = scratch(5, {share * world_size_}, dtype_of(chunk));
    copy_in(chunk, tensors, mine);
    mine.narrow(0, chunk.numel, mine.numel() - chunk.numel).zero_();
    const at::Tensor parts = scratch(6, {world_size_, share}, dtype_of(chunk));
    at::Tensor sent = bytes_of(mine);
    at::Tensor received = bytes_of(parts);
    std::vector<std::int64_t> equal;
    std::vector<std::int64_t> equal_too;
    await(begin(group_->alltoall_base(received, sent, equal, equal_too)));
    const at::Tensor sums = combine(chunk, parts, op).to(mine.scalar_type());
    const at::Tensor all = gather(bytes_of(sums));
    bytes_sent_ += 2 * static_cast<std::int64_t>(sums.nbytes()) * (world_size_ - 1);
    copy_out(chunk, tensors,
             at::from_blob(all.mutable_data_ptr(), {share * world_size_}, mine.options()));
  }

  /// Gloo's broadcast is a binomial tree: how often this rank sends.
  int sends_of_broadcast(int root) const {
    const int place = (rank_ - root + world_size_) % world_size_;
    int sends = 0;
    for (int bit = 1; bit < world_size_; bit <<= 1) {
      const bool above = (place & (bit - 1)) == 0 && (place & bit) == 0;
      if (above && place + bit < world_size_) ++sends;
    }
    return sends;
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const int rank_;
  const int world_size_;
  const CommunicationOptions options_;
  PeerNotes notes_;
  std::array<at::Tensor, 7> scratch_;
  std::uint64_t turns_ = 0;
  c10::intrusive_ptr<ProcessGroupGloo> group_;  // behind scratch_: its threads write there
  std::vector<CallHeader> headers_;
  std::string_view what_;
  std::int64_t bytes_sent_ = 0;
  std::uint64_t begun_ = 0;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  concurrency::CancelRegistration on_lost_;
};

}  // namespace

std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership> membership,
                                            const std::string& name,
                                            const CommunicationOptions& options) {
  return std::make_unique<GlooLink>(std::move(membership), name, options);
}

}  // namespace brigade::comm
