#include "apps/brigade/stage_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/machine/device_name.h"

namespace brigade::command {
namespace {

/// GPUs that exist as well as those that do not.
void check_cpus(const std::vector<std::string>& devices) {
  for (const std::string& name : devices) {
    const auto parsed = set_up([&] { return machine::DeviceName::parse(name); });
    if (parsed.type == machine::DeviceType::kCpu) continue;
    throw UsageError("strategy pipeline has its stages on CPUs, and --devices names ",
                     base::printable(name), "; use --devices cpu:0,cpu:1, or --strategy mirrored");
  }
}

std::string plural(std::size_t count, const char* what) {
  return base::str_cat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

const std::vector<std::string>& pipeline_schedule_names() {
  static const std::vector<std::string> names = {"1f1b", "gpipe", "interleaved"};
  return names;
}

void StageFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Pipeline");
  group
      .add(
          "--cut", cut,
          "pipeline: the layers with which the stages after the first begin, such as conv2,dense1; "
          "auto: by what the layers cost, measured in the first steps (default auto)")
      ->option_text("auto|NAMES");
  group.add("--micro-batches", micro_batches,
            "pipeline: into how many parts a batch is divided, which pass through the stages one "
            "after another; --batch-size is of one of them, and the weights depend on this number "
            "as on --logical-replicas (default four for each stage of each replica)");
  group.add("--replicas", replicas,
            "pipeline: with several workers, how many pipelines train side by side, each with its "
            "part of the micro-batches; the first workers have the stages of the first one "
            "(default 1)");
  group.add("--pipeline-schedule", schedule,
            base::str_cat("pipeline: the order of the stages' passes, which decides their memory: ",
                          base::join(pipeline_schedule_names(), ", "), " (default 1f1b)"));
  group.add("--chunks", chunks,
            "pipeline: stages on each device with --pipeline-schedule interleaved; stage s is on "
            "device s modulo their number (default 2)");
}

void StageFlags::check(const std::vector<std::string>& devices, int processes) const {
  check_choice("value of --pipeline-schedule", schedule_name(), pipeline_schedule_names());
  if (micro_batches) check_at_least("--micro-batches", *micro_batches, 1);
  check_cpus(devices);
  check_chunks();
  check_replicas(processes);
  const int workers = processes / static_cast<int>(num_replicas());
  if (workers > 1) return check_workers(devices, workers);
  if (is_automatic()) {
    if (!devices.empty()) return;
    throw UsageError(
        "strategy pipeline needs --devices, one for each stage, such as cpu:0,cpu:1; or --cut with "
        "the names of layers");
  }
  const std::vector<std::string> layers = cut_layers();
  const std::set<std::string> each(layers.begin(), layers.end());
  if (each.contains("") || each.size() < layers.size()) {
    throw UsageError("--cut is ", base::quoted(*cut),
                     "; give auto, or the names of layers, each once, such as conv2,dense1");
  }
  const auto each_device = static_cast<std::size_t>(num_chunks());
  if (each_device > 1) {
    if ((layers.size() + 1) % each_device == 0 &&
        (devices.empty() || devices.size() * each_device == layers.size() + 1))
      return;
    throw UsageError("--cut names ", plural(layers.size(), "layer"), ", and ",
                     devices.empty() ? "the" : plural(devices.size(), "device"),
                     devices.empty() ? " devices have " : " with ", each_device,
                     " stages each; name a layer for each stage but the first");
  }
  if (devices.empty() || devices.size() == layers.size() + 1) return;
  throw UsageError(
      "--devices names ", plural(devices.size(), "device"), ", and --cut ",
      plural(layers.size(), "layer"),
      "; each device but the first needs the layer with which its stage begins, or use --cut auto");
}

void StageFlags::check_replicas(int processes) const {
  check_at_least("--replicas", num_replicas(), 1);
  if (processes % num_replicas() != 0) {
    throw UsageError(base::str_cat(
        "--replicas is ", num_replicas(), ", and there ",
        processes == 1 ? "is 1 worker" : base::str_cat("are ", processes, " workers"),
        ": each pipeline has equally many; start a multiple of ", num_replicas(), " workers"));
  }
  if (micro_batches && *micro_batches < num_replicas()) {
    throw UsageError(base::str_cat("--micro-batches is ", *micro_batches, ", and --replicas ",
                                   num_replicas(),
                                   ": each pipeline computes at least one micro-batch"));
  }
}

/// `workers`: of one pipeline.
void StageFlags::check_workers(const std::vector<std::string>& devices, int workers) const {
  const std::string of_workers = base::str_cat("a pipeline over ", workers, " workers ");
  if (is_automatic()) return;
  const std::vector<std::string> layers = cut_layers();
  const std::size_t stages = layers.size() + 1;
  const auto chunks_of_each = static_cast<std::size_t>(num_chunks());
  const std::size_t count = static_cast<std::size_t>(workers) * chunks_of_each;
  if (std::set<std::string>(layers.begin(), layers.end()).size() < layers.size()) {
    throw UsageError("--cut is ", base::quoted(*cut), "; name each layer once");
  }
  if (stages % count != 0) {
    throw UsageError(
        "--cut makes ", plural(stages, "stage"), ", and ", of_workers, "has equally many in each",
        chunks_of_each > 1 ? base::str_cat(", ", chunks_of_each, " on each device") : "", "; name ",
        count - 1, " layers, or another multiple of ", count, " less one");
  }
  if (devices.empty() || devices.size() == stages / count) return;
  throw UsageError("--devices names ", plural(devices.size(), "device"), ", and ", of_workers,
                   "has ", plural(stages / count, chunks_of_each > 1 ? "device" : "stage"),
                   " in each; name as many, or leave out --devices");
}

void StageFlags::check_chunks() const {
  if (schedule_name() != "interleaved") {
    if (!chunks) return;
    throw UsageError("--chunks is for --pipeline-schedule interleaved, and it is ", schedule_name(),
                     ", with one stage on each device");
  }
  check_at_least("--chunks", num_chunks(), 2);
  if (!is_automatic()) return;
  throw UsageError(
      "--pipeline-schedule interleaved needs --cut with the names of layers, one for each stage "
      "but the first; an automatic cut has one stage on each device");
}

void StageFlags::check_none(const std::string& strategy) const {
  for (const auto& [flag, is_given] :
       {std::pair("--cut", cut.has_value()),
        std::pair("--micro-batches", micro_batches.has_value()),
        std::pair("--replicas", replicas.has_value()), std::pair("--chunks", chunks.has_value()),
        std::pair("--pipeline-schedule", schedule.has_value())}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " has no stages; leave out ", flag,
                     ", or use --strategy pipeline");
  }
}

void StageFlags::check_layers(const std::string& model, const std::vector<std::string>& layers,
                              int devices) const {
  const std::string known = base::str_cat(" Layers of ", model, ": ", base::join(layers, ", "));
  if (devices > static_cast<int>(layers.size())) {
    throw UsageError("a pipeline on ", devices, " devices needs as many layers, and ", model,
                     " has ", layers.size(), "; name fewer --devices.", known);
  }
  if (is_automatic()) return;
  std::size_t last = 0;
  for (const std::string& name : cut_layers()) {
    const auto found = std::ranges::find(layers, name);
    if (found == layers.end()) {
      throw UsageError("--cut names ", base::quoted(name), ", and ", model, " has no such layer",
                       base::did_you_mean(name, layers, "."), known);
    }
    if (found == layers.begin()) {
      throw UsageError("--cut names ", base::quoted(name), ", with which ", model,
                       " begins: the first stage would have no layer.", known);
    }
    const auto index = static_cast<std::size_t>(found - layers.begin());
    if (std::exchange(last, index) > index) {
      throw UsageError("--cut names ", base::quoted(name),
                       " after a later layer; name them in the order of the model.", known);
    }
  }
}

void StageFlags::apply_to(distribute::PipelineStrategyOptions& options) const {
  if (is_automatic()) {
    options.cut = distribute::AutomaticCut{};
  } else {
    options.cut = cut_layers();
  }
  options.micro_batches = static_cast<int>(micro_batches.value_or(0));
  options.replicas = static_cast<int>(num_replicas());
  for (const auto known :
       {distribute::PipelineSchedule::kGPipe, distribute::PipelineSchedule::k1F1B,
        distribute::PipelineSchedule::kInterleaved}) {
    if (to_string(known) == schedule_name()) options.schedule = known;
  }
  options.chunks_per_device = static_cast<int>(num_chunks());
}

std::vector<std::string> StageFlags::cut_layers() const {
  std::vector<std::string> layers;
  if (is_automatic()) return layers;
  for (const std::string& name : base::split(*cut, ',')) layers.emplace_back(base::trim(name));
  return layers;
}

void add_stages(Json& result, const distribute::PipelineStrategy& pipeline,
                const std::vector<int>& peaks) {
  constexpr double kMilliseconds = 1e3;
  const auto& chosen = pipeline.chosen_cut();
  Json costs = nullptr;
  if (chosen) {
    costs = Json::array();
    for (const distribute::StageCost& stage : chosen->stages)
      costs.push_back({{"forward", kMilliseconds * stage.forward_seconds},
                       {"backward", kMilliseconds * stage.backward_seconds}});
  }
  result["cut"] = pipeline.cut();
  result["stage_milliseconds"] = std::move(costs);
  result["predicted_step_milliseconds"] =
      chosen ? Json(kMilliseconds * chosen->step_seconds) : Json(nullptr);
  result["peak_live_micro_batches"] = peaks;
  if (pipeline.num_workers() > 1) result["stage_bytes_sent"] = pipeline.bytes_sent();
  if (pipeline.num_pipelines() > 1)
    result["reduction_bytes_sent"] = pipeline.reduction_bytes_sent();
}

}  // namespace brigade::command
