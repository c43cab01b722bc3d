#pragma once

#include <memory>
#include <string>
#include <variant>

#include "brigade/cluster/membership.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/mailbox.h"
#include "brigade/launch/message.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::launch {

/// The rendezvous of a job's processes, in the launcher of host 0.
///
/// Thread-safety: one thread.
class ProcessRendezvous {
 public:
  /// A member is lost. Every event names its generation, because the next one may have begun before
  /// the event is handled.
  struct Lost {
    int generation = 0;
    cluster::LostMember member;
  };
  /// All members have joined.
  struct AllJoined {
    int generation = 0;
  };
  /// A member has left as planned.
  struct Left {
    int generation = 0;
    int rank = 0;
  };
  using Event = std::variant<Lost, AllJoined, Left>;

  /// The options must outlive it.
  explicit ProcessRendezvous(const JobOptions& options) : options_(options) {}

  /// Opens the rendezvous of a generation and returns the order with its addresses filled in; a
  /// generation that needs none gets none. Throws as rpc::make_rendezvous_server.
  StartOrder open(StartOrder order);

  /// Readable while there are events.
  int descriptor() const { return events_.descriptor(); }
  std::vector<Event> take() { return events_.take(); }

 private:
  std::string rendezvous(int generation, int world_size);

  const JobOptions& options_;
  Mailbox<Event> events_;
  std::unique_ptr<rpc::RendezvousServer> server_;  // ends first
};

}  // namespace brigade::launch
