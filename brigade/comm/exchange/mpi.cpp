#include "brigade/comm/exchange/mpi.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/exchange/binomial_tree.h"
#include "brigade/comm/exchange/byte_exchange.h"
#include "brigade/comm/exchange/collective_watchdog.h"
#include "brigade/comm/exchange/exchange_link.h"
#include "brigade/comm/exchange/mpi_process.h"
#include "brigade/comm/peer_status.h"

namespace brigade::comm {

bool mpi_is_built_in() {
  return true;
}

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// MPI makes progress only while it is called. A waiting thread polls it for this long, and then
/// sleeps between calls, for times that grow with the wait. It does not yield: on a busy machine a
/// process that sleeps is scheduled again long before one that yielded.
constexpr microseconds kPolling{100};
constexpr microseconds kShortestSleep{20};
constexpr microseconds kLongestSleep{1000};
constexpr int kSleepsInAWait = 16;
/// How often the store is asked whether a peer has given up or left.
constexpr milliseconds kAskingPeers{100};
/// What a peer sent before it left may still arrive.
constexpr milliseconds kLastMessages{500};

/// Sends and receives that were started together, and the memory they need.
struct Requests {
  std::vector<MPI_Request> all = {};
  std::vector<at::Tensor> memory = {};
  bool are_done = false;
};

std::byte* row_of(const at::Tensor& rows, int rank) {
  return static_cast<std::byte*>(rows.mutable_data_ptr()) + rank * rows.size(1);
}

class MpiExchange final : public ByteExchange {
 public:
  MpiExchange(std::shared_ptr<cluster::Membership> membership, const std::string& name,
              const CommunicationOptions& options)
      : membership_(std::move(membership)),
        rank_(membership_->self().rank),
        world_size_(static_cast<int>(membership_->members().size())),
        options_(options),
        peer_status_(membership_, name) {
    try {
      connect();
    } catch (const Error& error) {
      peer_status_.give_up(error);
      throw;
    }
  }

  ~MpiExchange() override {
    peer_status_.leave();
    // Requests in flight need their communicator; MPI cannot cancel them without the peers.
    if (!is_abandoned_ && is_mpi_running()) MPI_Comm_free(&world_);
  }

  Transport transport() const override { return Transport::kMpi; }
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  void begin_call(std::string_view what) override {
    what_ = what;
    peer_status_.begin_call();
  }

  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine,
                                             const at::Tensor& all) override {
    if (all[rank_].const_data_ptr() != mine.const_data_ptr()) all[rank_].copy_(mine);
    auto transfer = std::make_unique<MpiTransfer>(*this, mine, all);
    for (const int peer : peers())
      receive(transfer->requests(), row_of(all, peer), all.size(1), peer);
    for (const int peer : peers())
      send(transfer->requests(), mine.const_data_ptr(), mine.numel(), peer);
    return transfer;
  }

