#include "brigade/rpc/key_store.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {

std::vector<PendingCall> KeyStore::set(std::string_view key, std::string_view value) {
  values_.insert_or_assign(std::string(key), std::string(value));
  std::vector<PendingCall> released;
  const auto [first, last] = waiting_.equal_range(key);
  for (auto it = first; it != last; ++it) released.push_back(std::move(it->second));
  waiting_.erase(first, last);
  return released;
}

std::optional<std::string> KeyStore::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

KeyStore::Added KeyStore::add(std::string_view key, std::int64_t delta) {
  const auto value = find(key);
  const auto number = value ? base::parse_int(*value) : 0;
  if (!number) {
    throw Error(ErrorCode::kFailedPrecondition,
                base::str_cat("The value under key '", key, "' is not a number that ", delta,
                              " could be added to; it was stored by set()."));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    throw Error(ErrorCode::kOutOfRange, base::str_cat("The number under key '", key, "', ", *number,
                                                      ", is too large to add ", delta, "."));
  }
  return {sum, set(key, base::str_cat(sum))};
}

KeyStore::Appended KeyStore::append(std::string_view key, std::string_view value) {
  const std::int64_t number = ++lengths_[std::string(key)];
  return {number, set(base::str_cat(key, "/", number), value)};
}

void KeyStore::wait_for(std::string_view key, PendingCall waiting) {
  waiting_.emplace(std::string(key), std::move(waiting));
}

std::vector<PendingCall> KeyStore::take_if(const std::function<bool(const PendingCall&)>& is_over) {
  std::vector<PendingCall> taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (!is_over(it->second)) {
      ++it;
      continue;
    }
    taken.push_back(std::move(it->second));
    it = waiting_.erase(it);
  }
  return taken;
}

std::optional<TimePoint> KeyStore::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [key, waiting] : waiting_) {
    next = next ? std::min(*next, waiting.deadline) : waiting.deadline;
  }
  return next;
}

}  // namespace brigade::rpc
