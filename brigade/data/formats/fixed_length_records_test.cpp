#include "brigade/data/formats/fixed_length_records.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using io::Compression;
using Pieces = std::vector<std::string>;

TEST(FixedLengthRecords, KeepTheDatasetContract) {
  Folder folder;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const std::vector<io::Path> paths = {folder.write("a", "HH112233F", compression),
                                         folder.write("b", "HHF", compression),
                                         folder.write("c", "HH44F", compression)};
    for (const std::size_t buffer_bytes : {1, 1000}) {
      const auto dataset = fixed_length_records(paths, {.record_bytes = 2,
                                                        .header_bytes = 2,
                                                        .footer_bytes = 1,
                                                        .compression = compression,
                                                        .buffer_bytes = buffer_bytes,
                                                        .file_system = folder.files()});
      expect_contract(dataset, {"11", "22", "33", "44"}, Length::kUnknown);
    }
  }
}

TEST(FixedLengthRecords, AFileOfAnotherLengthIsOneElementThatFails) {
  Folder folder;
  const auto dataset = fixed_length_records({folder.write("a", "11223"), folder.write("b", "44")},
                                            {.record_bytes = 2, .file_system = folder.files()});
  auto iterator = dataset.iterator();
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("/f/a: has 5 bytes"), std::string::npos) << error.what();
  EXPECT_EQ(rest_of(iterator), Pieces{"44"});
  EXPECT_EQ(dataset.node()->iterator({})->skip(99), 2U);
}

TEST(FixedLengthRecords, ACompressedFileOfAnotherLengthFailsAtItsEnd) {
  Folder folder;
  for (const std::string content : {"H11223", ""}) {
    const auto dataset = fixed_length_records({folder.write("a", content, Compression::kGzip),
                                               folder.write("b", "H44", Compression::kGzip)},
                                              {.record_bytes = 2,
                                               .header_bytes = 1,
                                               .compression = Compression::kGzip,
                                               .file_system = folder.files()});
    auto iterator = dataset.iterator();
    const std::size_t good = content.size() / 2 - (content.empty() ? 0 : 1);
    for (std::size_t i = 0; i < good; ++i) EXPECT_TRUE(iterator.next());
    EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
    auto again = dataset.iterator();
    again.restore(json_round_trip(iterator.save()));
    EXPECT_EQ(rest_of(again), Pieces{"44"});
    EXPECT_EQ(rest_of(iterator), Pieces{"44"});
    EXPECT_EQ(dataset.node()->iterator({})->skip(99), good + 2);
  }
}

TEST(FixedLengthRecords, RefuseWhatCannotBe) {
  expect_invalid_argument([] { fixed_length_records({"a"}, {}); }, "record_bytes is 0");
  expect_invalid_argument(
      [] { fixed_length_records({"a"}, {.record_bytes = 1, .header_bytes = -1}); },
      "header_bytes is -1");
  expect_invalid_argument([] { fixed_length_records({}, {.record_bytes = 1}); }, "is empty");
}

}  // namespace
}  // namespace brigade::data
