// A program that is built with pkg-config: it runs a pipeline and discovers devices through
// libtorch.
#include <brigade/data/core/source.h>
#include <brigade/device/device.h>

#include <iostream>
#include <numeric>
#include <vector>

int main() {
  std::vector<int> numbers(10);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto squares = brigade::data::from_elements(numbers).map([](int x) { return x * x; });
  int sum = 0;
  for (const int each : squares) sum += each;
  std::cout << "sum " << sum << ", devices " << brigade::device::available_devices().size() << "\n";
  return sum == 285 ? 0 : 1;
}
