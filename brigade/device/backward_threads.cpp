#include "brigade/device/backward_threads.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <exception>
#include <set>

#include "brigade/device/cuda_cards.h"
#include "brigade/machine/affinity.h"
#include "brigade/machine/topology.h"

namespace brigade::device {

namespace {

struct Errand {
  const std::function<void()>& function;
  std::exception_ptr thrown = nullptr;  // passed on as it is, not as libtorch would wrap it
};

struct CallsInBackward : torch::autograd::Function<CallsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            std::int64_t errand) {
    context->saved_data["errand"] = errand;
    return at::empty({1}, input.options());
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    auto& errand = *reinterpret_cast<Errand*>(context->saved_data["errand"].toInt());
    try {
      errand.function();
    } catch (...) {
      errand.thrown = std::current_exception();
    }
    return {gradients.front(), at::Tensor()};
  }
};

}  // namespace

void run_on_backward_thread(c10::Device device, const std::function<void()>& function) {
  const at::AutoGradMode with_gradients(true);
  Errand errand{.function = function};
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor input = at::empty({1}, options).requires_grad_();
  const at::Tensor output = CallsInBackward::apply(input, reinterpret_cast<std::int64_t>(&errand));
  torch::autograd::grad({output}, {input}, {at::empty({1}, options)});
  if (errand.thrown) std::rethrow_exception(errand.thrown);
}

void place_backward_threads(std::span<const c10::Device> devices, const machine::CoreSet& usable,
                            const std::function<machine::CoreSet(c10::Device)>& near) {
  std::set<c10::DeviceIndex> placed;
  for (const c10::Device device : devices) {
    if (device.is_cpu() || !placed.insert(device.index()).second) continue;
    const machine::CoreSet cores = near(device).intersection(usable);
    run_on_backward_thread(device,
                           [&] { machine::set_thread_affinity(cores.empty() ? usable : cores); });
  }
}

void place_backward_threads(std::span<const c10::Device> devices, const machine::CoreSet& usable) {
  place_backward_threads(devices, usable, [](c10::Device device) {
    return machine::cores_near_pci_device(pci_bus_id(device.index()));
  });
}

}  // namespace brigade::device
