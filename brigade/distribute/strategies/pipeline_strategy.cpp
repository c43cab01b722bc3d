#include "brigade/distribute/strategies/pipeline_strategy.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/automatic_pipeline.h"
#include "brigade/distribute/created_model.h"
#include "brigade/distribute/pipeline_stages.h"
#include "brigade/distribute/worker_stages.h"

namespace brigade::distribute {

namespace {

constexpr int kMicroBatchesPerStage = 4;

std::vector<device::Device> devices_of(const PipelineStrategyOptions& options, int workers) {
  std::vector<std::string> names = options.devices;
  check_argument(
      !options.cut.automatic() || !names.empty(),
      "An automatic cut has a stage for each device, and PipelineStrategyOptions::devices "
      "is empty: name them, such as {\"cpu:0\", \"cpu:1\"}.");
  const auto chunks = static_cast<std::size_t>(std::max(1, options.chunks_per_device));
  const std::size_t in_all = chunks * static_cast<std::size_t>(workers);
  for (std::size_t device = 0;
       names.size() * in_all <= options.cut.layers().size() && options.devices.empty(); ++device)
    names.push_back(base::str_cat("cpu:", device));
  return device::resolve_devices(names, {.threads_per_cpu = options.threads_per_replica,
                                         .allow_oversubscription = options.allow_oversubscription});
}

void check_automatic(const AutomaticCut& cut) {
  check_argument(cut.profile_steps >= 1,
                 base::str_cat("AutomaticCut::profile_steps is ", cut.profile_steps,
                               "; it must be 1 or more."));
  check_argument(cut.bytes_per_stage >= 0,
                 base::str_cat("AutomaticCut::bytes_per_stage is ", cut.bytes_per_stage,
                               "; it must be 1 or more, or 0 for no limit."));
}

void check_chunks(const PipelineStrategyOptions& options) {
  const bool is_interleaved = options.schedule == PipelineSchedule::kInterleaved;
  check_argument(
      is_interleaved ? options.chunks_per_device >= 2 : options.chunks_per_device == 1,
      base::str_cat("PipelineStrategyOptions::chunks_per_device is ", options.chunks_per_device,
                    " with the schedule ", to_string(options.schedule),
                    ": it must be 2 or more with interleaved, and 1 with the others."));
  if (!is_interleaved || !options.cut.automatic()) return;
  throw Error(ErrorCode::kUnimplemented,
              "An automatic cut has one stage on each device, and the schedule interleaved has "
              "several: name the layers in PipelineStrategyOptions::cut, or use k1F1B.");
}

void check_cut(const std::vector<std::string>& cut, std::size_t devices, int chunks) {
  check_argument(
      cut.size() + 1 == devices * static_cast<std::size_t>(chunks),
      base::str_cat(
          "A pipeline of ", devices, " devices",
          chunks > 1 ? base::str_cat(" with ", chunks, " stages each") : "", " is cut at ",
          cut.size(),
          " layers: PipelineStrategyOptions::cut names the layers with which the stages after "
          "the first begin, one for each ",
          chunks > 1 ? "stage" : "device", " but the first."));
  check_argument(std::set<std::string>(cut.begin(), cut.end()).size() == cut.size(),
                 base::str_cat("PipelineStrategyOptions::cut names a layer twice: ",
                               base::join(cut, ", "), "."));
}

/// What several workers cannot do yet.
void check_workers(const PipelineStrategyOptions& options, int workers) {
  if (workers == 1) return;
  const auto refuse = [&](std::string_view what, std::string_view advice) {
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat(what, " is built for a pipeline in one worker, and there are ",
                              workers, ": ", advice));
  };
  if (options.cut.automatic()) {
    refuse("An automatic cut",
           "name the layers in PipelineStrategyOptions::cut, such as those that one worker chose.");
  }
  if (options.schedule == PipelineSchedule::kInterleaved)
    refuse("The schedule interleaved", "use k1F1B.");
}

void check(const PipelineStrategyOptions& options, const std::vector<device::Device>& devices,
           int workers) {
  for (const device::Device& device : devices) {
    if (device.is_cpu()) continue;
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("A stage of a pipeline is on ", device.name.to_string(),
                              ", and stages are built for CPUs only: use logical CPUs, or "
                              "MirroredStrategy on GPUs."));
  }
  check_chunks(options);
  if (options.cut.automatic()) {
    check_automatic(*options.cut.automatic());
  } else {
    check_cut(options.cut.layers(), devices.size() * static_cast<std::size_t>(workers),
              options.chunks_per_device);
  }
  check_argument(options.micro_batches >= 0,
                 base::str_cat("PipelineStrategyOptions::micro_batches is ", options.micro_batches,
                               "; it must be 1 or more, or 0 for four a stage."));
}

std::int64_t bytes_of(std::span<const variables::Variable> variables) {
  std::int64_t bytes = 0;
  for (const variables::Variable& variable : variables)
    bytes += static_cast<std::int64_t>(variable.component(0).nbytes());
  return bytes;
}

/// The device of every micro-batch. Their threads compute on the cores of any stage.
device::Device unpinned(device::Device device) {
  device.cores = {};
  return device;
}

}  // namespace

