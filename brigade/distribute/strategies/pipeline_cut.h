#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/pipeline_schedule.h"

namespace brigade::distribute {

/// Lets a pipeline choose its cut by the costs of the model's layers. In the first steps of a
/// training each device computes the whole model for its part of the micro-batches, and the layers
/// are measured. Then the model is cut so that the slowest stage is as fast as possible. The
/// measured steps count like all others, with the same bits: nothing is trained twice. Choose it
/// unless you know the costs better, or need the same cut in each run.
struct AutomaticCut {
  /// How many steps with an update are measured: 1 or more. If there are several, the first one,
  /// which allocates memory and chooses kernels, does not count.
  int profile_steps = 3;
  /// The most bytes that a stage on CPU may need: for its variables, and for the activations of as
  /// many micro-batches as the schedule lets it keep. Gradients and slots of optimizers do not
  /// count. 0: no limit, and memory is not measured.
  std::int64_t bytes_per_stage = 0;
};

/// Where a pipeline is cut: the names of the layers with which the stages after the first begin, in
/// the order of the model, or an automatic choice.
///
///   {.devices = {"cpu:0", "cpu:1"}, .cut = {"conv2"}}
///   {.devices = {"cpu:0", "cpu:1"}, .cut = bg::AutomaticCut{.profile_steps = 5}}
///
/// Thread-safety: a value.
class PipelineCut {
 public:
  /// No cut: one stage, or the model says where its stages begin.
  PipelineCut() = default;
  // Implicit: written as the value of an option.
  PipelineCut(std::initializer_list<std::string> layers) : layers_(layers) {}   // NOLINT
  PipelineCut(std::vector<std::string> layers) : layers_(std::move(layers)) {}  // NOLINT
  PipelineCut(const AutomaticCut& automatic) : automatic_(automatic) {}         // NOLINT

  /// Set if the pipeline chooses.
  const std::optional<AutomaticCut>& automatic() const { return automatic_; }
  /// Empty if the pipeline chooses.
  const std::vector<std::string>& layers() const { return layers_; }

 private:
  std::vector<std::string> layers_;
  std::optional<AutomaticCut> automatic_;
};

/// The cost of a layer for one micro-batch, from the announcement of the layer to that of the next.
struct LayerCost {
  std::string name;
  /// The time of each pass.
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;
  /// The part of `backward_seconds` that can be deferred: gradients of weights.
  double weight_gradient_seconds = 0.0;
  /// What the forward pass keeps for the backward pass, and the layer's result. 0 if memory was not
  /// measured.
  std::int64_t activation_bytes = 0;
  std::int64_t variable_bytes = 0;  ///< 0 if memory was not measured
};

/// The sum over the layers of a stage.
struct StageCost {
  std::string first_layer;
  double forward_seconds = 0.0;
  double backward_seconds = 0.0;
  double weight_gradient_seconds = 0.0;  ///< part of `backward_seconds`
  /// As `AutomaticCut::bytes_per_stage` counts; 0 if memory was not measured.
  std::int64_t bytes = 0;

  double seconds() const { return forward_seconds + backward_seconds; }
};

/// The input of `choose_cut`.
struct CutProblem {
  std::vector<LayerCost> layers;  ///< in the order of the model
  /// How many stages, and in which order they make the passes of so many micro-batches.
  int stages = 1;
  int micro_batches = 1;
  concurrency::PipelineSchedule schedule = concurrency::PipelineSchedule::k1F1B;
  /// The time of all devices together in a step besides the passes, which the stages divide: sums
  /// of gradients, the update.
  double seconds_besides = 0.0;
  /// The number of micro-batches whose gradients of weights a stage may defer; 0: none.
  int deferred_micro_batches = 0;
  std::int64_t bytes_per_stage = 0;  ///< as AutomaticCut
};

/// A cut, and the costs that it was chosen by.
struct ChosenCut {
  std::vector<std::string> layers;  ///< those with which the stages after the first begin
  std::vector<StageCost> stages;
  /// What a step of the pipeline should take if each stage computes as fast as it was measured.
  double step_seconds = 0.0;
  std::vector<LayerCost> layer_costs;
};

/// Throws kInvalidArgument, naming both, if a model that announces these layers cannot be cut into
/// so many stages.
void check_layers(const std::vector<std::string>& layers, int stages);

/// The cut whose slowest stage is as fast as possible, of those within the limit of bytes. If
/// stages may defer gradients of weights, it is chosen either with or without counting these:
/// whichever step is predicted to be shorter. Throws as `check_layers`, and kResourceExhausted,
/// naming the smallest possible limit, if no cut is within the limit.
ChosenCut choose_cut(const CutProblem& problem);

/// "cut before conv2: stages of 12.1 ms and 11.8 ms per micro-batch; predicted step 140 ms", and if
/// stages may defer gradients of weights "stages of 12.1 ms and 11.8 ms per micro-batch (3.1 ms and
/// 4.0 ms of it on any idle stage)".
std::string to_string(const ChosenCut& cut);

}  // namespace brigade::distribute
