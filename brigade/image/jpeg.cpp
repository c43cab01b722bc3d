#include "brigade/image/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::image {
namespace {

using base::str_cat;

/// libjpeg reports an error by calling a function that must not return. This one jumps back into
/// `guarded`, which throws: an exception must not propagate through C frames.
struct JumpingErrors {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
};

[[noreturn]] void jump_out(j_common_ptr info) {
  std::longjmp(reinterpret_cast<JumpingErrors*>(info->err)->jump, 1);
}

/// libjpeg warns about corrupt data that it can approximate. A premature end of the file is treated
/// as an error instead, so that training does not use approximated pixels.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) jump_out(info);
}

void ignore_message(j_common_ptr) {}

/// A libjpeg compressor or decompressor that reports errors as exceptions.
template <class Info, void (*destroy)(Info*)>
class JpegGuard {
 public:
  JpegGuard() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jump_out;
    errors_.manager.emit_message = on_message;
    errors_.manager.output_message = ignore_message;
  }
  JpegGuard(const JpegGuard&) = delete;
  JpegGuard& operator=(const JpegGuard&) = delete;
  ~JpegGuard() { destroy(&info_); }
  Info& info() { return info_; }
  /// The length of the input file, so that errors can name a byte offset.
  void set_file_size(std::size_t bytes) { file_size_ = bytes; }

  /// Runs a step that libjpeg may jump out of: nothing in it may need a destructor.
  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(errors_.jump) != 0) fail();
    step(info_);
  }

 private:
  [[noreturn]] void fail() {
    char reason[JMSG_LENGTH_MAX] = "";
    errors_.manager.format_message(reinterpret_cast<j_common_ptr>(&info_), reason);
    const int code = errors_.manager.msg_code;
    if (code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE) {
      throw Error(ErrorCode::kResourceExhausted, "JPEG: ", reason);
    }
    if (code == JERR_CONVERSION_NOTIMPL) {
      throw Error(ErrorCode::kUnimplemented,
                  "JPEG: this file's colors (CMYK) cannot be read as gray; ask for 3 channels");
    }
    throw Error(ErrorCode::kDataLoss, "JPEG: broken or cut short", byte_offset(), " (", reason,
                ")");
  }

  /// " at byte N": how far reading got. In the image's data, N is the end of the previous block.
  std::string byte_offset() const {
    if constexpr (std::is_same_v<Info, jpeg_decompress_struct>) {
      const int code = errors_.manager.msg_code;
      const bool is_at_end = code == JWRN_JPEG_EOF || code == JERR_INPUT_EOF;
      const bool has_begun = info_.src != nullptr && info_.src->bytes_in_buffer <= file_size_;
      if (is_at_end || !has_begun) return str_cat(" at byte ", is_at_end ? file_size_ : 0);
      return str_cat(" at byte ", file_size_ - info_.src->bytes_in_buffer);
    }
    return "";
  }

  Info info_{};
  JumpingErrors errors_;
  std::size_t file_size_ = 0;
};

using Decompressor = JpegGuard<jpeg_decompress_struct, jpeg_destroy_decompress>;

/// A progressive file can hold any number of scans, each of which costs a pass over the image.
void check_scans(j_common_ptr info) {
  constexpr int kMostScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    ERREXIT(info, JERR_BAD_PROGRESSION);
  }
}

void read_head(Decompressor& jpeg, std::string_view bytes) {
  if (bytes.empty())
    throw Error(ErrorCode::kDataLoss, "JPEG: broken or cut short at byte 0 (the file is empty)");
  jpeg.set_file_size(bytes.size());
  jpeg.guarded([bytes](jpeg_decompress_struct& info) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const JSAMPLE*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
  });
}

void check_options(const JpegDecodeOptions& options) {
  const auto& [channels, ratio, window, dct, max_pixels] = options;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    refuse("decode_jpeg: channels is ", channels, "; it must be 0 (as in the file), ",
           "1 (gray), 3 (RGB) or 4 (RGBA)");
  }
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
    refuse("decode_jpeg: ratio is ", ratio, "; it must be 1, 2, 4 or 8");
  }
}

J_COLOR_SPACE colors_for(const jpeg_decompress_struct& info, std::int64_t channels) {
  if (channels == 1) return JCS_GRAYSCALE;
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) return JCS_CMYK;
  return channels == 4 ? JCS_EXT_RGBA : JCS_RGB;
}

std::uint8_t ink_on(int color, int key) {
  return static_cast<std::uint8_t>(color * key / 255);
}

/// Adobe's programs store inverted CMYK values.
void cmyk_to_rgb(const JSAMPLE* from, std::int64_t pixels, std::int64_t channels, bool is_light,
                 std::uint8_t* to) {
  const int flip = is_light ? 0 : 255;
  for (std::int64_t x = 0; x < pixels; ++x, from += 4, to += channels) {
    for (int c = 0; c < 3; ++c) to[c] = ink_on(from[c] ^ flip, from[3] ^ flip);
    if (channels == 4) to[3] = 255;
  }
}

/// Reads the rows of `window` from a decompressor that has read the header and whose parameters are
/// set.
class RowReader {
 public:
  RowReader(Decompressor& jpeg, std::int64_t channels) : jpeg_(jpeg), channels_(channels) {}

  Image read(const std::optional<Window>& asked) {
    jpeg_.guarded([](jpeg_decompress_struct& info) { jpeg_start_decompress(&info); });
    const Size whole{jpeg_.info().output_height, jpeg_.info().output_width};
    const Window window = asked.value_or(Window{0, 0, whole.height, whole.width});
    check_window(window, whole, "decode_jpeg");
    if (window.size() != whole) crop_to(window);
    Image image(window.size(), channels_);
    read_rows(window, image);
    return image;
  }

