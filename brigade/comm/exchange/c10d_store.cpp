#include "brigade/comm/exchange/c10d_store.h"

#include "brigade/base/error.h"

namespace brigade::comm {

namespace {

std::string to_hex(const std::vector<std::uint8_t>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::uint8_t digit_of(char character) {
  if (character >= '0' && character <= '9') return static_cast<std::uint8_t>(character - '0');
  if (character >= 'a' && character <= 'f') return static_cast<std::uint8_t>(character - 'a' + 10);
  throw Error(ErrorCode::kDataLoss, "A value in the store of the job is not hexadecimal.");
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(digit_of(text[i]) << 4 | digit_of(text[i + 1])));
  return bytes;
}

}  // namespace

C10dStore::C10dStore(std::shared_ptr<cluster::Membership> membership, std::string prefix,
                     std::chrono::milliseconds timeout)
    : c10d::Store(timeout), membership_(std::move(membership)), prefix_(std::move(prefix)) {}

c10::intrusive_ptr<c10d::Store> C10dStore::clone() {
  return c10::make_intrusive<C10dStore>(membership_, prefix_, timeout_);
}

void C10dStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  membership_->set(prefix_ + key, to_hex(value));
}

std::vector<std::uint8_t> C10dStore::get(const std::string& key) {
  return from_hex(membership_->get(prefix_ + key, timeout_));
}

std::int64_t C10dStore::add(const std::string& key, std::int64_t value) {
  return membership_->add(prefix_ + key, value);
}

bool C10dStore::check(const std::vector<std::string>& keys) {
  try {
    wait(keys, std::chrono::milliseconds(1));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    return false;
  }
}

void C10dStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void C10dStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  for (const std::string& key : keys) membership_->get(prefix_ + key, timeout);
}

bool C10dStore::deleteKey(const std::string&) {
  return false;
}

std::int64_t C10dStore::getNumKeys() {
  throw Error(ErrorCode::kUnimplemented, "The store of the job does not count its keys.");
}

}  // namespace brigade::comm
