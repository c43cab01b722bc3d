#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace brigade::rpc {

/// The address of a page on this machine.
struct LocalUrl {
  int port = 0;
  std::string path = "/";
};

/// Parses "http://127.0.0.1:9400/metrics"; the scheme and the path may be left out, the host may be
/// `localhost`. Throws kInvalidArgument, quoting the text, for other hosts and schemes: pages of
/// status are served on loopback alone.
LocalUrl parse_local_url(std::string_view text);

/// The reply of an HTTP server.
struct HttpReply {
  int status = 0;  ///< 200 and so on
  std::string body;
};

/// The largest reply that is accepted.
inline constexpr std::size_t kMostReplyBytes = std::size_t{4} << 20;

/// Gets a page of an `HttpServer` of this machine. Throws kUnavailable, naming the address, if
/// nothing listens there or the connection breaks, kDeadlineExceeded if the reply is not complete
/// after `timeout`, and kDataLoss if it is not HTTP or too long. Thread-safety: any thread.
HttpReply http_get(const LocalUrl& url, std::chrono::milliseconds timeout);

}  // namespace brigade::rpc
