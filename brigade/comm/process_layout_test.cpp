#include "brigade/comm/process_layout.h"

#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

TEST(ProcessLayout, CountsReplicas) {
  const ProcessLayout layout{.process = 1, .replicas = {2, 3, 1}};
  EXPECT_EQ(layout.num_replicas(), 6);
  EXPECT_EQ(layout.first_replica(), 2);
}

}  // namespace
}  // namespace brigade::comm
