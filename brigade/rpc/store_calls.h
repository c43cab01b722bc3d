#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/rpc/protocol.h"

namespace grpc {
class Channel;
}

namespace brigade::rpc {

/// A store call that failed because the connection did.
class ConnectionError : public Error {
 public:
  using Error::Error;
};

/// A member's calls to the key-value store, with the credential from Welcome. They throw what the
/// rendezvous threw, or ConnectionError.
///
/// Thread-safety: all functions from any thread.
class StoreCalls {
 public:
  virtual ~StoreCalls() = default;
  virtual void set(const Credential& caller, std::string_view key, std::string_view value) = 0;
  virtual std::int64_t add(const Credential& caller, std::string_view key, std::int64_t delta) = 0;
  virtual std::int64_t append(const Credential& caller, std::string_view key,
                              std::string_view value) = 0;
  virtual std::string get(const Credential& caller, std::string_view key,
                          std::chrono::milliseconds timeout) = 0;
  virtual void barrier(const Credential& caller, std::string_view name,
                       std::chrono::milliseconds timeout) = 0;
};

/// A call fails when `cancel` is cancelled, and at `patience` after its deadline.
std::unique_ptr<StoreCalls> make_store_calls(std::shared_ptr<grpc::Channel> channel,
                                             concurrency::CancelToken cancel,
                                             std::chrono::milliseconds patience);

}  // namespace brigade::rpc
