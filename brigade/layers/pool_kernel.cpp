#include "brigade/layers/pool_kernel.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace brigade::layers {
namespace {

// Which of the window's four values (in reading order) became the output; kNone where relu cut it
// off.
using Choice = std::uint8_t;
constexpr Choice kNone = 4;

// g++ does not vectorize these loops, and the branches that it generates are often mispredicted: 32
// ms instead of 4. So they are written with vectors of 16 bytes, which every target supports.
template <class T>
struct Lanes {
  static constexpr std::int64_t kCount = 16 / sizeof(T);
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Values [[gnu::vector_size(16)]] = T;
  using Choices [[gnu::vector_size(16)]] = Integer;
  using Packed [[gnu::vector_size(kCount)]] = Choice;
};

template <class V, class T>
V load(const T* from) {
  V vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class V, class T>
void store(T* to, const V& vector) {
  std::memcpy(to, &vector, sizeof vector);
}

/// The values at even and at odd positions of two adjacent vectors, and the inverse.
struct Pairs {
  template <class V>
  static V even(V a, V b) {
    if constexpr (sizeof(a[0]) == 4) {
      return __builtin_shufflevector(a, b, 0, 2, 4, 6);
    } else {
      return __builtin_shufflevector(a, b, 0, 2);
    }
  }
  template <class V>
  static V odd(V a, V b) {
    if constexpr (sizeof(a[0]) == 4) {
      return __builtin_shufflevector(a, b, 1, 3, 5, 7);
    } else {
      return __builtin_shufflevector(a, b, 1, 3);
    }
  }
  template <class V>
  static V first_half(V evens, V odds) {
    if constexpr (sizeof(evens[0]) == 4) {
      return __builtin_shufflevector(evens, odds, 0, 4, 1, 5);
    } else {
      return __builtin_shufflevector(evens, odds, 0, 2);
    }
  }
  template <class V>
  static V second_half(V evens, V odds) {
    if constexpr (sizeof(evens[0]) == 4) {
      return __builtin_shufflevector(evens, odds, 2, 6, 3, 7);
    } else {
      return __builtin_shufflevector(evens, odds, 1, 3);
    }
  }
};

/// One vector of outputs, from the two rows of the image that they stand for.
template <class T>
void pool_lanes(const T* upper, const T* lower, T* out, Choice* choices) {
  using L = Lanes<T>;
  using Values = typename L::Values;
  using Choices = typename L::Choices;
  const auto up0 = load<Values>(upper), up1 = load<Values>(upper + L::kCount);
  const auto low0 = load<Values>(lower), low1 = load<Values>(lower + L::kCount);
  Values best = Pairs::even(up0, up1);
  Choices choice{};
  const auto consider = [&](Values value, typename L::Integer index) {
    const Choices take = (value > best) | (value != value);
    best = take ? value : best;
    choice = take ? Choices{} + index : choice;
  };
  consider(Pairs::odd(up0, up1), 1);
  consider(Pairs::even(low0, low1), 2);
  consider(Pairs::odd(low0, low1), 3);
  const Choices cut = best <= Values{};
  store(out, cut ? Values{} : best);
  choice = cut ? Choices{} + kNone : choice;
  store(choices, __builtin_convertvector(choice, typename L::Packed));
}

/// The gradient of two rows of the image, from one vector of gradients of outputs.
template <class T>
void spread_lanes(const T* gradient, const Choice* choices, T* upper, T* lower) {
  using L = Lanes<T>;
  using Values = typename L::Values;
  const auto value = load<Values>(gradient);
  const auto packed = load<typename L::Packed>(choices);
  const auto choice = __builtin_convertvector(packed, typename L::Choices);
  const auto pick = [&](typename L::Integer index) { return choice == index ? value : Values{}; };
  const auto up0 = pick(0), up1 = pick(1), low0 = pick(2), low1 = pick(3);
  store(upper, Pairs::first_half(up0, up1));
  store(upper + L::kCount, Pairs::second_half(up0, up1));
  store(lower, Pairs::first_half(low0, low1));
  store(lower + L::kCount, Pairs::second_half(low0, low1));
}

/// Calls `work` with the first position of each vector in a row. If the row does not divide evenly,
/// the last vector overlaps the previous one: some outputs are computed twice, which is faster than
/// one by one.
template <class T, class Work>
void for_each_vector(std::int64_t width, const Work& work) {
  constexpr auto kCount = Lanes<T>::kCount;
  for (std::int64_t j = 0; j + kCount <= width; j += kCount) work(j);
  if (width % kCount != 0) work(width - kCount);
}

template <class T>
void pool(const at::Tensor& images, at::Tensor& out, at::Tensor& choices) {
  const auto width = out.size(3);
  const auto rows = out.numel() / width;
  const T* in = images.const_data_ptr<T>();
  T* result = out.mutable_data_ptr<T>();
  Choice* chosen = choices.mutable_data_ptr<Choice>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* upper = in + row * 4 * width;
    for_each_vector<T>(width, [&](std::int64_t j) {
      const auto at = row * width + j;
      pool_lanes(upper + 2 * j, upper + 2 * width + 2 * j, result + at, chosen + at);
    });
  }
}

template <class T>
void spread(const at::Tensor& gradient, const at::Tensor& choices, at::Tensor& result) {
  const auto width = gradient.size(3);
  const auto rows = gradient.numel() / width;
  const T* from = gradient.const_data_ptr<T>();
  const Choice* chosen = choices.const_data_ptr<Choice>();
  T* to = result.mutable_data_ptr<T>();
  for (std::int64_t row = 0; row < rows; ++row) {
    T* upper = to + row * 4 * width;
    for_each_vector<T>(width, [&](std::int64_t j) {
      const auto at = row * width + j;
      spread_lanes(from + at, chosen + at, upper + 2 * j, upper + 2 * width + 2 * j);
    });
  }
}

// One vector of float outputs.
constexpr std::int64_t kNarrowest = 8;

}  // namespace

bool fits_pool_kernel(const at::Tensor& images) {
  return fits_pool_kernel(images, images.size(2), images.size(3)) && images.is_contiguous();
}

bool fits_pool_kernel(const at::Tensor& like, std::int64_t height, std::int64_t width) {
  const auto type = like.scalar_type();
  return like.device().is_cpu() && like.layout() == at::kStrided &&
         (type == at::kFloat || type == at::kDouble) && height > 0 && height % 2 == 0 &&
         width % 2 == 0 && width >= kNarrowest && like.numel() > 0;
}

void pool_relu(const at::Tensor& images, at::Tensor& out, at::Tensor& choices) {
  if (images.scalar_type() == at::kFloat) {
    pool<float>(images, out, choices);
  } else {
    pool<double>(images, out, choices);
  }
}

void spread_gradient(const at::Tensor& gradient, const at::Tensor& choices, at::Tensor& result) {
  if (gradient.scalar_type() == at::kFloat) {
    spread<float>(gradient, choices, result);
  } else {
    spread<double>(gradient, choices, result);
  }
}

}  // namespace brigade::layers
