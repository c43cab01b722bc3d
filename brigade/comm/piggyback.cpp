#include "brigade/comm/piggyback.h"

#include <algorithm>
#include <utility>

namespace brigade::comm {

std::shared_ptr<PiggybackNumber> Piggyback::carry(PiggybackNumber::Own own) {
  auto number = std::make_shared<PiggybackNumber>(std::move(own));
  number_ = number;
  ++serial_;
  return number;
}

PiggybackStamp Piggyback::stamp() const {
  const auto number = number_.lock();
  const auto value = number ? number->own_() : std::nullopt;
  return {.serial = serial_, .is_known = value ? 1 : 0, .value = value.value_or(0)};
}

// All ranks see the same stamps, so they do the same here.
void Piggyback::receive(std::span<const PiggybackStamp> by_rank) {
  const auto is_mine = [this](const auto& stamp) { return stamp.serial == serial_; };
  if (!std::ranges::all_of(by_rank, is_mine)) {  // such as after a step that failed in one
    serial_ = std::ranges::max(by_rank, {}, &PiggybackStamp::serial).serial;
    return number_.reset();
  }
  const auto number = number_.lock();
  const auto is_known = [](const auto& stamp) { return stamp.is_known != 0; };
  if (!number || !std::ranges::all_of(by_rank, is_known)) return;
  number->by_rank_.emplace();
  for (const PiggybackStamp& stamp : by_rank) number->by_rank_->push_back(stamp.value);
  number_.reset();
}

}  // namespace brigade::comm
