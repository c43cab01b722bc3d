#include "brigade/base/random.h"

#include <cmath>
#include <numbers>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

__extension__ using Uint128 = unsigned __int128;

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
constexpr std::uint64_t join(std::uint32_t low_half, std::uint32_t high_half) {
  return static_cast<std::uint64_t>(high_half) << 32 | low_half;
}

}  // namespace

std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a) ^ b);
}

std::uint64_t derive_seed(std::uint64_t root, std::string_view name, std::uint64_t replica,
                          std::uint64_t step) {
  return mix_seed(mix_seed(mix_seed(root, fnv1a(name)), replica), step);
}

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1],
               low(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

CounterRng::result_type CounterRng::operator()() {
  if (!is_filled_) fill();
  const result_type value = block_[position_ % 2];
  ++position_;
  is_filled_ = position_ % 2 == 1;
  return value;
}

std::uint64_t CounterRng::uniform_below(std::uint64_t n) {
  if (n == 0)
    throw Error(ErrorCode::kInvalidArgument,
                "uniform_below(0): there is no number below 0; pass at least 1");
  Uint128 product = Uint128{(*this)()} * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t threshold = (0 - n) % n;  // 2^64 modulo n
    while (static_cast<std::uint64_t>(product) < threshold) product = Uint128{(*this)()} * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double CounterRng::uniform() {
  return static_cast<double>((*this)() >> 11) * 0x1p-53;
}

double CounterRng::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // 1 - uniform() is never 0
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

void CounterRng::set_position(std::uint64_t position) {
  position_ = position;
  is_filled_ = false;
}

void CounterRng::fill() {
  const std::uint64_t block = position_ / 2;
  const auto words = philox4x32({low(block), high(block), 0, 0}, {low(key_), high(key_)});
  block_ = {join(words[0], words[1]), join(words[2], words[3])};
  is_filled_ = true;
}

}  // namespace brigade::base
