#include "brigade/cluster/cluster_key.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::refusal;
using ::testing::StartsWith;

constexpr const char* kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

// A file with a key in it, gone at the end of the test.
class KeyFile {
 public:
  KeyFile(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ =
      std::filesystem::temp_directory_path() / ("brigade_key_" + std::to_string(getpid()));
};

TEST(ClusterKey, FromADescriptorIsNotInheritedByOtherPrograms) {
  const KeyFile file(kHex, 0600);
  const int descriptor = ::open(file.path().c_str(), O_RDONLY);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const auto environment = make_environment({{kKeyFileVariable, path}});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(ClusterKey::from_environment(environment).value().to_hex(), kHex);
  EXPECT_EQ(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ::close(descriptor);
  EXPECT_THAT(
      refusal([&] { ClusterKey::from_environment(environment); }),
      HasSubstr("brigade launch passes to its program; a process in between has closed it"));
}

TEST(ClusterKey, ReadsWhatItWrites) {
  EXPECT_EQ(ClusterKey::parse(kHex).to_hex(), kHex);
  EXPECT_EQ(ClusterKey::parse(" " + std::string(kHex) + "\r\n").to_hex(), kHex);
  const ClusterKey key = ClusterKey::generate();
  EXPECT_EQ(ClusterKey::parse(key.to_hex()).to_hex(), key.to_hex());
  EXPECT_NE(ClusterKey::generate().to_hex(), key.to_hex());
}

TEST(ClusterKey, RefusesOtherTextsWithoutQuotingThem) {
  const std::string shorter = std::string(kHex).substr(1);
  for (const std::string& text : {std::string(), shorter, shorter + "g", std::string(kHex) + "0"}) {
    const std::string why = refusal([&] { ClusterKey::parse(text); });
    EXPECT_THAT(why, StartsWith("INVALID_ARGUMENT: A cluster key is 64 hexadecimal digits"));
    EXPECT_THAT(why, Not(HasSubstr(shorter.substr(0, 8))));
  }
}

// RFC 5869, with the salt "brigade cluster key"; the bytes are of Python's hmac.
TEST(ClusterKey, DerivesByHkdf) {
  const ClusterKey key = ClusterKey::parse(kHex);
  const auto derived = key.derive("tls ca");
  EXPECT_EQ(derived[0], 0xea);
  EXPECT_EQ(derived[1], 0x56);
  EXPECT_EQ(derived[31], 0x76);
  EXPECT_NE(key.derive("tls ca"), key.derive("rendezvous token"));
  EXPECT_NE(key.derive("tls ca"), ClusterKey::generate().derive("tls ca"));
}

TEST(ClusterKey, ReadsOnlyAFileThatIsItsOwnersAlone) {
  {
    const KeyFile file(std::string(kHex) + "\n", 0600);
    EXPECT_EQ(ClusterKey::read(file.path()).to_hex(), kHex);
  }
  for (const mode_t mode : {0640, 0604, 0660, 0601}) {
    const KeyFile file(kHex, mode);
    EXPECT_EQ(refusal([&] { ClusterKey::read(file.path()); }),
              "PERMISSION_DENIED: The cluster key's file " + file.path() +
                  " is open to others than its owner; run: chmod 600 " + file.path());
  }
}

TEST(ClusterKey, SaysWhatIsWrongWithItsFile) {
  EXPECT_THAT(refusal([] { ClusterKey::read("/nowhere/key"); }),
              StartsWith("NOT_FOUND: The cluster key's file /nowhere/key cannot be read: "));
  EXPECT_THAT(refusal([] { ClusterKey::read("/dev/null"); }), HasSubstr("not a regular file"));
  const KeyFile file("secret", 0600);
  const std::string why = refusal([&] { ClusterKey::read(file.path()); });
  EXPECT_THAT(why, HasSubstr("In " + file.path() + ": A cluster key is 64"));
  EXPECT_THAT(why, Not(HasSubstr("secret")));
}

TEST(ClusterKey, ComesFromTheEnvironment) {
  EXPECT_FALSE(ClusterKey::from_environment(make_environment({})).has_value());
  const auto key = ClusterKey::from_environment(make_environment({{"BRIGADE_CLUSTER_KEY", kHex}}));
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->to_hex(), kHex);
  const KeyFile file(kHex, 0600);
  const auto read =
      ClusterKey::from_environment(make_environment({{"BRIGADE_CLUSTER_KEY_FILE", file.path()}}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->to_hex(), kHex);
  EXPECT_THAT(refusal([] {
                ClusterKey::from_environment(make_environment({{"BRIGADE_CLUSTER_KEY", ""}}));
              }),
              HasSubstr("In BRIGADE_CLUSTER_KEY: A cluster key is 64"));
}

}  // namespace
}  // namespace brigade::cluster
