#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs it and the one before
#include <string>
#include <type_traits>

#include <jpeglib.h>

#include <jerror.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

// Shared by JPEG decoding and encoding; internal.
namespace brigade::image::jpeg {

/// libjpeg reports an error by calling a function that must not return. This one jumps back into
/// `guarded`, which throws: an exception must not propagate through C frames.
struct JumpingErrors {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
};

[[noreturn]] inline void jump_out(j_common_ptr info) {
  std::longjmp(reinterpret_cast<JumpingErrors*>(info->err)->jump, 1);
}

/// libjpeg warns about corrupt data that it can approximate. A premature end of the file is treated
/// as an error instead, so that training does not use approximated pixels.
inline void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) jump_out(info);
}

inline void ignore_message(j_common_ptr) {}

/// A libjpeg compressor or decompressor that reports errors as exceptions.
template <class Info, void (*destroy)(Info*)>
class Guard {
 public:
  Guard() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jump_out;
    errors_.manager.emit_message = on_message;
    errors_.manager.output_message = ignore_message;
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { destroy(&info_); }
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
      throw Error(ErrorCode::kResourceExhausted, base::str_cat("JPEG: ", reason));
    }
    if (code == JERR_CONVERSION_NOTIMPL) {
      throw Error(ErrorCode::kUnimplemented,
                  "JPEG: this file's colors (CMYK) cannot be read as gray; ask for 3 channels");
    }
    throw Error(ErrorCode::kDataLoss,
                base::str_cat("JPEG: broken or cut short", byte_offset(), " (", reason, ")"));
  }

  /// " at byte N": how far reading got. In the image's data, N is the end of the previous block.
  std::string byte_offset() const {
    if constexpr (std::is_same_v<Info, jpeg_decompress_struct>) {
      const int code = errors_.manager.msg_code;
      const bool is_at_end = code == JWRN_JPEG_EOF || code == JERR_INPUT_EOF;
      const bool has_begun = info_.src != nullptr && info_.src->bytes_in_buffer <= file_size_;
      if (is_at_end || !has_begun) return base::str_cat(" at byte ", is_at_end ? file_size_ : 0);
      return base::str_cat(" at byte ", file_size_ - info_.src->bytes_in_buffer);
    }
    return "";
  }

  Info info_{};
  JumpingErrors errors_;
  std::size_t file_size_ = 0;
};

}  // namespace brigade::image::jpeg
