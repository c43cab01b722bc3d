#include "brigade/data/transforms/bucket_by_sequence_length.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

constexpr std::string_view kName = "bucket_by_sequence_length";

}  // namespace

std::int64_t Buckets::bucket_of(std::int64_t length) const {
  if (pad == BucketPadding::kToBoundary && (boundaries.empty() || length >= boundaries.back())) {
    refuse("An element of length ", length,
           " has no boundary that it could be padded to; lengths must be below ",
           boundaries.empty() ? 0 : boundaries.back(), ": add a boundary, or pad to the longest");
  }
  return std::upper_bound(boundaries.begin(), boundaries.end(), length) - boundaries.begin();
}

std::int64_t Buckets::batch_size(std::int64_t bucket) const {
  check_argument(
      std::in_range<std::size_t>(bucket) && static_cast<std::size_t>(bucket) < batch_sizes.size(),
      kName, ": there is no bucket ", bucket);
  return batch_sizes[static_cast<std::size_t>(bucket)];
}

std::optional<std::int64_t> Buckets::padded_length(std::int64_t bucket) const {
  if (pad != BucketPadding::kToBoundary) return std::nullopt;
  return boundaries[static_cast<std::size_t>(bucket)] - 1;
}

void check_buckets(const Buckets& buckets) {
  const auto& boundaries = buckets.boundaries;
  const auto falls =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>());
  if (falls != boundaries.end()) {
    refuse(kName, ": boundary ", falls[1], " comes after ", falls[0], "; boundaries must ascend");
  }
  check_argument(buckets.batch_sizes.size() == boundaries.size() + 1, kName, ": ",
                 buckets.batch_sizes.size(), " batch sizes for ", boundaries.size(),
                 " boundaries; there must be one more than boundaries");
  for (const std::int64_t size : buckets.batch_sizes) {
    check_argument(size >= 1, kName, ": a batch size is ", size, "; it must be 1 or more");
  }
}

std::string name_of_buckets(const Buckets& buckets, std::string_view padding) {
  std::string name = base::str_cat(kName, "([", base::join(buckets.boundaries, ", "), "], [",
                                   base::join(buckets.batch_sizes, ", "), "]");
  if (buckets.pad == BucketPadding::kToBoundary) name += ", to boundary";
  if (buckets.pad == BucketPadding::kOff) name += ", not padded";
  name += padding;
  if (buckets.remainder == Remainder::kDrop) name += ", without remainder";
  return name + ")";
}

void check_length_function(bool is_given) {
  check_argument(is_given, kName,
                 ": length is not set; give a function of an element that returns its length");
}

}  // namespace brigade::data::internal
