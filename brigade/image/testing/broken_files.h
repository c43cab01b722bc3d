#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/image/image.h"

/// Corrupt and malicious files. For tests only.
namespace brigade::image::testing {

/// Whether `decode(bytes)` gives an image or throws an `Error` about the data; anything else fails
/// the test.
template <class Decode>
bool survives(const Decode& decode, const std::string& bytes) {
  try {
    const Image image = decode(bytes);
    EXPECT_GT(image.height(), 0);
    return true;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    return false;
  }
}

/// The byte that the error of `decode(bytes)` names.
template <class Decode>
std::optional<std::size_t> byte_of_error(const Decode& decode, const std::string& bytes) {
  try {
    decode(bytes);
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string words = "broken or cut short at byte ";
    const std::size_t found = text.find(words);
    if (found != std::string::npos) return std::stoull(text.substr(found + words.size()));
    ADD_FAILURE() << text;
  }
  return std::nullopt;
}

/// Decodes `file` truncated after every byte: each must be an error. The errors name the end of the
/// file, once the format can be recognized.
template <class Decode>
void expect_cut_files_are_errors(const Decode& decode, const std::string& file) {
  for (std::size_t length = 0; length < file.size(); ++length) {
    // A copy of exactly this length, so that AddressSanitizer sees a read beyond it.
    EXPECT_FALSE(survives(decode, std::string(file.data(), length)))
        << "cut after " << length << " of " << file.size() << " bytes";
    if (length < 2) continue;
    EXPECT_EQ(byte_of_error(decode, file.substr(0, length)), length);
  }
}

/// Decodes `file` with one to four flipped bits, `count` times.
template <class Decode>
void expect_flipped_bits_do_no_harm(const Decode& decode, const std::string& file, int count) {
  base::CounterRng rng(17);
  for (int i = 0; i < count; ++i) {
    std::string bytes = file;
    for (std::uint64_t flips = 1 + rng.uniform_below(4); flips > 0; --flips) {
      bytes[rng.uniform_below(bytes.size())] ^= static_cast<char>(1 << rng.uniform_below(8));
    }
    survives(decode, bytes);
  }
}

}  // namespace brigade::image::testing
