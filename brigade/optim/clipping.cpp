#include "brigade/optim/clipping.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/comm/local/row_sums.h"

namespace brigade::optim {

namespace {

// Pieces are summed separately and added in order, whichever thread sums them.
constexpr std::int64_t kPiece = 1 << 15;

template <class Scalar>
double sum_of_squares(const Scalar* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;  // independent sums: the additions do not depend on each other
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    lanes[0] += value * value;
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

template <class Scalar>
double sum_of_squares_in_pieces(const at::Tensor& contiguous) {
  const std::int64_t count = contiguous.numel();
  const Scalar* values = contiguous.const_data_ptr<Scalar>();
  std::vector<double> sums(static_cast<std::size_t>((count + kPiece - 1) / kPiece));
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t piece = begin; piece < end; ++piece) {
                       const std::int64_t first = piece * kPiece;
                       sums[static_cast<std::size_t>(piece)] =
                           sum_of_squares(values + first, std::min(kPiece, count - first));
                     }
                   });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// The elements as a contiguous tensor, in the order of memory: without a copy if they are dense.
at::Tensor in_some_order(const at::Tensor& values) {
  if (!values.is_non_overlapping_and_dense()) return values.contiguous();
  return at::as_strided(values, {values.numel()}, {1}, values.storage_offset());
}

double squared_norm(const at::Tensor& tensor) {
  // A sparse gradient may name an element twice; only the sum matters.
  const at::Tensor values = tensor.is_sparse() ? tensor.coalesce().values() : tensor;
  const at::Tensor dense = in_some_order(values.detach());
  if (dense.scalar_type() == at::kFloat) return sum_of_squares_in_pieces<float>(dense);
  return sum_of_squares_in_pieces<double>(dense.to(at::kDouble));
}

void check_floating(std::span<const at::Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].is_floating_point()) continue;
    throw Error(ErrorCode::kInvalidArgument, "Clipping: tensor ", i, " has dtype ",
                tensors[i].scalar_type(), "; only floating ones have a norm.");
  }
}

/// The squared norm of each tensor; 0 for undefined ones.
std::vector<double> squared_norms(std::span<const at::Tensor> tensors) {
  check_floating(tensors);
  std::vector<double> squares;
  for (const at::Tensor& tensor : tensors)
    squares.push_back(tensor.defined() ? squared_norm(tensor) : 0.0);
  return squares;
}

void check_clip_norm(double clip_norm) {
  check_argument(clip_norm > 0 && std::isfinite(clip_norm), "Clipping: clip_norm is ", clip_norm,
                 " and must be above 0 and finite.");
}

void check_finite(const std::vector<double>& squares) {
  for (std::size_t i = 0; i < squares.size(); ++i) {
    if (std::isfinite(squares[i])) continue;
    throw Error(
        ErrorCode::kDataLoss, "Clipping: the norm of tensor ", i, " of ", squares.size(),
        " is not finite (", std::sqrt(squares[i]),
        "), so it cannot be scaled. Lower the learning rate, or find the step that caused it.");
  }
}

at::Tensor scaled(const at::Tensor& tensor, double factor) {
  if (!tensor.defined() || factor >= 1) return tensor;
  return tensor.mul(factor);
}

/// Whether norms stay on the tensors' device. The first tensor decides, as all are on one.
bool stays_on_device(std::span<const at::Tensor> tensors) {
  const auto first = std::ranges::find_if(tensors, &at::Tensor::defined);
  return first != tensors.end() && !first->is_cpu();
}

/// The values that count: of a sparse tensor those of each element once.
at::Tensor values_of(const at::Tensor& tensor) {
  return (tensor.is_sparse() ? tensor.coalesce().values() : tensor).detach();
}

/// [defined tensor]: its norm in float32 or, of doubles, float64. One call a dtype.
std::vector<at::Tensor> norms_on_device(std::span<const at::Tensor> defined) {
  std::map<at::ScalarType, std::vector<std::size_t>> by_dtype;
  for (std::size_t i = 0; i < defined.size(); ++i) by_dtype[defined[i].scalar_type()].push_back(i);
  std::vector<at::Tensor> norms(defined.size());
  for (const auto& [dtype, indices] : by_dtype) {
    std::vector<at::Tensor> values;
    for (const std::size_t i : indices) values.push_back(values_of(defined[i]));
    const at::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
    const std::vector<at::Tensor> found = at::_foreach_norm(values, 2, wide);
    for (std::size_t k = 0; k < indices.size(); ++k) norms[indices[k]] = found[k].to(at::kDouble);
  }
  return norms;
}

/// By what tensors of these norms are multiplied: 1 where the norm is not above `clip_norm`, NaN
/// where it is not finite.
at::Tensor factors_on_device(const at::Tensor& norms, double clip_norm) {
  const at::Tensor limit = at::full_like(norms, clip_norm);
  return at::where(norms.isfinite(), limit / norms.clamp_min(clip_norm),
                   std::numeric_limits<double>::quiet_NaN());
}

