#include "brigade/comm/piggyback.h"

#include <algorithm>
#include <utility>

namespace brigade::comm {

std::shared_ptr<PiggybackNumber> Piggyback::carry(PiggybackUse use, PiggybackNumber::Own own) {
  auto number = std::make_shared<PiggybackNumber>(std::move(own));
  Slot& slot = slots_[static_cast<std::size_t>(use)];
  slot.number = number;
  ++slot.serial;
  return number;
}

PiggybackStamps Piggyback::stamps() const {
  PiggybackStamps stamps;
  std::ranges::transform(slots_, stamps.begin(), &Slot::stamp);
  return stamps;
}

void Piggyback::receive(std::span<const PiggybackStamps> by_rank) {
  std::vector<PiggybackStamp> of_use(by_rank.size());
  for (std::size_t use = 0; use < slots_.size(); ++use) {
    std::ranges::transform(by_rank, of_use.begin(), [use](const auto& rank) { return rank[use]; });
    slots_[use].receive(of_use);
  }
}

PiggybackStamp Piggyback::Slot::stamp() const {
  const auto carried = number.lock();
  const auto value = carried ? carried->own_() : std::nullopt;
  return {.serial = serial, .is_known = value ? 1 : 0, .value = value.value_or(0)};
}

// All ranks see the same stamps, so they do the same here.
void Piggyback::Slot::receive(std::span<const PiggybackStamp> by_rank) {
  const auto is_mine = [this](const auto& stamp) { return stamp.serial == serial; };
  if (!std::ranges::all_of(by_rank, is_mine)) {  // such as after a step that failed in one
    serial = std::ranges::max(by_rank, {}, &PiggybackStamp::serial).serial;
    return number.reset();
  }
  const auto carried = number.lock();
  const auto is_known = [](const auto& stamp) { return stamp.is_known != 0; };
  if (!carried || !std::ranges::all_of(by_rank, is_known)) return;
  carried->by_rank_.emplace();
  for (const PiggybackStamp& stamp : by_rank) carried->by_rank_->push_back(stamp.value);
}

}  // namespace brigade::comm