 private:
  void crop_to(const Window& window) {
    aligned_left_ = static_cast<JDIMENSION>(window.left);
    auto width = static_cast<JDIMENSION>(window.width);
    jpeg_.guarded([&](jpeg_decompress_struct& info) {
      jpeg_crop_scanline(&info, &aligned_left_, &width);
      if (window.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.top));
    });
  }

  void read_rows(const Window& window, Image& image) {
    const auto& info = jpeg_.info();
    const bool converts = info.out_color_space == JCS_CMYK;
    const bool is_direct = !converts && info.output_width == window.width;
    std::vector<JSAMPLE> wide(
        is_direct ? 0 : static_cast<std::size_t>(info.output_width * info.output_components));
    const JSAMPLE* first = wide.data() + (window.left - aligned_left_) *
                                             static_cast<std::int64_t>(info.output_components);
    jpeg_.guarded([&](jpeg_decompress_struct& source) {
      for (std::int64_t y = 0; y < window.height; ++y) {
        JSAMPROW target = is_direct ? image.row(y) : wide.data();
        if (jpeg_read_scanlines(&source, &target, 1) != 1) ERREXIT(&source, JERR_INPUT_EOF);
        if (is_direct) continue;
        if (converts) {
          cmyk_to_rgb(first, window.width, channels_, source.saw_Adobe_marker, image.row(y));
        } else {
          std::copy_n(first, window.width * channels_, image.row(y));
        }
      }
      // Reads to the end, so that a truncated file is an error.
      if (source.output_scanline == source.output_height) jpeg_finish_decompress(&source);
    });
  }

  Decompressor& jpeg_;
  std::int64_t channels_;
  JDIMENSION aligned_left_ = 0;
};

using Compressor = JpegGuard<jpeg_compress_struct, jpeg_destroy_compress>;

/// Receives the compressor's bytes. A failed allocation must not throw through C frames.
struct StringDestination {
  jpeg_destination_mgr manager{};
  std::string text;
  std::size_t filled = 0;
};

StringDestination& destination_of(j_compress_ptr info) {
  return *reinterpret_cast<StringDestination*>(info->dest);
}

boolean grow_output(j_compress_ptr info) {
  auto& target = destination_of(info);
  target.filled = target.text.size();
  try {
    target.text.resize(std::max<std::size_t>(2 * target.filled, 1 << 14));
  } catch (...) {
    ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  }
  target.manager.next_output_byte = reinterpret_cast<JOCTET*>(target.text.data()) + target.filled;
  target.manager.free_in_buffer = target.text.size() - target.filled;
  return TRUE;
}

void start_writing(j_compress_ptr info) {
  grow_output(info);
}

void end_writing(j_compress_ptr info) {
  auto& target = destination_of(info);
  target.text.resize(target.text.size() - target.manager.free_in_buffer);
}

void check_encoding(const ImageView& image, const JpegEncodeOptions& options) {
  if (image.channels() != 1 && image.channels() != 3) {
    refuse("encode_jpeg: the image has ", image.channels(),
           " channels; JPEG holds 1 (gray) or 3 (RGB)");
  }
  if (options.quality < 1 || options.quality > 100) {
    refuse("encode_jpeg: the quality is ", options.quality, "; it must be 1 to 100");
  }
  if (std::max(image.height(), image.width()) > JPEG_MAX_DIMENSION) {
    refuse("encode_jpeg: the image is ", image.size(), "; no side may have more than ",
           JPEG_MAX_DIMENSION, " pixels");
  }
}

void set_up(jpeg_compress_struct& info, const ImageView& image, const JpegEncodeOptions& options) {
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.input_components = static_cast<int>(image.channels());
  info.in_color_space = image.channels() == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.subsampling == ChromaSubsampling::kNone) {
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  }
  if (options.scans == JpegEncodeOptions::Scans::kProgressive) jpeg_simple_progression(&info);
}

}  // namespace

Size jpeg_size(std::string_view bytes) {
  Decompressor jpeg;
  read_head(jpeg, bytes);
  return {jpeg.info().image_height, jpeg.info().image_width};
}

Image decode_jpeg(std::string_view bytes, const JpegDecodeOptions& options) {
  check_options(options);
  jpeg_progress_mgr progress{.progress_monitor = check_scans};
  Decompressor jpeg;
  read_head(jpeg, bytes);
  auto& info = jpeg.info();
  internal::check_pixels("JPEG", {info.image_height, info.image_width}, options.max_pixels);
  const std::int64_t stored = info.num_components == 1 ? 1 : 3;
  const std::int64_t channels = options.channels == 0 ? stored : options.channels;
  info.progress = &progress;
  info.out_color_space = colors_for(info, channels);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(options.ratio);
  info.dct_method = options.dct == DctMethod::kFast ? JDCT_IFAST : JDCT_ISLOW;
  return RowReader(jpeg, channels).read(options.window);
}

std::string encode_jpeg(const ImageView& image, const JpegEncodeOptions& options) {
  check_encoding(image, options);
  StringDestination target{.manager = {.init_destination = start_writing,
                                       .empty_output_buffer = grow_output,
                                       .term_destination = end_writing}};
  Compressor jpeg;
  jpeg.guarded([&](jpeg_compress_struct& info) {
    jpeg_create_compress(&info);
    info.dest = &target.manager;
    set_up(info, image, options);
    jpeg_start_compress(&info, TRUE);
    for (std::int64_t y = 0; y < image.height(); ++y) {
      auto* row = const_cast<JSAMPROW>(image.row(y));
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  return std::move(target.text);
}

}  // namespace brigade::image
