#pragma once

#include <grpcpp/support/status.h>

#include "brigade/base/error.h"
#include "brigade/rpc/proto_conversion.h"

/// Errors of a MessageService's calls over the network: the client throws what the service threw.
namespace brigade::rpc {

/// The status for the exception that is being handled.
grpc::Status status_of_exception();

/// Calls `work`; the status says what it threw.
template <class Work>
grpc::Status status_after(const Work& work) {
  try {
    work();
    return grpc::Status::OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Throws the error, or MessageError, of which `status_of_exception` made the status.
[[noreturn]] void throw_error(const grpc::Status& status);

}  // namespace brigade::rpc
