#include "brigade/ps/server/state_transfer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::ps {
namespace {

/// With tensors of 40 bytes each.
StoreMoment moment_with(int tensors) {
  StoreMoment moment{.covered = 17};
  moment.contents.state["step"] = 3;
  for (int i = 0; i < tensors; ++i)
    moment.contents.tensors.push_back({std::to_string(i), at::arange(5).add(i)});
  return moment;
}

TEST(StateTransfer, ArrivesWholeInPartsOfAnySize) {
  for (const int tensors : {0, 1, 7}) {
    for (const std::uint64_t part_bytes : {1, 80, 1000}) {
      const StateTransfer transfer(moment_with(tensors), part_bytes);
      StateReception reception;
      for (int part = 0; part < transfer.parts(); ++part) {
        EXPECT_EQ(reception.next(), part);
        EXPECT_EQ(reception.add(transfer.part(part)), part + 1 == transfer.parts());
      }
      EXPECT_EQ(reception.moment().covered, 17);
      EXPECT_EQ(reception.moment().contents.state, moment_with(0).contents.state);
      const auto& got = reception.moment().contents.tensors;
      ASSERT_EQ(got.size(), static_cast<std::size_t>(tensors));
      for (int i = 0; i < tensors; ++i) {
        EXPECT_EQ(got[static_cast<std::size_t>(i)].name, std::to_string(i));
        EXPECT_TRUE(at::equal(got[static_cast<std::size_t>(i)].tensor, at::arange(5).add(i)));
      }
    }
  }
  EXPECT_EQ(StateTransfer(moment_with(7), 80).parts(), 4);
}

TEST(StateTransfer, APartOfAnotherStateDoesNotFit) {
  const StateTransfer transfer(moment_with(3), 40);
  StateReception reception;
  EXPECT_FALSE(reception.add(transfer.part(0)));
  StatePart other = transfer.part(1);
  other.covered = 18;
  EXPECT_FALSE(reception.fits(other));
  EXPECT_EQ(base::testing::code_of([&] { reception.add(other); }), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(reception.fits(transfer.part(1)));
  EXPECT_FALSE(StateReception().fits({.covered = 1, .parts = 0}));
}

}  // namespace
}  // namespace brigade::ps
