#include "brigade/io/lock_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LockFileTest : public ::testing::Test {
 protected:
  LockFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "brigade-lock-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~LockFileTest() override { std::filesystem::remove_all(root_); }
  Path path() const { return root_ / "run.lock"; }
  ErrorCode code() const {
    try {
      LockFile::acquire(path(), milliseconds(0));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }
  Path root_;
};

/// A process that holds the lock until it is killed.
class Holder {
 public:
  explicit Holder(const Path& path) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = LockFile::acquire(path);
      if (lock != nullptr && ::write(pipe[1], "l", 1) == 1) ::pause();
      ::_exit(1);
    }
    ::close(pipe[1]);
    char byte = 0;
    EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
    ::close(pipe[0]);
  }
  ~Holder() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST_F(LockFileTest, OneObjectHoldsItAndRemovesTheFile) {
  {
    const auto lock = LockFile::acquire(path());
    ASSERT_NE(lock, nullptr);
    EXPECT_EQ(LockFile::acquire(path(), milliseconds(0)), nullptr);
    EXPECT_TRUE(
        LockFile::holder(path()).starts_with(base::str_cat("process ", ::getpid(), " on ")));
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_NE(LockFile::acquire(path(), milliseconds(0)), nullptr);
}

TEST_F(LockFileTest, SaysWhetherItIsHeldAndChangesNothing) {
  EXPECT_FALSE(LockFile::is_held(path()));
  EXPECT_FALSE(std::filesystem::exists(path()));
  const auto lock = LockFile::acquire(path());
  EXPECT_TRUE(LockFile::is_held(path()));
  EXPECT_NE(lock, nullptr);
}

TEST_F(LockFileTest, NamesTheProcessThatHoldsIt) {
  const Holder holder(path());
  EXPECT_EQ(LockFile::acquire(path(), milliseconds(0)), nullptr);
  EXPECT_TRUE(
      LockFile::holder(path()).starts_with(base::str_cat("process ", holder.pid(), " on host ")));
}

TEST_F(LockFileTest, AKilledProcessReleasesIt) {
  Holder holder(path());
  holder.kill();
  ASSERT_TRUE(std::filesystem::exists(path())) << "it could not remove it";
  EXPECT_NE(LockFile::acquire(path(), milliseconds(0)), nullptr);
}

TEST_F(LockFileTest, WaitsWhileTheHolderExits) {
  Holder holder(path());
  std::jthread killer([&] { holder.kill(); });
  EXPECT_NE(LockFile::acquire(path(), seconds(60)), nullptr);
}

TEST_F(LockFileTest, IsCreatedAgainIfAnotherProcessRemovedIt) {
  const auto lock = LockFile::acquire(path());
  std::filesystem::remove(path());
  {
    const auto other = LockFile::acquire(path(), milliseconds(0));
    EXPECT_NE(other, nullptr);
  }
  EXPECT_NE(lock, nullptr);
}

TEST_F(LockFileTest, RefusesLinksPipesAndFolders) {
  const Path target = root_ / "target";
  std::filesystem::create_symlink(target, path());
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(target));
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_EQ(code(), ErrorCode::kInvalidArgument);
}

TEST_F(LockFileTest, ShowsTheHolderOnlyIfItIsPlainText) {
  std::filesystem::create_directories(root_);
  const auto write = [&](std::string_view text) {
    const auto file = posix_file_system()->create(path(), CreateMode::kTruncate);
    file->write(as_bytes(text));
    file->close();
  };
  EXPECT_EQ(LockFile::holder(path()), "another process");
  for (const char* text : {"", "process 1\033[31m", "hello", "\xff"}) {
    write(text);
    EXPECT_EQ(LockFile::holder(path()), "another process") << text;
  }
  write("process 12 on host a\nmore");
  EXPECT_EQ(LockFile::holder(path()), "process 12 on host a");
}

}  // namespace
}  // namespace brigade::io
