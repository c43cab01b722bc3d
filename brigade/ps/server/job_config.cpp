#include "brigade/ps/server/job_config.h"

#include <array>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"

namespace brigade::ps {
namespace {

constexpr std::string_view kMode = "mode";
constexpr std::string_view kStaleness = "staleness";
constexpr std::string_view kAggregate = "replicas_to_aggregate";
constexpr std::string_view kTotal = "total_replicas";
constexpr std::string_view kStalenessAware = "staleness_aware";

constexpr std::array<std::pair<UpdateMode, std::string_view>, 3> kModes = {
    {{UpdateMode::kAsync, "async"},
     {UpdateMode::kBounded, "bounded"},
     {UpdateMode::kSync, "sync"}}};

// Far more than a job has, so that sums of two numbers fit an int.
constexpr std::int64_t kMostReplicas = 1'000'000;

std::string_view name_of(UpdateMode mode) {
  for (const auto& [each, name] : kModes)
    if (each == mode) return name;
  refuse("The mode of updates is ", static_cast<int>(mode),
         ", which is none of async, bounded and sync.");
}

UpdateMode mode_of(const std::string& name) {
  for (const auto& [mode, each] : kModes)
    if (each == name) return mode;
  refuse("The mode of updates is ", base::quoted(name),
         ", which is none of async, bounded and sync.");
}

void check_replicas(std::int64_t count, std::string_view what) {
  check_argument(count >= 1 && count <= kMostReplicas, "A job has ", count, " ", what,
                 ": it must be from 1 to ", kMostReplicas, ".");
}

}  // namespace

void check_job(const JobConfig& job, int tasks) {
  name_of(job.mode);
  check_argument(job.staleness >= 0, "The staleness of a job is ", job.staleness,
                 " steps: it must be 0 or more.");
  check_argument(!job.staleness_aware || job.mode != UpdateMode::kSync,
                 "The learning rate of a synchronous job follows its staleness: its gradients are "
                 "never stale, so leave staleness_aware out, or use another mode.");
  const auto& [aggregate, total] = job.sync;
  check_replicas(aggregate, kAggregate);
  check_replicas(total, kTotal);
  const int quota = (aggregate + total - 1) / total;
  check_argument(job.mode != UpdateMode::kSync || std::int64_t{quota} * tasks >= aggregate,
                 "A step needs the gradients of ", aggregate, " replicas of ", total, ", and ",
                 tasks, " tasks train, with ", quota,
                 " gradients each at most: no step would ever be complete.");
}

io::StateTree to_state(const JobConfig& job) {
  io::StateTree state;
  state[kMode] = name_of(job.mode);
  state[kStaleness] = job.staleness;
  state[kAggregate] = job.sync.replicas_to_aggregate;
  state[kTotal] = job.sync.total_replicas;
  // Only then, so that the jobs of earlier versions are the same.
  if (job.staleness_aware) state[kStalenessAware] = true;
  return state;
}

bool is_staleness_aware(const io::StateTree& state) {
  return state.has(kStalenessAware) && state.as_bool(kStalenessAware);
}

JobConfig job_from_state(const io::StateTree& state) {
  const std::int64_t aggregate = state.as_int64(kAggregate), total = state.as_int64(kTotal);
  check_replicas(aggregate, kAggregate);
  check_replicas(total, kTotal);
  return {.mode = mode_of(state.as_string(kMode)),
          .staleness = state.as_int64(kStaleness),
          .sync = {.replicas_to_aggregate = static_cast<int>(aggregate),
                   .total_replicas = static_cast<int>(total)},
          .staleness_aware = is_staleness_aware(state)};
}

}  // namespace brigade::ps
