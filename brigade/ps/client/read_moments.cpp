#include "brigade/ps/client/read_moments.h"

namespace brigade::ps {

void ReadMoments::record(int server, std::int64_t step, std::int64_t own) {
  reads_.at(static_cast<std::size_t>(server)) = Reading{.step = step, .own = own};
}

void ReadMoments::record_rows(int server, std::int64_t step, std::int64_t own) {
  auto& read = reads_.at(static_cast<std::size_t>(server));
  if (read && read->are_rows) return;
  read = Reading{.step = step, .own = own, .are_rows = true};
}

std::optional<std::int64_t> ReadMoments::read_at(int server, std::int64_t own) const {
  const auto& read = reads_.at(static_cast<std::size_t>(server));
  if (!read) return std::nullopt;
  return read->step + own - read->own;
}

}  // namespace brigade::ps
