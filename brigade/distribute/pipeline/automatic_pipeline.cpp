#include "brigade/distribute/pipeline/automatic_pipeline.h"

#include <algorithm>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/concurrency/shared_slots.h"
#include "brigade/distribute/pipeline/stage_cut.h"

namespace brigade::distribute {

namespace {

using concurrency::StageSlotsOptions;

/// The number of devices of this process.
int local_devices_of(const StageSlotsOptions& options) {
  return options.local_devices > 0 ? options.local_devices : options.stages / options.chunks;
}

/// Each device computes the whole model for its micro-batches, one after another. All of them
/// compute, as in the pipeline to be: they share memory and caches, which makes layers slower.
class WholeModels final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  explicit WholeModels(const StageSlotsOptions& options)
      : devices_(local_devices_of(options)),
        threads_(options.threads),
        slots_(slots_of(options)),
        cut_(StageStarts(), options.micro_batches) {}

  void start() override {
    cut_.begin_step();
    slots_.start();
  }
  void begin(int task) override {
    if (threads_) {
      threads_->begin(task);
      threads_->move(task, task % devices_);
    }
    slots_.begin(task);
  }
  void end(int task) override {
    slots_.end(task);
    if (threads_) threads_->end(task);
  }
  void acquire(int task) override { slots_.acquire(task); }
  void release(int task) override { slots_.release(task); }
  void abort(const std::string& reason) override { slots_.abort(reason); }

  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override {
    cut_.begin_layer(replica, name);
    return x;
  }
  at::Tensor place_layer(int replica, std::string_view name, const std::string& device,
                         const at::Tensor& x) override {
    cut_.place_layer(replica, name, device);
    return x;
  }
  at::Tensor end_layers(int replica, const at::Tensor& result) override {
    cut_.end_layers(replica);
    return result;
  }
  void begin_backward(int replica) override { cut_.begin_backward(replica); }
  void end_backward(int replica) noexcept override { cut_.end_backward(replica); }

 private:
  static std::vector<int> slots_of(const StageSlotsOptions& options) {
    std::vector<int> slots;
    for (int task = 0; task < options.micro_batches; ++task)
      slots.push_back(task % local_devices_of(options));
    return slots;
  }

  const int devices_;
  const std::shared_ptr<concurrency::TaskThreads> threads_;  // null: they are not moved
  concurrency::SharedSlots slots_;
  StageCut cut_;
};

PipelinePasses passes_of_whole_models(const StageSlotsOptions& options) {
  const auto models = std::make_shared<WholeModels>(options);
  return {.execution = models, .stages = models};
}

// What the first worker sends to the others: nothing, the cut's layers, or why there is no cut.
constexpr char kCut = 'c';
constexpr char kError = 'e';
constexpr char kSeparator = '\n';

std::string text_of(const std::optional<ChosenCut>& chosen, const std::optional<Error>& error) {
  if (chosen) return kCut + base::join(chosen->layers, std::string(1, kSeparator));
  if (!error) return {};
  return kError +
         base::str_cat(static_cast<int>(error->code()), std::string(1, kSeparator), error->what());
}

Error error_in(const std::string& text) {
  const std::size_t end = text.find(kSeparator);
  const auto code = base::parse_int(text.substr(1, end - 1));
  return {static_cast<ErrorCode>(code.value_or(0)), text.substr(end + 1)};
}

}  // namespace

AutomaticPipeline::AutomaticPipeline(const AutomaticCut& cut, const StageSlotsOptions& options,
                                     Make make, std::shared_ptr<const WorkerGroup> workers)
    : cut_(cut),
      options_(options),
      make_(std::move(make)),
      workers_(std::move(workers)),
      passes_(passes_of_whole_models(options)),
      profiler_(std::make_shared<LayerProfiler>(options.micro_batches, local_devices_of(options),
                                                cut.bytes_per_stage > 0
                                                    ? LayerProfiler::Memory::kMeasured
                                                    : LayerProfiler::Memory::kNotMeasured)) {}

const std::optional<ChosenCut>& AutomaticPipeline::chosen() {
  static const std::optional<ChosenCut> kNone;
  if (!workers_) end_step();
  return is_profiling() ? kNone : chosen_;
}

void AutomaticPipeline::end_step() {
  if (!is_profiling()) return;
  profiler_->end_step();
  const bool is_due = profiler_->steps() >= cut_.profile_steps && !chosen_ && !error_;
  if (is_due && is_first_worker()) choose();
  if (!workers_ && chosen_) use_chosen();
}

