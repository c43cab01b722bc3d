#pragma once

#include <string>
#include <string_view>

#include "brigade/cluster/address.h"

namespace brigade::rpc {

/// Whether a connection needs a key: without one, nothing listens or connects beyond loopback.
enum class KeyState { kAbsent, kPresent };

/// Throws kPermissionDenied, saying how to make a key, for an address beyond loopback without one.
/// `what` is "listen on" or "connect to".
void require_key_beyond_loopback(const cluster::Address& address, KeyState key,
                                 std::string_view what);

/// What to listen on for members that come to `address`: an IP address as it is; all interfaces for
/// a host's name, which on the host itself often means loopback. `localhost` is 127.0.0.1 on both
/// sides, so that no member meets a stranger on ::1; so for the other names of this machine
/// (cluster::loopback_address).
std::string listen_text(const cluster::Address& address);

/// What a member connects to.
std::string connect_text(const cluster::Address& address);

/// What the process that listens connects to, to reach itself.
std::string connect_to_self_text(const cluster::Address& address);

}  // namespace brigade::rpc
