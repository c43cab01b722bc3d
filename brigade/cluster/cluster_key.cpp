#include "brigade/cluster/cluster_key.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {
namespace {

constexpr std::string_view kHowToMakeOne = "make one with: brigade launch --new-key > cluster.key";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The number in the path of a descriptor of this process.
std::optional<int> descriptor_of(const io::Path& path) {
  const std::string text = path.string();
  if (!text.starts_with(kDescriptorFolder)) return std::nullopt;
  return base::parse_index(std::string_view(text).substr(std::strlen(kDescriptorFolder)));
}

/// Advice for a key file that cannot be used.
std::string advice(const io::Path& path) {
  if (!descriptor_of(path)) return base::str_cat("; ", kHowToMakeOne);
  return ". It is a descriptor that brigade launch passes to its program; a process in between has "
         "closed it (Python's subprocess keeps the descriptors in pass_fds; a Brigade program that "
         "has read its key does not pass it on)";
}

[[noreturn]] void refuse_file(const io::Path& path, int error) {
  const std::string reason = std::generic_category().message(error);
  const ErrorCode code = error == ENOENT                     ? ErrorCode::kNotFound
                         : error == EACCES || error == EPERM ? ErrorCode::kPermissionDenied
                                                             : ErrorCode::kUnavailable;
  throw Error(code, "The cluster key's file ", path, " cannot be read: ", reason, advice(path));
}

// Checks the open descriptor, so the file cannot be exchanged between the check and the read.
void check_private(int fd, const io::Path& path) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) refuse_file(path, errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, "The cluster key's file ", path,
                " is not a regular file", descriptor_of(path) ? advice(path) : "", ".");
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(ErrorCode::kPermissionDenied, "The cluster key's file ", path,
                " is open to others than its owner; run: chmod 600 ", path);
  }
}

// More than a key needs; a larger file holds something else.
std::string read_beginning(int fd, const io::Path& path) {
  std::array<char, 1024> buffer{};
  std::string text;
  while (text.size() < buffer.size()) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_file(path, errno);
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// An error that says where the key came from.
ClusterKey parse_from(std::string_view text, std::string_view where) {
  try {
    return ClusterKey::parse(text);
  } catch (const Error& error) {
    throw Error(error.code(), "In ", where, ": ", error.what());
  }
}

void check(bool done, std::string_view what) {
  if (!done) throw Error(ErrorCode::kInternal, "libcrypto fails: ", what, ".");
}

}  // namespace

ClusterKey ClusterKey::generate() {
  std::array<std::uint8_t, 32> bytes{};
  check(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "random bytes");
  return ClusterKey(bytes);
}

ClusterKey ClusterKey::parse(std::string_view text) {
  const std::string_view digits = base::trim(text);
  std::array<std::uint8_t, 32> bytes{};
  bool is_valid = digits.size() == 2 * bytes.size();
  for (std::size_t i = 0; is_valid && i < bytes.size(); ++i) {
    const int high = digit_of(digits[2 * i]);
    const int low = digit_of(digits[2 * i + 1]);
    is_valid = high >= 0 && low >= 0;
    bytes[i] = static_cast<std::uint8_t>(is_valid ? high * 16 + low : 0);
  }
  if (is_valid) return ClusterKey(bytes);
  throw Error(ErrorCode::kInvalidArgument, "A cluster key is 64 hexadecimal digits; this text has ",
              digits.size(), " characters, or others among them; ", kHowToMakeOne);
}

ClusterKey ClusterKey::read(const io::Path& path) {
  // Without O_NONBLOCK a named pipe would be waited for.
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) refuse_file(path, errno);
  check_private(file.number(), path);
  return parse_from(read_beginning(file.number(), path), path.string());
}

std::optional<ClusterKey> ClusterKey::from_environment(const Environment& environment) {
  if (const auto text = environment(kKeyVariable)) return parse_from(*text, kKeyVariable);
  if (const auto path = environment(kKeyFileVariable)) {
    const ClusterKey key = read(*path);
    if (const auto inherited = descriptor_of(*path)) ::fcntl(*inherited, F_SETFD, FD_CLOEXEC);
    return key;
  }
  return std::nullopt;
}

std::string ClusterKey::to_hex() const {
  return base::to_hex(std::as_bytes(std::span(bytes_)));
}

std::array<std::uint8_t, 32> ClusterKey::derive(std::string_view purpose) const {
  const base::Handle<EVP_KDF, EVP_KDF_free> hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  check(hkdf != nullptr, "HKDF");
  const base::Handle<EVP_KDF_CTX, EVP_KDF_CTX_free> context(EVP_KDF_CTX_new(hkdf.get()));
  // OpenSSL takes inputs by pointers to what it does not change.
  char digest[] = "SHA256";
  std::string salt = "brigade cluster key";
  std::string info(purpose);
  std::array<std::uint8_t, 32> key = bytes_;
  const std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<std::uint8_t, 32> derived{};
  check(context != nullptr &&
            EVP_KDF_derive(context.get(), derived.data(), derived.size(), parameters.data()) == 1,
        "HKDF");
  return derived;
}

}  // namespace brigade::cluster