  std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& rows,
                                             const at::Tensor& received) override {
    received[rank_].copy_(rows[rank_]);
    auto transfer = std::make_unique<MpiTransfer>(*this, rows, received);
    for (const int peer : peers())
      receive(transfer->requests(), row_of(received, peer), received.size(1), peer);
    for (const int peer : peers())
      send(transfer->requests(), row_of(rows, peer), rows.size(1), peer);
    return transfer;
  }

  void broadcast(const at::Tensor& values, int root) override {
    if (rank_ != root) {
      MpiTransfer from_parent(*this, values);
      receive(from_parent.requests(), values.mutable_data_ptr(), values.numel(),
              binomial_parent(rank_, root, world_size_));
      from_parent.wait();
    }
    MpiTransfer to_children(*this, values);
    for (const int child : binomial_children(rank_, root, world_size_))
      send(to_children.requests(), values.const_data_ptr(), values.numel(), child);
    to_children.wait();
  }

  void give_up(const Error& reason) noexcept override { peer_status_.give_up(reason); }

 private:
  class MpiTransfer final : public Transfer {
   public:
    template <class... Tensors>
    explicit MpiTransfer(MpiExchange& exchange, const Tensors&... memory)
        : exchange_(exchange), requests_{.memory = {memory...}} {}
    ~MpiTransfer() override { exchange_.release(std::move(requests_)); }
    Requests& requests() { return requests_; }
    void wait() override { exchange_.await(requests_); }

   private:
    MpiExchange& exchange_;
    Requests requests_;
  };

  // --- the group -------------------------------------------------------------------------------

  void connect() {
    what_ = "make_process_communicator";
    peer_status_.begin_call();
    start_mpi();
    check_ranks();
    warn_in_the_clear();
    duplicate_world();
    check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
  }

  void duplicate_world() {
    auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    Requests duplicate{.all = {MPI_REQUEST_NULL}};
    check(MPI_Comm_idup(MPI_COMM_WORLD, made.get(), duplicate.all.data()));
    try {
      await(duplicate);
    } catch (const Error&) {
      made.release();  // MPI writes to it if the other ranks call MPI_Comm_idup after all
      throw;
    }
    world_ = *made;
  }

  void check_ranks() const {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == rank_ && size == world_size_) return;
    throw Error(
        ErrorCode::kFailedPrecondition,
        base::str_cat(membership_->self(), " of ", world_size_, " is rank ", rank, " of ", size,
                      " to MPI: both must be the same. Start the processes with "
                      "mpirun, and let them take their ranks from it (no TF_CONFIG, RANK or "
                      "cluster file)."));
  }

  void warn_in_the_clear() const {
    const cluster::Member* const elsewhere = cluster::first_on_another_network(*membership_);
    if (!elsewhere || rank_ != 0) return;
    base::log_warning(
        base::str_cat("The transport 'mpi' neither encrypts nor authenticates connections: ",
                      membership_->self().host, " and ", elsewhere->host,
                      " need a private network between them."));
  }

  /// The other ranks, beginning with the next one, so that not all send to the same rank first.
  std::vector<int> peers() const {
    std::vector<int> others;
    for (int i = 1; i < world_size_; ++i) others.push_back((rank_ + i) % world_size_);
    return others;
  }

  // --- messages --------------------------------------------------------------------------------

  void check(int code) {
    if (code != MPI_SUCCESS) throw peer_status_.explain(what_, mpi_error_text(code));
  }

  void send(Requests& requests, const void* data, std::int64_t bytes, int to) {
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, 0, world_,
                    &requests.all.emplace_back(MPI_REQUEST_NULL)));
  }
  void receive(Requests& requests, void* data, std::int64_t bytes, int from) {
    check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, 0, world_,
                    &requests.all.emplace_back(MPI_REQUEST_NULL)));
  }

  void await(Requests& requests) {
    CollectiveWatchdog watch(*membership_, peer_status_, options_, what_);
    const auto start = steady_clock::now();
    PeerWatch peers{.ask_at = start + kAskingPeers};
    while (!test(requests)) {
      const auto now = steady_clock::now();
      const auto waited = std::chrono::duration_cast<microseconds>(now - start);
      if (waited < kPolling) continue;
      watch.check();
      if (now >= peers.ask_at) ask_peers(peers, now);
      std::this_thread::sleep_for(
          std::clamp(waited / kSleepsInAWait, kShortestSleep, kLongestSleep));
    }
  }

  bool test(Requests& requests) {
    int are_done = 0;
    check(MPI_Testall(static_cast<int>(requests.all.size()), requests.all.data(), &are_done,
                      MPI_STATUSES_IGNORE));
    requests.are_done = are_done != 0;
    return requests.are_done;
  }

  /// When to ask the store again, and the first reason it gave.
  struct PeerWatch {
    steady_clock::time_point ask_at;
    std::optional<Error> reason = {};
  };

  void ask_peers(PeerWatch& peers, steady_clock::time_point now) {
    if (peers.reason) throw *peers.reason;
    peers.reason = peer_status_.find_reason(what_);
    peers.ask_at = now + (peers.reason ? kLastMessages : kAskingPeers);
  }

  /// The memory of requests that did not end is leaked: peers may still read or write it until the
  /// process ends.
  void release(Requests requests) noexcept {
    if (requests.are_done || requests.all.empty()) return;
    is_abandoned_ = true;
    new Requests(std::move(requests));  // leaked on purpose
  }

  const std::shared_ptr<cluster::Membership> membership_;
  const int rank_;
  const int world_size_;
  const CommunicationOptions options_;
  PeerStatus peer_status_;
  MPI_Comm world_ = MPI_COMM_NULL;
  bool is_abandoned_ = false;
  std::string_view what_;
};

}  // namespace

std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options) {
  return make_exchange_link(std::make_unique<MpiExchange>(std::move(membership), name, options),
                            options.wire);
}

}  // namespace brigade::comm
