#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// A membership of its own for one run of a test, within that of the processes that mpirun started:
/// with keys of its own, and members that are lost to this run alone.
class RunMembership : public cluster::Membership {
 public:
  /// Lets the rank be lost to all of the run, as if its process had been killed.
  virtual void lose(int rank, const std::string& reason) = 0;
};

/// For tests: this process's part of a group that mpirun started, all of whose processes make the
/// same calls. The counterpart of `run_processes` for ranks that cannot be threads.
class MpirunRanks {
 public:
  using Body = std::function<void(ProcessCommunicator&)>;
  using BodyOfRun = std::function<void(ProcessCommunicator&, RunMembership&)>;

  /// Joins the cluster that mpirun's environment describes.
  MpirunRanks();
  ~MpirunRanks();

  int rank() const;
  int world_size() const;
  /// Runs the body of this process's rank over MPI; returns what each rank threw (null: nothing)
  /// once all have returned. A rank that throws is lost to the others.
  std::vector<std::exception_ptr> run(const CommunicationOptions& options, const BodyOfRun& body);
  /// The same, where the bodies' memberships are those of other ranks: each has the place of the
  /// next one.
  std::vector<std::exception_ptr> run_displaced(const CommunicationOptions& options,
                                                const BodyOfRun& body);
  /// Adds to a number that all ranks share; returns the sum.
  std::int64_t add(std::int64_t delta);

 private:
  std::vector<std::exception_ptr> run_as(std::shared_ptr<RunMembership> membership,
                                         const CommunicationOptions& options,
                                         const BodyOfRun& body);
  std::string next_name();

  std::shared_ptr<cluster::Membership> all_;
  int runs_ = 0;
};

}  // namespace brigade::comm
