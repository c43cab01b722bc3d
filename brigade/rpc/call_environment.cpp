#include "brigade/rpc/call_environment.h"

#include <algorithm>
#include <utility>

#include "brigade/base/strings.h"

namespace brigade::rpc {
namespace {

// Renewals and admissions; one may wait for a lock while another continues.
constexpr std::size_t kQuickThreads = 2;
constexpr std::size_t kCallsOfACaller = 8;
// One that waits, and one whose connection is gone.
constexpr std::size_t kWaitsOfACaller = 2;
constexpr std::size_t kSpareCalls = 64;
constexpr std::size_t kArrivals = 256;
constexpr std::size_t kLongestToken = 256;
constexpr std::chrono::seconds kLongestCall = std::chrono::hours(1);

}  // namespace

CallEnvironment::CallEnvironment(MessageService& of, const MessageListenerOptions& options)
    : service(of),
      max_message_bytes(options.max_message_bytes),
      max_buffered_bytes(options.max_buffered_bytes),
      takes_shared_memory(options.shared_memory),
      message_bytes(options.max_buffered_bytes),
      open_bytes(options.max_buffered_bytes / 2),
      arrivals(kArrivals),
      calls(kSpareCalls + kCallsOfACaller * options.callers),
      waits(kWaitsOfACaller * options.callers),
      segments(options.max_buffered_bytes),
      quick({.threads = kQuickThreads, .name = "rpc quick"}),
      workers({.threads = options.threads, .name = "rpc work"}),
      waiters({.threads = options.callers, .name = "rpc wait"}) {}

void CallEnvironment::check_open() const {
  if (is_closing) throw Error(ErrorCode::kUnavailable, "The server ends.");
}

Budget::Part CallEnvironment::admit_arrival() {
  check_open();
  auto slot = arrivals.take(1);
  if (!slot) throw_busy("The server has too many calls that begin: try again later.");
  return std::move(*slot);
}

Budget::Part CallEnvironment::admit_call() {
  check_open();
  auto slot = calls.take(1);
  if (!slot) throw_busy("The server has too many calls in progress: try again later.");
  return std::move(*slot);
}

Budget::Part CallEnvironment::reserve_message(std::size_t bytes) {
  if (bytes > max_buffered_bytes) {
    throw Error(ErrorCode::kResourceExhausted, "A message has ", bytes,
                " bytes, and all messages of the server ", "together have ", max_buffered_bytes,
                " at most: raise its limit, ", "max_buffered_bytes.");
  }
  auto part = message_bytes.take(bytes);
  if (!part)
    throw_busy(base::str_cat("The server has no room for a message of ", bytes,
                             " bytes beside those that are in progress (max_buffered_bytes)."));
  return std::move(*part);
}

Budget::Part CallEnvironment::reserve_open_message(std::size_t bytes) {
  auto part = open_bytes.take(bytes);
  if (!part)
    throw_busy(base::str_cat("The server has no room for a message of ", bytes,
                             " bytes that is still to be written (half of max_buffered_bytes): "
                             "send it when it is whole."));
  return std::move(*part);
}

void throw_busy(const std::string& message) {
  throw MessageError(ErrorCode::kResourceExhausted, message, std::string(kBusyKind));
}

concurrency::ThreadPool& CallEnvironment::threads_of(int method) {
  switch (service.threads_of(method)) {
    case CallThreads::kQuick:
      return quick;
    case CallThreads::kWork:
      return workers;
    case CallThreads::kWaiting:
      return waiters;
  }
  throw Error(ErrorCode::kInternal, "A method has no threads.");
}

MessageService::Time deadline_of(const grpc::CallbackServerContext& context) {
  const auto left = context.deadline() - std::chrono::system_clock::now();
  return std::chrono::steady_clock::now() +
         std::min(std::chrono::duration_cast<std::chrono::nanoseconds>(left),
                  std::chrono::nanoseconds(kLongestCall));
}

void check_token_size(std::size_t size) {
  check_argument(size <= kLongestToken, "A token has up to ", kLongestToken, " bytes, not ", size,
                 ".");
}

}  // namespace brigade::rpc
