#include "brigade/input/image_normalizer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <cstdint>

#include "brigade/base/error.h"

namespace brigade::input {

namespace {

constexpr std::int64_t kMostChannels = 4;

/// On `device`, without a wait of the host.
at::Tensor queued_copy(const at::Tensor& values, c10::Device device) {
  if (device.is_cpu()) return values;
  at::Tensor pinned = at::empty_like(values, values.options().pinned_memory(true));
  pinned.copy_(values);
  return pinned.to(device, /*non_blocking=*/true);
}

}  // namespace

ImageNormalizer::ImageNormalizer(const image::NormalizeOptions& options)
    : layout_(options.layout),
      factors_(at::empty({kMostChannels}, at::kFloat)),
      offsets_(at::empty({kMostChannels}, at::kFloat)) {
  check_argument(options.flip == image::Flip::kNone,
                 "ImageNormalizer does not flip: mirror single images, in the dataset's map.");
  for (std::size_t i = 0; i < options.mean.size(); ++i) {
    const float deviation = options.deviation[i];
    check_argument(deviation > 0, "ImageNormalizer: the deviation of channel ", i, " is ",
                   deviation, "; it must be greater than 0.");
    // As image::normalize.
    factors_.mutable_data_ptr<float>()[i] = 1 / (255 * deviation);
    offsets_.mutable_data_ptr<float>()[i] = -options.mean[i] / deviation;
  }
}

at::Tensor ImageNormalizer::operator()(const at::Tensor& images) const {
  check_argument(images.scalar_type() == at::kByte && images.dim() >= 3,
                 "ImageNormalizer takes images of uint8 with at least 3 dimensions, and got ",
                 images.scalar_type(), images.sizes(), ".");
  at::Tensor normalized = images.to(at::kFloat);
  if (!factors_.defined()) return normalized.div_(255);
  normalized.mul_(channels(factors_, images)).add_(channels(offsets_, images));
  return normalized;
}

at::Tensor ImageNormalizer::channels(const at::Tensor& values, const at::Tensor& images) const {
  const bool is_first = layout_ == image::Layout::kChannelsFirst;
  const std::int64_t count = images.size(is_first ? -3 : -1);
  check_argument(count >= 1 && count <= kMostChannels,
                 "ImageNormalizer takes images of 1 to 4 channels, and got ", count,
                 ": is the layout right?");
  const at::Tensor here = queued_copy(values.narrow(0, 0, count), images.device());
  return is_first ? here.view({count, 1, 1}) : here;
}

}  // namespace brigade::input
