#include "brigade/image/jpeg.h"

#include <algorithm>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/image/jpeg_guard.h"

namespace brigade::image {
namespace {

using base::str_cat;

using Decompressor = jpeg::Guard<jpeg_decompress_struct, jpeg_destroy_decompress>;

/// A progressive file can hold any number of scans, each of which costs a pass over the image.
void check_scans(j_common_ptr info) {
  constexpr int kMostScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    ERREXIT(info, JERR_BAD_PROGRESSION);
  }
}

const JSAMPLE* samples_of(std::string_view bytes) {
  return reinterpret_cast<const JSAMPLE*>(bytes.data());
}

void read_head(Decompressor& jpeg, std::string_view bytes) {
  if (bytes.empty())
    throw Error(ErrorCode::kDataLoss, "JPEG: broken or cut short at byte 0 (the file is empty)");
  jpeg.set_file_size(bytes.size());
  jpeg.guarded([bytes](jpeg_decompress_struct& info) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, samples_of(bytes), bytes.size());
    jpeg_read_header(&info, TRUE);
  });
}

void check_options(const JpegDecodeOptions& options) {
  const auto& [channels, ratio, window, dct, max_pixels] = options;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("decode_jpeg: channels is ", channels, "; it must be 0 (as in the file), ",
                        "1 (gray), 3 (RGB) or 4 (RGBA)"));
  }
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("decode_jpeg: ratio is ", ratio, "; it must be 1, 2, 4 or 8"));
  }
}

bool is_cmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

J_COLOR_SPACE colors_for(const jpeg_decompress_struct& info, std::int64_t channels) {
  if (channels == 1) return JCS_GRAYSCALE;
  if (is_cmyk(info)) return JCS_CMYK;
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
    if (window.size() != whole) go_to(window);
    Image image(window.size(), channels_);
    read_rows(window, image);
    return image;
  }

 private:
  void go_to(const Window& window) {
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

}  // namespace brigade::image
