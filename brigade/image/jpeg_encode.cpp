#include "brigade/image/jpeg.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/image/jpeg_guard.h"

namespace brigade::image {
namespace {

using base::str_cat;
using Compressor = jpeg::Guard<jpeg_compress_struct, jpeg_destroy_compress>;

/// Receives the compressor's bytes. A failed allocation must not throw through C frames.
struct StringDestination {
  jpeg_destination_mgr manager{};
  std::string text;
  std::size_t filled = 0;
};

StringDestination& destination_of(j_compress_ptr info) {
  return *reinterpret_cast<StringDestination*>(info->dest);
}

boolean give_room(j_compress_ptr info) {
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
  give_room(info);
}

void end_writing(j_compress_ptr info) {
  auto& target = destination_of(info);
  target.text.resize(target.text.size() - target.manager.free_in_buffer);
}

void check_encoding(const ImageView& image, const JpegEncodeOptions& options) {
  if (image.channels() != 1 && image.channels() != 3) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("encode_jpeg: the image has ", image.channels(),
                        " channels; JPEG holds 1 (gray) or 3 (RGB)"));
  }
  if (options.quality < 1 || options.quality > 100) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("encode_jpeg: the quality is ", options.quality, "; it must be 1 to 100"));
  }
  if (std::max(image.height(), image.width()) > JPEG_MAX_DIMENSION) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("encode_jpeg: the image is ", image.size(), "; no side may have more than ",
                        JPEG_MAX_DIMENSION, " pixels"));
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

std::string encode_jpeg(const ImageView& image, const JpegEncodeOptions& options) {
  check_encoding(image, options);
  StringDestination target{.manager = {.init_destination = start_writing,
                                       .empty_output_buffer = give_room,
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