/// Errors are thrown in the next step, since `start` must not throw.
void AutomaticPipeline::choose() {
  try {
    chosen_ = choose_cut({.layers = costs(),
                          .stages = options_.stages,
                          .micro_batches = options_.micro_batches,
                          .schedule = options_.schedule,
                          .seconds_besides = profiler_->seconds_besides(),
                          .deferred_micro_batches = options_.deferred_tasks,
                          .bytes_per_stage = cut_.bytes_per_stage});
  } catch (const Error& error) {
    error_ = error;
    return;
  }
  base::log_info("pipeline: ", to_string(*chosen_));
}

void AutomaticPipeline::agree() {
  const std::string text =
      comm::all_gather_texts(*workers_->communicator, text_of(chosen_, error_)).front();
  if (text.empty()) return;
  if (text.front() == kError) {
    error_ = error_in(text);
    return;
  }
  if (!is_first_worker()) {
    chosen_ = ChosenCut{.layers = base::split(text.substr(1), kSeparator),
                        .stages = {},
                        .step_seconds = 0.0,
                        .layer_costs = {}};
  }
  use_chosen();
}

void AutomaticPipeline::use_chosen() {
  passes_ = make_(chosen_->layers);
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
  if (workers_ && is_profiling()) agree();
  passes_.execution->start();
  if (is_profiling()) profiler_->begin_step();
}

void AutomaticPipeline::begin(int task) {
  passes_.execution->begin(task);
  if (is_profiling()) profiler_->resume(task);
}

void AutomaticPipeline::end(int task) {
  if (is_profiling()) profiler_->end(task);
  passes_.execution->end(task);
}

void AutomaticPipeline::acquire(int task) {
  passes_.execution->acquire(task);
  if (is_profiling()) profiler_->resume(task);
}

void AutomaticPipeline::release(int task) {
  if (is_profiling()) profiler_->pause(task);
  passes_.execution->release(task);
}

void AutomaticPipeline::abort(const std::string& reason) {
  if (is_profiling()) profiler_->fail();
  passes_.execution->abort(reason);
}

at::Tensor AutomaticPipeline::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  if (error_) throw Error(*error_);
  if (is_profiling()) profiler_->begin_layer(replica, name, x);
  return passes_.stages->begin_layer(replica, name, x);
}

at::Tensor AutomaticPipeline::place_layer(int replica, std::string_view name,
                                          const std::string& device, const at::Tensor& x) {
  return passes_.stages->place_layer(replica, name, device, x);
}

at::Tensor AutomaticPipeline::end_layers(int replica, const at::Tensor& result) {
  return passes_.stages->end_layers(replica, result);
}

void AutomaticPipeline::end_layers_with_more(int replica) {
  passes_.stages->end_layers_with_more(replica);
}

std::vector<at::Tensor> AutomaticPipeline::backward_inputs(int replica) {
  return passes_.stages->backward_inputs(replica);
}

void AutomaticPipeline::check_loss(int replica, const at::Tensor& loss) {
  passes_.stages->check_loss(replica, loss);
}

void AutomaticPipeline::keep_local_gradients(int replica, std::span<const at::Tensor> variables,
                                             std::span<at::Tensor> gradients) {
  passes_.stages->keep_local_gradients(replica, variables, gradients);
}

void AutomaticPipeline::send_input_gradients(int replica, std::vector<at::Tensor> gradients) {
  passes_.stages->send_input_gradients(replica, std::move(gradients));
}

bool AutomaticPipeline::may_defer(int replica) {
  return is_profiling() ? options_.deferred_tasks > 0 : passes_.stages->may_defer(replica);
}

void AutomaticPipeline::defer(int replica, std::function<void()> work) {
  if (is_profiling()) return profiler_->weight_gradient(replica, work);
  passes_.stages->defer(replica, std::move(work));
}

void AutomaticPipeline::complete_deferred(int replica) {
  passes_.stages->complete_deferred(replica);
}

void AutomaticPipeline::parallel_for(int replica, int count, const std::function<void(int)>& work) {
  passes_.stages->parallel_for(replica, count, work);
}

void AutomaticPipeline::begin_backward(int replica) {
  if (is_profiling()) {
    check_layers(profiler_->layers(replica), options_.stages);
    profiler_->begin_backward(replica);
  }
  passes_.stages->begin_backward(replica);
}

void AutomaticPipeline::end_backward(int replica) noexcept {
  if (is_profiling()) profiler_->end_backward(replica);
  passes_.stages->end_backward(replica);
}

}  // namespace brigade::distribute