std::vector<at::Tensor> defined_ones(std::span<const at::Tensor> tensors) {
  check_floating(tensors);
  std::vector<at::Tensor> defined;
  std::ranges::copy_if(tensors, std::back_inserter(defined), &at::Tensor::defined);
  return defined;
}

at::Tensor scaled_on_device(const at::Tensor& tensor, const at::Tensor& factor) {
  return tensor.mul(factor.to(tensor.scalar_type()));
}

/// One call a dtype.
std::vector<at::Tensor> all_scaled_on_device(std::span<const at::Tensor> tensors,
                                             const at::Tensor& factor) {
  std::map<at::ScalarType, std::vector<std::size_t>> by_dtype;
  std::vector<at::Tensor> scaled(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    if (tensors[i].layout() == at::kStrided) {
      by_dtype[tensors[i].scalar_type()].push_back(i);
    } else {
      scaled[i] = scaled_on_device(tensors[i], factor);
    }
  }
  for (const auto& [dtype, indices] : by_dtype) {
    std::vector<at::Tensor> values;
    for (const std::size_t i : indices) values.push_back(tensors[i]);
    const std::vector<at::Tensor> found = at::_foreach_mul(values, factor.to(dtype));
    for (std::size_t k = 0; k < indices.size(); ++k) scaled[indices[k]] = found[k];
  }
  return scaled;
}

std::vector<at::Tensor> clip_by_norm_on_device(std::span<const at::Tensor> tensors,
                                               double clip_norm) {
  const std::vector<at::Tensor> norms = norms_on_device(defined_ones(tensors));
  std::vector<at::Tensor> clipped;
  std::size_t next = 0;
  for (const at::Tensor& tensor : tensors) {
    clipped.push_back(tensor.defined()
                          ? scaled_on_device(tensor, factors_on_device(norms[next++], clip_norm))
                          : tensor);
  }
  return clipped;
}

at::Tensor global_norm_on_device(std::span<const at::Tensor> tensors) {
  return at::linalg_vector_norm(at::stack(norms_on_device(defined_ones(tensors))));
}

ClippedByGlobalNorm clip_by_global_norm_on_device(std::span<const at::Tensor> tensors,
                                                  double clip_norm) {
  ClippedByGlobalNorm clipped{.tensors = {}, .norm = Norm(global_norm_on_device(tensors))};
  const at::Tensor factor = factors_on_device(clipped.norm.tensor(), clip_norm);
  clipped.tensors = all_scaled_on_device(tensors, factor);
  return clipped;
}

/// Rows stay rows if the others, which are zero, stay zero.
at::Tensor clamped(const at::Tensor& tensor, double low, double high) {
  if (comm::has_rows(tensor) && low <= 0 && high >= 0) {
    comm::Rows rows = comm::rows_of(tensor.detach());
    rows.values = at::clamp(rows.values, low, high);
    return comm::to_sparse(rows, tensor.sizes());
  }
  return at::clamp(tensor.is_sparse() ? tensor.to_dense() : tensor, low, high);
}

}  // namespace

double Norm::value() const {
  return value_.item<double>();
}

std::vector<at::Tensor> clip_by_value(std::span<const at::Tensor> tensors, double low,
                                      double high) {
  check_argument(low <= high, "clip_by_value: low is ", low, " and high is ", high,
                 "; low must not be above high.");
  check_floating(tensors);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> clipped;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      clipped.emplace_back();
      continue;
    }
    clipped.push_back(clamped(tensor, low, high));
  }
  return clipped;
}

std::vector<at::Tensor> clip_by_norm(std::span<const at::Tensor> tensors, double clip_norm) {
  check_clip_norm(clip_norm);
  const at::NoGradGuard no_grad;
  if (stays_on_device(tensors)) return clip_by_norm_on_device(tensors, clip_norm);
  const std::vector<double> squares = squared_norms(tensors);
  check_finite(squares);
  std::vector<at::Tensor> clipped;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const double norm = std::sqrt(squares[i]);
    clipped.push_back(scaled(tensors[i], norm > clip_norm ? clip_norm / norm : 1.0));
  }
  return clipped;
}

ClippedByGlobalNorm clip_by_global_norm(std::span<const at::Tensor> tensors, double clip_norm) {
  check_clip_norm(clip_norm);
  const at::NoGradGuard no_grad;
  if (stays_on_device(tensors)) return clip_by_global_norm_on_device(tensors, clip_norm);
  const std::vector<double> squares = squared_norms(tensors);
  check_finite(squares);
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  ClippedByGlobalNorm clipped{.tensors = {}, .norm = Norm(at::scalar_tensor(norm, at::kDouble))};
  const double factor = norm > clip_norm ? clip_norm / norm : 1.0;
  for (const at::Tensor& tensor : tensors) clipped.tensors.push_back(scaled(tensor, factor));
  return clipped;
}

double global_norm(std::span<const at::Tensor> tensors) {
  const at::NoGradGuard no_grad;
  if (stays_on_device(tensors)) return Norm(global_norm_on_device(tensors)).value();
  const std::vector<double> squares = squared_norms(tensors);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace brigade::optim
