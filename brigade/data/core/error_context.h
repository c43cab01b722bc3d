#pragma once

#include <string_view>

namespace brigade::data::internal {

/// To be called while an exception is handled: throws it again with `context` ("In the file a: ")
/// before its text. An `Error` keeps its code, other exceptions become kAborted.
[[noreturn]] void rethrow_with_context(std::string_view context);

/// To be called while an exception is handled: throws it again if it is kCancelled. The walk is
/// given up then, and no element was passed. Other exceptions are those of an element.
void rethrow_if_cancelled();

}  // namespace brigade::data::internal
