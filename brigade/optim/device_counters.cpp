#include "brigade/optim/device_counters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace brigade::optim {

DeviceCounters::DeviceCounters(c10::Device device, std::vector<std::optional<double>> own_rates)
    : queued_steps_(own_rates.size(), 0) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  steps_ = at::zeros({static_cast<std::int64_t>(own_rates.size())}, options);
  rate_ = at::full({}, queued_rate_, options);
  for (const std::optional<double>& own : own_rates)
    own_rates_.push_back(own ? at::full({}, *own, options) : at::Tensor());
}

void DeviceCounters::follow(double learning_rate, std::span<const std::int64_t> steps,
                            std::size_t first, std::size_t last) {
  if (std::exchange(queued_rate_, learning_rate) != learning_rate) rate_.fill_(learning_rate);
  for (std::size_t i = first; i < last; ++i) {
    if (std::exchange(queued_steps_[i], steps[i]) == steps[i]) continue;
    steps_.select(0, static_cast<std::int64_t>(i)).fill_(steps[i]);
  }
}

DeviceScalars DeviceCounters::count(std::size_t first, std::size_t last) {
  record_replay(first, last);
  return count_captured(first, last);
}

DeviceScalars DeviceCounters::count_captured(std::size_t first, std::size_t last) const {
  steps_.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last - first))
      .add_(1);
  return {.step = steps_.select(0, static_cast<std::int64_t>(first)),
          .rate = own_rates_[first].defined() ? own_rates_[first] : rate_};
}

void DeviceCounters::record_replay(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) ++queued_steps_[i];
}

}  // namespace brigade::optim
