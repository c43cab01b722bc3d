#include "brigade/distribute/optimizer/gradient_presence.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/comm/testing/rank_threads.h"

namespace brigade::distribute {
namespace {

const at::Tensor kSome = at::zeros({1});
const at::Tensor kNone;

TEST(GradientPresence, DistinguishesDefinedFromUndefined) {
  const std::vector<at::Tensor> gradients = {kSome, kNone};
  EXPECT_EQ(present(gradients), std::vector<bool>({true, false}));
  std::vector<bool> known = {false, true};
  merge_present(known, gradients);
  EXPECT_EQ(known, std::vector<bool>({true, true}));
}

TEST(GradientPresence, OneReplicaIsEnough) {
  comm::run_ranks_successfully(3, [](comm::Communicator& communicator) {
    const std::vector<at::Tensor> gradients = {communicator.rank() == 2 ? kSome : kNone, kNone,
                                               kSome};
    EXPECT_EQ(present_anywhere(communicator, gradients), std::vector<bool>({true, false, true}));
  });
  comm::run_ranks_successfully(1, [](comm::Communicator& communicator) {
    const std::vector<at::Tensor> gradients = {kSome, kNone};
    EXPECT_EQ(present_anywhere(communicator, gradients), std::vector<bool>({true, false}));
  });
}

}  // namespace
}  // namespace brigade::distribute
