#include "brigade/ps/server/server_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

/// A folder that is removed with this object.
class JobFolder {
 public:
  JobFolder() : path_((std::filesystem::temp_directory_path() / "ps-folder-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw Error(ErrorCode::kUnavailable, path_);
  }
  ~JobFolder() { std::filesystem::remove_all(path_); }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  io::Path path() const { return path_; }

 private:
  std::string path_;
};

TEST(ServerFolder, BelongsToOneServer) {
  const JobFolder job;
  const ServerFolderOptions options = {
      .parent = job.path() / "run", .server = 2, .patience = std::chrono::milliseconds(10)};
  {
    const ServerFolder folder(options);
    EXPECT_EQ(folder.path(), job.path() / "run" / "ps-2");
    EXPECT_FALSE(folder.is_temporary());
    try {
      const ServerFolder second(options);
      FAIL() << "two servers have one folder";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
      EXPECT_NE(std::string(error.what()).find("ps-2"), std::string::npos) << error.what();
    }
    ServerFolderOptions other = options;
    other.server = 3;
    const ServerFolder of_other(other);
  }
  const ServerFolder again(options);
  EXPECT_TRUE(std::filesystem::is_directory(again.path()));
}

TEST(ServerFolder, ATemporaryOneIsPrivateAndRemoved) {
  io::Path path;
  {
    const ServerFolder folder({});
    path = folder.path();
    EXPECT_TRUE(folder.is_temporary());
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directories(path / "log");
    const ServerFolder other({});
    EXPECT_NE(other.path(), path);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace brigade::ps
