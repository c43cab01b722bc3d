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

/// A separate membership for one run of a test, within that of the processes that mpirun started.
/// It has separate keys, and a lost member is lost only to this run.
class RunMembership : public cluster::Membership {
 public:
  /// Marks the rank as lost for this run, as if its process had been killed.
  virtual void lose(int rank, const std::string& reason) = 0;
};

/// For tests: this process's rank of a group that mpirun started; all processes make the same
/// calls. The counterpart of `run_processes` for ranks that cannot be threads.
class MpirunRanks {
 public:
  using Body = std::function<void(ProcessCommunicator&)>;
  using BodyOfRun = std::function<void(ProcessCommunicator&, RunMembership&)>;

  /// Joins the cluster that mpirun's environment describes.
  MpirunRanks();
  ~MpirunRanks();

  int rank() const;
  int world_size() const;
  /// Runs the body for this process's rank over MPI. Returns what each rank threw (null: nothing)
  /// when all have returned. A rank that throws is lost to the others.
  std::vector<std::exception_ptr> run(const CommunicationOptions& options, const BodyOfRun& body);
  /// The same, but each rank uses the membership of the next rank.
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
