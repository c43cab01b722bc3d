#pragma once

#include <string>
#include <string_view>

#include "brigade/summary/event.h"

namespace brigade::summary {

/// The event as TensorFlow's protobuf message `Event`. Throws kInvalidArgument if a tag or text is
/// not UTF-8, or if the event exceeds the size limit of a message (2 GiB).
std::string encode_event(const Event& event);

/// Decodes such a message. Throws kDataLoss if the bytes are not such a message.
Event decode_event(std::string_view bytes);

}  // namespace brigade::summary
