#include "brigade/input/mixup.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/roll.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "brigade/base/beta_distribution.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/one_hot.h"

namespace brigade::input {
namespace {

using base::str_cat;

void check_features(const LabeledBatch& batch, std::string_view what) {
  const bool fits = batch.features.defined() && batch.labels.defined() &&
                    batch.features.dim() >= 1 && batch.labels.dim() >= 1 &&
                    batch.features.size(0) == batch.labels.size(0);
  check_argument(fits, what, ": features and labels must be of the same number of examples");
}

/// The labels as float [N, classes].
at::Tensor distributions_of(const at::Tensor& labels, std::int64_t classes, std::string_view what) {
  if (labels.dim() == 1 && at::isIntegralType(labels.scalar_type(), false)) {
    check_argument(classes >= 1, what, ": labels are class numbers; set num_classes");
    return input::one_hot(labels, classes);
  }
  if (labels.dim() == 2 && labels.is_floating_point() &&
      (classes == 0 || classes == labels.size(1)))
    return labels.to(at::kFloat);
  refuse(what, ": labels are ", labels.scalar_type(), " ", labels.sizes(),
         "; they must be class numbers [N] or distributions over ",
         classes == 0 ? str_cat("the classes") : str_cat(classes, " classes"), " [N, classes]");
}

/// `kept` of each example and the rest of the example before it.
at::Tensor mixed(const at::Tensor& examples, double kept) {
  return at::roll(examples, 1, 0).mul_(1 - kept).add_(examples, kept);
}

/// A window whose center is anywhere in the image, cut off at the edges.
struct CutWindow {
  std::int64_t top, bottom, left, right;
  std::int64_t area() const { return (bottom - top) * (right - left); }
};

CutWindow random_cut(std::int64_t height, std::int64_t width, double fraction,
                     base::CounterRng& rng) {
  const double half = std::sqrt(fraction) / 2;  // of each side
  const auto span = [&](std::int64_t extent, std::int64_t& begin, std::int64_t& end) {
    const auto center =
        static_cast<std::int64_t>(rng.uniform_below(static_cast<std::uint64_t>(extent)));
    const auto reach = static_cast<std::int64_t>(half * static_cast<double>(extent));
    begin = std::max<std::int64_t>(center - reach, 0);
    end = std::min(center + reach, extent);
  };
  CutWindow window{};
  span(width, window.left, window.right);
  span(height, window.top, window.bottom);
  return window;
}

}  // namespace

LabeledBatch mixup(const LabeledBatch& batch, const MixOptions& options,
                   data::ElementContext& context) {
  check_features(batch, "mixup");
  check_argument(batch.features.is_floating_point(), "mixup: features are ",
                 batch.features.scalar_type(), "; convert them to floats first");
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor labels = distributions_of(batch.labels, options.num_classes, "mixup");
  const double kept = base::random_beta(options.alpha, options.alpha, context.rng);
  return {.features = mixed(batch.features, kept), .labels = mixed(labels, kept)};
}

LabeledBatch cutmix(const LabeledBatch& batch, const MixOptions& options,
                    data::ElementContext& context) {
  check_features(batch, "cutmix");
  const at::Tensor& images = batch.features;
  check_argument(images.dim() >= 3 && images.size(-1) > 0 && images.size(-2) > 0,
                 "cutmix: features are ", images.sizes(),
                 "; they must be images [N, ..., height, width]");
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor labels = distributions_of(batch.labels, options.num_classes, "cutmix");
  const double fraction = 1 - base::random_beta(options.alpha, options.alpha, context.rng);
  const std::int64_t height = images.size(-2);
  const std::int64_t width = images.size(-1);
  const CutWindow window = random_cut(height, width, fraction, context.rng);
  const auto part_of = [&](const at::Tensor& all) {
    return all.narrow(-2, window.top, window.bottom - window.top)
        .narrow(-1, window.left, window.right - window.left);
  };
  at::Tensor features = images.clone();
  part_of(features).copy_(at::roll(part_of(images), 1, 0));
  const double kept = 1 - static_cast<double>(window.area()) / static_cast<double>(height * width);
  return {.features = std::move(features), .labels = mixed(labels, kept)};
}

}  // namespace brigade::input
