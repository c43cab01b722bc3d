#include "brigade/rpc/token.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "brigade/base/error.h"

namespace brigade::rpc {

std::string make_token() {
  std::string token(kTokenBytes, '\0');
  if (::getentropy(token.data(), token.size()) != 0) {
    throw Error(ErrorCode::kUnavailable, "The system gives no random bytes: ", std::strerror(errno),
                ".");
  }
  return token;
}

bool is_same_token(std::string_view one, std::string_view other) {
  return one.size() == kTokenBytes && other.size() == kTokenBytes &&
         CRYPTO_memcmp(one.data(), other.data(), kTokenBytes) == 0;
}

}  // namespace brigade::rpc
