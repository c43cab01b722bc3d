#include "brigade/rpc/message_errors.h"

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "brigade/rpc/message_service.h"

namespace brigade::rpc {
namespace {

/// With a message that fits what HTTP/2 allows for a status: 8 KiB, where a byte may take three.
grpc::Status short_status(const Error& error, std::string_view kind = {}) {
  constexpr std::size_t kLongestMessage = 2000;
  const std::string_view message = error.what();
  return to_status(Error(error.code(), std::string(message.substr(0, kLongestMessage))), kind);
}

}  // namespace

grpc::Status status_of_exception() {
  try {
    throw;
  } catch (const MessageError& error) {
    return short_status(error, error.kind());
  } catch (const Error& error) {
    return short_status(error);
  } catch (const std::bad_alloc&) {
    return short_status(Error(ErrorCode::kResourceExhausted, "The server is out of memory."));
  } catch (const std::exception& error) {
    return short_status(Error(ErrorCode::kInternal, "The server failed: ", error.what()));
  } catch (...) {
    return short_status(Error(ErrorCode::kInternal, "The server failed."));
  }
}

void throw_error(const grpc::Status& status) {
  const Error error = to_error(status);
  const std::string kind = kind_of(status);
  if (!kind.empty()) throw MessageError(error.code(), error.what(), kind);
  throw error;
}

}  // namespace brigade::rpc
