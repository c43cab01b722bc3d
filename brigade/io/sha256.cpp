#include "brigade/io/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

void check(int result) {
  if (result != 1)
    throw Error(ErrorCode::kResourceExhausted, "SHA-256: libcrypto refuses to compute it");
}

}  // namespace

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) { check(context != nullptr ? 1 : 0); }
  const base::Handle<EVP_MD_CTX, EVP_MD_CTX_free> context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr));
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()));
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Sha256::hex_digest() const {
  const State copy;  // finishing a digest destroys its state, so a copy is finished
  check(EVP_MD_CTX_copy_ex(copy.context.get(), state_->context.get()));
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(copy.context.get(), digest.data(), nullptr));
  return base::to_hex(std::as_bytes(std::span(digest)));
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex_digest();
}

}  // namespace brigade::io
