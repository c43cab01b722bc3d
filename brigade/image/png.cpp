#include "brigade/image/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::image {
namespace {

using base::str_cat;

/// The error of a libpng call. It is reported by a jump: an exception must not propagate through C
/// frames.
struct Failure {
  std::jmp_buf jump{};
  char reason[160] = "";
};

[[noreturn]] void on_error(png_structp png, png_const_charp reason) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::strncpy(failure->reason, reason, sizeof failure->reason - 1);
  std::longjmp(failure->jump, 1);
}

void on_warning(png_structp, png_const_charp) {}

/// The rest of the file, as libpng asks for it.
struct Source {
  std::string_view rest;
  std::size_t size;  // of the whole file
};

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->rest.size()) {
    source->rest = {};
    png_error(png, "the file ends too early");
  }
  std::memcpy(to, source->rest.data(), count);
  source->rest.remove_prefix(count);
}

void write_bytes(png_structp png, png_bytep from, std::size_t count) {
  bool is_written = true;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(from), count);
  } catch (...) {
    is_written = false;
  }
  if (!is_written) png_error(png, "no memory");
}

void flush_bytes(png_structp) {}

enum class Direction { kRead, kWrite };

/// libpng's two structures; errors are reported as exceptions.
class Guard {
 public:
  explicit Guard(Direction direction) : direction_(direction) {
    const auto create = direction == Direction::kRead ? png_create_read_struct  //
                                                      : png_create_write_struct;
    png_ = create(PNG_LIBPNG_VER_STRING, &failure_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    destroy();
    throw Error(ErrorCode::kResourceExhausted, "PNG: no memory");
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { destroy(); }
  png_structp png() { return png_; }
  png_infop info() { return info_; }

  /// Runs a step that libpng may jump out of: nothing in it may need a destructor.
  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(failure_.jump) != 0) {
      throw Error(ErrorCode::kDataLoss, "PNG: broken or cut short", byte_offset(), " (",
                  failure_.reason, ")");
    }
    step(png_, info_);
  }

 private:
  /// " at byte N": how far reading got. The error is before that byte.
  std::string byte_offset() {
    if (direction_ == Direction::kWrite) return "";
    const auto* source = static_cast<const Source*>(png_get_io_ptr(png_));
    return source == nullptr ? "" : str_cat(" at byte ", source->size - source->rest.size());
  }
  void destroy() {
    if (direction_ == Direction::kRead) {
      png_destroy_read_struct(&png_, &info_, nullptr);
    } else {
      png_destroy_write_struct(&png_, &info_);
    }
  }

  Direction direction_;
  Failure failure_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

/// The header of a file.
struct Head {
  Size size;
  bool has_color = false;
  bool is_palette = false;
  bool has_alpha = false;  // as a channel
  bool has_key = false;    // colors of the palette, or one color, that mean "transparent"
};

Head read_head(Guard& guard) {
  Head head;
  guard.guarded([&head](png_structp png, png_infop info) {
    // Only the palette, its transparency and the pixels are used; other chunks, which may be long,
    // are skipped.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_set_chunk_malloc_max(png, 1 << 24);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(png, info);
    head.size = {png_get_image_height(png, info), png_get_image_width(png, info)};
    const int type = png_get_color_type(png, info);
    head.has_color = (type & PNG_COLOR_MASK_COLOR) != 0;
    head.is_palette = type == PNG_COLOR_TYPE_PALETTE;
    head.has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
    head.has_key = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  });
  return head;
}

/// As in TensorFlow: one transparent color does not add an alpha channel, a palette's colors do.
std::int64_t stored_channels(const Head& head) {
  const bool has_alpha = head.has_alpha || (head.is_palette && head.has_key);
  return (head.has_color ? 3 : 1) + (has_alpha ? 1 : 0);
}

/// Asks libpng for 8-bit values of `channels` channels, in the way TensorFlow does.
void set_up(png_structp png, const Head& head, std::int64_t channels) {
  // The ITU-R 601 weights of red and green, in units of 1/100,000.
  constexpr int kRed = 29900;
  constexpr int kGreen = 58700;
  const bool wants_gray = channels < 3;
  const bool wants_alpha = channels == 2 || channels == 4;
  png_set_strip_16(png);
  png_set_expand(png);  // palette to RGB, few bits to 8, the transparent color to alpha
  const bool has_alpha = head.has_alpha || head.has_key;
  if (wants_alpha && !has_alpha) png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
  if (!wants_alpha && has_alpha) png_set_strip_alpha(png);
  if (wants_gray && head.has_color) png_set_rgb_to_gray_fixed(png, 1, kRed, kGreen);
  if (!wants_gray && !head.has_color) png_set_gray_to_rgb(png);
}

void check_decoding(const PngDecodeOptions& options) {
  if (options.channels >= 0 && options.channels <= 4) return;
  refuse("decode_png: channels is ", options.channels,
         "; it must be 0 (as in the file), 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA)");
}

}  // namespace

Image decode_png(std::string_view bytes, const PngDecodeOptions& options) {
  check_decoding(options);
  Source source{.rest = bytes, .size = bytes.size()};
  Guard guard(Direction::kRead);
  png_set_read_fn(guard.png(), &source, read_bytes);
  const Head head = read_head(guard);
  internal::check_pixels("PNG", head.size, options.max_pixels);
  const std::int64_t channels = options.channels == 0 ? stored_channels(head) : options.channels;
  Image image(head.size, channels);
  std::vector<png_bytep> rows(static_cast<std::size_t>(head.size.height));
  for (std::int64_t y = 0; y < head.size.height; ++y) {
    rows[static_cast<std::size_t>(y)] = image.row(y);
  }
  guard.guarded([&](png_structp png, png_infop info) {
    set_up(png, head, channels);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != static_cast<std::size_t>(head.size.width * channels)) {
      png_error(png, "its rows are of another length than its header says");
    }
    png_read_image(png, rows.data());
    png_read_end(png, nullptr);
  });
  return image;
}

std::string encode_png(const ImageView& image, const PngEncodeOptions& options) {
  constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  check_argument(image.channels() >= 1 && image.channels() <= 4, "encode_png: the image has ",
                 image.channels(), " channels; PNG holds 1 to 4");
  internal::checked_values(image.size(), image.channels());
  std::string text;
  Guard guard(Direction::kWrite);
  png_set_write_fn(guard.png(), &text, write_bytes, flush_bytes);
  guard.guarded([&](png_structp png, png_infop info) {
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    if (!options.use_filters) png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_IHDR(png, info, static_cast<png_uint_32>(image.width()),
                 static_cast<png_uint_32>(image.height()), 8, kColorTypes[image.channels() - 1],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_write_info(png, info);
    for (std::int64_t y = 0; y < image.height(); ++y) png_write_row(png, image.row(y));
    png_write_end(png, info);
  });
  return text;
}

}  // namespace brigade::image
