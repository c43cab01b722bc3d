// A program that does not use the tuning: the tests preload it.
#include <cstdio>

#include "brigade/tuning/testing/refaults.h"

extern "C" int fake_mkl_asks();

int main() {
  constexpr std::size_t kBytes = std::size_t{40} << 20;
  const long faults = brigade::tuning::testing::refaults(kBytes);
  std::printf("math dispatch %s, refaults %s (%ld)\n", fake_mkl_asks() == 1 ? "on" : "off",
              faults < 64 ? "none" : "many", faults);
  return 0;
}
