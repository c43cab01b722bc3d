#include "brigade/device/carried_context.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/device/stream.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::device {
namespace {

using testing::FakeDevice;

// Before the first backward pass of the process, which starts autograd's threads of all devices.
[[maybe_unused]] const FakeDevice& registered_early = FakeDevice::get();

/// What a replica's code finds, and on which thread.
struct Found {
  int* value = nullptr;
  std::thread::id thread;
};

constexpr base::AmbientSlot<int> kSlot{base::AmbientIndex::kStore};

/// The user's function, whose backward pass looks for its replica.
struct LooksForItsReplica : torch::autograd::Function<LooksForItsReplica> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::int64_t found) {
    context->saved_data["found"] = found;
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    *reinterpret_cast<Found*>(context->saved_data["found"].toInt()) = {carried(kSlot),
                                                                       std::this_thread::get_id()};
    return {gradients.front(), at::Tensor()};
  }
};

/// What the function and a hook find in one backward pass on the device.
std::pair<Found, Found> backward_on(c10::Device device) {
  Found in_function;
  Found in_hook;
  at::Tensor x = at::full({3}, 1.0F).to(device).requires_grad_();
  x.register_hook([&](const at::Tensor& gradient) {
    in_hook = {carried(kSlot), std::this_thread::get_id()};
    return gradient;
  });
  const at::Tensor y = LooksForItsReplica::apply(x, reinterpret_cast<std::int64_t>(&in_function));
  torch::autograd::grad({y}, {x}, {at::full({3}, 1.0F).to(device)});
  return {in_function, in_hook};
}

TEST(CarriedContext, BackwardFunctionsAndHooksOnACardsThreadFindTheirOwnReplica) {
  std::vector<int> replicas = {0, 1, 2};
  std::vector<std::thread> threads;
  for (int& replica : replicas) {
    threads.emplace_back([&replica] {
      const StreamScope stream(make_stream({.torch_device = FakeDevice::device()}));
      const base::AmbientScope<int> scope(kSlot, &replica);
      const CarriedContext carried_to_others;
      for (int round = 0; round < 50; ++round) {
        const auto [in_function, in_hook] = backward_on(FakeDevice::device());
        EXPECT_EQ(in_function.value, &replica);
        EXPECT_EQ(in_hook.value, &replica);
        EXPECT_NE(in_function.thread, std::this_thread::get_id()) << "this proves nothing";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CarriedContext, IsNeededWhereAutogradHasThreadsForADevice) {
  EXPECT_TRUE(autograd_has_threads());
}

TEST(CarriedContext, OnCpuTheReplicasThreadRunsItsBackwardPass) {
  int replica = 0;
  const base::AmbientScope<int> scope(kSlot, &replica);
  const CarriedContext carried_to_others;
  EXPECT_EQ(backward_on(c10::Device(c10::kCPU)).first.value, &replica);
}

TEST(CarriedContext, WhatTheOwnerHidesIsHidden) {
  int replica = 0;
  const base::AmbientScope<int> scope(kSlot, &replica);
  const CarriedContext carried_to_others;
  const base::AmbientScope<int> hidden(kSlot, nullptr);
  EXPECT_EQ(carried(kSlot), nullptr);
}

TEST(CarriedContext, ComputingForAReplicaAfterItsStepIsAnError) {
  int replica = 0;
  std::optional<at::ThreadLocalState> state;
  {
    const base::AmbientScope<int> scope(kSlot, &replica);
    const CarriedContext carried_to_others;
    state.emplace();
  }
  EXPECT_EQ(carried(kSlot), nullptr);
  std::thread([&] {
    EXPECT_EQ(carried(kSlot), nullptr);
    const at::ThreadLocalStateGuard guard(*state);
    EXPECT_EQ(base::testing::code_of([] { carried(kSlot); }), ErrorCode::kFailedPrecondition);
  }).join();
}

}  // namespace
}  // namespace brigade::device
