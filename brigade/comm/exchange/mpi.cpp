// Without MPI's former C++ functions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/exchange/exchange_link.h"
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
constexpr microseconds kLongestMpiSleep{1000};
constexpr int kSleepsInAWait = 16;
/// How often the store is asked whether a peer has given up or left.
constexpr milliseconds kPeerCheckInterval{100};
/// What a peer sent before it left may still arrive.
constexpr milliseconds kLastMessages{500};

/// How long to wait in MPI_Finalize for the other processes.
constexpr std::chrono::seconds kFinalizeTimeout{30};

bool is_initialized() {
  int is_begun = 0;
  MPI_Initialized(&is_begun);
  return is_begun != 0;
}

bool is_finalized() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  return is_over != 0;
}

void finalize_at_exit(int status, void*) {
  if (status != 0 || is_finalized()) return;
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  std::thread([status, is_done] {
    std::this_thread::sleep_for(kFinalizeTimeout);
    if (*is_done) return;
    base::log_warning("MPI_Finalize has waited ", kFinalizeTimeout.count(),
                      " s for other processes; this one ends without it.");
    ::_exit(status);
  }).detach();  // the end of the process ends it
  MPI_Finalize();
  *is_done = true;
}

void check_threads(int level) {
  check_state(level == MPI_THREAD_MULTIPLE,
              "MPI was initialized without MPI_THREAD_MULTIPLE, which the transport 'mpi' needs: "
              "call MPI_Init_thread with it, or let Brigade initialize MPI.");
}

/// Initializes MPI with MPI_THREAD_MULTIPLE unless it is initialized already; in that case MPI is
/// finalized when the process exits with 0. A process that fails exits without finalizing, since
/// MPI_Finalize waits for all other processes; mpirun then reports it and ends them. Throws
/// kFailedPrecondition if MPI was initialized with a lower thread level, or has been finalized.
void start_mpi() {
  check_state(!is_finalized(),
              "MPI has been finalized in this process, and cannot be started again.");
  int level = 0;
  if (is_initialized()) {
    MPI_Query_thread(&level);
    return check_threads(level);
  }
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  ::on_exit(finalize_at_exit, nullptr);
  check_threads(level);
}

