// The main function of launch_tests: the test program is its own shim, as `brigade` is.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/launch/shim.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == brigade::launch::kShimCommand)
    return brigade::launch::run_shim(std::vector<std::string>(argv + 2, argv + argc));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
