#include "brigade/comm/nccl/nccl.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::comm {
namespace {

TEST(Nccl, IsRefusedIfItIsNotBuiltIn) {
  if (nccl_is_built_in()) GTEST_SKIP() << "NCCL is built in; its collectives need GPUs.";
  try {
    make_nccl_communicators({0, 1}, {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_NE(std::string(error.what()).find("BRIGADE_WITH_CUDA"), std::string::npos);
  }
}

}  // namespace
}  // namespace brigade::comm
