#include "brigade/distribute/strategies/pipeline_strategy.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/created_model.h"
#include "brigade/distribute/pipeline/automatic_pipeline.h"
#include "brigade/distribute/pipeline/idle_stages.h"
#include "brigade/distribute/pipeline/pipeline_stages.h"
#include "brigade/distribute/pipeline/pipeline_workers.h"
#include "brigade/distribute/pipeline/stage_threads.h"
#include "brigade/distribute/pipeline/worker_stages.h"

namespace brigade::distribute {

namespace {

constexpr int kMicroBatchesPerStage = 4;
// One that waits for a device while another is computed: more would seldom find an idle device.
constexpr int kDeferredMicroBatches = 2;

/// How many stages the options ask for; 0: one for each device.
int stages_asked_for(const PipelineStrategyOptions& options, int workers) {
  if (options.stages > 0) return options.stages;
  const bool is_named = !options.cut.layers().empty();
  if (is_named) return static_cast<int>(options.cut.layers().size()) + 1;
  if (options.devices.empty() && workers > 1) return workers;
  return options.cut.automatic() ? 0 : 1;
}

/// The devices of one of so many workers of a pipeline.
std::vector<device::Device> devices_of(const PipelineStrategyOptions& options, int workers) {
  std::vector<std::string> names = options.devices;
  const int stages = stages_asked_for(options, workers);
  check_argument(
      !names.empty() || stages > 0,
      "An automatic cut has a stage for each device, and PipelineStrategyOptions::devices "
      "is empty: name them, such as {\"cpu:0\", \"cpu:1\"}.");
  const int in_all = std::max(1, options.chunks_per_device) * workers;
  for (int device = 0; options.devices.empty() && device * in_all < stages; ++device)
    names.push_back(base::str_cat("cpu:", device));
  return device::resolve_devices(names, {.threads_per_cpu = options.threads_per_replica,
                                         .allow_oversubscription = options.allow_oversubscription});
}

void check_automatic(const AutomaticCut& cut) {
  check_argument(cut.profile_steps >= 1, "AutomaticCut::profile_steps is ", cut.profile_steps,
                 "; it must be 1 or more.");
  check_argument(cut.bytes_per_stage >= 0, "AutomaticCut::bytes_per_stage is ", cut.bytes_per_stage,
                 "; it must be 1 or more, or 0 for no limit.");
}

void check_chunks(const PipelineStrategyOptions& options) {
  const bool is_interleaved = options.schedule == PipelineSchedule::kInterleaved;
  check_argument(is_interleaved ? options.chunks_per_device >= 2 : options.chunks_per_device == 1,
                 "PipelineStrategyOptions::chunks_per_device is ", options.chunks_per_device,
                 " with the schedule ", to_string(options.schedule),
                 ": it must be 2 or more with interleaved, and 1 with the others.");
  if (!is_interleaved || !options.cut.automatic()) return;
  throw Error(ErrorCode::kUnimplemented,
              "An automatic cut has one stage on each device, and the schedule interleaved has "
              "several: name the layers in PipelineStrategyOptions::cut, or use k1F1B.");
}

/// An empty one leaves the cut to the model.
void check_cut(const std::vector<std::string>& cut, std::size_t devices, int chunks) {
  if (cut.empty()) return;
  check_argument(cut.size() + 1 == devices * static_cast<std::size_t>(chunks), "A pipeline of ",
                 devices, " devices",
                 chunks > 1 ? base::str_cat(" with ", chunks, " stages each") : "", " is cut at ",
                 cut.size(),
                 " layers: PipelineStrategyOptions::cut names the layers with which the stages "
                 "after the first begin, one for each ",
                 chunks > 1 ? "stage" : "device", " but the first.");
  check_argument(std::set<std::string>(cut.begin(), cut.end()).size() == cut.size(),
                 "PipelineStrategyOptions::cut names a layer twice: ", base::join(cut, ", "), ".");
}

/// How many workers each pipeline has.
int workers_of_pipeline(const PipelineStrategyOptions& options, int workers) {
  const int pipelines = options.replicas;
  check_argument(pipelines >= 1, "PipelineStrategyOptions::replicas is ", pipelines,
                 "; it must be 1 or more.");
  check_argument(workers % pipelines == 0, "PipelineStrategyOptions::replicas is ", pipelines,
                 ", and there ",
                 workers == 1 ? "is 1 worker" : base::str_cat("are ", workers, " workers"),
                 ": so many pipelines have equally many workers each; start a multiple of ",
                 pipelines, " workers.");
  return workers / pipelines;
}

void check_stages(const PipelineStrategyOptions& options, int stages) {
  check_argument(options.stages >= 0, "PipelineStrategyOptions::stages is ", options.stages,
                 "; it must be 1 or more, or 0 for one on each device.");
  check_argument(options.stages == 0 || options.stages == stages,
                 "PipelineStrategyOptions::stages is ", options.stages,
                 ", and the workers of a pipeline have ", stages,
                 " in all: each has equally many, on as many devices.");
}

/// `workers`: of one pipeline.
void check(const PipelineStrategyOptions& options, const std::vector<device::Device>& devices,
           int workers) {
  for (const device::Device& device : devices) {
    if (device.is_cpu()) continue;
    throw Error(
        ErrorCode::kUnimplemented, "A stage of a pipeline is on ", device.name.to_string(),
        ", and stages are built for CPUs only: use logical CPUs, or MirroredStrategy on GPUs.");
  }
  check_chunks(options);
  if (options.cut.automatic()) {
    check_automatic(*options.cut.automatic());
  } else {
    check_cut(options.cut.layers(), devices.size() * static_cast<std::size_t>(workers),
              options.chunks_per_device);
  }
  check_argument(options.micro_batches >= 0, "PipelineStrategyOptions::micro_batches is ",
                 options.micro_batches, "; it must be 1 or more, or 0 for four a stage.");
  check_argument(options.micro_batches == 0 || options.micro_batches >= options.replicas,
                 "PipelineStrategyOptions::micro_batches is ", options.micro_batches,
                 " and ::replicas is ", options.replicas,
                 ": each pipeline computes at least one micro-batch.");
  check_stages(options, static_cast<int>(devices.size()) * options.chunks_per_device * workers);
}

std::int64_t bytes_of(std::span<const variables::Variable> variables) {
  std::int64_t bytes = 0;
  for (const variables::Variable& variable : variables)
    bytes += static_cast<std::int64_t>(variable.component(0).nbytes());
  return bytes;
}

/// [device]: its cores; empty if threads must not be pinned to them. Processes of a job may share
/// the cores of a host, and helper threads of tensor operations stay where they have begun.
std::vector<machine::CoreSet> cores_of(const PipelineStrategyOptions& options,
                                       const std::vector<device::Device>& devices, int processes) {
  std::vector<machine::CoreSet> cores;
  const bool is_alone = processes == 1 && options.threads_per_replica == 1 && devices.size() > 1;
  for (const device::Device& device : devices) {
    if (!is_alone || device.cores.empty()) return {};
    cores.push_back(device.cores);
  }
  return cores;
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
      : workers(workers_of_pipeline(
            options, membership ? static_cast<int>(membership->members().size()) : 1)),
        pipelines(options.replicas),
        devices(devices_of(options, workers)),
        cut(options.cut.layers()) {
    check(options, devices, workers);
    const auto distinct = devices;
    for (int chunk = 1; chunk < options.chunks_per_device; ++chunk)
      devices.insert(devices.end(), distinct.begin(), distinct.end());
    const int local_stages = static_cast<int>(devices.size());
    stages = local_stages * workers;
    const int all_micro_batches = options.micro_batches > 0
                                      ? options.micro_batches
                                      : kMicroBatchesPerStage * stages * pipelines;
    std::optional<PipelineWorkers> groups;
    if (workers * pipelines > 1)
      groups = join_workers(options, std::move(membership), all_micro_batches);
    const int part = groups ? groups->part() : 0;
    const int micro_batches =
        groups ? groups->all->layout.replicas[static_cast<std::size_t>(groups->all->index())]
               : all_micro_batches;
    const int local_devices = static_cast<int>(distinct.size());
    const LocalStages local{.stages = stages,
                            .devices = local_devices * workers,
                            .first_device = part * local_devices,
                            .local_devices = local_devices};
    const std::vector<machine::CoreSet> cores = cores_of(options, distinct, workers * pipelines);
    std::shared_ptr<concurrency::TaskThreads> threads;
    if (!cores.empty()) threads = std::make_shared<StageThreads>(cores, micro_batches);
    const concurrency::StageSlotsOptions slots_options{
        .schedule = options.schedule,
        .stages = stages,
        .micro_batches = micro_batches,
        .chunks = options.chunks_per_device,
        .first_device = local.first_device,
        .local_devices = workers > 1 ? local_devices : 0,
        .deferred_tasks = deferred(options),
        .timeout = options.timeout,
        .threads = threads};
    slots = std::make_shared<concurrency::StageSlots>(slots_options);
    if (workers == 1 && distinct.size() > 1) {
      idle = std::make_shared<const IdleStages>(slots, static_cast<int>(distinct.size()),
                                                options.threads_per_replica, cores);
    }
    parts = mirrored_parts("pipeline", {unpinned(devices.front())},
                           {.count = all_micro_batches, .of_device = {micro_batches}});
    use_stages(options, slots_options, local, groups);
    if (groups) use_workers(*groups);
    parts.named_devices = devices;
    parts.seed = options.seed;
    parts.placement = options.placement;
    parts.timeout = options.timeout;
  }

  /// Workers do not share memory, and a single stage has no other to defer work to.
  int deferred(const PipelineStrategyOptions& options) const {
    const bool defers = options.weight_gradients == WeightGradients::kWhenIdle && workers == 1 &&
                        devices.size() > 1;
    return defers ? kDeferredMicroBatches : 0;
  }

  PipelineWorkers join_workers(const PipelineStrategyOptions& options,
                               std::shared_ptr<cluster::Membership> membership,
                               int micro_batches) const {
    comm::CommunicationOptions communication = options.communication;
    if (!communication.key) communication.key = options.join.key;
    communication.wire = comm::WireDtype::kFull;
    communication.bytes_per_pack = 0;
    return make_pipeline_workers(
        std::move(membership),
        {.devices = static_cast<int>(devices.size()),
         .logical_replicas = micro_batches,
         .threads_per_replica = options.threads_per_replica,
         .pipelines = pipelines,
         .facts = {{"cut", options.cut.automatic() ? "automatic" : base::join(cut, ",")},
                   {"schedule", std::string(to_string(options.schedule))},
                   {"stages", base::str_cat(stages)},
                   {"stages on each device", base::str_cat(options.chunks_per_device)},
                   {"pipelines", base::str_cat(pipelines)}},
         .seed = options.seed,
         .communication = communication,
         .join = options.join});
  }

  void use_stages(const PipelineStrategyOptions& options,
                  const concurrency::StageSlotsOptions& slots_options, LocalStages local,
                  const std::optional<PipelineWorkers>& groups) {
    using Make = std::function<PipelinePasses(const StageStarts&)>;
    Make make;
    if (workers > 1) {
      variables = std::make_shared<StageVariables>(slots_options.micro_batches);
      channels = std::make_shared<const StageChannels>(make_stage_channels(
          *groups->pipeline, local.has_chunks() ? StageOrder::kRing : StageOrder::kLine,
          options.timeout));
      make = [=, slots = slots, channels = channels, variables = variables,
              groups = *groups](const StageStarts& starts) -> PipelinePasses {
        const auto passes = std::make_shared<WorkerStages>(
            slots, starts, local, variables, slots_options.micro_batches, channels, groups);
        return {.execution = passes, .stages = passes};
      };
    } else {
      make = [=, slots = slots](const StageStarts& starts) -> PipelinePasses {
        const auto passes =
            std::make_shared<PipelineStages>(slots, starts, slots_options.micro_batches);
        return {.execution = passes, .stages = passes};
      };
    }
    PipelinePasses passes;
    if (options.cut.automatic() && stages > 1) {
      automatic = std::make_shared<AutomaticPipeline>(
          *options.cut.automatic(), slots_options,
          [make](const std::vector<std::string>& layers) { return make({.layers = layers}); },
          groups ? groups->all : nullptr);
      passes = {.execution = automatic, .stages = automatic};
    } else if (!cut.empty()) {
      passes = make({.layers = cut});
    } else {
      passes = make(StageStarts::of_model(stage_devices_of_pipeline(groups, local)));
    }
    parts.execution = passes.execution;
    parts.stages = passes.stages;
  }

  /// A collective of the workers, each of which knows its devices.
  StageDevices stage_devices_of_pipeline(const std::optional<PipelineWorkers>& groups,
                                         const LocalStages& local) const {
    std::vector<std::string> names;
    for (const device::Device& device : devices) names.push_back(device.name.to_string());
    if (workers == 1) return StageDevices(names);
    names.resize(static_cast<std::size_t>(local.local_devices));
    const std::vector<std::string> of_all =
        comm::all_gather_texts(*groups->pipeline->communicator, base::join(names, ","));
    names.clear();
    const int chunks = local.stages / local.devices;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (const std::string& of_worker : of_all)
        for (const std::string& name : base::split(of_worker, ',')) names.push_back(name);
    }
    std::vector<cluster::Task> tasks;
    for (const cluster::Member& member : groups->all->membership->members())
      tasks.push_back(member.task);
    return StageDevices(names, tasks, pipelines, chunks);
  }

