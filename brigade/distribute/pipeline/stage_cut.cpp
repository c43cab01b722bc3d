#include "brigade/distribute/pipeline/stage_cut.h"

#include <algorithm>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::distribute {

std::string stage_layer(int stage) {
  return base::str_cat("stages.", stage);
}

StageStarts StageStarts::of_model(StageDevices devices) {
  StageStarts starts;
  for (int stage = 1; stage < devices.stages(); ++stage)
    starts.layers.push_back(stage_layer(stage));
  starts.devices = std::move(devices);
  return starts;
}

StageCut::StageCut(StageStarts starts, int micro_batches)
    : starts_(std::move(starts)), passes_(static_cast<std::size_t>(micro_batches)) {}

std::optional<int> StageCut::begin_layer(int replica, std::string_view name) {
  MicroBatchPass& pass = passes_[index(replica)];
  if (pass.is_in_backward) return std::nullopt;
  const auto& layers = starts_.layers;
  const auto found = std::ranges::find(layers, name);
  const int stage = found == layers.end() ? 0 : static_cast<int>(found - layers.begin()) + 1;
  if (stage > 0) check_move(pass, stage);
  if (!is_verified_ && std::ranges::find(pass.layers, name) == pass.layers.end())
    pass.layers.emplace_back(name);
  if (stage == 0) return std::nullopt;
  pass.stage = stage;
  return stage;
}

void StageCut::begin_step() {
  for (MicroBatchPass& pass : passes_) {
    pass.stage = 0;
    pass.is_in_backward = false;
    pass.has_ended = false;
  }
}

std::optional<int> StageCut::place_layer(int replica, std::string_view name,
                                         const std::string& device) {
  MicroBatchPass& pass = passes_[index(replica)];
  if (pass.is_in_backward) return std::nullopt;
  if (!starts_.devices) {
    refuse_scope_beside_cut(name, device);
    return std::nullopt;
  }
  const auto choice = starts_.devices->choice(name, device);
  if (!choice || starts_.devices->is_on(pass.stage, *choice)) return std::nullopt;
  if (pass.stage < last_stage() && starts_.devices->is_on(pass.stage + 1, *choice))
    return ++pass.stage;
  if (!pass.has_ended || !starts_.devices->is_on(0, *choice)) refuse_order(pass, name, device);
  pass.stage = 0;  // another forward pass
  pass.has_ended = false;
  return std::nullopt;
}

/// Scopes that name neither a device nor a task are those of programs for any strategy.
void StageCut::refuse_scope_beside_cut(std::string_view name, const std::string& device) const {
  const auto spec = machine::DeviceSpec::parse(device);
  if (!spec.type && !spec.task) return;
  throw Error(ErrorCode::kInvalidArgument, "The layer ", base::quoted(name),
              " is in a device scope of ", base::quoted(device), ", and the pipeline has a cut (",
              starts_.layers.empty() ? "an automatic one" : base::join(starts_.layers, ", "),
              "): leave PipelineStrategyOptions::cut empty if device scopes say where stages "
              "begin, or open none.");
}

void StageCut::refuse_order(const MicroBatchPass& pass, std::string_view name,
                            const std::string& device) const {
  throw Error(ErrorCode::kInvalidArgument, "The layer ", base::quoted(name),
              " is in a device scope of ", base::quoted(device),
              ", and the model comes to it from stage ", pass.stage,
              ": open the scopes in the order of the stages (", starts_.devices->list(),
              "), each around at least one layer, and go ", "back to no earlier one.");
}

void StageCut::check_move(MicroBatchPass& pass, int stage) const {
  const auto& layers = starts_.layers;
  const auto of_stage = static_cast<std::size_t>(stage) - 1;
  const bool is_first_layer = stage == 1 && !is_verified_ && pass.layers.empty();
  if (is_first_layer) {
    throw Error(ErrorCode::kInvalidArgument, "The pipeline is cut before ",
                base::quoted(layers[of_stage]),
                ", with which the model begins: the first stage would have no layer. Name the "
                "layers with which the stages after the first begin.");
  }
  const bool is_next = stage == pass.stage + 1 || stage == 1;  // 1: another forward pass
  if (is_next) return;
  pass.layers.clear();
  throw Error(ErrorCode::kInvalidArgument, "The pipeline's layer ", base::quoted(layers[of_stage]),
              " begins stage ", stage, ", and the model comes to it from stage ", pass.stage,
              ": name the layers of the cut in the order of the model (", base::join(layers, ", "),
              ").");
}

void StageCut::check_is_complete(int replica) {
  if (is_verified_) return;
  MicroBatchPass& pass = passes_[index(replica)];
  if (pass.stage != last_stage()) {
    const Error error = not_reached(pass);
    pass = MicroBatchPass();
    throw error;
  }
  is_verified_ = true;
}

void StageCut::begin_backward(int replica) {
  check_is_complete(replica);
  passes_[index(replica)].is_in_backward = true;
}

Error StageCut::not_reached(const MicroBatchPass& pass) const {
  const std::size_t stages = starts_.layers.size() + 1;
  if (starts_.devices) {
    return {ErrorCode::kInvalidArgument,
            base::str_cat("The pipeline has ", stages,
                          " stages and no cut, and the model goes no "
                          "further than stage ",
                          pass.stage,
                          ": name layers in PipelineStrategyOptions::cut, make the model by "
                          "PipelineStrategy::stages, or open a device scope around the layers of "
                          "each stage (",
                          starts_.devices->list(), ").")};
  }
  const std::string& missing = starts_.layers[static_cast<std::size_t>(pass.stage)];
  const std::string text =
      base::str_cat("The pipeline has ", stages, " stages, and the model has no layer ",
                    base::quoted(missing), " with which stage ", pass.stage + 1, " would begin");
  if (pass.layers.empty()) {
    return {ErrorCode::kInvalidArgument,
            base::str_cat(text,
                          ": it names none. Let its forward pass call begin_layer(name, x) before "
                          "its layers, or use a LayerSequence.")};
  }
  return {ErrorCode::kInvalidArgument,
          base::str_cat(text, base::did_you_mean(missing, pass.layers, "."),
                        " Its layers: ", base::join(pass.layers, ", "), ".")};
}

}  // namespace brigade::distribute
