#include "brigade/ps/client/read_moments.h"

#include <gtest/gtest.h>

namespace brigade::ps {
namespace {

TEST(ReadMoments, AreThoseOfEachServer) {
  ReadMoments moments(2);
  EXPECT_EQ(moments.read_at(0, 0), std::nullopt);
  moments.record(0, 7, 2);
  EXPECT_EQ(moments.read_at(0, 2), 7);
  EXPECT_EQ(moments.read_at(1, 2), std::nullopt);
  moments.record(0, 9, 2);
  EXPECT_EQ(moments.read_at(0, 2), 9);
}

TEST(ReadMoments, LeaveOutTheWorkersOwnPushesSince) {
  ReadMoments moments(1);
  moments.record(0, 7, 2);
  EXPECT_EQ(moments.read_at(0, 5), 10) << "at step 10 no other worker has pushed since";
}

TEST(ReadMoments, OfRowsAreTheFirstAfterAllValuesWereRead) {
  ReadMoments moments(1);
  moments.record(0, 7, 2);
  moments.record_rows(0, 8, 2);
  moments.record_rows(0, 9, 2);
  EXPECT_EQ(moments.read_at(0, 2), 8);
  moments.record(0, 12, 3);
  moments.record_rows(0, 13, 3);
  EXPECT_EQ(moments.read_at(0, 3), 13);
}

}  // namespace
}  // namespace brigade::ps
