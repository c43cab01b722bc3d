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

/// Where the processes of a job meet: the launcher of host 0 has it.
///
/// Thread-safety: one thread.
class ProcessRendezvous {
 public:
  /// A member is lost. All news say to which generation they belong: the next one may have begun
  /// when they are heard.
  struct Lost {
    int generation = 0;
    cluster::LostMember member;
  };
  /// All members have come.
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

  /// The order with the addresses of its generation filled in; none if nobody would come. Throws as
  /// rpc::make_rendezvous_server.
  StartOrder open(StartOrder order);

  /// Readable while there is news.
  int descriptor() const { return events_.descriptor(); }
  std::vector<Event> take() { return events_.take(); }

 private:
  std::string rendezvous(int generation, int world_size);

  const JobOptions& options_;
  Mailbox<Event> events_;
  std::unique_ptr<rpc::RendezvousServer> server_;  // ends first
};

}  // namespace brigade::launch
