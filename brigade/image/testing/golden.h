#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/image/image.h"
#include "brigade/io/sha256.h"

/// TensorFlow's results for images, recorded by tools/tf_data/images.py. For tests only.
namespace brigade::image::testing {

/// A part of the file: "jpeg", "resize", ...
inline nlohmann::json golden(const std::string& part) {
  std::ifstream file(BRIGADE_IMAGE_GOLDEN);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check_argument(json.is_object() && json.contains(part), "images.json has no part " + part);
  return json.at(part);
}

/// A part of torchvision's results, recorded by tools/tf_data/augmentations.py: "cases", ...
inline nlohmann::json augmentation_golden(const std::string& part) {
  std::ifstream file(
      std::filesystem::path(BRIGADE_IMAGE_GOLDEN).replace_filename("augmentations.json"));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check_argument(json.is_object() && json.contains(part), "augmentations.json has no part " + part);
  return json.at(part);
}

/// Decodes base64.
inline std::string bytes_of(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(digit));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

/// A file of the part "<kind> files".
inline std::string golden_file(const std::string& kind, const std::string& name) {
  return bytes_of(golden(kind + " files").at(name).get<std::string>());
}

template <class T>
std::vector<T> values_of(const nlohmann::json& array) {
  const std::string bytes = bytes_of(array.at("values").get<std::string>());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
BasicImage<T> image_of(const nlohmann::json& array) {
  const auto shape = array.at("shape").get<std::vector<std::int64_t>>();
  return {{shape.at(0), shape.at(1)}, shape.at(2), values_of<T>(array)};
}

/// {"shape": ..., "sha256": ...} of an image, as in the file.
inline nlohmann::json digest_of(const Image& image) {
  const std::string_view bytes(reinterpret_cast<const char*>(image.values().data()),
                               image.values().size());
  return {{"shape", {image.height(), image.width(), image.channels()}},
          {"sha256", io::sha256_hex(bytes)}};
}

/// The largest difference of two arrays of the same size; infinite if sizes differ.
template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

/// A smooth pattern that differs by channel.
inline Image smooth_image(const Size& size, std::int64_t channels) {
  Image image(size, channels);
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const double wave = std::sin(static_cast<double>(x) / (5 + static_cast<double>(c))) +
                            std::cos(static_cast<double>(y + c) / 7);
        image.at(y, x, c) = static_cast<std::uint8_t>(128 + 60 * wave);
      }
    }
  }
  return image;
}

}  // namespace brigade::image::testing
