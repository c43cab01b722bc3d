#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/message.h"
#include "brigade/launch/signal_source.h"

namespace brigade::launch {

/// A lost host, and the exit code with which the job ends because of it.
struct LostHost {
  std::string reason;  ///< names the host
  int exit_code = 1;
  /// Whether the job can continue once its launcher, or a replacement, has joined again.
  bool may_return = false;
};

/// The launchers of a job, one on each host, once all have joined. Messages are broadcast: every
/// launcher, the sender included, receives all of them in the same order.
///
/// Thread-safety: one thread.
class Hosts {
 public:
  virtual ~Hosts() = default;

  /// The index of this host, from 0.
  virtual int self() const = 0;
  /// The number of earlier rendezvous of this job's launchers.
  virtual int rendezvous_round() const = 0;
  /// The number of processes with which each host begins.
  virtual const std::vector<int>& processes() const = 0;
  /// With roles: the addresses of the tasks, by process; else empty.
  virtual const std::vector<std::string>& addresses() const = 0;
  /// "host 1 (node-b)".
  virtual std::string name(int host) const = 0;

  /// Never blocks.
  virtual void send(const Message& message) = 0;
  /// Readable while there are messages to take, or a host is lost.
  virtual int descriptor() const = 0;
  virtual std::vector<Message> take() = 0;
  /// The first host that was lost without calling `leave`.
  virtual std::optional<LostHost> lost_host() const = 0;

  /// Delivers what was sent, and waits a moment for the other hosts to leave too. Called once, at
  /// the end.
  virtual void leave() noexcept = 0;
};

/// Joins the launchers of the other hosts in rendezvous number `rendezvous_round`, counted from 0.
/// If that round is over, because this launcher replaces a lost one, joins a later one. Throws as
/// rpc::join, and kFailedPrecondition if the launchers disagree about the job.
std::unique_ptr<Hosts> join_hosts(const JobOptions& options, int rendezvous_round,
                                  const concurrency::CancelToken& cancel);

/// Returns the hosts of a job once their launchers have joined (`join_hosts`), or the number of a
/// stop signal that came first. A job on one host opens no port and starts no thread.
std::variant<std::unique_ptr<Hosts>, int> join_hosts_or_signal(const JobOptions& options, int round,
                                                               SignalSource& signals);

}  // namespace brigade::launch
