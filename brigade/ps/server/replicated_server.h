#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/server/server_core.h"

namespace brigade::ps {

struct ReplicatedServerOptions {
  /// Of the server, while this process acts. It holds `core.store.folder` alone.
  ServerCoreOptions core;
  std::string name;  ///< "/job:ps/task:0", for the log
  /// The one of the two processes that begins a job.
  bool is_first = true;
  /// A connection to the other process.
  std::function<std::unique_ptr<PairedService>()> connect;
  /// `coordination::ServerPair::Options::term`.
  std::chrono::milliseconds term = std::chrono::seconds(4);
  /// The most that one message has of the state, or of several records.
  std::uint64_t part_bytes = std::uint64_t{16} << 20;
  /// The records that are kept in memory for a replica that catches up.
  std::uint64_t feed_bytes = std::uint64_t{1} << 30;
};

/// One of the two processes of a replicated parameter server, without its network. It serves
/// clients while it acts; otherwise it follows the other one, with the same variables in memory and
/// on its own disk.
///
/// While a follower is complete, each call returns once the follower, too, has its change on the
/// disk. So whichever process, or disk, is lost, the other one has all that was acknowledged.
///
/// Thread-safety: all functions from any thread. It has one thread, which calls the other process,
/// and changes the role.
class ReplicatedServer final : public PairedService {
 public:
  /// Opens the store, as ParameterStore. `clock` must outlive this.
  ReplicatedServer(std::shared_ptr<io::FileSystem> files, ReplicatedServerOptions options,
                   const base::Clock& clock);
  /// Waits for calls in progress.
  ~ReplicatedServer() override;

  Grant join(const JoinRequest& request, Time deadline) override;
  ServerStatus renew(const std::string& token, Time deadline) override;
  void leave(const std::string& token, Time deadline) override;
  ServerStatus create(const std::string& token, const CreateRequest& request,
                      Time deadline) override;
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline) override;
  void set_ready(const std::string& token, Time deadline) override;
  void set_learning_rate(const std::string& token, double rate, Time deadline) override;
  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override;
  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time deadline) override;
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override;
  RoleReply role(Time deadline) override;
  coordination::PairStatus vote(const Vote& vote, Time deadline) override;
  FollowReply follow(const std::string& token, const FollowRequest& request,
                     Time deadline) override;
  void close() override;

  /// As ServerCore's; nothing unless it acts.
  void tick();
  std::optional<Time> next_expiry() const;
  ServerStatus status() const;
  ServerCounters counters() const;
  ServerMetrics metrics() const;
  /// Whether the job is over: the one that acts knows it, and has told the other one.
  bool is_finished() const;
  /// As ServerCore's; also while it follows.
  std::optional<std::string> failure() const;
  /// Whether it acts with a replica that could act in its place: that has all that it acknowledged,
  /// and knows it.
  bool is_paired() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps
