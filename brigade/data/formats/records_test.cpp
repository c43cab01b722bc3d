#include "brigade/data/formats/records.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using io::Compression;
using Texts = std::vector<std::string>;

constexpr std::size_t kFrame = 16;  // around each record

/// All of a dataset, failed elements as the names of their codes.
Texts with_failures(const Dataset<std::string>& dataset) {
  auto iterator = dataset.iterator();
  Texts texts;
  while (true) {
    try {
      const auto text = iterator.next();
      if (!text) return texts;
      texts.push_back(*text);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("/f/"), std::string::npos) << error.what();
      texts.emplace_back(to_string(error.code()));
    }
  }
}

/// The same elements come by skipping any number first, and from a position saved anywhere.
void expect_same_positions(const Dataset<std::string>& dataset, const Texts& expected) {
  EXPECT_EQ(with_failures(dataset), expected);
  const auto positions = dataset.node()->iterator({});
  for (std::size_t position = 0; position <= expected.size(); ++position) {
    SCOPED_TRACE(position);
    EXPECT_EQ(with_failures(dataset.skip(static_cast<std::int64_t>(position))),
              elements_from(expected, position));
    const auto restored = dataset.node()->iterator({});
    restored->restore(json_round_trip(positions->save()));
    EXPECT_EQ(restored->skip(99), expected.size() - position);
    try {
      positions->next();
    } catch (const Error&) {
    }
  }
}

TEST(Records, KeepTheDatasetContract) {
  Folder folder;
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::vector<io::Path> paths = {
        folder.write("a", framed({"one", "", "three"}), compression),
        folder.write("b", framed({}), compression),
        folder.write("c", framed({std::string(100, 'x')}), compression)};
    for (const std::size_t buffer_bytes : {1, 30, 1000}) {
      expect_contract(records(paths, {.compression = compression,
                                      .buffer_bytes = buffer_bytes,
                                      .file_system = folder.files()}),
                      {"one", "", "three", std::string(100, 'x')}, Length::kUnknown);
    }
  }
}

TEST(Records, ACorruptRecordFailsAlone) {
  Folder folder;
  std::string broken = framed({"one", "two", "three"});
  broken[kFrame + 3 + 13] ^= 1;
  const auto dataset = records({folder.write("a", broken)}, {.file_system = folder.files()});
  expect_same_positions(dataset, {"one", "DATA_LOSS", "three"});
}

TEST(Records, AfterABrokenLengthTheFileIsOneElementThatFails) {
  Folder folder;
  std::string broken = framed({"one", "two", "three"});
  broken[kFrame + 3] ^= 1;
  const auto dataset = records({folder.write("a", broken), folder.write("b", framed({"next"}))},
                               {.file_system = folder.files()});
  expect_same_positions(dataset, {"one", "DATA_LOSS", "next"});
}

TEST(Records, ATruncatedFileFailsAtItsEnd) {
  Folder folder;
  const std::string whole = framed({"one", "two"});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const auto dataset =
        records({folder.write("a", whole.substr(0, size)), folder.write("b", framed({"next"}))},
                {.buffer_bytes = 8, .file_system = folder.files()});
    Texts expected(size / 19, "one");
    if (expected.size() == 2) expected[1] = "two";
    if (size % 19 != 0) expected.emplace_back("DATA_LOSS");
    expected.emplace_back("next");
    ASSERT_NO_FATAL_FAILURE(expect_same_positions(dataset, expected)) << size;
  }
}

TEST(Records, ARecordThatIsTooLongFailsAlone) {
  Folder folder;
  const auto dataset = records({folder.write("a", framed({"one", "five!", "two"}))},
                               {.max_record_bytes = 4, .file_system = folder.files()});
  expect_same_positions(dataset, {"one", "RESOURCE_EXHAUSTED", "two"});
}

TEST(Records, ACorruptCompressedFileIsOneElementThatFails) {
  Folder folder;
  std::string packed = folder.read(folder.write("x", framed({"one", "two"}), Compression::kGzip));
  packed[packed.size() - 8] ^= 1;  // the checksum of all
  const auto dataset = records({folder.write("a", packed)},
                               {.compression = Compression::kGzip, .file_system = folder.files()});
  expect_same_positions(dataset, {"one", "two", "DATA_LOSS"});
}

TEST(Records, NoFileOfRecordsFails) {
  Folder folder;
  const auto dataset = records({folder.write("a", "this is a file of text, not of records")},
                               {.file_system = folder.files()});
  expect_same_positions(dataset, {"DATA_LOSS"});
}

TEST(WriteRecords, MakesAFileThatIsReadBack) {
  Folder folder;
  const Texts texts = {"one", "", std::string(100'000, 'x')};
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    EXPECT_EQ(write_records(from_elements(texts), "/f/made",
                            {.compression = compression, .file_system = folder.files()}),
              3U);
    EXPECT_EQ(
        epoch_of(records({"/f/made"}, {.compression = compression, .file_system = folder.files()})),
        texts);
  }
  EXPECT_EQ(folder.files()->list("/f"), Texts{"made"});
}

TEST(WriteRecords, AnElementThatFailsLeavesTheOldFile) {
  Folder folder;
  folder.write("made", "before");
  const auto failing = range(3).map([](std::int64_t x) {
    if (x == 2) throw Error(ErrorCode::kAborted, "two is broken");
    return std::string("x");
  });
  EXPECT_EQ(
      error_of([&] { write_records(failing, "/f/made", {.file_system = folder.files()}); }).code(),
      ErrorCode::kAborted);
  EXPECT_EQ(folder.read("/f/made"), "before");
  EXPECT_EQ(folder.files()->list("/f"), Texts{"made"});
}

}  // namespace
}  // namespace brigade::data
