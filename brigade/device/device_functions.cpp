#include "brigade/device/device_functions.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/machine/device_spec.h"

namespace brigade::device {
namespace {

using machine::DeviceSpec;

void check_tasks(int tasks) {
  check_argument(tasks > 0, "The number of tasks to place variables on is ", tasks,
                 "; it must be at least 1.");
}

// The state shared by the copies of one strategy: the load of each task, in any unit.
class Loads {
 public:
  explicit Loads(int tasks) : loads_(static_cast<std::size_t>(tasks), 0) {}

  int add_to_least(std::int64_t load) {
    const concurrency::MutexLock lock(mutex_);
    const auto least = std::min_element(loads_.begin(), loads_.end());
    *least += load;
    return static_cast<int>(least - loads_.begin());
  }

 private:
  concurrency::Mutex mutex_;
  std::vector<std::int64_t> loads_ BRIGADE_GUARDED_BY(mutex_);
};

// The device function of `replica_device_setter`; its copies share the strategy's state.
class ReplicaDeviceSetter {
 public:
  explicit ReplicaDeviceSetter(const ReplicaDeviceSetterOptions& options)
      : tasks_(options.ps_tasks),
        merge_(options.merge_devices),
        ps_(DeviceSpec::parse(options.ps_device)),
        worker_(DeviceSpec::parse(options.worker_device)),
        strategy_(options.ps_strategy ? options.ps_strategy
                                      : round_robin_strategy(options.ps_tasks)) {}

  std::string operator()(const PlacementRequest& request) {
    if (!merge_ && !request.inner.empty()) return request.inner;
    const DeviceSpec inner = DeviceSpec::parse(request.inner);
    const bool is_on_ps = request.kind == PlacedKind::kVariable && ps_ != DeviceSpec{};
    return inner.merged_over(is_on_ps ? ps_for(request, inner) : worker_).to_string();
  }

 private:
  // A variable that the inner scopes place in another job does not count.
  DeviceSpec ps_for(const PlacementRequest& variable, const DeviceSpec& inner) {
    DeviceSpec ps = ps_;
    if (ps.job && (!inner.job || inner.job == ps.job)) ps.task = next_task(variable);
    return ps;
  }

  int next_task(const PlacementRequest& variable) {
    const concurrency::MutexLock lock(mutex_);
    const int task = strategy_(variable);
    if (task >= 0 && task < tasks_) return task;
    throw Error(ErrorCode::kOutOfRange, "The placement strategy chose task ", task,
                " for variable ", variable.name, "; there are ", tasks_,
                " parameter-server tasks, numbered from 0.");
  }

  const int tasks_;
  const bool merge_;
  const DeviceSpec ps_;
  const DeviceSpec worker_;
  concurrency::Mutex mutex_;  // the caller's strategy need not be thread-safe
  const PlacementStrategy strategy_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace

DeviceFunction assign_to_device(const std::string& device, const std::string& controller) {
  DeviceSpec::parse(device);
  DeviceSpec::parse(controller);
  return [device, controller](const PlacementRequest& request) {
    return request.kind == PlacedKind::kVariable ? controller : device;
  };
}

PlacementStrategy round_robin_strategy(int tasks) {
  return greedy_load_balancing_strategy(tasks, [](const PlacementRequest&) { return 1; });
}

PlacementStrategy greedy_load_balancing_strategy(
    int tasks, std::function<std::int64_t(const PlacementRequest&)> load) {
  check_tasks(tasks);
  check_argument(load != nullptr,
                 "The greedy strategy needs a function that returns a variable's load.");
  const auto loads = std::make_shared<Loads>(tasks);
  return [loads, load = std::move(load)](const PlacementRequest& variable) {
    return loads->add_to_least(load(variable));
  };
}

std::int64_t byte_size_load(const PlacementRequest& variable) {
  if (variable.bytes) return *variable.bytes;
  throw Error(ErrorCode::kInvalidArgument, "The size of ", variable.kind, " ", variable.name,
              " is not known, so it cannot be placed by its bytes.");
}

PlacementStrategy random_strategy(int tasks, std::uint64_t seed) {
  check_tasks(tasks);
  return [tasks, seed](const PlacementRequest& variable) {
    const std::uint64_t hash = base::derive_seed(seed, variable.name, 0, 0);
    return static_cast<int>(hash % static_cast<std::uint64_t>(tasks));
  };
}

DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options) {
  check_argument(options.ps_tasks >= 0, "The number of parameter-server tasks is ",
                 options.ps_tasks, "; it must be at least 0.");
  if (options.ps_tasks == 0) return {};
  const auto setter = std::make_shared<ReplicaDeviceSetter>(options);
  return [setter](const PlacementRequest& request) { return (*setter)(request); };
}

}  // namespace brigade::device
