#include "brigade/distribute/wire_buffers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

using Gradients = std::vector<at::Tensor>;

/// An optimizer of three variables of two dtypes, the second one frozen, in a process that is
/// alone.
class WireBuffersTest : public ::testing::Test {
 protected:
  WireBuffersTest()
      : workers_(comm::make_process_communicator(
            cluster::testing::make_in_memory_memberships(1).front())) {
    for (const auto& [name, size, dtype] :
         {std::tuple("a", 130, at::kFloat), {"frozen", 3, at::kFloat}, {"b", 5, at::kDouble}}) {
      variables_.push_back(store_.create({.name = name, .initial = at::full({size}, 0.0, dtype)}));
    }
    state_ = std::make_unique<optim::OptimizerState>(
        optim::Sgd{}.rule(), variables_,
        std::vector<optim::ParameterGroup>{{.names = {"frozen"}, .frozen = optim::Frozen::kYes}});
  }

  std::size_t index_of(const std::string& name) const {
    for (std::size_t i = 0; i < state_->variables().size(); ++i) {
      if (state_->variables()[i].name() == name) return i;
    }
    return 99;
  }

  std::vector<at::Tensor> sums_of(const std::vector<Gradients>& replicas, std::int64_t pack) {
    WireBuffers buffers(*state_, workers_, pack);
    std::vector<std::span<const at::Tensor>> parts(replicas.begin(), replicas.end());
    for (int share = 0; share < 3; ++share) buffers.fill(parts, share, 3);
    buffers.reduce();
    std::vector<at::Tensor> sums = buffers.sums();
    for (at::Tensor& sum : sums) {
      if (sum.defined()) sum = sum.clone();
    }
    return sums;
  }

  variables::VariableStore store_{variables::VariableStoreOptions{}};
  std::vector<variables::Variable> variables_;
  std::unique_ptr<optim::OptimizerState> state_;
  std::shared_ptr<comm::ProcessCommunicator> workers_;
};

TEST_F(WireBuffersTest, TheReplicasGradientsAreAddedUp) {
  std::vector<Gradients> replicas(2, Gradients(3));
  for (std::size_t replica = 0; replica < 2; ++replica) {
    replicas[replica][index_of("a")] = at::arange(130, at::kFloat) * (1.0 + replica);
    replicas[replica][index_of("b")] = at::arange(5, at::kDouble);
  }
  for (const std::int64_t pack : {0, 8, 100}) {
    const auto sums = sums_of(replicas, pack);
    EXPECT_TRUE(sums[index_of("a")].equal(at::arange(130, at::kFloat) * 3));
    EXPECT_TRUE(sums[index_of("b")].equal(at::arange(5, at::kDouble) * 2));
    EXPECT_FALSE(sums[index_of("frozen")].defined());
  }
}

TEST_F(WireBuffersTest, AVariableWithoutAnyGradientHasNoSum) {
  std::vector<Gradients> replicas(2, Gradients(3));
  replicas[1][index_of("b")] = at::arange(5, at::kDouble);
  const auto sums = sums_of(replicas, 0);
  EXPECT_FALSE(sums[index_of("a")].defined());
  EXPECT_TRUE(sums[index_of("b")].equal(at::arange(5, at::kDouble)));
}

TEST_F(WireBuffersTest, AStepDoesNotRememberTheOneBefore) {
  WireBuffers buffers(*state_, workers_, 0);
  Gradients first(3), second(3);
  first[index_of("a")] = at::full({130}, 7.0, at::kFloat);
  second[index_of("b")] = at::full({5}, 1.0, at::kDouble);
  for (const Gradients* gradients : {&first, &second}) {
    const std::span<const at::Tensor> part(*gradients);
    buffers.fill({&part, 1}, 0, 1);
    buffers.reduce();
  }
  EXPECT_FALSE(buffers.sums()[index_of("a")].defined());
  EXPECT_TRUE(buffers.sums()[index_of("b")].defined());
}

}  // namespace
}  // namespace brigade::distribute
