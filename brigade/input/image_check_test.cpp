#include "brigade/input/image_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/image/jpeg.h"
#include "brigade/image/png.h"
#include "brigade/image/testing/golden.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using image::testing::smooth_image;
using ::testing::HasSubstr;

class ImageCheckTest : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& bytes) {
    files_->create_directories("/images");
    const auto file = files_->create(io::Path("/images") / name, io::CreateMode::kTruncate);
    file->write(io::as_bytes(bytes));
    file->close();
    paths_.push_back(io::Path("/images") / name);
  }
  std::string complaint(std::size_t most = 100) const {
    try {
      check_image_files(paths_, {.most = most, .files = files_});
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  }

  const std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  std::vector<io::Path> paths_;
  const std::string jpeg_ = image::encode_jpeg(smooth_image({40, 60}, 3));
  const std::string png_ = image::encode_png(smooth_image({40, 60}, 3));
};

TEST_F(ImageCheckTest, WholeFilesPassAlsoWithBytesAfterThem) {
  add("1.jpg", jpeg_);
  add("2.png", png_);
  add("3.jpg", jpeg_ + std::string(1000, '\0'));
  EXPECT_EQ(complaint(), "none");
}

TEST_F(ImageCheckTest, FilesThatWereWrittenByHalfAreNamed) {
  add("1.jpg", jpeg_);
  const std::vector<std::pair<const char*, std::string>> broken = {
      {"half.jpg", jpeg_.substr(0, jpeg_.size() / 2)},
      {"half.png", png_.substr(0, png_.size() / 2)},
      {"start.png", png_.substr(0, 10)},
      {"empty.jpg", ""},
      {"text.png", "not an image"}};
  for (const auto& [name, bytes] : broken) {
    add(name, bytes);
    EXPECT_THAT(complaint(), HasSubstr(name));
    paths_.pop_back();
  }
}

TEST_F(ImageCheckTest, OfManyFilesSomeAreChecked) {
  for (int i = 0; i < 10; ++i)
    add(std::to_string(i) + ".png", i % 2 == 1 ? png_.substr(0, 50) : png_);
  EXPECT_EQ(complaint(5), "none") << "0, 2, 4, 6, 8";
  EXPECT_THAT(complaint(10), HasSubstr("1.png"));
  paths_.clear();
  EXPECT_EQ(complaint(), "none");
}

}  // namespace
}  // namespace brigade::input
