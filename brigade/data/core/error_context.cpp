#include "brigade/data/core/error_context.h"

#include <new>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void rethrow_with_context(std::string_view context) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), context, error.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted, context, "out of memory");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kAborted, context, base::without_stack_trace(error.what()));
  } catch (...) {
    throw Error(ErrorCode::kAborted, context, "an exception that is no std::exception");
  }
}

void rethrow_if_cancelled() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  } catch (...) {  // says something about an element
  }
}

}  // namespace brigade::data::internal
