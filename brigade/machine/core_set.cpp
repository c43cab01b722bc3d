#include "brigade/machine/core_set.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::machine {
namespace {

constexpr int kLargestCore = 65535;  // keeps "0-4000000000" from filling the memory

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::kInvalidArgument, base::quoted(text),
              " is not a list of cores; write numbers up to ", kLargestCore,
              " and rising ranges, as in 0-3,8.");
}

int core_from(std::string_view word, std::string_view text) {
  const auto value = base::parse_index(word);
  if (!value || *value > kLargestCore) refuse(text);
  return *value;
}

}  // namespace

CoreSet::CoreSet(std::vector<int> cores) : cores_(std::move(cores)) {
  std::sort(cores_.begin(), cores_.end());
  cores_.erase(std::unique(cores_.begin(), cores_.end()), cores_.end());
  if (!cores_.empty() && cores_.front() < 0) {
    throw Error(ErrorCode::kInvalidArgument, "Core ", cores_.front(),
                " does not exist: cores are numbered from 0.");
  }
}

CoreSet CoreSet::parse(std::string_view text) {
  const std::string_view list = base::trim(text);
  if (list.empty()) return CoreSet();
  std::vector<int> cores;
  for (const auto& part : base::split(list, ',')) {
    const auto dash = part.find('-');
    const int first = core_from(std::string_view(part).substr(0, dash), text);
    const int last = dash == std::string::npos
                         ? first
                         : core_from(std::string_view(part).substr(dash + 1), text);
    if (last < first) refuse(text);
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return CoreSet(std::move(cores));
}

std::string CoreSet::to_string() const {
  std::string list;
  for (std::size_t begin = 0, end = 0; begin < cores_.size(); begin = end) {
    for (end = begin + 1; end < cores_.size() && cores_[end] == cores_[end - 1] + 1;) ++end;
    if (!list.empty()) list += ',';
    list += base::str_cat(cores_[begin]);
    if (end - begin > 1) list += base::str_cat("-", cores_[end - 1]);
  }
  return list;
}

bool CoreSet::contains(int core) const {
  return std::binary_search(cores_.begin(), cores_.end(), core);
}

CoreSet CoreSet::intersection(const CoreSet& other) const {
  CoreSet both;
  std::set_intersection(cores_.begin(), cores_.end(), other.cores_.begin(), other.cores_.end(),
                        std::back_inserter(both.cores_));
  return both;
}

}  // namespace brigade::machine
