#include "apps/brigade/device_normalization.h"

#include <algorithm>
#include <optional>
#include <string>

#include "apps/brigade/exit_code.h"
#include "brigade/input/image_normalizer.h"

namespace brigade::command {

namespace {

using input::ImageOutput;

ImageOutput output_unless(const std::optional<std::string>& obstacle, const DataFlags& data,
                          const distribute::Strategy& strategy) {
  if (data.normalize == "host") return ImageOutput::kNormalized;
  if (data.normalize == "device") {
    if (obstacle) throw UsageError("--normalize device: ", *obstacle);
    return ImageOutput::kBytes;
  }
  const auto is_gpu = [](const device::Device& device) { return !device.is_cpu(); };
  return !obstacle && std::ranges::any_of(strategy.devices(), is_gpu) ? ImageOutput::kBytes
                                                                      : ImageOutput::kNormalized;
}

std::optional<std::string> obstacle_of(const DataFlags& data) {
  if (data.dataset != "synthetic") return std::nullopt;
  return "dataset synthetic has no images of bytes; leave it out";
}

}  // namespace

ImageOutput image_output(const DataFlags& data, const distribute::Strategy& strategy) {
  return output_unless(obstacle_of(data), data, strategy);
}

ImageOutput image_output(const DataFlags& data, const PipelineFlags& pipeline,
                         const distribute::Strategy& strategy) {
  std::optional<std::string> obstacle = obstacle_of(data);
  if (!obstacle) obstacle = pipeline.need_of_floats(data);
  return output_unless(obstacle, data, strategy);
}

ReplicaNormalizer make_normalizer(const DataFlags& data, const ImageInput& input) {
  if (input.output == ImageOutput::kNormalized) return nullptr;
  const auto normalizer =
      data.has_files() ? input::ImageNormalizer({.mean = input.mean, .deviation = input.deviation})
                       : input::ImageNormalizer::unit_range();
  return [normalizer](input::LabeledBatch batch, distribute::ReplicaMapContext&) {
    batch.features = normalizer(batch.features);
    return batch;
  };
}

}  // namespace brigade::command
