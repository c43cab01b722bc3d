#include "brigade/optim/clipping.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::optim {
namespace {

using base::testing::message_of;
using device::testing::FakeDevice;
using ::testing::HasSubstr;

const float kInfinity = std::numeric_limits<float>::infinity();

// Values measured with TensorFlow 2.21.
std::vector<at::Tensor> three() {
  return {at::tensor({3.0F, -4.0F, 0.5F}), at::Tensor(),
          at::tensor({1.0F, 2.0F, -2.0F, 12.0F}).view({2, 2})};
}

TEST(ClipByValue, ClampsElementsToTheRange) {
  const auto clipped = clip_by_value(three(), -1.5, 1.75);
  EXPECT_TRUE(clipped[0].equal(at::tensor({1.75F, -1.5F, 0.5F})));
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_TRUE(clipped[2].equal(at::tensor({1.0F, 1.75F, -1.5F, 1.75F}).view({2, 2})));
}

TEST(ClipByNorm, ScalesEachTensorSeparately) {
  const std::vector<at::Tensor> tensors = three();
  const auto clipped = clip_by_norm(tensors, 5.02);
  EXPECT_TRUE(
      clip_by_norm(tensors, 2)[0].allclose(at::tensor({1.19404471F, -1.59205961F, 0.19900745F})));
  EXPECT_NEAR(clipped[0].norm().item<double>(), 5.02, 1e-6);
  EXPECT_TRUE(clipped[2].norm().allclose(at::tensor(5.02F)));
  EXPECT_TRUE(clip_by_norm(tensors, 20)[2].is_same(tensors[2])) << "nothing to do";
}

TEST(ClipByGlobalNorm, ScalesAllTensorsAlike) {
  const auto [clipped, norm] = clip_by_global_norm(three(), 5);
  EXPECT_NEAR(norm, 13.351030349731445, 1e-6);
  EXPECT_TRUE(clipped[0].allclose(at::tensor({1.12350893F, -1.49801183F, 0.18725148F})));
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_TRUE(clipped[2].allclose(
      at::tensor({0.37450296F, 0.74900591F, -0.74900591F, 4.49403572F}).view({2, 2})));
}

TEST(ClipByGlobalNorm, LeavesSmallGradientsAsTheyAre) {
  const std::vector<at::Tensor> tensors = three();
  const auto [clipped, norm] = clip_by_global_norm(tensors, 50);
  EXPECT_TRUE(clipped[0].is_same(tensors[0]));
  EXPECT_TRUE(clipped[2].is_same(tensors[2]));
}

TEST(ClipByGlobalNorm, ReplacesTheElementsOfAContainer) {
  std::vector<at::Tensor> tensors = three();
  const at::Tensor first = tensors[0];
  EXPECT_NEAR(clip_by_global_norm_(tensors, 5), 13.351030349731445, 1e-6);
  EXPECT_NEAR(global_norm(tensors), 5, 1e-6);
  EXPECT_TRUE(first.equal(three()[0])) << "shared memory is not written to";
  clip_by_value_(tensors, 0, 1);
  EXPECT_EQ(tensors[2].max().item<float>(), 1);
  clip_by_norm_(tensors, 0.5);
  EXPECT_NEAR(tensors[2].norm().item<double>(), 0.5, 1e-6);
}

TEST(Clipping, ScalesViewsThatRepeatOneElement) {
  const std::vector<at::Tensor> tensors = {at::tensor(2.0F).expand({4})};  // as sum() gives
  const auto [clipped, norm] = clip_by_global_norm(tensors, 2);
  EXPECT_EQ(norm, 4);
  EXPECT_TRUE(clipped[0].equal(at::ones({4})));
}

TEST(GlobalNorm, BitsDoNotDependOnThreads) {
  const std::vector<at::Tensor> tensors = {at::rand({300'001}) - 0.5,
                                           at::rand({1'000, 77}, at::kDouble).t()};
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = global_norm(tensors);
  at::set_num_threads(3);
  EXPECT_EQ(global_norm(tensors), one);
  at::set_num_threads(before);
  const double direct = std::sqrt(tensors[0].to(at::kDouble).square().sum().item<double>() +
                                  tensors[1].square().sum().item<double>());
  EXPECT_NEAR(one, direct, 1e-9);
}

TEST(GlobalNorm, IsExactWhereFloatWouldNotBe) {
  std::vector<at::Tensor> tensors = {at::full({1 << 22}, 1e-3F)};
  tensors.push_back(at::tensor(4096.0F));
  EXPECT_DOUBLE_EQ(global_norm(tensors),
                   std::sqrt((1 << 22) * std::pow(static_cast<double>(1e-3F), 2) + 4096.0 * 4096));
  EXPECT_EQ(global_norm({}), 0);
}

TEST(Clipping, NamesTheTensorThatIsNotFinite) {
  std::vector<at::Tensor> tensors = three();
  tensors.push_back(at::tensor({1.0F, kInfinity}));
  const auto refusal = message_of([&] { clip_by_global_norm(tensors, 1); }, ErrorCode::kDataLoss);
  EXPECT_THAT(refusal, HasSubstr("the norm of tensor 3 of 4 is not finite"));
  EXPECT_THAT(message_of([&] { clip_by_norm(tensors, 1); }, ErrorCode::kDataLoss),
              HasSubstr("tensor 3"));
  tensors[3] = at::tensor({std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(message_of([&] { clip_by_norm_(tensors, 1); }, ErrorCode::kDataLoss),
              HasSubstr("tensor 3"));
  EXPECT_TRUE(tensors[0].equal(three()[0])) << "nothing changed";
  EXPECT_TRUE(std::isnan(global_norm(tensors))) << "for monitoring";
}

TEST(Clipping, RefusesImpossibleArguments) {
  const auto refusal = [](const std::function<void()>& call) {
    return message_of(call, ErrorCode::kInvalidArgument);
  };
  EXPECT_THAT(refusal([] { clip_by_norm(three(), 0); }), HasSubstr("clip_norm is 0"));
  EXPECT_THAT(refusal([] { clip_by_global_norm(three(), -1); }), HasSubstr("clip_norm is -1"));
  EXPECT_THAT(refusal([] { clip_by_value(three(), 2, 1); }), HasSubstr("low is 2 and high is 1"));
  EXPECT_THAT(refusal([] {
                clip_by_global_norm(std::vector<at::Tensor>{at::tensor({1, 2})}, 1);
              }),
              HasSubstr("tensor 0 has dtype"));
}

TEST(Clipping, GradientsOfRowsStayRows) {
  const at::Tensor rows = comm::to_sparse(
      {.indices = at::tensor({1, 3}, at::kLong), .values = at::full({2, 2}, 3.0, at::kFloat)},
      {5, 2});
  const std::vector<at::Tensor> gradients = {rows};
  const at::Tensor by_value = clip_by_value(gradients, -1, 2).front();
  ASSERT_TRUE(comm::has_rows(by_value));
  EXPECT_TRUE(by_value.to_dense().equal(rows.to_dense().clamp(-1, 2)));
  const at::Tensor raised = clip_by_value(gradients, 1, 2).front();
  EXPECT_TRUE(raised.equal(rows.to_dense().clamp(1, 2))) << "the other rows are not zero";
  const auto [by_norm, norm] = clip_by_global_norm(gradients, 3);
  EXPECT_DOUBLE_EQ(norm, 6);
  ASSERT_TRUE(comm::has_rows(by_norm.front()));
  EXPECT_TRUE(by_norm.front().to_dense().equal(rows.to_dense() * 0.5));
}

TEST(ClipByGlobalNorm, GradientsInChannelsLastOrderStaySo) {
  const at::Tensor gradient = at::rand({8, 3, 5, 5});
  const at::Tensor last = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_NEAR(global_norm({&last, 1}), global_norm({&gradient, 1}), 1e-10);
  const auto clipped = clip_by_global_norm({&last, 1}, 0.5);
  EXPECT_TRUE(clipped.tensors[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(clipped.tensors[0].allclose(clip_by_global_norm({&gradient, 1}, 0.5).tensors[0]));
  const at::Tensor every_second = gradient.slice(3, 0, 5, 2);  // not dense
  const at::Tensor copied = every_second.contiguous();
  EXPECT_EQ(global_norm({&every_second, 1}), global_norm({&copied, 1}));
}

std::vector<at::Tensor> moved_to_card(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& each : tensors)
    there.push_back(each.defined() ? each.to(FakeDevice::device()) : each);
  return there;
}

void expect_like_cpu(const std::vector<at::Tensor>& there, const std::vector<at::Tensor>& here) {
  ASSERT_EQ(there.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    ASSERT_EQ(there[i].defined(), here[i].defined());
    if (here[i].defined()) EXPECT_TRUE(FakeDevice::read(there[i]).allclose(here[i])) << i;
  }
}

TEST(ClippingOnADevice, TheHostWaitsForNothingUntilANormIsRead) {
  FakeDevice& card = FakeDevice::get();
  std::vector<at::Tensor> tensors = three();
  tensors.push_back(at::full({2}, 7.0, at::kDouble));
  const std::vector<at::Tensor> there = moved_to_card(tensors);
  const int waits = card.host_waits();
  const ClippedByGlobalNorm clipped = clip_by_global_norm(there, 5);
  const ClippedByGlobalNorm as_it_is = clip_by_global_norm(there, 50);
  const std::vector<at::Tensor> each = clip_by_norm(there, 5.02);
  EXPECT_EQ(card.host_waits(), waits);
  EXPECT_NEAR(clipped.norm, clip_by_global_norm(tensors, 5).norm, 1e-6);
  EXPECT_EQ(card.host_waits(), waits + 1);
  expect_like_cpu(clipped.tensors, clip_by_global_norm(tensors, 5).tensors);
  expect_like_cpu(each, clip_by_norm(tensors, 5.02));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    EXPECT_TRUE(FakeDevice::read(as_it_is.tensors[i]).equal(tensors[i])) << "the same bits";
  }
  const int before = card.host_waits();
  EXPECT_NEAR(global_norm(there), global_norm(tensors), 1e-6);
  EXPECT_EQ(card.host_waits(), before + 1) << "one reading of all norms";
}

TEST(ClippingOnADevice, ANormThatIsNotFiniteMakesAllNan) {
  const std::vector<at::Tensor> there =
      moved_to_card({at::full({2}, 1.0), at::full({1}, kInfinity)});
  const auto clipped = clip_by_global_norm(there, 5);
  EXPECT_TRUE(FakeDevice::read(clipped.tensors[0]).isnan().all().item<bool>());
  EXPECT_TRUE(FakeDevice::read(clipped.tensors[1]).isnan().all().item<bool>());
  EXPECT_TRUE(FakeDevice::read(clip_by_norm(there, 5)[0]).equal(at::full({2}, 1.0)));
  EXPECT_EQ(clipped.norm.value(), kInfinity);
}

}  // namespace
}  // namespace brigade::optim
