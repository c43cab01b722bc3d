#pragma once

#include <string>
#include <string_view>

#include "brigade/summary/event.h"

namespace brigade::summary {

/// The event as TensorFlow's protobuf message `Event`. Throws kInvalidArgument if a tag or text is
/// not UTF-8, or if the event has more bytes than a message can hold (2 GiB).
std::string encode_event(const Event& event);

/// The event that such a message holds. Throws kDataLoss if the bytes are no message of that kind.
Event decode_event(std::string_view bytes);

}  // namespace brigade::summary
