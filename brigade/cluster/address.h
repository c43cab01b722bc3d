#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace brigade::cluster {

/// A host and a port, as "host:port" names them.
///
/// Thread-safety: a value.
struct Address {
  /// A name or an IP address; an IPv6 address without its brackets.
  std::string host;
  int port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

/// Whether an address may have port 0, "any free port".
enum class PortZero { kRefused, kAllowed };

/// Reads "host:port" or "[::1]:port". Throws kInvalidArgument, quoting the text and saying what is
/// wrong with it: no port, a port that is not a number from 1 to 65535, no host, brackets missing
/// around an IPv6 address, characters that no host has.
Address parse_address(std::string_view text, PortZero port_zero = PortZero::kRefused);

/// The loopback IP address of `host`, or nothing if it is not a loopback host: 127.x.y.z and ::1 as
/// they are, "::ffff:127.0.0.1" as IPv4, and 127.0.0.1 or ::1 for names such as "localhost" and
/// "ip6-localhost", whatever /etc/hosts says.
std::optional<std::string> loopback_address(std::string_view host);

/// Whether `host` is a loopback address or name.
bool is_loopback(std::string_view host);

/// "host:port", with brackets around an IPv6 address.
std::string to_string(const Address& address);

}  // namespace brigade::cluster
