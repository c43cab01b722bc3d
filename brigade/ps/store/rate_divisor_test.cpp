#include "brigade/ps/store/rate_divisor.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/ps/store/store_records.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;

UpdateRecord recorded_push() {
  const std::vector<checkpoint::NamedTensor> gradients = {{"a", at::zeros({2})}};
  return push_record({.worker = 0, .incarnation = 1, .number = 1}, gradients);
}

TEST(RateDivisor, IsTheStalenessAndAtLeastOne) {
  EXPECT_EQ(rate_divisor_of(std::nullopt), 1);
  EXPECT_EQ(rate_divisor_of(0), 1);
  EXPECT_EQ(rate_divisor_of(1), 1);
  EXPECT_EQ(rate_divisor_of(4), 4);
  EXPECT_EQ(divided({.learning_rate = 1, .weight_decay = 0.5}, 4).learning_rate, 0.25);
  EXPECT_EQ(divided({.learning_rate = 1, .weight_decay = 0.5}, 4).weight_decay, 0.5);
}

TEST(RateDivisor, IsSetAfterTheRecordWasEncodedWithoutACopy) {
  UpdateRecord push = recorded_push();
  const at::Tensor divisor = add_rate_divisor(push);
  const io::BytePieces pieces = encode_update_in_pieces(push);
  divisor.fill_(7);
  UpdateRecord read = decode_update(pieces.joined());
  EXPECT_EQ(take_rate_divisor(read), 7);
  ASSERT_EQ(read.tensors.size(), 1U) << "the gradients remain";
  EXPECT_EQ(read.tensors[0].name, "a");
}

TEST(RateDivisor, IsOneInRecordsThatHaveNone) {
  UpdateRecord push = recorded_push();
  EXPECT_EQ(take_rate_divisor(push), 1);
  EXPECT_EQ(push.tensors.size(), 1U);
}

TEST(RateDivisor, ThatIsDamagedIsDataLoss) {
  for (const at::Tensor& wrong :
       {at::full({}, 0, at::kLong), at::full({2}, 3, at::kLong), at::full({}, 3.0)}) {
    UpdateRecord push = recorded_push();
    add_rate_divisor(push);
    push.tensors.back().tensor = wrong;
    EXPECT_EQ(code_of([&] { take_rate_divisor(push); }), ErrorCode::kDataLoss);
  }
  UpdateRecord empty = recorded_push();
  add_rate_divisor(empty);
  empty.tensors.clear();
  EXPECT_EQ(code_of([&] { take_rate_divisor(empty); }), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace brigade::ps
