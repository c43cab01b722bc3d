#pragma once

#include <string>
#include <string_view>

#include "brigade/cluster/address.h"

namespace brigade::rpc {

/// Whether there is a cluster key. Without one, nothing listens or connects beyond loopback.
enum class KeyState { kAbsent, kPresent };

/// Throws kPermissionDenied, saying how to make a key, for an address beyond loopback without a
/// key. `what` is "listen on" or "connect to".
void require_key_beyond_loopback(const cluster::Address& address, KeyState key,
                                 std::string_view what);

/// The address to listen on for members that connect to `address`: an IP address is used as it is,
/// a host name means all interfaces, because on the host itself it often resolves to loopback.
/// `localhost` is 127.0.0.1 on both sides, so that no member connects to another program on ::1;
/// the other loopback names are treated likewise (cluster::loopback_address).
std::string listen_text(const cluster::Address& address);

/// The address that a member connects to.
std::string connect_text(const cluster::Address& address);

/// The address by which the listening process connects to itself.
std::string connect_to_self_text(const cluster::Address& address);

}  // namespace brigade::rpc