  void use_workers(const PipelineWorkers& groups) {
    parts.workers = groups.all;
    parts.replica_workers = groups.replicas;
    if (!groups.pipeline) {
      parts.synchronizer = make_worker_synchronizer;
      return;
    }
    StageSynchronizerOptions synchronizer{.workers = groups, .variables = variables};
    if (automatic) {
      synchronizer.has_all_stages = [automatic = automatic] { return automatic->is_profiling(); };
    }
    parts.synchronizer = stage_synchronizer(synchronizer);
  }

  int workers = 1;                      // of a pipeline
  int pipelines = 1;                    // side by side
  std::vector<device::Device> devices;  // of the local stages
  std::vector<std::string> cut;
  int stages = 1;  // of a pipeline
  std::shared_ptr<concurrency::StageSlots> slots;
  std::shared_ptr<AutomaticPipeline> automatic;
  std::shared_ptr<const StageChannels> channels;
  std::shared_ptr<const IdleStages> idle;
  std::shared_ptr<StageVariables> variables;  // null: this process has all stages
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
      num_pipelines_(built.pipelines),
      given_cut_(std::move(built.cut)),
      automatic_(std::move(built.automatic)),
      slots_(std::move(built.slots)),
      channels_(std::move(built.channels)),
      idle_(std::move(built.idle)) {
  if (built.variables) {
    built.variables->set_source([this] {
      std::vector<variables::Variable> trained;
      for (const Optimizer& optimizer : created_optimizers())
        std::ranges::copy(optimizer.state().variables(), std::back_inserter(trained));
      return trained;
    });
  }
  if (!automatic_) return;
  automatic_->set_variable_bytes([this] {
    std::int64_t bytes = 0;
    for (const auto& model : created_models()) bytes += bytes_of(model->variables());
    return bytes;
  });
}

void PipelineStrategy::check_modules(std::size_t modules) const {
  const bool is_cut = automatic_ || !given_cut_.empty();
  check_argument(
      !is_cut,
      "PipelineStrategy::stages makes a model with a module for each stage, and "
      "PipelineStrategyOptions::cut ",
      automatic_ ? "is automatic" : base::str_cat("names ", base::join(given_cut_, ", ")),
      ": leave the cut empty.");
  check_argument(modules == static_cast<std::size_t>(num_stages_),
                 "PipelineStrategy::stages was given ", modules,
                 modules == 1 ? " module" : " modules", ", and the pipeline has ", num_stages_,
                 num_stages_ == 1 ? " stage" : " stages",
                 ": give one for each stage, or set PipelineStrategyOptions::stages, or ::devices, "
                 "to their number.");
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
  return channels_ ? channels_->bytes_sent() : 0;
}

std::int64_t PipelineStrategy::reduction_bytes_sent() const {
  return replica_workers() ? replica_workers()->communicator->traffic().bytes_sent : 0;
}

std::vector<int> PipelineStrategy::peak_micro_batches() const {
  return slots_->peak_micro_batches();
}

}  // namespace brigade::distribute
