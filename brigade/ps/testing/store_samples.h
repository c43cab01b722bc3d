#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps::testing {

using Gradients = std::vector<checkpoint::NamedTensor>;

inline ParameterStore::Time soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

inline ParameterStoreOptions store_options() {
  return {.folder = "/server"};
}

/// Two trainable variables, and one that is not.
inline std::vector<Creation> model() {
  return {{"bias", at::zeros({3}, at::kDouble)},
          {"count", at::zeros({}, at::kLong), false},
          {"weights", at::arange(6, at::kDouble).view({2, 3})}};
}

/// For both trainable variables of `model`.
inline Gradients gradients(double value) {
  return {{"weights", at::full({2, 3}, value, at::kDouble)},
          {"bias", at::full({3}, value / 2, at::kDouble)}};
}

inline io::StateTree async_job() {
  return to_state(JobConfig{});
}

inline io::StateTree sync_job(int replicas_to_aggregate, int total_replicas) {
  return to_state(JobConfig{
      .mode = UpdateMode::kSync,
      .sync = {.replicas_to_aggregate = replicas_to_aggregate, .total_replicas = total_replicas}});
}

/// A store with `model()`.
inline std::unique_ptr<ParameterStore> make_store(std::shared_ptr<io::FileSystem> files,
                                                  const optim::UpdateRulePtr& rule,
                                                  const io::StateTree& job = async_job()) {
  auto store = std::make_unique<ParameterStore>(std::move(files), store_options());
  store->create(model(), rule, job, soon());
  return store;
}

inline at::Tensor value_of(const ParameterStore& store, const std::string& name) {
  return store.pull(std::vector{name}).values.front().value;
}

inline void expect_same_tensor(const at::Tensor& actual, const at::Tensor& expected,
                               const std::string& what) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_TRUE(at::equal(actual, expected)) << what << ": " << actual << " is not " << expected;
}

/// Everything that a store says of itself is the same, to the bit.
inline void expect_same_state(const ParameterStore& actual, const ParameterStore& expected) {
  ASSERT_EQ(actual.names(), expected.names());
  const auto states = actual.states(actual.names()).variables;
  const auto expected_states = expected.states(expected.names()).variables;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& [name, state] = states[i];
    const Parameter::State& other = expected_states[i].state;
    expect_same_tensor(state.value, other.value, name);
    ASSERT_EQ(state.slots.size(), other.slots.size()) << name;
    for (std::size_t slot = 0; slot < state.slots.size(); ++slot)
      expect_same_tensor(state.slots[slot], other.slots[slot], name);
    ASSERT_EQ(state.updates, other.updates) << name;
  }
  ASSERT_EQ(actual.step(), expected.step());
  ASSERT_EQ(actual.is_created(), expected.is_created());
  ASSERT_EQ(actual.is_ready(), expected.is_ready());
  ASSERT_EQ(actual.learning_rate(), expected.learning_rate());
  ASSERT_EQ(actual.job(), expected.job());
  ASSERT_EQ(actual.last_decision(), expected.last_decision());
  for (int worker = 0; worker < 4; ++worker) {
    ASSERT_EQ(actual.incarnation(worker), expected.incarnation(worker)) << worker;
    ASSERT_EQ(actual.has_finished(worker), expected.has_finished(worker)) << worker;
  }
}

}  // namespace brigade::ps::testing
