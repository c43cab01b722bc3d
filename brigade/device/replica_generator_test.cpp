#include "brigade/device/random_scope.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <set>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

at::Tensor draw(ReplicaGenerator& generator, std::int64_t count = 64) {
  return at::randn({count}, generator.generator(c10::Device(c10::kCPU)));
}

TEST(ReplicaGenerator, DependsOnSeedReplicaAndStepAlone) {
  ReplicaGenerator a(7, 1);
  ReplicaGenerator b(7, 1);
  a.begin_step(3);
  draw(a);
  a.begin_step(4);
  b.begin_step(4);
  EXPECT_TRUE(draw(a).equal(draw(b)));
  a.begin_step(3);
  EXPECT_FALSE(draw(a).equal(draw(b)));
}

TEST(ReplicaGenerator, GivesEveryReplicaStepAndSeedItsOwnStream) {
  std::set<float> firsts;
  for (std::uint64_t seed : {0, 1}) {
    for (std::uint64_t replica : {0, 1}) {
      ReplicaGenerator generator(seed, replica);
      firsts.insert(draw(generator)[0].item<float>());  // before the first step
      for (std::uint64_t step : {0, 1}) {
        generator.begin_step(step);
        firsts.insert(draw(generator)[0].item<float>());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 12U);
}

TEST(ReplicaGenerator, ContinuesWithinAStep) {
  ReplicaGenerator generator(0, 0);
  generator.begin_step(0);
  const at::Tensor first = draw(generator);
  EXPECT_FALSE(draw(generator).equal(first));
  generator.begin_step(0);
  EXPECT_TRUE(draw(generator).equal(first));
}

TEST(ReplicaGenerator, DropsACachedNormalAtANewStep) {
  ReplicaGenerator generator(0, 0);
  generator.begin_step(1);
  const at::Tensor all = draw(generator, 3);
  generator.begin_step(0);
  draw(generator, 1);
  generator.begin_step(1);
  EXPECT_TRUE(draw(generator, 3).equal(all));
}

TEST(ReplicaGenerator, DrawsUniformly) {
  ReplicaGenerator generator(123, 4);
  generator.begin_step(9);
  const at::Tensor numbers =
      at::randint(0, 16, {1 << 16}, generator.generator(c10::Device(c10::kCPU)));
  const at::Tensor counts = numbers.bincount({}, 16);
  EXPECT_NEAR(counts.min().item<double>(), 4096, 300);
  EXPECT_NEAR(counts.max().item<double>(), 4096, 300);
}

TEST(ReplicaGenerator, HasNoGeneratorForOtherDevices) {
  ReplicaGenerator generator(0, 0);
  EXPECT_FALSE(generator.generator(c10::Device(c10::kMeta)).defined());
}

TEST(ReplicaGenerator, ForksContinueWithTheSameNumbers) {
  ReplicaGenerator generator(3, 2);
  generator.begin_step(1);
  const auto before_first_draw = generator.fork();
  const at::Tensor first = draw(generator, 5);  // an odd number leaves a normal sample behind
  const auto fork = generator.fork();
  const auto second_fork = fork->fork();
  const at::Tensor second = draw(generator, 5);
  EXPECT_TRUE(draw(*before_first_draw, 5).equal(first));
  EXPECT_TRUE(draw(*fork, 5).equal(second));
  EXPECT_TRUE(draw(*second_fork, 5).equal(second));
  const at::Tensor third = draw(*fork, 5);
  EXPECT_TRUE(draw(generator, 5).equal(third)) << "drawing from forks changed the generator";
}

TEST(ReplicaGenerator, AnotherContinuesFromItsState) {
  ReplicaGenerator generator(7, 1);
  ReplicaGenerator other(7, 1);
  generator.begin_step(4);
  other.begin_step(4);
  EXPECT_FALSE(generator.state().defined());
  const at::Tensor first = draw(generator, 33);
  other.set_state(generator.state());
  EXPECT_TRUE(draw(other).equal(draw(generator)));
  other.set_state(at::Tensor());  // the beginning of the step
  EXPECT_TRUE(draw(other, 33).equal(first));
  EXPECT_THROW(other.set_state(at::zeros({3}, at::kByte)), Error);
}

TEST(ReplicaGenerator, ForksTheDefaultGenerator) {
  const auto fork = ReplicaGenerator::fork_default();
  const at::Tensor drawn = draw(*fork);
  EXPECT_TRUE(at::randn({64}).equal(drawn));
}

}  // namespace
}  // namespace brigade::device