struct PipelineStrategy::Built {
  explicit Built(const PipelineStrategyOptions& options,
                 std::shared_ptr<cluster::Membership> membership = nullptr)
      : workers(membership ? static_cast<int>(membership->members().size()) : 1),
        devices((check_workers(options, workers), devices_of(options, workers))) {
    check(options, devices, workers);
    const auto distinct = devices;
    for (int chunk = 1; chunk < options.chunks_per_device; ++chunk)
      devices.insert(devices.end(), distinct.begin(), distinct.end());
    const int own_stages = static_cast<int>(devices.size());
    stages = own_stages * workers;
    const int micro_batches =
        options.micro_batches > 0 ? options.micro_batches : kMicroBatchesPerStage * stages;
    const StageBlock own = block_of(membership.get(), own_stages);
    const concurrency::StageSlotsOptions slots_options{.schedule = options.schedule,
                                                       .stages = stages,
                                                       .micro_batches = micro_batches,
                                                       .chunks = options.chunks_per_device,
                                                       .first_stage = own.first,
                                                       .own_stages = workers > 1 ? own_stages : 0,
                                                       .timeout = options.timeout};
    slots = std::make_shared<concurrency::StageSlots>(slots_options);
    parts = mirrored_parts("pipeline", {unpinned(devices.front())},
                           logical_replicas_of(micro_batches, 1));
    cut = options.cut.layers();
    const auto& automatic_cut = options.cut.automatic();
    if (workers > 1) {
      join_workers(options, std::move(membership), own, micro_batches);
    } else if (automatic_cut && stages > 1) {
      automatic = std::make_shared<AutomaticPipeline>(*automatic_cut, slots_options, slots);
      parts.execution = automatic;
      parts.stages = automatic;
    } else {
      parts.execution = slots;
      parts.stages = std::make_shared<PipelineStages>(slots, cut, micro_batches);
    }
    parts.seed = options.seed;
    parts.placement = options.placement;
    parts.timeout = options.timeout;
  }

  static StageBlock block_of(const cluster::Membership* membership, int own_stages) {
    const int first = membership ? membership->self().rank * own_stages : 0;
    return {.first = first, .last = first + own_stages - 1};
  }

  void join_workers(const PipelineStrategyOptions& options,
                    std::shared_ptr<cluster::Membership> membership, StageBlock own,
                    int micro_batches) {
    comm::CommunicationOptions communication = options.communication;
    if (!communication.key) communication.key = options.join.key;
    parts.workers = make_worker_group(
        std::move(membership), {.devices = static_cast<int>(devices.size()),
                                .logical_replicas = micro_batches,
                                .threads_per_replica = options.threads_per_replica,
                                .share_replicas = true,
                                .facts = {{"cut", base::join(cut, ",")},
                                          {"schedule", std::string(to_string(options.schedule))},
                                          {"stages", base::str_cat(stages)}},
                                .seed = options.seed,
                                .communication = communication,
                                .join = options.join});
    worker_stages = std::make_shared<WorkerStages>(
        slots, cut, own, micro_batches, make_stage_channels(*parts.workers, options.timeout),
        parts.workers);
    parts.execution = worker_stages;
    parts.stages = worker_stages;
    parts.synchronizer = make_stage_synchronizer;
  }

  int workers = 1;
  std::vector<device::Device> devices;  // of the own stages
  int stages = 1;                       // of all workers
  std::vector<std::string> cut;
  std::shared_ptr<concurrency::StageSlots> slots;
  std::shared_ptr<AutomaticPipeline> automatic;
  std::shared_ptr<WorkerStages> worker_stages;
  StrategyParts parts;
};

PipelineStrategy::PipelineStrategy(PipelineStrategyOptions options)
    : PipelineStrategy(Built(options)) {}

PipelineStrategy::PipelineStrategy(const cluster::ClusterConfig& cluster,
                                   PipelineStrategyOptions options)
    : PipelineStrategy(rpc::join(cluster, options.join), options) {}

PipelineStrategy::PipelineStrategy(std::shared_ptr<cluster::Membership> membership,
                                   PipelineStrategyOptions options)
    : PipelineStrategy(Built(options, std::move(membership))) {}

PipelineStrategy::PipelineStrategy(Built built)
    : Strategy(std::move(built.parts)),
      stage_devices_(std::move(built.devices)),
      num_stages_(built.stages),
      given_cut_(std::move(built.cut)),
      automatic_(std::move(built.automatic)),
      slots_(std::move(built.slots)),
      worker_stages_(std::move(built.worker_stages)) {
  if (!automatic_) return;
  automatic_->set_variable_bytes([this] {
    std::int64_t bytes = 0;
    for (const auto& model : created_models()) bytes += bytes_of(model->variables());
    return bytes;
  });
}

std::vector<std::string> PipelineStrategy::cut() const {
  if (!automatic_) return given_cut_;
  const std::optional<ChosenCut>& chosen = chosen_cut();
  return chosen ? chosen->layers : std::vector<std::string>();
}

const std::optional<ChosenCut>& PipelineStrategy::chosen_cut() const {
  static const std::optional<ChosenCut> kNone;
  return automatic_ ? automatic_->chosen() : kNone;
}

concurrency::StageOrders PipelineStrategy::passes() const {
  return slots_->passes();
}

concurrency::StageTimeline PipelineStrategy::timeline() const {
  return slots_->timeline();
}

std::int64_t PipelineStrategy::bytes_sent() const {
  return worker_stages_ ? worker_stages_->bytes_sent() : 0;
}

std::vector<int> PipelineStrategy::peak_micro_batches() const {
  return slots_->peak_micro_batches();
}

}  // namespace brigade::distribute
