#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/message.h"

namespace brigade::launch {

/// A host that is no longer there, and what the job ends with because of it.
struct GoneHost {
  std::string reason;  ///< names it
  int exit_code = 1;
  /// Whether the job can go on once its launcher, or another in its place, has come back.
  bool may_come_back = false;
};

/// The launchers of a job, one on each host, from the moment when all have come: what one says all
/// hear, itself too, in one order.
///
/// Thread-safety: one thread.
class Hosts {
 public:
  virtual ~Hosts() = default;

  /// Which of them this is, from 0.
  virtual int self() const = 0;
  /// How often the launchers of this job had met before.
  virtual int rendezvous_round() const = 0;
  /// How many processes each begins with.
  virtual const std::vector<int>& processes() const = 0;
  /// "host 1 (node-b)".
  virtual std::string name(int host) const = 0;

  /// Never waits.
  virtual void send(const Message& message) = 0;
  /// Readable while there is something to take, or a host is gone.
  virtual int descriptor() const = 0;
  virtual std::vector<Message> take() = 0;
  /// The first host that is gone other than by `leave`.
  virtual std::optional<GoneHost> gone() const = 0;

  /// What was sent is delivered; waits a moment for the others to come as far. Called once, at the
  /// end.
  virtual void leave() noexcept = 0;
};

/// A host that is all there is: no port, no thread.
std::unique_ptr<Hosts> make_single_host(int processes);

/// Meets the launchers of the other hosts for the `rendezvous_round`-th time, counted from 0; or later,
/// where they have met so often already because one was lost in whose place this one comes. Throws
/// as rpc::join; kFailedPrecondition where they disagree about the job.
std::unique_ptr<Hosts> join_hosts(const JobOptions& options, int rendezvous_round,
                                  const concurrency::CancelToken& cancel);

}  // namespace brigade::launch
