#include "brigade/optim/clipping.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clamp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
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
  if (dense.is_cpu() && dense.scalar_type() == at::kFloat)
    return sum_of_squares_in_pieces<float>(dense);
  const at::Tensor doubles = dense.to(at::kDouble);
  if (doubles.is_cpu()) return sum_of_squares_in_pieces<double>(doubles);
  return doubles.square().sum().item<double>();
}

void check_floating(std::span<const at::Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].is_floating_point()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("Clipping: tensor ", i, " has dtype ", tensors[i].scalar_type(),
                              "; only floating ones have a norm."));
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
  check_argument(
      clip_norm > 0 && std::isfinite(clip_norm),
      base::str_cat("Clipping: clip_norm is ", clip_norm, " and must be above 0 and finite."));
}

void check_finite(const std::vector<double>& squares) {
  for (std::size_t i = 0; i < squares.size(); ++i) {
    if (std::isfinite(squares[i])) continue;
    throw Error(ErrorCode::kDataLoss,
                base::str_cat("Clipping: the norm of tensor ", i, " of ", squares.size(),
                              " is not finite (", std::sqrt(squares[i]),
                              "), so it cannot be scaled. Lower the learning rate, or find "
                              "the step that caused it."));
  }
}

at::Tensor scaled(const at::Tensor& tensor, double factor) {
  if (!tensor.defined() || factor >= 1) return tensor;
  return tensor.mul(factor);
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

std::vector<at::Tensor> clip_by_value(std::span<const at::Tensor> tensors, double low,
                                      double high) {
  check_argument(low <= high, base::str_cat("clip_by_value: low is ", low, " and high is ", high,
                                            "; low must not be above high."));
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
  const std::vector<double> squares = squared_norms(tensors);
  check_finite(squares);
  ClippedByGlobalNorm clipped;
  clipped.norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  const double factor = clipped.norm > clip_norm ? clip_norm / clipped.norm : 1.0;
  for (const at::Tensor& tensor : tensors) clipped.tensors.push_back(scaled(tensor, factor));
  return clipped;
}

double global_norm(std::span<const at::Tensor> tensors) {
  const at::NoGradGuard no_grad;
  const std::vector<double> squares = squared_norms(tensors);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace brigade::optim
