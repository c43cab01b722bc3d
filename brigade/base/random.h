#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace brigade::base {

/// Joins two numbers into one seed: `mix(mix(a) ^ b)`, where `mix` is the output function of
/// SplitMix64 (its increment 0x9e3779b97f4a7c15 added first). Different `b` under one `a` never
/// collide, nor do different `a` under one `b`. The order matters. The value is the same on every
/// platform and in every version: saved jobs rely on it.
std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b);

/// The seed of one use of randomness in a job: `mix_seed(mix_seed(mix_seed(root, h), replica),
/// step)`, where `h` is the 64-bit FNV-1a hash of the bytes of `name`. Name the use ("shuffle",
/// "dropout/layer1"), so that two uses at the same step never share a stream. Fixed forever, like
/// `mix_seed`.
std::uint64_t derive_seed(std::uint64_t root, std::string_view name, std::uint64_t replica,
                          std::uint64_t step);

/// One block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): 128 random bits, a pure function
/// of its arguments. Words are in the order of the Random123 library.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// A random stream that is a pure function of (key, position): 2^64 numbers for each key, any of
/// which can be jumped to at no cost. So the whole state to save is `position()`. Take the key from
/// `derive_seed`. Use it in place of the standard library's engines, and its own `uniform_below` in
/// place of `std::uniform_int_distribution` and `std::shuffle`, whose results differ between
/// standard libraries.
///
/// The number at position p is half (p % 2) of the Philox4x32-10 block with counter (p / 2, 0);
/// words 0 and 1 make the first half, the earlier word the lower one. After 2^64 numbers the stream
/// repeats.
///
/// Thread-safety: none; a value for one thread. Copies continue independently from the same
/// position.
class CounterRng {
 public:
  using result_type = std::uint64_t;

  explicit CounterRng(std::uint64_t key, std::uint64_t counter = 0)
      : key_(key), position_(counter) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  /// The next 64 random bits.
  result_type operator()();

  /// A number in [0, n), every one exactly as likely as the others (Lemire 2019, with rejection, so
  /// it may draw more than once). Throws kInvalidArgument if `n` is 0.
  std::uint64_t uniform_below(std::uint64_t n);

  /// A number in [0, 1): a multiple of 2^-53, from one draw.
  double uniform();

  /// A number of the normal distribution with mean 0 and deviation 1 (Box-Muller, from exactly two
  /// draws). Its last bits depend on the platform's `log` and `cos`.
  double normal();

  std::uint64_t key() const { return key_; }
  /// The number of draws so far, counted from position 0.
  std::uint64_t position() const { return position_; }
  /// Moves to any position: the stream continues as if that many numbers had been drawn.
  void set_position(std::uint64_t position);

 private:
  void fill();

  std::uint64_t key_;
  std::uint64_t position_;
  bool is_filled_ = false;
  std::array<std::uint64_t, 2> block_{};  // the block that holds position_, if is_filled_
};

}  // namespace brigade::base
