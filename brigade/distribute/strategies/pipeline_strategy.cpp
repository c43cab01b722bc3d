#include "brigade/distribute/strategies/pipeline_strategy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/pipeline_stages.h"

namespace brigade::distribute {

namespace {

constexpr int kMicroBatchesPerStage = 4;

std::vector<device::Device> devices_of(const PipelineStrategyOptions& options) {
  std::vector<std::string> names = options.devices;
  for (std::size_t stage = 0; names.size() <= options.cut.size() && options.devices.empty();
       ++stage)
    names.push_back(base::str_cat("cpu:", stage));
  return device::resolve_devices(names, {.threads_per_cpu = options.threads,
                                         .allow_oversubscription = options.allow_oversubscription});
}

void check(const PipelineStrategyOptions& options, const std::vector<device::Device>& devices) {
  for (const device::Device& device : devices) {
    if (device.is_cpu()) continue;
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("A stage of a pipeline is on ", device.name.to_string(),
                              ", and stages are built for CPUs only: use logical CPUs, or "
                              "MirroredStrategy on GPUs."));
  }
  check_argument(
      options.cut.size() + 1 == devices.size(),
      base::str_cat(
          "A pipeline of ", devices.size(), " devices is cut at ", options.cut.size(),
          " layers: PipelineStrategyOptions::cut names the layers with which the stages after "
          "the first begin, one for each device but the first."));
  check_argument(
      std::set<std::string>(options.cut.begin(), options.cut.end()).size() == options.cut.size(),
      base::str_cat("PipelineStrategyOptions::cut names a layer twice: ",
                    base::join(options.cut, ", "), "."));
  check_argument(options.micro_batches >= 0,
                 base::str_cat("PipelineStrategyOptions::micro_batches is ", options.micro_batches,
                               "; it must be 1 or more, or 0 for four a stage."));
}

/// The device of every micro-batch. Their threads compute on the cores of any stage.
device::Device unpinned(device::Device device) {
  device.cores = {};
  return device;
}

}  // namespace

struct PipelineStrategy::Built {
  explicit Built(const PipelineStrategyOptions& options) : devices(devices_of(options)) {
    check(options, devices);
    const int stages = static_cast<int>(devices.size());
    const int micro_batches =
        options.micro_batches > 0 ? options.micro_batches : kMicroBatchesPerStage * stages;
    slots = std::make_shared<concurrency::StageSlots>(
        concurrency::StageSlotsOptions{.schedule = options.schedule,
                                       .stages = stages,
                                       .micro_batches = micro_batches,
                                       .timeout = options.timeout});
    parts = mirrored_parts("pipeline", {unpinned(devices.front())},
                           logical_replicas_of(micro_batches, 1));
    parts.execution = slots;
    parts.stages = std::make_shared<PipelineStages>(slots, options.cut, micro_batches);
    parts.seed = options.seed;
    parts.placement = options.placement;
    parts.timeout = options.timeout;
  }

  std::vector<device::Device> devices;
  std::shared_ptr<concurrency::StageSlots> slots;
  StrategyParts parts;
};

PipelineStrategy::PipelineStrategy(PipelineStrategyOptions options)
    : PipelineStrategy(Built(options)) {}

PipelineStrategy::PipelineStrategy(Built built)
    : Strategy(std::move(built.parts)),
      stage_devices_(std::move(built.devices)),
      slots_(std::move(built.slots)) {}

concurrency::StageOrders PipelineStrategy::passes() const {
  return slots_->passes();
}

std::vector<int> PipelineStrategy::peak_micro_batches() const {
  return slots_->peak_micro_batches();
}

}  // namespace brigade::distribute
