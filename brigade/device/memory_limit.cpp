#include "brigade/device/memory_limit.h"

#include <charconv>
#include <set>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/device/cuda_cards.h"

namespace brigade::device {

double parse_memory_fraction(const std::string& text) {
  double fraction = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, fraction);
  check_argument(error == std::errc() && stopped == end && fraction > 0.0 && fraction <= 1.0,
                 kGpuMemoryVariable, " is '", text,
                 "'; give a number above 0 and up to 1, such as 0.5.");
  return fraction;
}

void limit_gpu_memory(const std::vector<Device>& devices) {
  std::set<int> cards;
  for (const Device& device : devices) {
    if (!device.is_cpu()) cards.insert(device.torch_device.index());
  }
  if (cards.empty()) return;
  const auto text = base::environment(kGpuMemoryVariable);
  if (!text) return;
  const double fraction = parse_memory_fraction(*text);
  for (const int card : cards) set_memory_fraction(card, fraction);
}

}  // namespace brigade::device
