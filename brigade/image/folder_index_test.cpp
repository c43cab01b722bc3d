#include "brigade/image/folder_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Labels = std::vector<std::int64_t>;

void add(io::FileSystem& files, const io::Path& path) {
  files.create_directories(path.parent_path());
  files.create(path, io::CreateMode::kTruncate)->close();
}

/// The paths below /pets, joined.
std::string names(const FolderIndex& index) {
  std::string text;
  for (const io::Path& path : index.files) {
    text += (text.empty() ? "" : " ") + path.lexically_relative("/pets").generic_string();
  }
  return text;
}

class FolderIndexTest : public ::testing::Test {
 protected:
  FolderIndexTest() {
    for (const char* path :
         {"dogs/b.jpg", "dogs/a.PNG", "dogs/notes.txt", "cats/2.bmp", "cats/10.jpeg",
          "cats/old/1.gif", "cats/old-er/1.jpg", ".hidden/x.jpg", "zebras/z.jpg", "top.jpg"}) {
      add(files_, io::Path("/pets") / path);
    }
  }
  io::MemoryFileSystem files_;
};

TEST_F(FolderIndexTest, ClassesAreSortedFoldersAndFilesAreSortedByFolderAndName) {
  const FolderIndex index = index_folder(files_, "/pets");
  EXPECT_THAT(index.class_names, ElementsAre("cats", "dogs", "zebras"));
  EXPECT_EQ(names(index),
            "cats/10.jpeg cats/2.bmp cats/old/1.gif cats/old-er/1.jpg dogs/a.PNG dogs/b.jpg "
            "zebras/z.jpg");
  EXPECT_EQ(index.labels, (Labels{0, 0, 0, 0, 1, 1, 2}));
}

TEST_F(FolderIndexTest, ClassNamesSelectAndOrderTheClasses) {
  const FolderIndex index = index_folder(files_, "/pets", {.class_names = {"zebras", "dogs"}});
  EXPECT_THAT(index.class_names, ElementsAre("zebras", "dogs"));
  EXPECT_EQ(names(index), "zebras/z.jpg dogs/a.PNG dogs/b.jpg");
  EXPECT_EQ(index.labels, (Labels{0, 1, 1}));
}

TEST_F(FolderIndexTest, WithoutLabelsAllFilesAreListed) {
  const FolderIndex index = index_folder(files_, "/pets", {.labels_from = LabelSource::kNone});
  EXPECT_EQ(names(index),
            "top.jpg .hidden/x.jpg cats/10.jpeg cats/2.bmp cats/old/1.gif cats/old-er/1.jpg "
            "dogs/a.PNG dogs/b.jpg zebras/z.jpg");
  EXPECT_TRUE(index.labels.empty());
  EXPECT_TRUE(index.class_names.empty());
}

TEST_F(FolderIndexTest, AListLabelsTheFilesInTheirOrder) {
  const FolderIndexOptions options{.labels_from = LabelSource::kList,
                                   .labels = {7, 3, 7, 7, 3, 3, 3, 7, 11}};
  const FolderIndex index = index_folder(files_, "/pets", options);
  EXPECT_EQ(index.labels, options.labels);
  EXPECT_THAT(index.class_names, ElementsAre("3", "7", "11"));
}

TEST_F(FolderIndexTest, ErrorsNameTheProblem) {
  const auto message = [this](const io::Path& directory, const FolderIndexOptions& options) {
    try {
      index_folder(files_, directory, options);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(message("/nowhere", {}), HasSubstr("no folder /nowhere"));
  EXPECT_THAT(message("/pets", {.class_names = {"birds"}}), HasSubstr("cats, dogs, zebras"));
  EXPECT_THAT(message("/pets", {.class_names = {"cats", "cats"}}), HasSubstr("twice"));
  EXPECT_THAT(message("/pets", {.labels_from = LabelSource::kList, .labels = {1, 2}}),
              HasSubstr("2 labels for the 9 images"));
  EXPECT_THAT(message("/pets", {.labels = {1}}), HasSubstr("not used"));
  EXPECT_THAT(message("/pets", {.labels_from = LabelSource::kNone, .class_names = {"cats"}}),
              HasSubstr("class_names"));
}

TEST_F(FolderIndexTest, ShufflesFilesAndLabelsBySeed) {
  const FolderIndex index = index_folder(files_, "/pets");
  const FolderIndex mixed = shuffled(index, 5);
  EXPECT_NE(mixed.files, index.files);
  EXPECT_EQ(shuffled(index, 5).files, mixed.files);
  EXPECT_NE(shuffled(index, 6).files, mixed.files);
  EXPECT_TRUE(std::is_permutation(mixed.files.begin(), mixed.files.end(), index.files.begin()));
  for (std::size_t i = 0; i < mixed.files.size(); ++i) {
    const auto before = std::find(index.files.begin(), index.files.end(), mixed.files[i]);
    EXPECT_EQ(mixed.labels[i],
              index.labels[static_cast<std::size_t>(before - index.files.begin())]);
  }
}

TEST_F(FolderIndexTest, TheLastFilesAreForValidation) {
  const FolderIndex index = index_folder(files_, "/pets");
  const auto [training, validation] = split(index, 0.4);  // 2.8 of 7
  EXPECT_EQ(names(training), "cats/10.jpeg cats/2.bmp cats/old/1.gif cats/old-er/1.jpg dogs/a.PNG");
  EXPECT_EQ(names(validation), "dogs/b.jpg zebras/z.jpg");
  EXPECT_EQ(validation.labels, (Labels{1, 2}));
  EXPECT_EQ(validation.class_names, index.class_names);
  EXPECT_EQ(split(index, 0.1).first.files.size(), 7U);
  EXPECT_THROW(split(index, 0), Error);
  EXPECT_THROW(split(index, 1), Error);
}

TEST(FolderIndex, FollowsLinksWhenAskedTo) {
  std::string pattern = (std::filesystem::temp_directory_path() / "brigade-XXXXXX").string();
  const std::filesystem::path top = mkdtemp(pattern.data());
  const auto files = io::posix_file_system();
  add(*files, top / "pets/cats/1.jpg");
  add(*files, top / "elsewhere/2.jpg");
  std::filesystem::create_directory_symlink(top / "elsewhere", top / "pets/cats/more");
  EXPECT_EQ(index_folder(*files, top / "pets").files.size(), 1U);
  EXPECT_EQ(index_folder(*files, top / "pets", {.follow_links = true}).files.size(), 2U);
  std::filesystem::create_directory_symlink(top / "pets/cats", top / "pets/cats/round");
  EXPECT_THROW(index_folder(*files, top / "pets", {.follow_links = true}), Error);
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace brigade::image
