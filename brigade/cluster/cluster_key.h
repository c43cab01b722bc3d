#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/cluster/environment_variables.h"
#include "brigade/io/file_system.h"

namespace brigade::cluster {

/// Where a process finds its key.
inline constexpr const char* kKeyVariable = "BRIGADE_CLUSTER_KEY";  ///< the digits
inline constexpr const char* kKeyFileVariable = "BRIGADE_CLUSTER_KEY_FILE";
/// The path of a descriptor that this process has inherited begins like this.
inline constexpr const char* kDescriptorFolder = "/proc/self/fd/";

/// The secret that the members of a cluster share: whoever has it is a member, on every port that
/// Brigade opens. 32 random bytes, written as 64 hexadecimal digits. From it each process derives
/// the same certificate authority and a certificate of its own, so nothing else is to be handed
/// out.
///
/// Thread-safety: a value.
class ClusterKey {
 public:
  /// A new one, from the system's random source.
  static ClusterKey generate();
  /// Throws kInvalidArgument, without quoting the text, unless it is 64 hexadecimal digits (blanks
  /// around them are allowed).
  static ClusterKey parse(std::string_view text);
  /// From a file that only its owner may read. Throws kNotFound; kPermissionDenied, saying `chmod
  /// 600`, if others may read it.
  static ClusterKey read(const io::Path& path);
  /// From BRIGADE_CLUSTER_KEY, else from the file that BRIGADE_CLUSTER_KEY_FILE names; nothing
  /// without both. Where that is a descriptor of this process ("/proc/self/fd/19", as `brigade
  /// launch` says it), programs that this process starts do not inherit it from then on.
  static std::optional<ClusterKey> from_environment(
      const Environment& environment = process_environment());

  std::string to_hex() const;
  /// 32 bytes for one purpose ("rendezvous token", "tls ca"), by HKDF-SHA-256: knowing them tells
  /// nothing of the key or of other purposes.
  std::array<std::uint8_t, 32> derive(std::string_view purpose) const;

 private:
  explicit ClusterKey(std::array<std::uint8_t, 32> bytes) : bytes_(bytes) {}
  std::array<std::uint8_t, 32> bytes_;
};

/// What TLS needs on either side, as PEM text. Both sides check the other's certificate against the
/// authority, so a peer without the key is refused before it has said a word.
struct TlsIdentity {
  std::string authority;    ///< the certificate authority's certificate, equal in all members
  std::string certificate;  ///< this process's, signed by the authority
  std::string private_key;
};

/// The name that every certificate carries, and that clients must expect instead of the host's.
inline constexpr const char* kTlsName = "brigade-cluster";

/// An identity for this process, from the key alone.
TlsIdentity make_tls_identity(const ClusterKey& key);

}  // namespace brigade::cluster
