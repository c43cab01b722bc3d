#pragma once

#include <string_view>

namespace brigade::data::internal {

/// Call it while an exception is handled: throws it again with `context` ("In the file a: ")
/// before its text. An `Error` keeps its code, other exceptions become kAborted.
[[noreturn]] void rethrow_with_context(std::string_view context);

/// Call it while an exception is handled: throws it again if it is kCancelled. Then the iteration
/// was cancelled and no element was consumed. Other exceptions are errors of an element.
void rethrow_if_cancelled();

}  // namespace brigade::data::internal
