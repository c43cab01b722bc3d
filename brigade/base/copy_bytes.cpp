#include "brigade/base/copy_bytes.h"

#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace brigade::base {
namespace {

#if defined(__x86_64__)
// Several times the second-level cache of a core; with what else a step uses, most of what cores
// share. (The C library's memcpy does the same, but of what it takes the caches for: on a virtual
// machine that may be ten times as much.)
constexpr std::size_t kBeyondCaches = std::size_t{4} << 20;
// Shorter parts are not worth the wait at their end.
constexpr std::size_t kLongPart = 4 << 10;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kAhead = 16 * kCacheLine;

/// Whole lines, to where a line begins.
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kCacheLine) {
    // Beyond the end of the bytes it does nothing.
    const auto ahead = reinterpret_cast<std::uintptr_t>(from) + i + kAhead;
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_NTA);
    const auto* const source = reinterpret_cast<const __m128i*>(from + i);
    auto* const line = reinterpret_cast<__m128i*>(to + i);
    const __m128i first = _mm_loadu_si128(source), second = _mm_loadu_si128(source + 1),
                  third = _mm_loadu_si128(source + 2), fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(line, first);
    _mm_stream_si128(line + 1, second);
    _mm_stream_si128(line + 2, third);
    _mm_stream_si128(line + 3, fourth);
  }
  _mm_sfence();  // others see the lines no later than what this thread writes next
}
#endif

}  // namespace

void copy_part_bytes(void* to, const void* from, std::size_t bytes, std::size_t whole) {
#if defined(__x86_64__)
  if (whole >= kBeyondCaches && bytes >= kLongPart) {
    auto* const destination = static_cast<std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    const std::size_t head =
        (kCacheLine - reinterpret_cast<std::uintptr_t>(to) % kCacheLine) % kCacheLine;
    const std::size_t lines = (bytes - head) / kCacheLine * kCacheLine;
    std::memcpy(destination, source, head);
    stream_lines(destination + head, source + head, lines);
    std::memcpy(destination + head + lines, source + head + lines, bytes - head - lines);
    return;
  }
#endif
  copy_bytes(to, from, bytes);
}

}  // namespace brigade::base
