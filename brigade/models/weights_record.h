#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/image/image.h"
#include "brigade/image/resize.h"
#include "brigade/models/registry.h"

namespace brigade::models {

/// How an image becomes the input of a model, in this order: its shorter side is resized to
/// `resize`, the central window of `crop` is taken, and each value x of 0 to 255 becomes
/// (x * scale - mean) / deviation of its channel. torchvision: transforms._presets.
struct Preprocessing {
  /// The length of the shorter side; 0: the image is not resized.
  std::int64_t resize = 0;
  /// How the image is resized.
  image::Interpolation interpolation = image::Interpolation::kBilinear;
  /// The window; without pixels: the whole image.
  image::Size crop = {};
  /// The factor of each value of 0 to 255.
  double scale = 1.0 / 255;
  /// An entry for each channel; both empty: not normalized.
  std::vector<double> mean = {};
  std::vector<double> deviation = {};
  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

/// What a file of weights alone does not say: which model they are of, what its input is, and what
/// its outputs mean. `export_weights` writes it into the metadata of the file, `import_weights`
/// reads it: `make_model(record.model, record.options)` is the model that the weights fit.
struct WeightsRecord {
  std::string model;  ///< A name of the registry.
  /// For `make_model`: with the number of classes that the weights have.
  ModelOptions options = {};
  /// How images become the model's input. Unset: not known.
  std::optional<Preprocessing> preprocessing = std::nullopt;
  /// [class]: its name. Empty: not known.
  std::vector<std::string> categories = {};
};

/// The key of a safetensors file's metadata whose value is the record, as JSON.
inline constexpr std::string_view kWeightsRecordKey = "brigade_weights_record";

/// The record as one line of JSON (docs/formats.md). Throws kInvalidArgument, naming the field, for
/// no model, text that is not UTF-8, categories that are not as many as the classes, numbers that
/// are not finite, and means and deviations that are not as many as each other.
///
/// Thread-safety: a pure function, as are the others here.
std::string to_json(const WeightsRecord& record);

/// Reads what `to_json` wrote; what is missing has its default. Throws kDataLoss, naming `source`
/// and the field, for other text; kUnimplemented for a newer version, or an option that this
/// version does not have: the model would be another.
WeightsRecord parse_weights_record(std::string_view json, std::string_view source);

/// The record in a file's metadata; nothing if there is none. Throws as `parse_weights_record`.
std::optional<WeightsRecord> find_weights_record(const std::map<std::string, std::string>& metadata,
                                                 std::string_view source);

}  // namespace brigade::models
