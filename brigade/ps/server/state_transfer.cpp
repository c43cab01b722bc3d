#include "brigade/ps/server/state_transfer.h"

#include <iterator>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::ps {

StateTransfer::StateTransfer(StoreMoment moment, std::uint64_t part_bytes)
    : moment_(std::move(moment)) {
  std::vector<std::uint64_t> bytes;
  for (const checkpoint::NamedTensor& each : moment_.contents.tensors)
    bytes.push_back(each.tensor.nbytes());
  ranges_ = divide_by_bytes(bytes, part_bytes);
}

StatePart StateTransfer::part(int index) const {
  const RecordPart& range = ranges_.at(static_cast<std::size_t>(index));
  const auto begin = moment_.contents.tensors.begin();
  StatePart part{.covered = moment_.covered, .parts = parts()};
  if (index == 0) part.state = moment_.contents.state;
  part.tensors.assign(begin + static_cast<std::ptrdiff_t>(range.begin),
                      begin + static_cast<std::ptrdiff_t>(range.end));
  return part;
}

bool StateReception::fits(const StatePart& part) const {
  if (next_ == 0) return part.parts >= 1;
  return part.covered == moment_.covered && part.parts == parts_ && next_ < parts_;
}

bool StateReception::add(StatePart part) {
  check_argument(fits(part), "The replica of a parameter server received a part of another state.");
  if (next_ == 0) {
    moment_.covered = part.covered;
    moment_.contents.state = std::move(part.state);
    parts_ = part.parts;
  }
  auto& tensors = moment_.contents.tensors;
  tensors.insert(tensors.end(), std::make_move_iterator(part.tensors.begin()),
                 std::make_move_iterator(part.tensors.end()));
  return ++next_ == parts_;
}

}  // namespace brigade::ps
