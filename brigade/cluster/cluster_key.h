#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/cluster/environment_variables.h"
#include "brigade/io/file_system.h"

namespace brigade::cluster {

/// The environment variables with a process's key.
inline constexpr const char* kKeyVariable = "BRIGADE_CLUSTER_KEY";  ///< the digits
inline constexpr const char* kKeyFileVariable = "BRIGADE_CLUSTER_KEY_FILE";
/// The prefix of the path of an inherited descriptor.
inline constexpr const char* kDescriptorFolder = "/proc/self/fd/";

/// The shared secret of a cluster's members: every port that Brigade opens accepts a process that
/// has it. 32 random bytes, written as 64 hexadecimal digits. Each process derives from it the same
/// certificate authority and its own certificate, so nothing else has to be distributed.
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
  /// without both. If that file is a descriptor of this process ("/proc/self/fd/19", as `brigade
  /// launch` sets it), the descriptor becomes close-on-exec.
  static std::optional<ClusterKey> from_environment(
      const Environment& environment = process_environment());

  std::string to_hex() const;
  /// Derives 32 bytes for one purpose ("rendezvous token", "tls ca") by HKDF-SHA-256. They reveal
  /// neither the key nor the bytes of other purposes.
  std::array<std::uint8_t, 32> derive(std::string_view purpose) const;

 private:
  explicit ClusterKey(std::array<std::uint8_t, 32> bytes) : bytes_(bytes) {}
  std::array<std::uint8_t, 32> bytes_;
};

/// The TLS credentials of one side, as PEM text. Both sides check the other's certificate against
/// the authority, so a peer without the key is refused during the handshake.
struct TlsIdentity {
  std::string authority;    ///< the certificate authority's certificate, equal in all members
  std::string certificate;  ///< this process's, signed by the authority
  std::string private_key;
};

/// The name in every certificate, which clients must expect instead of the host's name.
inline constexpr const char* kTlsName = "brigade-cluster";

/// Makes credentials for this process from the key alone. Certificates are valid from 2020 to 2119
/// whatever the time is, so that hosts with different clocks accept each other. Throws
/// kFailedPrecondition, naming the date, if `now` is outside of that range: handshakes would fail
/// as with a wrong key.
TlsIdentity make_tls_identity(const ClusterKey& key, std::chrono::system_clock::time_point now =
                                                         std::chrono::system_clock::now());

}  // namespace brigade::cluster
