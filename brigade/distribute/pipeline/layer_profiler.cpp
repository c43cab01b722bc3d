#include "brigade/distribute/pipeline/layer_profiler.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <unordered_set>
#include <utility>

namespace brigade::distribute {

namespace {

using TimePoint = std::chrono::steady_clock::time_point;

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The bytes that tensors of this thread have more than at the start.
class LiveTensorBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    bytes_ += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

using Nodes = std::unordered_set<const torch::autograd::Node*>;

/// The bytes of the variables that `x` was computed from, except through nodes of `known`. Adds the
/// nodes that it finds to `known`.
std::int64_t bytes_of_new_variables(const at::Tensor& x, Nodes& known) {
  std::int64_t bytes = 0;
  std::vector<const torch::autograd::Node*> left = {x.grad_fn().get()};
  while (!left.empty()) {
    const auto* node = left.back();
    left.pop_back();
    if (node == nullptr || !known.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node))
      bytes += static_cast<std::int64_t>(leaf->variable.nbytes());
    for (const torch::autograd::Edge& edge : node->next_edges())
      left.push_back(edge.function.get());
  }
  return bytes;
}

}  // namespace

/// The passes of one task in a step.
struct alignas(64) LayerProfiler::Pass {
  enum class Phase { kBefore, kForward, kBackward, kAfter };

  Phase phase = Phase::kBefore;
  bool computes = false;
  bool is_in_backward = false;  // what is computed again there belongs to it
  bool is_complete = false;     // there was a backward pass
  TimePoint mark;               // of the last charge
  TimePoint over;               // when the backward pass was
  TimePoint waits;              // for the first time after that; no time before
  double before = 0.0;
  std::size_t layer = 0;
  std::vector<std::string> names;
  std::vector<double> forward, backward;             // [layer]
  std::vector<double> weight_gradients;              // [layer]: part of backward
  std::vector<std::int64_t> activations, variables;  // [layer]: bytes
  std::shared_ptr<LiveTensorBytes> live;
  std::int64_t live_before = 0;  // this layer
  Nodes nodes;
  // Of this thread; last, because it must go first.
  std::optional<c10::DebugInfoGuard> reports;

  void charge(TimePoint now);
  std::size_t index_of(std::string_view name);
  void begin_memory();
  void end_memory(const at::Tensor& x);
};

struct LayerProfiler::Samples {
  std::string name;
  std::vector<double> forward, backward, weight_gradients;
  std::int64_t activations = 0, variables = 0;
};

LayerProfiler::LayerProfiler(int tasks, int devices, Memory memory,
                             std::shared_ptr<const base::Clock> clock)
    : devices_(devices), memory_(memory), clock_(std::move(clock)) {
  for (int task = 0; task < tasks; ++task) passes_.push_back(std::make_unique<Pass>());
}

LayerProfiler::~LayerProfiler() = default;

void LayerProfiler::begin_step() {
  for (auto& pass : passes_) pass = std::make_unique<Pass>();
  has_failed_ = false;
  is_in_step_ = true;
}

void LayerProfiler::end_step() {
  if (!is_in_step_) return;
  is_in_step_ = false;
  const bool is_training =
      std::ranges::any_of(passes_, [](const auto& pass) { return pass->is_complete; });
  if (has_failed_ || !is_training) return;
  if (++steps_ == 2) {  // the first one was slower
    samples_.clear();
    besides_.clear();
  }
  for (const auto& pass : passes_) {
    if (pass->is_complete) keep(*pass);
  }
  besides_.push_back(seconds_besides_of_step());
}

double LayerProfiler::seconds_besides_of_step() const {
  TimePoint last_pass, end;
  for (const auto& pass : passes_) {
    last_pass = std::max(last_pass, pass->over);
    end = std::max(end, pass->mark);
  }
  std::chrono::steady_clock::duration sum = devices_ * (end - last_pass);
  for (const auto& pass : passes_) {
    if (pass->is_complete && pass->over < last_pass)
      sum += std::min(pass->waits, last_pass) - pass->over;
  }
  return std::chrono::duration<double>(sum).count();
}

void LayerProfiler::resume(int task) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  pass.mark = clock_->now();
  pass.computes = true;
}

void LayerProfiler::pause(int task) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  if (pass.computes) charge(pass);
  pass.computes = false;
  const bool is_first = pass.phase == Pass::Phase::kAfter && pass.waits < pass.over;
  if (is_first) pass.waits = pass.mark;
}

void LayerProfiler::end(int task) {
  pause(task);
  passes_[static_cast<std::size_t>(task)]->reports.reset();
}

