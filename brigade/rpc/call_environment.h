#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "brigade/base/error.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/rpc/budget.h"
#include "brigade/rpc/caller_segments.h"
#include "brigade/rpc/message_service.h"

namespace brigade::rpc {

/// What all calls at one listener use. Must outlive them.
///
/// Thread-safety: all members from any thread.
struct CallEnvironment {
  CallEnvironment(MessageService& of, const MessageListenerOptions& options);

  /// Throws kUnavailable once the listener ends.
  void check_open() const;
  /// A slot among the large calls whose callers have not been admitted yet: strangers take none of
  /// the others. Throws as `admit_call`.
  Budget::Part admit_arrival();
  /// A slot among the calls in progress. Throws kResourceExhausted, of kind kBusyKind, if there
  /// are too many, and as `check_open`.
  Budget::Part admit_call();
  /// Room for a message. Throws kResourceExhausted: of kind kBusyKind if it takes too much beside
  /// the others.
  Budget::Part reserve_message(std::size_t bytes);
  /// As `reserve_message`, for a message that is sent while it is being made, until it is complete.
  /// Such messages have half of the room, so that others find some however long they take. Throws
  /// kResourceExhausted, of kind kBusyKind.
  Budget::Part reserve_open_message(std::size_t bytes);

  /// The threads that make calls of a method. Throws as `MessageService::threads_of`.
  concurrency::ThreadPool& threads_of(int method);

  MessageService& service;
  const std::size_t max_message_bytes;
  const std::size_t max_buffered_bytes;
  const bool takes_shared_memory;
  Budget message_bytes;  // of all messages, in both directions
  Budget open_bytes;     // of those that are written while they come into being
  Budget arrivals;
  Budget calls;
  Budget waits;  // the calls that wait for other callers
  CallerSegments segments;
  std::atomic<bool> is_closing{false};
  concurrency::ThreadPool quick;
  concurrency::ThreadPool workers;
  concurrency::ThreadPool waiters;
};

/// Throws the error of kind kBusyKind.
[[noreturn]] void throw_busy(const std::string& message);

/// When the caller of a call gives up.
MessageService::Time deadline_of(const grpc::CallbackServerContext& context);

/// Throws kInvalidArgument for a token that is too long to be one.
void check_token_size(std::size_t size);

}  // namespace brigade::rpc
