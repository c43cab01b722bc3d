#include "brigade/ps/server/server_epoch.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::ps {
namespace {

TEST(ServerEpoch, IsKeptInTheFolder) {
  io::MemoryFileSystem files;
  files.create_directories("/server");
  EXPECT_EQ(read_epoch(files, "/server"), std::nullopt);
  for (const std::int64_t epoch : {0, 1, 1'000'000}) {
    write_epoch(files, "/server", epoch);
    EXPECT_EQ(read_epoch(files, "/server"), epoch);
  }
  EXPECT_EQ(files.read("/server/epoch"), "1000000\n");
}

TEST(ServerEpoch, AnythingElseIsDataLoss) {
  io::MemoryFileSystem files;
  files.create_directories("/server");
  for (const char* text : {"", "many", "-1", "1 2"}) {
    io::atomic_write(files, "/server/epoch", std::string_view(text));
    EXPECT_EQ(base::testing::code_of([&] { read_epoch(files, "/server"); }), ErrorCode::kDataLoss)
        << text;
  }
}

TEST(ServerEpoch, OfAServerThatContinuesWithoutItsReplicaIsLaterThanTheReplicas) {
  io::MemoryFileSystem files;
  files.create_directories("/server");
  begin_epoch_alone(files, "/server", "/replica");
  EXPECT_EQ(read_epoch(files, "/server"), std::nullopt) << "it was never replicated";
  write_epoch(files, "/server", 3);
  begin_epoch_alone(files, "/server", "/replica");
  EXPECT_EQ(read_epoch(files, "/server"), 4);
  write_epoch(files, "/server", 0);
  EXPECT_EQ(base::testing::code_of([&] { begin_epoch_alone(files, "/server", "/replica"); }),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(read_epoch(files, "/server"), 0);
}

TEST(ServerEpoch, AServerDoesNotContinueWithoutAReplicaThatHasMore) {
  io::MemoryFileSystem files;
  files.create_directories("/server");
  files.create_directories("/replica");
  const auto begin = [&] { begin_epoch_alone(files, "/server", "/replica"); };
  write_epoch(files, "/replica", 4);
  EXPECT_EQ(base::testing::code_of(begin), ErrorCode::kFailedPrecondition) << "its disk was lost";
  write_epoch(files, "/server", 3);
  EXPECT_EQ(base::testing::code_of(begin), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(read_epoch(files, "/server"), 3);
  write_epoch(files, "/server", 4);
  begin();
  EXPECT_EQ(read_epoch(files, "/server"), 5);
}

}  // namespace
}  // namespace brigade::ps
