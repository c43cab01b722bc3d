#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/ps/client/replicated_service.h"
#include "brigade/ps/forwarding_service.h"
#include "brigade/ps/server/replicated_server.h"

/// A replicated parameter server in the test's process, with the faults of a network and of
/// machines.
namespace brigade::ps::testing {

struct LocalPairOptions {
  std::vector<cluster::Task> tasks = {{.job = "chief", .index = 0}};
  std::chrono::milliseconds lease = std::chrono::seconds(2);
  std::chrono::milliseconds term = std::chrono::milliseconds(400);
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
  std::uint64_t part_bytes = 100;      ///< many parts
  const base::Clock* clock = nullptr;  ///< must outlive the pair. Null: the machine's
};

/// Both processes of the server, each with its own files.
///
/// Thread-safety: all functions from any thread, except that one thread at a time stops and starts
/// processes.
class LocalPair {
 public:
  explicit LocalPair(LocalPairOptions options = {}) : options_(std::move(options)) {
    for (std::size_t process = 0; process < 2; ++process) start(process);
  }
  ~LocalPair() {
    for (std::size_t process = 0; process < 2; ++process) stop(process);
  }
  LocalPair(const LocalPair&) = delete;
  LocalPair& operator=(const LocalPair&) = delete;

  void start(std::size_t process) {
    auto server = std::make_shared<ReplicatedServer>(
        files_[process],
        ReplicatedServerOptions{
            .core = {.tasks = options_.tasks,
                     .lease = options_.lease,
                     .store = {.folder = "/server"},
                     .snapshot_after_bytes = options_.snapshot_after_bytes},
            .name = base::str_cat("process ", process),
            .is_first = process == 0,
            .connect = [this, process] { return connect(1 - process, Caller::kProcess); },
            .term = options_.term,
            .part_bytes = options_.part_bytes},
        options_.clock == nullptr ? machine_clock_ : *options_.clock);
    const concurrency::MutexLock lock(mutex_);
    servers_[process] = std::move(server);
  }
  /// As SIGKILL: nothing is said to anybody.
  void stop(std::size_t process) {
    std::shared_ptr<ReplicatedServer> server;
    {
      const concurrency::MutexLock lock(mutex_);
      server = std::exchange(servers_[process], nullptr);
    }
    if (server) server->close();
  }
  /// Of a process that is stopped.
  void lose_disk(std::size_t process) {
    files_[process] = std::make_shared<io::MemoryFileSystem>();
  }
  /// The process runs on, and nobody reaches it, nor does it reach anybody.
  void cut_off(std::size_t process, bool is_cut_off) {
    const concurrency::MutexLock lock(mutex_);
    is_cut_off_[process] = is_cut_off;
  }

  /// So many answers of either process that say that the job is over do not arrive.
  void lose_ends(int answers) { ends_to_lose_ = answers; }

  /// For a task; the pair must outlive it.
  std::unique_ptr<ParameterService> connect(const cluster::Task& task) {
    std::vector<std::function<std::unique_ptr<PairedService>()>> processes;
    for (std::size_t process = 0; process < 2; ++process)
      processes.push_back([this, process] { return connect(process, Caller::kClient); });
    return make_replicated_service(task, std::move(processes));
  }

  /// Null while it is stopped.
  std::shared_ptr<ReplicatedServer> process(std::size_t process) const {
    const concurrency::MutexLock lock(mutex_);
    return servers_[process];
  }
  std::optional<coordination::PairRole> role(std::size_t process) const {
    const auto server = this->process(process);
    if (!server) return std::nullopt;
    return server->role(ParameterService::Time::max()).status.role;
  }
  /// The process that acts with a complete replica. Fails the test if none does.
  std::size_t wait_paired() const {
    std::size_t found = 2;
    wait([&] {
      for (std::size_t process = 0; process < 2; ++process) {
        const auto server = this->process(process);
        if (server && server->is_paired() &&
            role(1 - process) == coordination::PairRole::kFollowing)
          found = process;
      }
      return found < 2;
    });
    return found;
  }
  void wait_role(std::size_t process, coordination::PairRole wanted) const {
    wait([&] { return role(process) == wanted; });
  }
  /// Throws if `done` does not hold in time.
  static void wait(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end)
        throw Error(ErrorCode::kDeadlineExceeded, "In this test, something did not come.");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  enum class Caller { kClient, kProcess };
  class Connection;

  std::unique_ptr<PairedService> connect(std::size_t process, Caller caller);

  /// Throws if the process cannot be reached.
  std::shared_ptr<ReplicatedServer> reach(std::size_t process, Caller caller) const {
    const concurrency::MutexLock lock(mutex_);
    const bool is_cut_off =
        is_cut_off_[process] || (caller == Caller::kProcess && is_cut_off_[1 - process]);
    if (!servers_[process] || is_cut_off)
      throw Error(ErrorCode::kUnavailable, "In this test, the process is not reached.");
    return servers_[process];
  }

  const LocalPairOptions options_;
  const base::SystemClock machine_clock_;
  std::array<std::shared_ptr<io::FileSystem>, 2> files_ = {
      std::make_shared<io::MemoryFileSystem>(), std::make_shared<io::MemoryFileSystem>()};
  mutable std::atomic<int> ends_to_lose_{0};
  mutable concurrency::Mutex mutex_;
  std::array<std::shared_ptr<ReplicatedServer>, 2> servers_ BRIGADE_GUARDED_BY(mutex_);
  std::array<bool, 2> is_cut_off_ BRIGADE_GUARDED_BY(mutex_) = {false, false};
};

class LocalPair::Connection final : public ForwardingService<PairedService> {
 public:
  Connection(const LocalPair& pair, std::size_t process, Caller caller)
      : pair_(pair), process_(process), caller_(caller) {}

  RoleReply role(Time deadline) override {
    RoleReply reply;
    call([&](PairedService& server) { reply = server.role(deadline); });
    return reply;
  }
  coordination::PairStatus vote(const Vote& vote, Time deadline) override {
    coordination::PairStatus status;
    call([&](PairedService& server) { status = server.vote(vote, deadline); });
    return status;
  }
  FollowReply follow(const std::string& token, const FollowRequest& request,
                     Time deadline) override {
    FollowReply reply;
    call([&](PairedService& server) { reply = server.follow(token, request, deadline); });
    if (reply.is_finished && pair_.ends_to_lose_-- > 0)
      throw Error(ErrorCode::kUnavailable, "In this test, the answer is lost.");
    return reply;
  }
  std::string name() const override { return base::str_cat("process ", process_); }
  void close() override { is_closed_ = true; }

 private:
  void forward(ServiceMethod, Time, const Call& forwarded) override { call(forwarded); }
  void call(const std::function<void(PairedService&)>& function) const {
    if (is_closed_) throw Error(ErrorCode::kUnavailable, "In this test, the connection is closed.");
    function(*pair_.reach(process_, caller_));
    pair_.reach(process_, caller_);  // the reply may be lost
  }

  const LocalPair& pair_;
  const std::size_t process_;
  const Caller caller_;
  std::atomic<bool> is_closed_{false};
};

inline std::unique_ptr<PairedService> LocalPair::connect(std::size_t process, Caller caller) {
  return std::make_unique<Connection>(*this, process, caller);
}

}  // namespace brigade::ps::testing