bool is_mpi_running() {
  return is_initialized() && !is_finalized();
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// Sends and receives that were started together, and the memory they need.
struct Requests {
  std::vector<MPI_Request> all = {};
  std::vector<at::Tensor> memory = {};
  bool are_done = false;
};

class MpiLink final : public ExchangeLink {
 public:
  MpiLink(std::shared_ptr<cluster::Membership> membership, const std::string& name,
          const CommunicationOptions& options)
      : ExchangeLink(membership, name, options), name_(name) {
    try {
      connect();
    } catch (const Error& error) {
      peer_status().give_up(error);
      throw;
    }
  }

  ~MpiLink() override {
    peer_status().leave();
    // Requests in flight need their communicator; MPI cannot cancel them without the peers.
    if (!is_abandoned_ && is_mpi_running()) MPI_Comm_free(&world_);
  }

  Transport transport() const override { return Transport::kMpi; }
  void give_up(const Error& reason) noexcept override { peer_status().give_up(reason); }

 private:
  std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine, const at::Tensor& all,
                                             const Sizes& sizes) override {
    const at::Tensor own = all.narrow(0, begin_of(sizes, rank()), mine.numel());
    if (own.const_data_ptr() != mine.const_data_ptr()) own.copy_(mine);
    auto transfer = std::make_unique<MpiTransfer>(*this, mine, all);
    receive_from_peers(transfer->requests(), all, sizes);
    for (const int peer : peers())
      send(transfer->requests(), mine.const_data_ptr(), mine.numel(), peer);
    return transfer;
  }

  std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& sent, const at::Tensor& received,
                                             const Sizes& sizes) override {
    const std::int64_t size = sent.numel() / world_size();
    received.narrow(0, begin_of(sizes, rank()), size).copy_(sent.narrow(0, rank() * size, size));
    auto transfer = std::make_unique<MpiTransfer>(*this, sent, received);
    receive_from_peers(transfer->requests(), received, sizes);
    for (const int peer : peers())
      send(transfer->requests(), data_of(sent) + peer * size, size, peer);
    return transfer;
  }

  void receive_from_peers(Requests& requests, const at::Tensor& all, const Sizes& sizes) {
    for (const int peer : peers()) {
      receive(requests, data_of(all) + begin_of(sizes, peer), sizes[static_cast<std::size_t>(peer)],
              peer);
    }
  }

  static std::int64_t begin_of(const Sizes& sizes, int rank) {
    return std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
  }

  void broadcast_bytes(const at::Tensor& values, int root) override {
    if (rank() != root) {
      MpiTransfer from_parent(*this, values);
      receive(from_parent.requests(), values.mutable_data_ptr(), values.numel(),
              binomial_parent(rank(), root, world_size()));
      from_parent.wait();
    }
    MpiTransfer to_children(*this, values);
    for (const int child : binomial_children(rank(), root, world_size()))
      send(to_children.requests(), values.const_data_ptr(), values.numel(), child);
    to_children.wait();
  }

  class MpiTransfer final : public Transfer {
   public:
    template <class... Tensors>
    explicit MpiTransfer(MpiLink& link, const Tensors&... memory)
        : link_(link), requests_{.memory = {memory...}} {}
    ~MpiTransfer() override { link_.release(std::move(requests_)); }
    Requests& requests() { return requests_; }
    void wait() override { link_.await(requests_); }

   private:
    MpiLink& link_;
    Requests requests_;
  };

  // --- the group -------------------------------------------------------------------------------

  void connect() {
    begin_call("make_process_communicator");
    start_mpi();
    warn_in_the_clear();
    int all = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (world_size() < all) {
      connect_some();
    } else {
      check_ranks();
      duplicate_world();
    }
    check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
  }

  /// A group of some of MPI's processes, in the order of the membership's ranks.
  void connect_some() {
    int own = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    const std::string key = base::str_cat(name_, "/mpi/");
    membership().set(base::str_cat(key, rank()), base::str_cat(own));
    std::vector<int> ranks;
    for (int member = 0; member < world_size(); ++member) {
      const auto of_member =
          base::parse_int(membership().get(base::str_cat(key, member), options().timeout));
      ranks.push_back(static_cast<int>(of_member.value()));
    }
    MPI_Group everyone = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &everyone));
    check(MPI_Group_incl(everyone, world_size(), ranks.data(), &some));
    // All members are here: they have written their ranks.
    check(MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &world_));
    MPI_Group_free(&some);
    MPI_Group_free(&everyone);
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
    int own = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_state(own == rank() && size == world_size(), membership().self(), " of ", world_size(),
                " is rank ", own, " of ", size,
                " to MPI: both must be the same. Start the processes with mpirun, and let them "
                "take their ranks from it (no TF_CONFIG, RANK or cluster file).");
  }

  void warn_in_the_clear() const {
    const cluster::Member* const elsewhere = cluster::first_on_another_network(membership());
    if (!elsewhere || rank() != 0) return;
    base::log_warning("The transport 'mpi' neither encrypts nor authenticates connections: ",
                      membership().self().host, " and ", elsewhere->host,
                      " need a private network between them.");
  }

  /// The other ranks, beginning with the next one, so that not all send to the same rank first.
  std::vector<int> peers() const {
    std::vector<int> others;
    for (int i = 1; i < world_size(); ++i) others.push_back((rank() + i) % world_size());
    return others;
  }

  // --- messages --------------------------------------------------------------------------------

  void check(int code) {
    if (code != MPI_SUCCESS) throw peer_status().explain(what(), mpi_error_text(code));
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
    CollectiveWatchdog watchdog = watch();
    const auto start = steady_clock::now();
    PeerWatch peers{.check_at = start + kPeerCheckInterval};
    while (!test(requests)) {
      const auto now = steady_clock::now();
      const auto waited = std::chrono::duration_cast<microseconds>(now - start);
      if (waited < kPolling) continue;
      watchdog.check();
      if (now >= peers.check_at) check_peers(peers, now);
      std::this_thread::sleep_for(
          std::clamp(waited / kSleepsInAWait, kShortestSleep, kLongestMpiSleep));
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
    steady_clock::time_point check_at;
    std::optional<Error> reason = {};
  };

  void check_peers(PeerWatch& peers, steady_clock::time_point now) {
    if (peers.reason) throw *peers.reason;
    peers.reason = peer_status().find_reason(what());
    peers.check_at = now + (peers.reason ? kLastMessages : kPeerCheckInterval);
  }

  /// The memory of requests that did not end is leaked: peers may still read or write it until the
  /// process ends.
  void release(Requests requests) noexcept {
    if (requests.are_done || requests.all.empty()) return;
    is_abandoned_ = true;
    new Requests(std::move(requests));  // leaked on purpose
  }

  const std::string name_;  // the prefix of its keys
  MPI_Comm world_ = MPI_COMM_NULL;
  bool is_abandoned_ = false;
};

}  // namespace

std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options) {
  return std::make_unique<MpiLink>(std::move(membership), name, options);
}

}  // namespace brigade::comm
