#include "brigade/rpc/key_store.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {

void KeyStore::set(std::string_view key, std::string_view value) {
  values_.insert_or_assign(std::string(key), std::string(value));
}

std::optional<std::string> KeyStore::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

std::int64_t KeyStore::add(std::string_view key, std::int64_t delta) {
  const auto value = find(key);
  const auto number = value ? base::parse_int(*value) : 0;
  if (!number) {
    throw Error(ErrorCode::kFailedPrecondition, "The value under key '", key,
                "' is not a number that ", delta, " could be added to; it was stored by set().");
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    throw Error(ErrorCode::kOutOfRange, "The number under key '", key, "', ", *number,
                ", is too large to add ", delta, ".");
  }
  set(key, base::str_cat(sum));
  return sum;
}

std::int64_t KeyStore::append(std::string_view key, std::string_view value) {
  const std::int64_t number = ++lengths_[std::string(key)];
  set(base::str_cat(key, "/", number), value);
  return number;
}

}  // namespace brigade::rpc
