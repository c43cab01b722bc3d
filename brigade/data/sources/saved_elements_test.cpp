#include "brigade/data/sources/saved_elements.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

class SavedElements : public ::testing::Test {
 protected:
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

TEST_F(SavedElements, KeepTheDatasetContractOnceLoaded) {
  save(range(9).batch(2), "/saved/one", {.file_system = files_});
  save(range(9).batch(2), "/saved/three", {.files = 3, .file_system = files_});
  for (const char* path : {"/saved/one", "/saved/three"}) {
    expect_contract(load<Numbers>(path, files_), epoch_of(range(9).batch(2)));
  }
}

TEST_F(SavedElements, AreThoseOfTheRequestedSeedAndShard) {
  const auto shuffled = range(30).shuffle(30);
  save(shuffled, "/saved", {.compression = io::Compression::kGzip, .file_system = files_},
       {.seed = 4, .epoch = 2});
  EXPECT_EQ(epoch_of(load<std::int64_t>("/saved", files_)),
            epoch_of(shuffled, {.seed = 4, .epoch = 2}));
}

TEST_F(SavedElements, AreNotReplaced) {
  save(range(3), "/saved", {.file_system = files_});
  const Error error = error_of([&] { save(range(3), "/saved", {.file_system = files_}); });
  EXPECT_EQ(error.code(), ErrorCode::kAlreadyExists);
}

TEST_F(SavedElements, AnElementThatFailsLeavesNothing) {
  const auto broken = range(3).map([](std::int64_t x) {
    if (x == 2) throw Error(ErrorCode::kDataLoss, "two is broken");
    return x;
  });
  EXPECT_EQ(error_of([&] { save(broken, "/saved", {.file_system = files_}); }).code(),
            ErrorCode::kDataLoss);
  EXPECT_TRUE(files_->list("/").empty());
}

TEST_F(SavedElements, RefuseWhatIsNotThereOrOfAnotherType) {
  EXPECT_EQ(error_of([&] { load<int>("/nothing", files_); }).code(), ErrorCode::kNotFound);
  save(range(3), "/saved", {.file_system = files_});
  const Error type = error_of([&] { load<std::string>("/saved", files_); });
  EXPECT_EQ(type.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(std::string(type.what()).find("i64, not string"), std::string::npos);
}

TEST_F(SavedElements, APositionResumesInAMovedFolder) {
  save(range(5), "/here", {.file_system = files_});
  save(range(5), "/there", {.file_system = files_});
  save(range(6), "/other", {.file_system = files_});
  auto iterator = load<std::int64_t>("/here", files_).iterator();
  iterator.next();
  auto moved = load<std::int64_t>("/there", files_).iterator();
  moved.restore(iterator.save());
  EXPECT_EQ(rest_of(moved), (Numbers{1, 2, 3, 4}));
  auto other = load<std::int64_t>("/other", files_).iterator();
  expect_invalid_argument([&] { other.restore(iterator.save()); }, "range(6)");
}

}  // namespace
}  // namespace brigade::data
