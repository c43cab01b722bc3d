#include "brigade/data/sources/text_lines.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using io::Compression;
using Lines = std::vector<std::string>;

TEST(TextLines, KeepTheDatasetContract) {
  Folder folder;
  const std::vector<io::Path> paths = {folder.write("a", "one\ntwo\r\n\nlast"),
                                       folder.write("b", ""), folder.write("c", "three\n")};
  const Lines expected = {"one", "two", "", "last", "three"};
  for (const std::size_t buffer_bytes : {1, 4, 1000}) {
    expect_contract(
        text_lines(paths, {.buffer_bytes = buffer_bytes, .file_system = folder.files()}), expected,
        Length::kUnknown);
  }
}

TEST(TextLines, KeepTheDatasetContractCompressed) {
  Folder folder;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const io::Path path = folder.write("a", "one\ntwo\nthree\nfour\n", compression);
    expect_contract(
        text_lines({path},
                   {.compression = compression, .buffer_bytes = 5, .file_system = folder.files()}),
        {"one", "two", "three", "four"}, Length::kUnknown);
  }
}

TEST(TextLines, DetectGzip) {
  Folder folder;
  const std::vector<io::Path> paths = {folder.write("a", "packed\n", Compression::kGzip),
                                       folder.write("b", "plain\n")};
  EXPECT_EQ(epoch_of(text_lines(paths, {.file_system = folder.files()})),
            (Lines{"packed", "plain"}));
}

TEST(TextLines, ALineThatIsTooLongIsOneElementThatFails) {
  Folder folder;
  const io::Path path = folder.write("long", "1234\n12345678\nnext\n");
  const auto dataset =
      text_lines({path}, {.buffer_bytes = 3, .max_line_bytes = 4, .file_system = folder.files()});
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), "1234");
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(std::string(error.what()).find("/f/long: the line at byte 5"), std::string::npos)
      << error.what();
  const io::StateTree state = iterator.save();
  EXPECT_EQ(rest_of(iterator), Lines{"next"});
  auto again = dataset.iterator();
  again.restore(json_round_trip(state));
  EXPECT_EQ(rest_of(again), Lines{"next"});
  EXPECT_EQ(dataset.node()->iterator({})->skip(99), 3U);
}

TEST(TextLines, ACorruptCompressedFileIsOneElementThatFailsAndEndsTheFile) {
  Folder folder;
  std::string packed = folder.read(folder.write("x", "one\ntwo\nthree\n", Compression::kGzip));
  packed.resize(packed.size() - 4);
  const auto dataset = text_lines({folder.write("cut.gz", packed), folder.write("b", "next\n")},
                                  {.file_system = folder.files()});
  auto iterator = dataset.iterator();
  for (const std::string line : {"one", "two", "three"}) EXPECT_EQ(iterator.next(), line);
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("/f/cut.gz"), std::string::npos) << error.what();
  EXPECT_EQ(rest_of(iterator), Lines{"next"});
  EXPECT_EQ(dataset.node()->iterator({})->skip(99), 5U);
}

TEST(TextLines, AMissingFileIsOneElementThatFails) {
  Folder folder;
  auto iterator =
      text_lines({"/f/missing", folder.write("b", "next\n")}, {.file_system = folder.files()})
          .iterator();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(rest_of(iterator), Lines{"next"});
}

TEST(TextLines, RefuseAPositionPastTheEndOfTheFile) {
  Folder folder;
  const io::Path path = folder.write("a", "one\ntwo\nthree\n");
  const auto dataset = text_lines({path}, {.file_system = folder.files()});
  auto iterator = dataset.iterator();
  iterator.next();
  iterator.next();
  const io::StateTree state = iterator.save();
  folder.write("a", "one\n");
  const Error error = error_of([&] { dataset.iterator().restore(state); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  EXPECT_NE(std::string(error.what()).find("/f/a"), std::string::npos) << error.what();
}

TEST(TextLines, AreShardedByFiles) {
  Folder folder;
  const auto dataset =
      text_lines({folder.write("a", "1\n"), folder.write("b", "2\n"), folder.write("c", "3\n")},
                 {.file_system = folder.files()});
  EXPECT_EQ(dataset.sharding().files, 3);
  EXPECT_EQ(epoch_of(dataset, {.shard = {.count = 2, .index = 0}}), (Lines{"1", "3"}));
  EXPECT_EQ(dataset.describe(), "text_lines(/f/a and 2 more)");
}

TEST(TextLines, RefuseWhatCannotBe) {
  expect_invalid_argument([] { text_lines({}); }, "text_lines: the list of files is empty");
  expect_invalid_argument([] { text_lines({"a"}, {.buffer_bytes = 0}); }, "buffer_bytes is 0");
}

}  // namespace
}  // namespace brigade::data
