#include "brigade/cluster/rank_assignment.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {
namespace {

constexpr std::array<std::string_view, 5> kJobs = {"chief", "worker", "ps", "ps_replica",
                                                   "evaluator"};

class RankAssigner {
 public:
  RankAssigner(const ClusterSpec& cluster, std::string_view source)
      : cluster_(cluster), source_(source) {}

  void check_jobs() const {
    for (const std::string& job : cluster_.jobs()) check_job(job, "the cluster has");
    for (const char* job : {"chief", "evaluator"}) {
      const int count = cluster_.num_tasks(job);
      if (count > 1)
        fail(
            base::str_cat("there are ", count, " tasks ", base::quoted(job), "; only one may be."));
    }
    if (cluster_.training_tasks().empty()) {
      fail("the cluster has neither a chief nor a worker, so no task trains.");
    }
  }

  Task task(const std::optional<Task>& given) const {
    if (!given) return only_task();
    check_job(given->job, "this process's task is of");
    const bool may_be_unlisted = given->job == "evaluator" && cluster_.num_tasks("evaluator") == 0;
    if (may_be_unlisted || cluster_.has(*given)) return *given;
    if (cluster_.num_tasks(given->job) == 0) {
      fail(base::str_cat("this process is ", *given, ", but the cluster has no ",
                         base::quoted(given->job), "; its jobs are ",
                         base::listed(cluster_.jobs(), ", "), "."));
    }
    fail(base::str_cat("this process is ", *given, ", but that index is out of range; ",
                       base::quoted(given->job), " has ",
                       base::listed(cluster_.task_indices(given->job), ", "), "."));
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kInvalidArgument, source_, ": ", why);
  }

  void check_job(const std::string& job, std::string_view what) const {
    if (std::find(kJobs.begin(), kJobs.end(), job) != kJobs.end()) return;
    const std::string_view hint =
        job == "master" ? " What TensorFlow 1 called 'master' is the chief." : "";
    fail(base::str_cat(what, " an unknown type ", base::quoted(job), "; known are ",
                       base::join(kJobs, ", "), ".", hint));
  }

  Task only_task() const {
    int count = 0;
    for (const std::string& job : cluster_.jobs()) count += cluster_.num_tasks(job);
    if (count == 1) return cluster_.training_tasks().front();
    fail(base::str_cat("the cluster has ", count, " tasks, but nothing says which of them this ",
                       "process is; add a task with its type and index, such as worker:0."));
  }

  const ClusterSpec& cluster_;
  std::string_view source_;
};

}  // namespace

ClusterConfig assign_rank(DescribedCluster described, std::string_view source) {
  const RankAssigner assigner(described.cluster, source);
  assigner.check_jobs();
  ClusterConfig config;
  config.task = assigner.task(described.task);
  const std::vector<Task> training = described.cluster.training_tasks();
  const auto position = std::find(training.begin(), training.end(), config.task);
  config.rank = position == training.end() ? -1 : static_cast<int>(position - training.begin());
  config.world_size = static_cast<int>(training.size());
  if (config.world_size > 1) {
    config.rendezvous = described.cluster.task_address(training.front());
  }
  config.source = source;
  config.cluster = std::move(described.cluster);
  return config;
}

}  // namespace brigade::cluster