void LayerProfiler::begin_layer(int task, std::string_view name, const at::Tensor& x) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  if (pass.is_in_backward) return;
  charge(pass);
  pass.end_memory(x);
  pass.layer = pass.index_of(name);
  pass.phase = Pass::Phase::kForward;
  if (!at::GradMode::is_enabled()) return;
  if (memory_ == Memory::kMeasured) pass.begin_memory();
  if (!x.requires_grad()) return;
  x.register_hook([self = shared_from_this(), task, layer = pass.layer](const at::Tensor&) {
    self->reached(task, layer);
  });
}

/// The gradient of the input of `layer` is there: the layer before it is next.
void LayerProfiler::reached(int task, std::size_t layer) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  const bool is_this_step = pass.is_in_backward && layer < pass.names.size();
  if (!is_this_step) return;
  charge(pass);
  pass.layer = layer == 0 ? 0 : layer - 1;
}

void LayerProfiler::begin_backward(int task) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  charge(pass);
  pass.end_memory(at::Tensor());
  pass.reports.reset();
  pass.phase = Pass::Phase::kBackward;
  pass.is_in_backward = true;
}

void LayerProfiler::weight_gradient(int task, const std::function<void()>& work) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  charge(pass);
  work();
  const TimePoint begin = pass.mark;
  charge(pass);
  pass.weight_gradients[pass.layer] += std::chrono::duration<double>(pass.mark - begin).count();
}

void LayerProfiler::end_backward(int task) {
  Pass& pass = *passes_[static_cast<std::size_t>(task)];
  if (!pass.is_in_backward) return;
  charge(pass);
  pass.is_in_backward = false;
  pass.phase = Pass::Phase::kAfter;
  pass.over = pass.mark;
  pass.is_complete = std::uncaught_exceptions() == 0;
}

const std::vector<std::string>& LayerProfiler::layers(int task) const {
  return passes_[static_cast<std::size_t>(task)]->names;
}

std::vector<LayerCost> LayerProfiler::costs() const {
  std::vector<LayerCost> costs;
  for (const Samples& each : samples_) {
    costs.push_back({.name = each.name,
                     .forward_seconds = median(each.forward),
                     .backward_seconds = median(each.backward),
                     .weight_gradient_seconds = median(each.weight_gradients),
                     .activation_bytes = each.activations,
                     .variable_bytes = each.variables});
  }
  return costs;
}

double LayerProfiler::seconds_besides() const {
  return median(besides_);
}

void LayerProfiler::charge(Pass& pass) const {
  pass.charge(clock_->now());
}

void LayerProfiler::Pass::charge(TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - mark).count();
  mark = now;
  if (phase == Phase::kAfter) return;
  if (phase == Phase::kBefore)
    before += seconds;
  else
    (phase == Phase::kForward ? forward : backward)[layer] += seconds;
}

std::size_t LayerProfiler::Pass::index_of(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.emplace_back(name);
  forward.push_back(std::exchange(before, 0.0));
  backward.push_back(0.0);
  weight_gradients.push_back(0.0);
  activations.push_back(0);
  variables.push_back(0);
  return names.size() - 1;
}

/// Installed here, and not when the task begins, because a strategy gives each task the state of
/// the caller's thread.
void LayerProfiler::Pass::begin_memory() {
  if (!reports) {
    live = std::make_shared<LiveTensorBytes>();
    reports.emplace(c10::DebugInfoKind::PROFILER_STATE, live);
  }
  live_before = live->bytes();
}

/// The layer before `x` is over; undefined: the model is.
void LayerProfiler::Pass::end_memory(const at::Tensor& x) {
  if (!reports) return;
  activations[layer] += live->bytes() - live_before;
  if (x.defined()) variables[layer] += bytes_of_new_variables(x, nodes);
}

void LayerProfiler::keep(const Pass& pass) {
  for (std::size_t layer = 0; layer < pass.names.size(); ++layer) {
    Samples& samples = samples_of(pass.names[layer]);
    samples.forward.push_back(pass.forward[layer]);
    samples.backward.push_back(pass.backward[layer]);
    samples.weight_gradients.push_back(pass.weight_gradients[layer]);
    samples.activations = std::max(samples.activations, pass.activations[layer]);
    samples.variables = std::max(samples.variables, pass.variables[layer]);
  }
}

LayerProfiler::Samples& LayerProfiler::samples_of(const std::string& layer) {
  const auto found = std::ranges::find(samples_, layer, &Samples::name);
  if (found != samples_.end()) return *found;
  return samples_.emplace_back(Samples{.name = layer});
}

}  // namespace brigade::distribute
