#include "brigade/distribute/automatic_pipeline.h"

#include <algorithm>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

using concurrency::StageSlots;
using concurrency::StageSlotsOptions;

/// Each micro-batch goes back as soon as it is at the end: fewest activations, and no waits.
std::shared_ptr<StageSlots> slots_of_one_stage(StageSlotsOptions options) {
  options.stages = 1;
  options.schedule = concurrency::PipelineSchedule::k1F1B;
  return std::make_shared<StageSlots>(options);
}

}  // namespace

AutomaticPipeline::AutomaticPipeline(const AutomaticCut& cut, const StageSlotsOptions& options,
                                     std::shared_ptr<StageSlots> slots)
    : cut_(cut),
      options_(options),
      final_slots_(std::move(slots)),
      slots_(slots_of_one_stage(options)),
      stages_(std::make_unique<PipelineStages>(slots_, std::vector<std::string>(),
                                               options.micro_batches)),
      profiler_(std::make_shared<LayerProfiler>(
          options.micro_batches, cut.bytes_per_stage > 0 ? LayerProfiler::Memory::kMeasured
                                                         : LayerProfiler::Memory::kNotMeasured)) {}

const std::optional<ChosenCut>& AutomaticPipeline::chosen() {
  end_step();
  return chosen_;
}

void AutomaticPipeline::end_step() {
  if (!is_profiling()) return;
  profiler_->end_step();
  if (profiler_->steps() >= cut_.profile_steps && !error_) choose();
}

/// Errors are thrown in the next step, since `start` must not throw.
void AutomaticPipeline::choose() {
  try {
    chosen_ = choose_cut({.layers = costs(),
                          .stages = options_.stages,
                          .micro_batches = options_.micro_batches,
                          .schedule = options_.schedule,
                          .seconds_besides = profiler_->seconds_besides(),
                          .bytes_per_stage = cut_.bytes_per_stage});
  } catch (const Error& error) {
    error_ = error;
    return;
  }
  base::log_info(base::str_cat("pipeline: ", to_string(*chosen_)));
  slots_ = final_slots_;
  stages_ = std::make_unique<PipelineStages>(slots_, chosen_->layers, options_.micro_batches);
  profiler_.reset();
}

std::vector<LayerCost> AutomaticPipeline::costs() const {
  std::vector<LayerCost> costs = profiler_->costs();
  if (cut_.bytes_per_stage == 0 || !variable_bytes_ || costs.empty()) return costs;
  std::int64_t left = variable_bytes_();
  for (const LayerCost& layer : costs) left -= layer.variable_bytes;
  costs.back().variable_bytes += std::max<std::int64_t>(0, left);
  return costs;
}

void AutomaticPipeline::start() {
  end_step();
  slots_->start();
  if (is_profiling()) profiler_->begin_step();
}

void AutomaticPipeline::begin(int task) {
  slots_->begin(task);
  if (is_profiling()) profiler_->resume(task);
}

void AutomaticPipeline::end(int task) {
  if (is_profiling()) profiler_->end(task);
  slots_->end(task);
}

void AutomaticPipeline::acquire(int task) {
  slots_->acquire(task);
  if (is_profiling()) profiler_->resume(task);
}

void AutomaticPipeline::release(int task) {
  if (is_profiling()) profiler_->pause(task);
  slots_->release(task);
}

void AutomaticPipeline::abort(const std::string& reason) {
  if (is_profiling()) profiler_->fail();
  slots_->abort(reason);
}

at::Tensor AutomaticPipeline::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  if (error_) throw Error(*error_);
  if (is_profiling()) profiler_->begin_layer(replica, name, x);
  return stages_->begin_layer(replica, name, x);
}

void AutomaticPipeline::begin_backward(int replica) {
  if (is_profiling()) {
    check_layers(profiler_->layers(replica), options_.stages);
    profiler_->begin_backward(replica);
  }
  stages_->begin_backward(replica);
}

void AutomaticPipeline::end_backward(int replica) noexcept {
  if (is_profiling()) profiler_->end_backward(replica);
  stages_->end_backward(replica);
}

}  // namespace brigade::distribute
